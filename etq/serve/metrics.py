"""`/metrics`: what a server counts, for Prometheus."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from etq.database.connection import is_lake_path
from etq.database.neighbours import log_of
from etq.serve.endpoints import needs
from etq.serve.health import free_in, places_of, queue_of
from etq.serve.meters import OPEN_METRICS, TEXT, Family, Sample, counter, gauge
from etq.serve.site import Part, Site
from etq.team.users import Role
from etq.version import VERSION

# The name of the server's own process among those of `etq.…` that it started.
SERVER: Final = "etq.serve"
OTHER: Final = "other"


def metrics(site: Site) -> Part:
    """`/metrics`, for who may read."""
    began = time.time()

    async def of_server() -> list[Family]:
        return [*_of_build(began), *_of_questions(site), counter(
            "etq_log_lines_dropped", "Lines of the log that nothing took in time.", site.log.dropped
        )]  # fmt: skip

    async def of_machine() -> list[Family]:
        return await asyncio.to_thread(lambda: [*_of_processes(), *_of_disk(site)])

    async def of_pushes() -> list[Family]:
        return await asyncio.to_thread(lambda: [*_of_pushes(site)])

    for collector in (of_server, of_machine, of_pushes):
        site.meters.add(collector)

    async def endpoint(request: Request) -> Response:
        is_open_metrics = "application/openmetrics-text" in request.headers.get("accept", "")
        text = await site.meters.text(is_open_metrics=is_open_metrics)
        headers = {"cache-control": "no-store", "content-type": OPEN_METRICS if is_open_metrics else TEXT}
        return Response(text.encode(), headers=headers)

    return Part([Route("/metrics", needs(Role.READ, endpoint))])


def _of_build(began: float) -> Iterator[Family]:
    versions = {"version": VERSION, "python": platform.python_version(), "duckdb": version("duckdb")}
    yield gauge("etq_build_info", "Versions, as labels of the value 1.", 1, **versions)
    yield gauge("etq_start_time_seconds", "When the server started, in seconds since 1970.", began)


def _of_questions(site: Site) -> Iterator[Family]:
    turns = site.pool.turns
    yield gauge("etq_questions_running", "Questions that processes work on.", turns.running)
    yield gauge("etq_questions_waiting", "Questions that wait for their turn.", turns.waiting)
    yield counter("etq_questions_refused", "Questions that were answered by 503, as too many waited.", turns.refused)


def _of_processes() -> Iterator[Family]:
    """Processes and their memory, where /proc tells: what processes share is divided among them."""
    counts, memory = Counter[str](), Counter[str]()
    for process in [os.getpid(), *_descendants(os.getpid())]:
        with suppress(OSError, ValueError):  # it ended
            name = SERVER if process == os.getpid() else _module_of(process)
            memory[name] += _memory_of(process)
            counts[name] += 1
    if counts:
        samples = [Sample(count, {"process": name}) for name, count in sorted(counts.items())]
        yield Family("etq_processes", "gauge", "Processes of the server, by module.", samples)
        samples = [Sample(size, {"process": name}) for name, size in sorted(memory.items())]
        help = "Memory of processes of the server (their proportional set size)."
        yield Family("etq_process_memory_bytes", "gauge", help, samples)


def _descendants(process: int) -> Iterator[int]:
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield child
                yield from _descendants(child)


def _module_of(process: int) -> str:
    """Return the module of etq that a process runs."""
    words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    name = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    return name if name == "etq" or name.startswith("etq.") else OTHER


def _memory_of(process: int) -> int:
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(process)


def _of_disk(site: Site) -> Iterator[Family]:
    if not is_lake_path(site.path):
        size = 0
        for path in (Path(site.path), log_of(site.path)):
            with suppress(OSError):
                size += path.stat().st_size
        yield gauge("etq_warehouse_bytes", "Bytes of the warehouse's file and of its log.", size)
    samples = [Sample(free_in(place), {"folder": name}) for name, place in places_of(site).items()]
    if samples:
        yield Family("etq_disk_free_bytes", "gauge", "Free bytes where the server writes.", samples)


def _of_pushes(site: Site) -> Iterator[Family]:
    queue = queue_of(site)
    if queue is None:
        return
    samples = [Sample(count, {"state": state}) for state, count in queue.counts.items()]
    yield Family("etq_pushes", "gauge", "Captures that were pushed, by state.", samples)
    age = 0.0 if queue.oldest is None else max(0.0, time.time() - queue.oldest)
    yield gauge("etq_oldest_push_seconds", "For how long the oldest push that isn't stored has waited.", age)
    if queue.ended is not None:
        yield gauge("etq_last_push_timestamp_seconds", "When a push was stored or failed last.", queue.ended)
