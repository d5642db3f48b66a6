"""A lake in an object store, served to browsers and to agents, while a writer adds captures to it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import etq
from etq.serve import state
from tests.lake import moto_server
from tests.lake.test_lake import FLEET
from tests.serve.server import Server, serving
from tests.serve.test_data import values

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
pytestmark = pytest.mark.long

URL = "s3://lab/fleet"


def add(at: int) -> None:
    """Add the capture of that number, as build of that number."""
    etq.lake.add(URL, lambda lab: lab.ingest(FLEET[at], labels={"build": str(at), "device": "bench", "model": "mlp"}))


@pytest.fixture(scope="module")
def lake() -> Iterator[str]:
    """A lake of three captures, added one by one; the store's options are in the environment."""
    with moto_server.serving() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in moto_server.made(endpoint, "lab").items():
            patch.setenv(name, value)
        for at in range(3):
            add(at)
        yield URL


@pytest.fixture(scope="module")
def server(lake: str) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch, serving(lake) as started:
        patch.setattr(state, "REMOTE_SECONDS", 0)
        yield started


def test_pages_have_what_views_have(server: Server) -> None:
    with etq.open(URL) as lab:
        names = [name for (name,) in lab.rows("SELECT name FROM captures ORDER BY name")[1]]
        counted = lab.rows("SELECT runs FROM capture_summary ORDER BY name")[1]
        ops = lab.rows("SELECT op, total FROM op_totals($c)", c=names[0])[1]
        trend = lab.rows("SELECT capture, p25 FROM trend(over := 'build') ORDER BY series, position")[1]
    found = server.data("captures")
    assert values(found["rows"], "name") == names == ["00", "01", "02"], "in the order in which they were added"
    assert found["labels"]["build"]["texts"] == ["0", "1", "2"]
    assert values(server.data("counts")["rows"], "runs") == [runs for (runs,) in counted]
    series = server.data("series")
    assert list(zip(*(values(series["rows"], name) for name in ("capture", "p25")), strict=True)) == trend
    build = found["labels"]["build"]["at"].index(1)
    assert server.data("matches", selector="build=1,@latest")["places"] == [build]
    sections = {
        section["kind"]: section
        for part in ("first", "rest")
        for section in server.data("report", capture=names[0], part=part)["sections"]
    }
    table = sections["ops"]["tables"]["rows"]
    assert dict(zip(*(values(table, name) for name in ("op", "total")), strict=True)) == dict(ops)
    compared = server.data("difference", base="build=0", new="build=1")
    assert compared["title"] == "build=0 → build=1"
    assert server.data("trends")["sections"][0]["kind"] == "series"
    for path in ("/", f"/capture/{names[0]}", "/compare?base=build%3D0&new=build%3D1", "/trends", "/sql"):
        assert server.get(path).status == 200
    refused = server.get("/data/sql", {"query": "SELECT 1"})
    assert (refused.status, "in an object store" in refused.data["error"]) == (400, True), refused.data


def test_answers_are_kept_until_a_writer_adds(server: Server) -> None:
    first = server.get("/data/captures")
    report = server.get("/data/report", {"capture": "build=0"})
    for path, parameters, reply in (("captures", {}, first), ("report", {"capture": "build=0"}, report)):
        again = server.get(f"/data/{path}", parameters, if_none_match=reply.headers["etag"])
        assert (again.status, again.body) == (304, b"")
    before = server.data("state")["state"]
    add(3)
    assert int(server.data("state")["state"]) == int(before) + 1
    now = server.get("/data/captures", if_none_match=first.headers["etag"])
    assert now.status == 200 and now.headers["etag"] != first.headers["etag"]
    assert now.data["labels"]["build"]["texts"] == ["0", "1", "2", "3"]
    same = server.get("/data/report", {"capture": "build=0"}, if_none_match=report.headers["etag"])
    assert same.status == 200 and same.data["sections"] == report.data["sections"]
    assert server.data("report", capture="build=3")["title"] == "03" == values(now.data["rows"], "name")[3]
    assert server.get("/data/report", {"capture": "build=9"}).status == 404


def test_agents_read_it(lake: str) -> None:
    pytest.importorskip("mcp", reason="the SDK isn't installed: pip install --group mcp-test")
    from anyio.from_thread import start_blocking_portal
    from mcp import Client, StdioServerParameters

    # Only some variables are inherited by a server that the client starts.
    environment = {name: value for name, value in __import__("os").environ.items() if name.startswith(("AWS_", "PY"))}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "etq", "mcp", "--db", lake], env=environment)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(parameters)) as client:

        def call(tool: str, **arguments: Any) -> dict[str, Any]:
            result = portal.call(client.call_tool, tool, arguments)
            found: dict[str, Any] = json.loads(result.content[0].text)
            assert result.is_error == ("error" in found)
            return found

        before = call("list_captures")
        assert "0" in before["labels"]["build"]
        assert call("summary", capture="build=0")["ops"]
        assert call("compare", base="build=0", new="build=1")["totals"]
        add(4)
        assert call("list_captures")["total"] == before["total"] + 1
        assert call("summary", capture="build=4")["ops"]
        refused = call("ask", sql="SELECT 1")
        assert "in an object store" in refused["error"] and refused["next"]
