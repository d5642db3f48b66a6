"""A part of a server that shows the state of an overview elsewhere: a badge, and a feed of its changes."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from etq.serve.endpoints import Endpoint, error, needs
from etq.serve.payloads import Payload, content_of, of_error
from etq.serve.site import Part, Site
from etq.serve.state import WarehouseState
from etq.serve.turns import BusyError, client_of
from etq.team.keys import PATHS, key_of, may_read_by_key, overview_of
from etq.team.users import Role, has_users
from etq.verdicts import words

ATOM: Final = "http://www.w3.org/2005/Atom"
# The most entries of a feed, the latest ones, and answers that are kept.
MOST_ENTRIES: Final = 50
MOST_KEPT: Final = 50
RED: Final = "#b3261e"
GREEN: Final = "#1a6e37"
GREY: Final = "#555555"
# Characters that XML can't have.
NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The width of a character of a badge, in pixels, which is wide enough for any: `textLength` fits the text to it.
CHARACTER: Final = 6.6


def feeds(site: Site) -> Part:
    """The badge and the feed of each overview, and the links to them."""
    changes = _Changes(site)
    badge = _of_overview(site, changes, lambda name, found, *_: (badge_of(name, found), "image/svg+xml"))
    feed = _of_overview(site, changes, lambda *given: (feed_of(*given), "application/atom+xml"))

    async def links(request: Request) -> Response:
        name = request.query_params.get("overview", "")
        if not name:
            return error("overview: none is named; give its name", 404)
        folder = site.settings.folder
        key = ""
        if folder is not None and await asyncio.to_thread(has_users, folder):
            key = "?" + urlencode({"key": await asyncio.to_thread(key_of, folder, name)})
        found = {kind: f"{_path(kind, name)}{key}" for kind in ("badge", "feed")}
        return JSONResponse(found, headers={"cache-control": "no-store"})

    routes = [
        Route("/badge/{name:any}", badge),
        Route("/feed/{name:any}", feed),
        Route("/data/links", needs(Role.READ, links)),
    ]
    return Part(routes)


class _Changes:
    """What changed in overviews, which is kept as long as the warehouse's state is the same."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._state = WarehouseState(site.path)
        self._kept: OrderedDict[str, tuple[str | None, Payload]] = OrderedDict()

    async def of(self, overview: str, client: str) -> Payload:
        state = await asyncio.to_thread(self._state.current)
        found = self._kept.get(overview)
        if found is not None and state is not None and found[0] == state:
            return found[1]
        answer = await self._site.pool.ask("changes", {"overview": overview}, state, client)
        if answer.status == 200:
            self._kept[overview] = (state, answer)
            self._kept.move_to_end(overview)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return answer


def _of_overview(
    site: Site, changes: _Changes, drawn: Callable[[str, Mapping[str, Any], str, str], tuple[bytes, str]]
) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        path = request.scope["path"]
        folder = site.settings.folder
        if request.scope["state"].get("user") is None:
            query = request.scope["query_string"]
            if not await asyncio.to_thread(may_read_by_key, folder, path, query):
                return error("the link needs its key: copy it from the page of the overview", 403)
        name = overview_of(path)
        if name is None:
            return error("not found; badges end in .svg", 404)
        client = client_of(request.client.host if request.client is not None else None)
        try:
            answer = await changes.of(name, client)
        except BusyError as busy:
            answer = of_error(str(busy), 503)
        if answer.status != 200:
            status = 404 if answer.status == 400 else answer.status
            return error(content_of(answer)["error"], status, **({"retry_after": "2"} if status == 503 else {}))
        base = (site.settings.public_url or str(request.base_url)).rstrip("/")
        key = request.query_params.get("key")
        own = f"{base}{_path(path.split('/')[1], name)}{'?' + urlencode({'key': key}) if key else ''}"
        body, type = drawn(name, content_of(answer)[name], base, own)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        # Pages of other sites show badges.
        headers = {"etag": tag, "cache-control": "no-cache", "cross-origin-resource-policy": "cross-origin"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type=f"{type}; charset=utf-8", headers=headers)

    return endpoint


def _path(kind: str, name: str) -> str:
    """Return the path of the badge or feed of an overview."""
    return f"/{kind}/{quote(name, safe='', errors='replace')}{PATHS[f'/{kind}/']}"


def standing(found: Mapping[str, Any]) -> str:
    """Return what stands of an overview's changes as a few words: `2 slower`, `1 slower, 1 worse`, no regressions."""
    worse: dict[str, set[str]] = {}
    for change in found["changes"]:
        if change["stands"]:
            worse.setdefault(change["verdict"], set()).add(change["of"])
    counts = [f"{len(worse[each])} {each}" for each in (words.SLOWER, words.WORSE) if each in worse]
    if not counts and found["problems"]:
        return "not known"
    return ", ".join(counts) or "no regressions"


def badge_of(name: str, found: Mapping[str, Any]) -> bytes:
    """Return the badge of an overview as SVG."""
    text = standing(found)
    colour = GREEN if text == "no regressions" else GREY if text == "not known" else RED
    left, right = 30, 14 + round(CHARACTER * len(text))
    svg = ElementTree.Element("svg", {
        "xmlns": "http://www.w3.org/2000/svg", "width": str(left + right), "height": "20", "role": "img",
        "aria-label": f"etq: {text}",
    })  # fmt: skip
    ElementTree.SubElement(svg, "title").text = _plain(f"etq, {name}: {text}")
    for x, width, fill in ((0, left, "#333333"), (left, right, colour)):
        ElementTree.SubElement(svg, "rect", {"x": str(x), "width": str(width), "height": "20", "fill": fill})
    style = {"fill": "#ffffff", "text-anchor": "middle", "font-family": "Verdana, DejaVu Sans, sans-serif",
             "font-size": "11"}  # fmt: skip
    group = ElementTree.SubElement(svg, "g", style)
    for x, width, part in ((0, left, "etq"), (left, right, text)):
        place = {"x": f"{x + width / 2:g}", "y": "14", "textLength": str(width - 10)}
        ElementTree.SubElement(group, "text", place).text = part
    return _bytes(svg)


def feed_of(name: str, found: Mapping[str, Any], base: str, own: str) -> bytes:
    """Return the feed of an overview's changes, the latest first.

    base  the server's address, without a slash at its end
    own   the feed's
    """
    page = f"{base}/overview?{urlencode({'name': name}, errors='replace')}"
    ElementTree.register_namespace("", ATOM)
    feed = ElementTree.Element(f"{{{ATOM}}}feed")
    changes: Sequence[Mapping[str, Any]] = found["changes"][:MOST_ENTRIES]
    _add(feed, "id", _urn("overview", name))
    _add(feed, "title", f"etq: what changed in {name}")
    _add(feed, "updated", max((_time(each["recorded"]) for each in changes), default="1970-01-01T00:00:00Z"))
    ElementTree.SubElement(feed, f"{{{ATOM}}}link", {"rel": "alternate", "type": "text/html", "href": page})
    ElementTree.SubElement(feed, f"{{{ATOM}}}link", {"rel": "self", "type": "application/atom+xml", "href": own})
    _add(ElementTree.SubElement(feed, f"{{{ATOM}}}author"), "name", "etq")
    for change in changes:
        entry = ElementTree.SubElement(feed, f"{{{ATOM}}}entry")
        _add(entry, "id", _urn("change", f"{name}\n{change['key']}"))
        accepted = "accepted: " if change["is_accepted"] else ""
        _add(entry, "title", f"{accepted}{_sentence(change)}")
        _add(entry, "updated", _time(change["recorded"]))
        ElementTree.SubElement(entry, f"{{{ATOM}}}link", {"rel": "alternate", "type": "text/html", "href": page})
        said = f" {change['author'] or 'somebody'}: {change['comment']}" if change["comment"] else ""
        series = f" Series: {change['series']}." if change["series"] else ""
        _add(entry, "summary", f"Last good: {change['over']} {change['last_good']}.{series}{said}")
    return _bytes(feed)


def _bytes(element: ElementTree.Element) -> bytes:
    written: bytes = ElementTree.tostring(element, "utf-8", xml_declaration=True)
    return written


def _sentence(change: Mapping[str, Any]) -> str:
    verdict = f" {change['verdict']}" if change["verdict"] else ""
    return f"{change['name']}{verdict}: {change['change_percent']:+.1f} % since {change['over']} {change['first_bad']}"


def _add(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, f"{{{ATOM}}}{tag}").text = _plain(text)


def _plain(text: str) -> str:
    """Return a text without the characters that XML can't have."""
    return NOT_IN_XML.sub("\ufffd", text)


def _urn(what: str, text: str) -> str:
    """Return an address that is the same for ever."""
    digest = hashlib.sha256(f"{what}\n{text}".encode("utf-8", "replace")).hexdigest()
    return f"urn:uuid:{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
