"""What pages show of overviews, and what they may change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

SLOW_FROM = 18
FIRST_DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def day(build: int) -> datetime:
    return FIRST_DAY + timedelta(days=build)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices with a build a day; on one, an op takes a fifth more from the 18th on."""
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    made = []
    for build in range(1, 31):
        for number, device in enumerate(("pixel8", "pixel9")):
            content = capture(build + 1000 * number, {"addmm": 1.2} if build >= SLOW_FROM and not number else None)
            labels = {"build": str(build), "device": device, "captured_at": day(build).isoformat()}
            made.append(Labelled(f"{device}-{build}", content, labels))
    with etq.open(path) as warehouse:
        ingest_all(warehouse, made)
        for build in range(1, 31):
            warehouse.metric(f"pixel8-{build}", "heat", 30.0 if build < SLOW_FROM else 40.0, "degC")
    return path


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:
    with serving(lab, edits=True) as started:
        yield started


def rows(table: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    columns = []
    for name in names:
        column = table["columns"][table["names"].index(name)]
        is_text = isinstance(column, dict)
        columns.append([column["texts"][at] if at >= 0 else None for at in column["at"]] if is_text else column)
    return list(zip(*columns, strict=True))


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def test_values_are_those_of_trend(server: Server) -> None:
    found = server.data("watched", what="op", item="addmm@0", selector="device=pixel8")
    with etq.open(server.path, read_only=True) as lab:
        expected = lab.rows("SELECT series, label, normalized, unit FROM trend('op', 'addmm@0', 'device=pixel8')")[1]
    assert found["over"] == "build"
    assert rows(found["values"], "series", "label", "value", "unit") == expected
    recorded = [(milliseconds(day(build)),) for build in range(1, 31)]
    assert rows(found["values"], "recorded") == recorded
    assert set(rows(found["values"], "series_count")) == {(1,)}


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({"selector": "device=pixel8"}, [("device=pixel8", "op", "addmm", 0, "slower", "17", "18")]),
        ({}, [("device=pixel8", "op", "addmm", 0, "slower", "17", "18")]),
        ({"what": "op", "item": "addmm@0"}, [("device=pixel8", "op", "addmm", 0, "slower", "17", "18")]),
        ({"what": "metric", "item": "heat"}, [("device=pixel8", "metric", "heat", None, None, "17", "18")]),
        ({"selector": "device=pixel9"}, []),
        ({"what": "op", "item": "addmm", "selector": "device=pixel9"}, []),
    ],
)
def test_changes_are_those_that_were_made(
    server: Server, given: dict[str, str], changed: list[tuple[Any, ...]]
) -> None:
    table = server.data("watched", **given)["changes"]
    columns = ("series", "what", "op", "instruction_id", "verdict", "last_good", "first_bad")
    found = [row for row in rows(table, *columns) if row[1] != "total"] if table["length"] else []
    assert found == changed
    if changed:
        assert (milliseconds(day(SLOW_FROM)),) in rows(table, "recorded")


def test_series_are_limited(server: Server) -> None:
    """Each build is a series of its own: the first 20 are shown, and all are counted."""
    found = server.data("watched", by="build", over="device")["values"]
    assert len({series for (series,) in rows(found, "series")}) == 20
    assert set(rows(found, "series_count")) == {(30,)}


def sent(server: Server, **change: str) -> tuple[int, Any]:
    reply = server.post("/data/edit", json.dumps(change).encode())
    return reply.status, reply.data


def test_pages_add_and_remove(server: Server) -> None:
    name = "<b>'\"&/../..?#%2e"
    before = server.data("state")
    assert sent(server, overview=name, selector="device=pixel8") == (200, {"number": 1})
    assert server.data("state") != before
    assert sent(server, overview=name, what="op", item="addmm", over="build", by="device") == (200, {"number": 2})
    assert sent(server, overview=name, selector="device=pixel8") == (200, {"number": 1}), "it is there already"
    items = server.data("overviews")["items"]
    columns = ("overview", "item_index", "what", "item", "selector", "ordered_by", "separated_by")
    assert rows(items, *columns) == [
        (name, 1, "total", None, "device=pixel8", None, None),
        (name, 2, "op", "addmm", None, "build", "device"),
    ]
    assert sent(server, overview=name, remove="1") == (200, {"number": None})
    assert sent(server, overview=name, remove="1")[0] == 400
    assert sent(server, overview=name, remove="2") == (200, {"number": None})
    assert server.data("overviews")["items"]["length"] == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"overview": " ", "selector": "device=pixel8"}, "a name has 1 to 120 characters"),
        ({"overview": "a", "selector": "devise=pixel8"}, "no label is named 'devise'; the nearest are device"),
        ({"overview": "a", "what": "op", "item": "nothing"}, "no op nothing in these captures"),
        ({"overview": "a", "what": "op"}, "name the op of the trend"),
        ({"overview": "a", "what": "all"}, "what must be 'total', 'op', 'module' or 'metric', not all"),
        ({"overview": "a", "over": "colour"}, "no capture has a label 'colour'"),
        ({"overview": "a\u202e"}, "has a character that can't be displayed"),
        ({"overview": "a", "remove": "x"}, "'x' is not the number"),
        ({"overview": "a", "remove": "7"}, "nothing has the number 7"),
    ],
)
def test_what_cannot_be_watched_is_refused(server: Server, change: dict[str, str], error: str) -> None:
    status, data = sent(server, **change)
    assert status in (400, 404) and error in data["error"]
    assert server.data("overviews")["items"]["length"] == 0


def test_only_pages_of_the_server_may_change_it(server: Server, lab: Path) -> None:
    body = json.dumps({"overview": "a"}).encode()
    for headers in (
        {"origin": ""},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": f"http://localhost:{server.port}"},  # not the name that was asked
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ):
        assert server.post("/data/edit", body, **headers).status == 403, headers
    assert server.post("/data/captures", body).status == 405
    assert server.get("/data/edit", method="DELETE").status == 403
    assert server.get("/data/edit", method="DELETE", origin=server.url).status == 405
    assert server.get("/data/edit").status == 405
    assert server.post("/data/edit", b"[]").status == 400
    assert server.post("/data/edit", b'{"overview": 7}').status == 400
    assert server.post("/data/edit", b" " * 30_000).status == 413
    with serving(lab) as reading:
        refused = reading.post("/data/edit", body)
        assert refused.status == 403 and "start it with --edit" in refused.data["error"]
        assert reading.data("me")["edits"] is False
    with serving(lab, has_link=True, edits=True) as guarded:
        assert guarded.post("/data/edit", body).status == 401
        assert guarded.get("/data/me", authorization=f"Bearer {guarded.token}").data["edits"] is True
    assert server.data("overviews")["items"]["length"] == 0
