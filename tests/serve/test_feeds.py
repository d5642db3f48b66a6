"""The badge and the feed of an overview, and the keys that read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

import pytest

import etq
from etq.errors import EtqError
from etq.team.folder import TeamFolder
from etq.team.keys import key_of, may_read_by_key, overview_of
from etq.team.tokens import add_token
from etq.team.users import Role, add_user, has_users
from tests.command_line import run_etq
from tests.serve.server import Server, serving
from tests.serve.test_overviews import day, lab  # noqa: F401 - a fixture

ATOM = "{http://www.w3.org/2005/Atom}"
NAME = "kernels & <friends>/#1"


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:  # noqa: F811
    with etq.open(lab) as warehouse:
        for name in (NAME, "calm"):
            warehouse.watch(name, "device=pixel9" if name == "calm" else None)
    with serving(lab, edits=True) as started:
        yield started


def of(kind: str, name: str) -> str:
    return f"/{kind}/{quote(name, safe='')}.{'svg' if kind == 'badge' else 'atom'}"


def badge(server: Server, name: str) -> tuple[str, str]:
    """The title and the label of a badge."""
    reply = server.get(of("badge", name))
    assert (reply.status, reply.headers["content-type"]) == (200, "image/svg+xml; charset=utf-8")
    # A page of another site shows it, and it runs no script.
    assert reply.headers["cross-origin-resource-policy"] == "cross-origin"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    image = ElementTree.fromstring(reply.body)
    title = image.findtext("{http://www.w3.org/2000/svg}title")
    return title or "", image.get("aria-label") or ""


def feed(server: Server, name: str) -> ElementTree.Element:
    reply = server.get(of("feed", name))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/atom+xml; charset=utf-8")
    return ElementTree.fromstring(reply.body)


def check_valid(parsed: ElementTree.Element) -> list[ElementTree.Element]:
    """The elements that RFC 4287 (4.1.1, 4.1.2) requires, once each, and dates of RFC 3339. Returns the entries."""
    assert parsed.tag == f"{ATOM}feed"
    entries = parsed.findall(f"{ATOM}entry")
    for each in (parsed, *entries):
        for tag in ("id", "title", "updated"):
            [element] = each.findall(f"{ATOM}{tag}")
            assert element.text
        assert datetime.fromisoformat(each.findtext(f"{ATOM}updated") or "").tzinfo is not None
        links = [(link.get("rel"), link.get("type")) for link in each.findall(f"{ATOM}link")]
        assert ("alternate", "text/html") in links and len(links) == len(set(links))
        assert (each.findtext(f"{ATOM}id") or "").startswith("urn:uuid:")
    assert parsed.findtext(f"{ATOM}author/{ATOM}name")
    ids = [each.findtext(f"{ATOM}id") for each in (parsed, *entries)]
    assert len(ids) == len(set(ids))
    return entries


def test_the_badge(server: Server) -> None:
    assert badge(server, NAME) == (f"etq, {NAME}: 1 slower", "etq: 1 slower")
    assert badge(server, "calm") == ("etq, calm: no regressions", "etq: no regressions")
    assert server.get("/badge/none.svg").status == 404
    assert server.get("/badge/calm").status == 404 and server.get("/feed/calm.svg").status == 404
    tag = server.get(of("badge", "calm")).headers["etag"]
    assert server.get(of("badge", "calm"), if_none_match=tag).status == 304


def test_the_feed(server: Server) -> None:
    [entry] = check_valid(feed(server, NAME))
    assert entry.findtext(f"{ATOM}updated") == day(18).strftime("%Y-%m-%dT%H:%M:%SZ")
    title = entry.findtext(f"{ATOM}title") or ""
    assert title.startswith("addmm@0 slower: +") and title.endswith("% since build 18")
    assert "device=pixel8" in (entry.findtext(f"{ATOM}summary") or "")
    [link] = entry.findall(f"{ATOM}link")
    parts = urlsplit(link.get("href") or "")
    assert server.get(f"{parts.path}?{parts.query}").status == 200
    assert check_valid(feed(server, "calm")) == []


def test_entries_keep_their_ids_and_say_what_was_accepted(server: Server) -> None:
    [before] = [each.findtext(f"{ATOM}id") for each in check_valid(feed(server, NAME))]
    with etq.open(server.path, wait=10) as warehouse:
        number = warehouse.accept("18", "new <tokenizer>", "device=pixel8", what="op", item="addmm@0", author="ann")
    try:
        [entry] = check_valid(feed(server, NAME))
        assert entry.findtext(f"{ATOM}id") == before
        assert (entry.findtext(f"{ATOM}title") or "").startswith("accepted: addmm@0 slower")
        assert "ann: new <tokenizer>" in (entry.findtext(f"{ATOM}summary") or "")
        assert badge(server, NAME)[1] == "etq: no regressions"
    finally:
        with etq.open(server.path, wait=10) as warehouse:
            warehouse.remove_comment(number)


def test_links(server: Server, lab: Path, tmp_path: Path) -> None:  # noqa: F811
    assert server.data("links", overview=NAME) == {"badge": of("badge", NAME), "feed": of("feed", NAME)}
    folder = folder_with_users(tmp_path)
    with folder.writing() as connection:
        token = add_token(connection, "ann")
    with serving(lab, folder=folder) as of_users:
        reply = of_users.get("/data/links", {"overview": NAME}, authorization=f"Bearer {token}")
        links = reply.data
        assert links["feed"] == f"{of('feed', NAME)}?key={key_of(folder, NAME)}"
        reply = of_users.get(links["feed"])
        found = ElementTree.fromstring(reply.body).findall(f"{ATOM}link")
        assert [each.get("href") for each in found if each.get("rel") == "self"] == [f"{of_users.url}{links['feed']}"]
        assert of_users.get(of("feed", NAME), authorization=f"Bearer {token}").status == 200
        key = links["badge"].split("?")[1]
        assert of_users.get(links["badge"]).status == 200
        for path in (of("badge", NAME), f"{of('badge', 'calm')}?{key}", f"/data/captures?{key}", f"/data/links?{key}"):
            assert of_users.get(path).status == 401, path
        assert of_users.post(links["badge"], b"").status in (401, 403)


def folder_with_users(path: Path) -> TeamFolder:
    folder = TeamFolder(path / "team")
    folder.make()
    assert not has_users(folder)
    with folder.writing() as connection:
        add_user(connection, "ann", Role.READ)
    assert has_users(folder)
    return folder


def test_a_key_reads_its_own_badge_and_feed_and_nothing_else(tmp_path: Path) -> None:
    folder = folder_with_users(tmp_path)
    key = key_of(folder, "ours")
    assert key == key_of(folder, "ours") != key_of(folder, "theirs") and len(key) == 40
    for path in ("/badge/ours.svg", "/feed/ours.atom"):
        assert may_read_by_key(folder, path, f"key={key}".encode())
    refused = [
        "/badge/theirs.svg", "/feed/theirs.atom", "/badge/ours.atom", "/feed/ours.svg", "/badge/ours", "/feed/.atom",
        "/data/captures", "/data/sql", "/", "/overview", "/badge/../data/captures", "/badge/ours.svg/../../data/sql",
        "//badge/ours.svg", "/api/v1/push", "/badge/ours\n.svg", "/badge/OURS.svg",
    ]  # fmt: skip
    for path in refused:
        assert not may_read_by_key(folder, path, f"key={key}".encode()), path
    for query in (b"", b"key=", f"key={key[:-1]}".encode(), f"key={key}x".encode(), b"key=" + b"0" * 10**6,
                  f"key={key}&key=x".encode(), "key=\N{SNOWMAN}".encode(), b"key=\xff\xfe", f"KEY={key}".encode()):  # fmt: skip
        assert not may_read_by_key(folder, "/badge/ours.svg", query), query
    assert not may_read_by_key(None, "/badge/ours.svg", f"key={key}".encode())
    other = TeamFolder(tmp_path / "other")
    other.make()
    assert not may_read_by_key(other, "/badge/ours.svg", f"key={key}".encode()), "each server has its own secret"


def answered(app: Any, path: str, query: bytes) -> int:
    """The status for a request that the guard has let through without a user."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": query, "headers": [],
        "http_version": "1.1", "scheme": "http", "server": ("h", 80), "client": ("127.0.0.1", 1), "state": {},
        "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_who_is_nobody_needs_the_key(lab: Path, server: Server, tmp_path: Path) -> None:  # noqa: F811
    from starlette.applications import Starlette

    from etq.serve.feeds import feeds
    from etq.serve.pool import QuestionPool
    from etq.serve.settings import Settings
    from etq.serve.site import Site

    folder = folder_with_users(tmp_path)
    pool = QuestionPool(str(lab))
    try:
        app = Starlette(routes=feeds(Site(str(lab), pool, Settings(folder=folder))).routes)
        calm, other = (f"key={key_of(folder, name)}".encode() for name in ("calm", NAME))
        for path in ("/badge/calm.svg", "/feed/calm.atom"):
            assert [answered(app, path, query) for query in (b"", b"key=x", other, calm)] == [403, 403, 403, 200]
        assert answered(app, "/badge/none.svg", calm) == 403, "nor is it said which overviews there are"
    finally:
        pool.close()


def test_names_in_paths() -> None:
    assert overview_of("/badge/a/b?c#d e.svg") == "a/b?c#d e"
    assert overview_of("/feed/x.atom.atom") == "x.atom"
    assert [overview_of(path) for path in ("/badge/.svg", "/badge/x.atom", "/badges/x.svg", "badge/x.svg", "")] == [
        None
    ] * 5


def test_the_secret_is_not_of_a_damaged_folder(tmp_path: Path) -> None:
    folder = TeamFolder(tmp_path / "team")
    folder.make()
    (folder.path / "server.sqlite").write_bytes(b"not SQLite" * 100)
    with pytest.raises(EtqError, match="server.sqlite: "):
        key_of(folder, "ours")


def test_texts_that_xml_cannot_have() -> None:
    from etq.serve.feeds import badge_of, feed_of

    change: dict[str, Any] = {
        "key": "k", "of": "o", "number": 1, "over": "build", "series": "a=\x1b[31m\ud800", "what": "op", "op": "\x00<b>",
        "name": "\x00<b>&\ufffe", "verdict": "slower", "change_percent": 3.0, "last_good": "1", "first_bad": "2",
        "recorded": 0, "is_accepted": False, "comment": "]]>\x08", "author": None, "stands": True,
    }  # fmt: skip
    found = {"changes": [change], "problems": {}}
    [entry] = check_valid(ElementTree.fromstring(feed_of("n\x00\ud800", found, "http://h", "http://h/feed/n.atom")))
    assert entry.findtext(f"{ATOM}title") == "\ufffd<b>&\ufffd slower: +3.0 % since build 2"
    assert ElementTree.fromstring(badge_of("n\x00\ud800", found)).get("aria-label") == "etq: 1 slower"
    unknown = {"changes": [], "problems": {"1": "gone"}}
    assert ElementTree.fromstring(badge_of("n", unknown)).get("aria-label") == "etq: not known"


def test_keys_can_be_ended(server: Server, lab: Path, tmp_path: Path) -> None:  # noqa: F811
    """Of one overview, or of all; links that pages show then are new ones."""
    team = folder_with_users(tmp_path)
    with serving(lab, folder=team) as of_users:

        def status(name: str, key: str) -> int:
            return of_users.get(of("badge", name), {"key": key}).status

        first = {name: key_of(team, name) for name in (NAME, "calm")}
        assert [status(name, key) for name, key in first.items()] == [200, 200]
        assert run_etq("users", "new-key", NAME, "--team", str(team.path)).exit_code == 0
        assert status(NAME, first[NAME]) in (401, 403) and status("calm", first["calm"]) == 200
        second = key_of(team, NAME)
        assert status(NAME, second) == 200
        assert run_etq("users", "revoke", "--all", "--team", str(team.path)).exit_code == 0
        for name, key in ((NAME, first[NAME]), (NAME, second), ("calm", first["calm"])):
            assert status(name, key) in (401, 403)
        assert [status(name, key_of(team, name)) for name in (NAME, "calm")] == [200, 200]
