"""`/metrics`: what requests were counted by hand, in the formats of Prometheus and OpenMetrics."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import etq
from etq.process_pool import ProcessPool
from etq.processes import Begin
from etq.serve import health, meters
from etq.serve.payloads import of_data, written
from etq.serve.turns import BusyError, Turns
from etq.team.folder import TeamFolder
from tests.serve.processes import started, wait_for
from tests.serve.scrape import scraped, value
from tests.serve.server import serving
from tests.sql.test_trends import capture


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        for seed in range(3):
            lab.ingest(capture(seed), name=f"c{seed}")
    return path


def test_requests_are_counted_by_route(path: Path) -> None:
    with serving(path, has_link=True) as server:
        token = f"Bearer {server.token}"
        sizes = 0
        wanted = [
            *[("/capture/{name:any}", f"/capture/c{number}", 200) for number in range(3)],
            *[("/data/state", "/data/state", 200)] * 5,
            ("/data/report", "/data/report?capture=none", 404),
            ("none", "/nowhere", 404),
        ]
        for _, address, status in wanted:
            reply = server.get(address, authorization=token)
            assert reply.status == status
            sizes += len(reply.body)
        refused = server.get("/data/state")
        assert refused.status == 401
        sizes += len(refused.body)
        values = scraped(server, token)
        name = "etq_http_requests_total"
        assert value(values, name, route="/capture/{name:any}", method="GET", status="200") == 3
        assert value(values, name, route="/data/state", method="GET", status="200") == 5
        assert value(values, name, route="/data/report", method="GET", status="404") == 1
        assert value(values, name, route="none", method="GET", status="404") == 1
        assert value(values, name, route="none", method="GET", status="401") == 1
        # This is the second time that it was asked for.
        assert value(values, name, route="/metrics", method="GET", status="200") == 1
        # None of these answers was compressed.
        assert value(values, "etq_http_response_bytes_total") >= sizes
        assert value(values, "etq_http_requests_running") == 1
        duration = "etq_http_request_duration_seconds"
        assert value(values, f"{duration}_count", route="/data/state") == 5
        assert value(values, f"{duration}_bucket", route="/data/state", le="+Inf") == 5
        assert value(values, "etq_captures") == 3
        assert value(values, "etq_healthy", check="warehouse") == 1
        assert value(values, "etq_warehouse_bytes") == path.stat().st_size
        assert ("etq_build_info", etq.__version__) in {
            (key, dict(labels).get("version")) for key, labels in values if values[key, labels] == 1
        }
        assert server.get("/metrics").status == 401


def test_buckets_have_what_took_no_longer() -> None:
    counted = meters.Requests()
    for seconds in (0.001, 0.005, 0.0051, 0.3, 61.0):
        counted.add("/x", "GET", 200, seconds, 10)
    found = {sample.labels["le"]: sample.value for sample in counted._durations() if sample.ending == "_bucket"}
    below = {"0.005": 2, "0.01": 3, "0.25": 3, "0.5": 4, "60.0": 4, "+Inf": 5}
    assert {le: found[le] for le in below} == below
    assert [sample.value for sample in counted._durations()][-2:] == [pytest.approx(61.3111), 5]


def test_clients_cannot_make_more_values(path: Path) -> None:
    """Whatever paths, methods and words they send."""
    draw = random.Random(1)

    def word() -> str:
        return "".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))

    with serving(path) as server:
        for address in ("/nowhere", "/capture/x", "/data/trends?over=nothing", "/assets/none.js"):
            server.get(address)
        server.get("/", method="BREW")
        before = scraped(server).keys()
        for _ in range(30):
            server.get(f"/{word()}")
            server.get(f"/capture/{word()}")
            server.get("/data/trends", {word(): word(), "over": word()})
            server.get(f"/assets/{word()}")
            server.get("/", method=word().upper())
        after = scraped(server)
        assert after.keys() - before <= {key for key in after if dict(key[1]).get("route") == "/metrics"}
        others = [key for key in after if key[0] == "etq_http_requests_total" and dict(key[1])["method"] == "other"]
        assert [after[key] for key in others] == [31]


def test_questions_that_run_and_wait(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one client, two of three processes work on questions; its others wait."""
    released = threading.Event()

    async def slow(_: ProcessPool, __: bytes, ___: float, begin: Begin) -> None:
        while not released.is_set():
            await asyncio.sleep(0.01)
        answer = b"".join(written(of_data({"captures": 3})))
        begin(len(answer))(answer)

    with serving(path) as server, ThreadPoolExecutor(5) as threads:
        monkeypatch.setattr(ProcessPool, "read", slow)
        monkeypatch.setattr(health, "WAIT", 0.05)
        asked = [threads.submit(server.get, "/data/report", {"capture": str(number)}) for number in range(5)]
        wait_for(lambda: value(scraped(server), "etq_questions_waiting") == 3)
        assert value(scraped(server), "etq_questions_running") == 3  # one of them is that of the server's health
        released.set()
        assert [each.result(60).status for each in asked] == [200] * 5
        values = scraped(server)
        assert value(values, "etq_questions_waiting") == value(values, "etq_questions_running") == 0
        assert value(values, "etq_questions_refused_total") == 0


def test_refused_questions(path: Path) -> None:
    async def ask() -> tuple[int, int, int]:
        turns = Turns(1, 1)
        async with turns.of("a"):
            waiting = asyncio.ensure_future(turns.of("b").__aenter__())
            await asyncio.sleep(0)
            for _ in range(2):
                with pytest.raises(BusyError):
                    await turns.of("b").__aenter__()
            found = turns.running, turns.waiting, turns.refused
            waiting.cancel()
        return found

    assert asyncio.run(ask()) == (1, 1, 2)


def test_pushes(path: Path) -> None:
    folder = TeamFolder(Path(f"{path}.team"))
    folder.make()
    now = time.time()
    rows = [("a", "waiting", now - 100, None), ("b", "waiting", now - 50, None), ("c", "failed", now - 300, now - 200)]
    with folder.writing() as connection:
        for place, (push, state, received, ended) in enumerate(rows):
            connection.execute(
                "INSERT INTO pushes (push_id, place, user, received_at, request, state, ended_at) "
                "VALUES (?, ?, 'u', ?, '{}', ?, ?)",
                [push, place, received, state, ended],
            )
    with serving(path, folder=folder) as server:
        values = scraped(server)
    assert [value(values, "etq_pushes", state=state) for state in ("waiting", "stored", "failed")] == [2, 0, 1]
    assert 100 <= value(values, "etq_oldest_push_seconds") < 160
    assert value(values, "etq_last_push_timestamp_seconds") == pytest.approx(now - 200)
    assert value(values, "etq_disk_free_bytes", folder="team") > 0


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")
def test_processes_and_their_memory(path: Path) -> None:
    with started(path) as process:
        values = scraped(process.server)
        pid = process.process.pid
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        children = [int(each) for task in tasks for each in task.read_text().split()]
        assert value(values, "etq_processes", process="etq.serve") == 1
        assert value(values, "etq_processes", process="etq.serve.worker") == len(children) > 0
        told = sum(size for (name, _), size in values.items() if name == "etq_process_memory_bytes")
        measured = 0
        for each in (pid, *children):
            lines = Path(f"/proc/{each}/smaps").read_text().splitlines()
            measured += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        assert told == pytest.approx(measured, rel=0.2)
