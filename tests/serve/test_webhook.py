"""A webhook is told when a regression begins or ends: a real receiver, also one that fails."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import EtqError
from etq.serve import webhook
from etq.team import told
from etq.team.folder import TeamFolder
from tests.batches import Labelled, ingest_all
from tests.serve.server import serving
from tests.sql.test_trends import capture

SECRET = "between us"


class Hooks:
    """A receiver; `statuses` are those of its first answers, before it takes messages."""

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        self.statuses = [*statuses]
        self.taken: list[dict[str, Any]] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []

    def texts(self) -> list[str]:
        return [each["text"] for each in self.taken]


class Held(list[int]):
    """A first answer that waits for an event."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__([200])
        self.event = event

    def pop(self, index: Any = 0) -> int:
        self.event.wait(60)
        return super().pop(index)


@contextmanager
def receiving(hooks: Hooks) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hooks.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = hooks.statuses.pop(0) if hooks.statuses else 200
            if status == 200:
                hooks.taken.append(json.loads(body))
            self.send_response(status)
            if status == 302:
                self.send_header("location", "http://127.0.0.1:1/")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hooks/abc?room=1"
    finally:
        server.shutdown()
        server.server_close()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def add(path: Path, first: int, last: int, scale: float) -> None:
    made = [
        Labelled(f"b{build}", capture(build, {"addmm": scale}), {"build": str(build), "model": "net"})
        for build in range(first, last + 1)
    ]
    with etq.open(path, wait=30) as warehouse:
        ingest_all(warehouse, made)


def noted(folder: TeamFolder) -> int:
    with folder.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM told_items").fetchone()[0])


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """An overview in which a regression stands from build 16 on."""
    path = tmp_path / "lab.duckdb"
    add(path, 1, 15, 1.0)
    add(path, 16, 30, 1.3)
    with etq.open(path) as warehouse:
        warehouse.watch("team", "model=net", what="op", item="addmm@0")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> TeamFolder:
    made = TeamFolder(tmp_path / "lab.duckdb.team")
    made.make()
    return made


def test_what_begins_and_ends_is_told_once(lab: Path, folder: TeamFolder) -> None:
    hooks = Hooks([500, 302])
    with receiving(hooks) as url:
        settings: dict[str, Any] = {
            "folder": folder, "webhook": url, "webhook_secret": SECRET, "public_url": "https://lab.example/",
        }  # fmt: skip
        with serving(lab, **settings):
            until(lambda: noted(folder) == 1)
            assert hooks.requests == [], "what was there before is not told"
            add(lab, 31, 45, 1.7)
            until(lambda: len(hooks.taken) == 1)
        assert len(hooks.requests) == 3, "twice it was refused"
        [message] = hooks.taken
        assert message["event"] == "regression began" and message["overview"] == "team"
        assert message["text"].startswith("team: regression began: addmm@0 slower by 3")
        assert message["text"].endswith(" since build 31 (model=net) https://lab.example/overview?name=team")
        assert message["change"]["first_bad"] == "31"
        for headers, body in hooks.requests:
            expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
            assert headers["x-etq-signature-256"] == f"sha256={expected}"
            assert headers["x-etq-message"] == "1" and headers["content-type"] == "application/json"
        # One ends while no server runs: it is accepted. The other ends when later builds undo it.
        with etq.open(lab, wait=30) as warehouse:
            warehouse.accept("31", "new tokenizer", "model=net", what="all")
        with serving(lab, **settings):
            until(lambda: len(hooks.taken) == 2)
            add(lab, 46, 60, 1.0)
            until(lambda: len(hooks.taken) == 3)
        accepted, undone = hooks.texts()[1:]
        percent = re.search(r"by [\d.]+ %", message["text"])[0]  # type: ignore[index]
        assert accepted.startswith(f"team: regression accepted: addmm@0 slower {percent} since build 31 (model=net)")
        assert " (model=net): new tokenizer http" in accepted
        assert undone.startswith("team: regression ended: addmm@0 slower by ") and " since build 16 (model" in undone
        with serving(lab, **settings):
            time.sleep(4)
        assert len(hooks.taken) == 3, "a restart repeats nothing"


def test_a_receiver_that_hangs_blocks_no_reader(lab: Path, folder: TeamFolder) -> None:
    release = threading.Event()

    hooks = Hooks()
    hooks.statuses = Held(release)
    with receiving(hooks) as url, serving(lab, folder=folder, webhook=url) as server:
        until(lambda: noted(folder) == 1)
        add(lab, 31, 45, 1.7)
        until(lambda: len(hooks.requests) == 1)
        assert server.get("/").status == 200
        assert server.data("overviews")["items"]["length"] == 1
        assert server.get("/badge/team.svg").status == 200
        release.set()
        until(lambda: len(hooks.taken) == 1)
        assert "x-etq-signature-256" not in hooks.requests[0][0], "there is no secret"


def test_a_server_that_stops_while_it_sends_does_not_repeat(lab: Path, folder: TeamFolder) -> None:
    release = threading.Event()
    hooks = Hooks()
    hooks.statuses = Held(release)
    with receiving(hooks) as url:
        with serving(lab, folder=folder, webhook=url):
            until(lambda: noted(folder) == 1)
            add(lab, 31, 45, 1.7)
            until(lambda: len(hooks.requests) == 1)
            threading.Timer(1, release.set).start()
        with serving(lab, folder=folder, webhook=url):
            time.sleep(4)
    assert len(hooks.requests) == len(hooks.taken) == 1


@pytest.mark.parametrize(
    "url",
    ["ftp://h/", "file:///etc/passwd", "http://", "https:///x", "h.example", "javascript:alert(1)", "http://h:99999/",
     "http://h/a b", "http://h/\r\nx-a: b", "http://\N{SNOWMAN}/"],
)  # fmt: skip
def test_other_addresses_are_refused(url: str, folder: TeamFolder) -> None:
    from etq.serve.webhook import check_webhook

    with pytest.raises(EtqError, match="not an address of http or https"):
        check_webhook(url, folder)


def change(key: str, position: int = 31, **others: Any) -> dict[str, Any]:
    return {
        "key": key, "of": "addmm", "number": 1, "name": "addmm@0", "verdict": "slower", "change_percent": 20.0,
        "over": "build", "first_bad": str(position), "series": "", "position": position, "stands": True,
        "is_accepted": False, "comment": None, **others,
    }  # fmt: skip


def found(*changes: dict[str, Any], items: Sequence[int] = (1,), problems: Sequence[int] = ()) -> dict[str, Any]:
    return {"team": {"changes": [*changes], "items": [*items], "problems": {str(each): "gone" for each in problems}}}


def events(folder: TeamFolder) -> list[tuple[str, str]]:
    with folder.reading() as connection:
        rows = connection.execute("SELECT body FROM messages ORDER BY message_id").fetchall()
    return [(body["event"], body["change"]["first_bad"]) for body in (json.loads(row[0]) for row in rows)]


def test_only_news_of_known_items_are_kept(folder: TeamFolder) -> None:
    def note(given: dict[str, Any]) -> int:
        return told.note_changes(folder, given, 0.0, "")

    assert note(found(change("old", 10))) == 0, "it was there before"
    assert note(found(change("old", 10))) == 0
    assert note(found(change("old", 10), change("new", 31))) == 1
    assert note(found(change("old", 10), change("new", 31))) == 0
    # With more captures, it is found one later: the same.
    assert note(found(change("old", 10), change("moved", 32))) == 0
    # An item that can't be asked for a while ends nothing.
    assert note(found(problems=[1])) == 0
    assert note(found(change("old", 10))) == 1
    assert events(folder) == [("regression began", "31"), ("regression ended", "32")]
    # One that ended and is there again begins again; what was of an item that is watched no more is not told.
    assert note(found(change("old", 10), change("moved", 32))) == 1
    assert note(found(items=[])) == 0
    # An item that is added later is only noted at first.
    assert note(found(change("other", 40, number=2, of="relu"), items=[2])) == 0
    assert note(found(change("other", 40, number=2, of="relu", stands=False), items=[2])) == 1
    assert note({}) == 0
    assert note(found(change("old", 10))) == 0
    assert len(events(folder)) == 4


def test_messages_are_sent_in_order_and_later_and_later(folder: TeamFolder) -> None:
    told.note_changes(folder, found(), 0.0, "")
    told.note_changes(folder, found(change("a", 10), change("b", 31, of="relu")), 100.0, "")
    waits = []
    now = 100.0
    for _ in range(12):
        message, _ = told.next_message(folder, now)
        assert message is not None and message.number == 1
        at = told.was_refused(folder, message, now)
        assert told.next_message(folder, at - 0.01) == (None, at)
        waits.append(at - now)
        now = at
    assert waits[:4] == [2, 4, 8, 16] and waits[-1] == 900
    message, _ = told.next_message(folder, now)
    assert message is not None and message.attempts == 12
    told.was_taken(folder, message)
    following, _ = told.next_message(folder, now)
    assert following is not None and following.number == 2
    told.was_taken(folder, following)
    assert told.next_message(folder, now) == (None, None)


def test_a_receiver_that_is_gone_fills_no_disk(folder: TeamFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told, "MOST_WAITING", 3)
    told.note_changes(folder, found(), 0.0, "")
    told.note_changes(folder, found(*(change(str(at), at, of=str(at)) for at in range(10, 15))), 0.0, "")
    assert [first_bad for _, first_bad in events(folder)] == ["12", "13", "14"]


def test_a_receiver_that_dribbles_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, and the answer never."""
    monkeypatch.setattr(webhook, "SEND_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def dribble() -> None:
            with suppress(OSError), listener.accept()[0] as connection:
                while True:
                    connection.sendall(b"H")
                    time.sleep(0.1)

        threading.Thread(target=dribble, daemon=True).start()
        receiver = webhook.Receiver(f"http://127.0.0.1:{listener.getsockname()[1]}/hooks")
        began = time.monotonic()
        assert webhook.post(receiver, told.Message(1, "{}", 0)) is None
        assert time.monotonic() - began < 10
