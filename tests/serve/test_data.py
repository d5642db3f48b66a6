"""The data that pages fetch: those of views and reports, cached by the warehouse's state, whatever is asked."""

from __future__ import annotations

import asyncio
import json
import re
import tracemalloc
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.ipc
import pyarrow.parquet
import pytest

import etq
from etq.report import report_of, trends_report_of
from etq.serve import worker
from etq.serve.payloads import JSON, Payload
from etq.serve.results import result_of
from etq.serve.spool import whole
from etq.warehouse.focus import focused
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

BUILDS = 6
HOSTILE = "<b>'\"&/../..?#%2e"


def labels_of(build: int, device: str) -> dict[str, str]:
    return {"build": str(build), "device": device, "model": "net, small"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("serve") / "lab.duckdb"
    with etq.open(path) as lab:
        for build in range(1, BUILDS + 1):
            lab.ingest(capture(build), name=f"a{build}", labels=labels_of(build, "pixel8"))
            lab.ingest(capture(100 + build), name=f"b{build}", labels=labels_of(build, "pixel9"))
        lab.ingest(capture(999), name=HOSTILE)
    with serving(path) as started:
        yield started


def values(table: dict[str, Any], name: str) -> list[Any]:
    column = table["columns"][table["names"].index(name)]
    return [column["texts"][at] if at >= 0 else None for at in column["at"]] if isinstance(column, dict) else column


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def test_all_captures_and_their_labels(server: Server) -> None:
    found = server.data("captures")
    counts = server.data("counts")["rows"]
    with etq.open(server.path, read_only=True) as lab:
        query = "SELECT s.name, s.sha256, s.format, s.byte_size, s.uri FROM capture_summary AS s"
        columns, rows = lab.rows(query)
        expected = lab.rows("SELECT name, key, value FROM labels JOIN captures USING (capture_id)")[1]
        counted = lab.rows("SELECT name, runs, findings FROM capture_summary")[1]
    assert list(zip(*(values(found["rows"], name) for name in columns), strict=True)) == rows
    names = values(found["rows"], "name")
    labels = {
        (names[place], key, column["texts"][at])
        for key, column in found["labels"].items()
        for place, at in enumerate(column["at"])
        if at >= 0
    }
    assert labels == set(expected)
    assert found["labels"]["build"]["texts"] == [str(build) for build in range(1, BUILDS + 1)]
    assert list(zip(*(values(counts, name) for name in ("name", "runs", "findings")), strict=True)) == counted


def test_series_are_those_of_trend(server: Server) -> None:
    found = server.data("series")
    with etq.open(server.path, read_only=True) as lab:
        columns, rows = lab.rows("SELECT series, label, capture, p25, unit, change_percent FROM trend()")
        query = "SELECT value FROM percentiles($c, [0.25], unit := 'us') WHERE event_name = 'Method::execute'"
        [(unlabelled,)] = lab.rows(query, c=HOSTILE)[1]
    assert found["over"] == "build"
    assert list(zip(*(values(found["rows"], name) for name in columns), strict=True)) == rows
    by_device = server.data("series", over="build", by="device")
    assert set(values(by_device["rows"], "series")) == {"device=pixel8", "device=pixel9"}
    # The execute times of all captures are those of trend, also of captures that have no place in a series.
    executes = dict(zip(*(values(found["executes"], name) for name in ("capture", "execute")), strict=True))
    assert executes == {row[2]: pytest.approx(row[3]) for row in rows} | {HOSTILE: pytest.approx(unlabelled)}
    assert set(values(found["executes"], "unit")) == {"us"}
    wrong = server.get("/data/series", {"over": "colour"})
    assert wrong.status == 400 and "no capture has a label colour to order by" in wrong.data["error"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("device=pixel8,build=2", ["a2"]),
        ('model="net, small",build=3', ["a3", "b3"]),
        ("model=net, small", [f"{side}{build}" for build in range(1, BUILDS + 1) for side in "ab"]),
        ("b4", ["b4"]),
        ("device=pixel9,@latest", [f"b{BUILDS}"]),
    ],
)
def test_selectors_are_those_of_commands(server: Server, selector: str, names: list[str]) -> None:
    all_names = values(server.data("captures")["rows"], "name")
    assert [all_names[place] for place in server.data("matches", selector=selector)["places"]] == names


def assert_alike(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert_alike(found[name], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other)
    else:
        assert found == (pytest.approx(expected, rel=1e-9) if isinstance(expected, float) else expected)


def test_reports_are_those_of_files(server: Server) -> None:
    """Pages have the sections of `etq report`. Threads add numbers in any order, so p-values may differ in last digits."""
    with etq.open(server.path, read_only=True) as lab:
        one = report_of(lab, ["a2"], runs="all", unit="ns").as_data()
        sides = ["device=pixel8", "device=pixel9"]
        two = report_of(lab, sides, quantile=0.5).as_data()
        sha256 = lab.capture("a2").sha256
    found = server.data("report", capture="a2", runs="all", unit="ns")
    assert {name: found[name] for name in one} == plain(one)
    assert found["methods"] == ["Execute"] and found["sha256"] == sha256[:12]
    assert server.data("report", capture=sha256[:12], runs="all", unit="ns") == found
    parts = [server.data("report", capture="a2", runs="all", unit="ns", part=part) for part in ("first", "rest")]
    assert [section for part in parts for section in part["sections"]] == found["sections"]
    assert [section["kind"] for section in parts[0]["sections"]] == ["headline", "advice", "breakdown"]
    assert_alike(server.data("difference", base=sides[0], new=sides[1], quantile="0.5"), plain(two))


@pytest.mark.long
def test_trends_are_those_of_files(server: Server) -> None:
    with etq.open(server.path, read_only=True) as lab:
        many = trends_report_of(lab, "device=pixel8", over="build").as_data()
    assert server.data("trends", selector="device=pixel8") == plain(many)


def test_errors_are_those_of_commands(server: Server) -> None:
    for question, parameters, status, text in [
        ("report", {"capture": "a22"}, 404, "no capture matches a22; the nearest are a2"),
        ("report", {"capture": ""}, 400, "capture: none is chosen; give a name"),
        ("report", {"capture": "a2", "method": "x"}, 400, "no run is of method 'x'; the methods are Execute"),
        ("report", {"capture": "a2", "unit": "weeks"}, 400, "unknown unit weeks"),
        ("report", {"capture": "a2", "part": "last"}, 400, "last: not a part of a report; they are first, rest"),
        ("matches", {"selector": "modl=net"}, 404, "no label is named 'modl'; the nearest are model"),
        ("difference", {"base": "a1"}, 400, "new: no captures are chosen"),
        ("difference", {"base": "a1", "new": "a2", "alpha": "much"}, 400, "alpha: 'much' is not a number"),
        ("sql", {"query": "FROM captures", "format": "xls"}, 400, "xls: no format of results"),
        ("sql", {"query": "DROP TABLE captures"}, 400, "a safe query is one SELECT, not DROP"),
        ("sql", {"query": "SELECT * FROM read_text('/etc/passwd')"}, 400, "disabled by configuration"),
    ]:
        reply = server.get(f"/data/{question}", parameters)
        assert (reply.status, text in reply.data["error"]) == (status, True), reply.data
        assert reply.headers["cache-control"] == "no-store"
    assert server.get("/data/nothing").status == 404


def test_results_of_queries(server: Server) -> None:
    query = "SELECT capture_id, name AS n, capture_id / 2 AS half, captured_at, 170141183460469231731687303715884105727 AS big FROM captures ORDER BY 1"
    found = server.data("sql", query=query)
    assert found["count"] == 2 * BUILDS + 1 and found["kinds"] == ["number", "text", "number", "text", "number"]
    assert values(found["rows"], "capture_id") == [*range(1, found["count"] + 1)]
    assert set(values(found["rows"], "big")) == {"170141183460469231731687303715884105727"}
    reply = server.get("/data/sql", {"query": query, "format": "csv"})
    assert reply.status == 200 and "result.csv" in reply.headers["content-disposition"]
    assert reply.body.decode().splitlines()[1].startswith("1,a1,0.5,")
    with etq.open(server.path, read_only=True) as lab:
        columns, rows = lab.rows(query)
    files = {format: result_of(columns, rows, format) for format in ("parquet", "arrow")}
    assert {format: each.file for format, each in files.items()} == {
        "parquet": "result.parquet",
        "arrow": "result.arrow",
    }
    for table in (
        pyarrow.parquet.read_table(BytesIO(whole(files["parquet"].body))),
        pyarrow.ipc.open_file(files["arrow"].body).read_all(),
    ):
        assert [str(each) for each in table.schema.types] == ["int64", "string", "double", "null", "string"]
        assert table.column("n").to_pylist() == values(found["rows"], "n")


def test_texts_of_csv_are_not_formulas(server: Server) -> None:
    query = "SELECT '=1+1' AS \"@name\", chr(65309) || '2' AS wide, -3 AS number, 'a=b' AS text"
    reply = server.get("/data/sql", {"query": query, "format": "csv"})
    assert reply.body.decode() == "'@name,wide,number,text\n'=1+1,'\uff1d2,-3,a=b\n"


def test_answers_are_cached_by_the_state(server: Server, tmp_path: Path) -> None:
    """An answer is used again until the warehouse changes; a writer gets in between two questions."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="a", labels={"build": "1"})
    with serving(path) as other:
        first = other.get("/data/captures", accept_encoding="gzip")
        assert first.data["rows"]["length"] == 1
        tag = first.headers["etag"]
        again = other.get("/data/captures", if_none_match=tag)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "etag" not in other.get("/data/sql", {"query": "SELECT random()"}).headers
        state = other.data("state")
        with etq.open(path, wait=5) as lab:
            lab.ingest(capture(2), name="b", labels={"build": "2"})
            lab.remove("a")
        assert other.data("state") != state
        changed = other.get("/data/captures", if_none_match=tag)
        assert changed.status == 200 and values(changed.data["rows"], "name") == ["b"]
        assert other.get("/data/report", {"capture": "a"}).status == 404
        path.unlink()
        gone = other.get("/data/captures", if_none_match=changed.headers["etag"])
        assert gone.status == 503 and "no such file; make a warehouse" in gone.data["error"]


class Counted:
    """A pool that notes what it is asked, and answers when it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ended: list[str] = []
        self.may_answer = asyncio.Event()

    def start(self) -> None:
        pass

    close = start

    async def ask(self, question: str, arguments: dict[str, str], state: str | None, client: str = "") -> Payload:
        self.asked.append(question)
        try:
            await self.may_answer.wait()
        finally:
            self.ended.append(question)
        return Payload(200, JSON, question.encode())


def test_equal_requests_share_one_answer(server: Server) -> None:
    """The first page's questions are asked at the start. One that nobody waits for any more is given up."""
    pytest.importorskip("starlette", reason="pages in a browser need starlette")
    from etq.serve.access import Access
    from etq.serve.app import application
    from etq.serve.site import Site

    async def ask(app: Any, path: str, leaves: asyncio.Event | None = None) -> tuple[int, bytes]:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"",
                 "headers": [(b"host", b"127.0.0.1:1")], "client": ("127.0.0.1", 2), "scheme": "http"}  # fmt: skip
        sent: list[Any] = []

        async def receive() -> dict[str, str]:
            await (leaves or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])

    async def turns() -> None:
        for _ in range(100):
            await asyncio.sleep(0.001)

    async def run() -> None:
        pool: Any = Counted()
        app: Any = application(Site(str(server.path), pool), Access("127.0.0.1", 1))
        started, ends = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, str]:
            if not started.is_set():
                return {"type": "lifespan.startup"}
            await ends.wait()
            return {"type": "lifespan.shutdown"}

        async def send(_: Any) -> None:
            started.set()

        life = asyncio.create_task(app({"type": "lifespan"}, receive, send))
        await started.wait()
        first = [asyncio.create_task(ask(app, "/data/captures")) for _ in range(3)]
        leaving = [asyncio.Event(), asyncio.Event()]
        second = [asyncio.create_task(ask(app, "/data/overviews", each)) for each in leaving]
        await turns()
        assert pool.asked == ["captures", "overviews"]
        leaving[0].set()
        await turns()
        assert pool.ended == [] and (await second[0])[0] == 499
        leaving[1].set()
        await turns()
        assert pool.ended == ["overviews"]
        pool.may_answer.set()
        assert [await each for each in first] == [(200, b"captures")] * 3
        await turns()
        assert pool.asked == ["captures", "overviews", "series", "counts"]
        for name in ("captures", "series", "counts"):
            assert await ask(app, f"/data/{name}") == (200, name.encode()), "it is kept"
        assert await ask(app, "/data/overviews") == (200, b"overviews"), "asked again"
        assert pool.asked[4:] == ["overviews"]
        # Queries may have another answer each time.
        await asyncio.gather(*(ask(app, "/data/sql") for _ in range(2)))
        assert pool.asked[5:] == ["sql", "sql"]
        ends.set()
        await life

    asyncio.run(run())


def test_pages_are_shells(server: Server) -> None:
    for path in ("/", "/capture/a1", "/capture/a%0Ab", "/compare", "/trends", "/sql"):
        reply = server.get(path)
        text = reply.body.decode()
        assert reply.status == 200
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert "access-control-allow-origin" not in reply.headers
        # Nothing in a page is executed or styled but files of this server.
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", text)
        for asset in re.findall(r'(?:src|href)="(/assets/[^"]+)"', text):
            found = server.get(asset, accept_encoding="gzip")
            assert found.status == 200 and "immutable" in found.headers["cache-control"]
        assert server.get(path, if_none_match=reply.headers["etag"]).status == 304
    assert server.get("/assets/0.pages.js").status == 404


def test_a_warehouse_in_focus_has_the_rows_of_one_capture(server: Server) -> None:
    views = ("op_totals($c)", "timeline($c)", "slow_runs($c)", "headline($c)", "_advice_of_runtime($c)")
    with etq.open(server.path, read_only=True) as lab:
        expected = [lab.rows(f"FROM {view}", c="a3")[1] for view in views]
        with focused(lab, lab.capture("a3")):
            assert [lab.rows(f"FROM {view}", c="a3")[1] for view in views] == expected
            assert lab.rows("SELECT count(*) FROM event_ticks")[1] == lab.rows(
                "SELECT count(*) FROM main.event_ticks WHERE capture_id = $c", c=lab.capture("a3").capture_id
            )[1]  # fmt: skip
            query = "SELECT labels FROM capture_summary WHERE name = 'a3'"
            assert lab.rows(query)[1] == [('build=3, device=pixel8, model="net, small"',)]
        assert lab.rows("FROM op_totals('b1')")[1]


def test_every_asset_is_used() -> None:
    """Vendored scripts have their versions in a note, and a licence."""
    from etq.serve import pages

    root = Path(pages.__file__).parent
    assert sorted(pages.SCRIPTS) == sorted(path.name for path in (root / "assets").glob("*.js"))
    note = (root / "vendor/README.md").read_text()
    for package in re.findall(r'from "(@[^"]+)"', (root / "vendor/codemirror-entry.js").read_text()):
        assert f"`{package}`" in note
    assert "MIT License" in (root / "vendor/codemirror-LICENSE").read_text()


def test_answers_that_are_kept_are_bounded() -> None:
    """However short they are, and however long what was asked is."""
    pytest.importorskip("starlette", reason="pages in a browser need starlette")
    from etq.serve.app import MOST_KEPT, OVERHEAD, Kept

    kept = Kept()
    most = MOST_KEPT // OVERHEAD
    for number in range(most + 5000):
        kept.put(str(number), Payload(200, JSON, b""))
    assert kept.get("4999") is None and kept.get("5000") is not None
    kept.put("0", Payload(200, JSON, b"0" * (MOST_KEPT // 4)))
    assert kept.get(str(5000 + most // 5)) is None and kept.get(str(most)) is not None
    tracemalloc.start()
    for number in range(1000):
        kept.put(f"{number}{' ' * 10_000}", Payload(200, JSON, b""))
    assert tracemalloc.get_traced_memory()[0] < 1_000_000
    tracemalloc.stop()


def test_the_memory_of_a_query_is_returned_when_it_ends(server: Server) -> None:
    """By default DuckDB keeps up to 512 MB."""
    with etq.open(server.path, read_only=True) as lab:
        limited = worker._limited(lab)
        query = "SELECT current_setting('allocator_bulk_deallocation_flush_threshold')"
        assert limited.rows(query)[1] == [("1.0 MiB",)]


def test_queries_beyond_the_memory_limit_suggest_fewer_captures(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "QUERY_MEMORY", "1MB")
    source = worker.ServedWarehouse(str(server.path))
    try:
        answer = source.answer("trends", {}, None)
    finally:
        source.close()
    assert answer.status == 500
    assert b"takes too much memory; choose fewer captures" in whole(answer.body)
