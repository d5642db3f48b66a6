"""Processes that answer requests."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from etq.process_pool import ProcessPool
from etq.processes import Begin, EndedError, TooLargeError, Worker, environment, search_path
from etq.threads import Threads

# A module whose requests are Python.
ANSWERS = """
import os, sys, time
from etq.processes import requests
for request, reply in requests():
    reply(*eval(request))
"""
MOST = 2**24


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "answers.py").write_text(ANSWERS)
    return environment(PYTHONPATH=os.pathsep.join([str(tmp_path), search_path()]))


@pytest.fixture
def worker(variables: dict[str, str]) -> Iterator[Worker]:
    worker = Worker("answers", variables=variables)
    yield worker
    worker.end()


def has_ended(worker: Worker) -> bool:
    return worker._process.poll() is not None


def test_requests_are_answered_one_after_the_other(worker: Worker) -> None:
    assert worker.ask(b"[b'a', b'', b'b']", 60, MOST) == b"ab"
    assert worker.ask(b"[]", 60, 0) == b""
    # More than a pipe holds, in both directions.
    assert worker.ask(b"[b'%s']" % (b"x" * 10**6), 60, 10**6) == b"x" * 10**6


def test_what_is_printed_is_no_answer(worker: Worker) -> None:
    printing = b"[b'%d' % os.write(1, b'printed'), repr(sys.stdin.read()).encode()]"
    assert worker.ask(printing, 60, MOST) == b"7''"


def test_limits(variables: dict[str, str]) -> None:
    for request, seconds, error in (
        (b"time.sleep(60)", 0.3, TimeoutError),
        (b"[b'12345']", 60, TooLargeError),
        (b"nothing", 60, EndedError),
    ):
        worker = Worker("answers", variables=variables, is_silent=True)
        with pytest.raises(error):
            worker.ask(request, seconds, 4)
        assert has_ended(worker)


def test_the_status_of_a_process_that_ended(variables: dict[str, str]) -> None:
    for request, status in ((b"os._exit(3)", 3), (b"os.kill(os.getpid(), 15)", -signal.SIGTERM)):
        worker = Worker("answers", variables=variables)
        with pytest.raises(EndedError) as raised:
            worker.ask(request, 60, MOST)
        assert raised.value.status == status


def test_a_process_ends_itself_at_its_limit(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the one that asks is stopped."""
    worker = Worker("answers", variables=variables)
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    with pytest.raises(EndedError) as raised:
        worker.ask(b"time.sleep(60)", 0.1, MOST)
    assert raised.value.status == -signal.SIGALRM


def test_a_process_that_is_killed_ends_the_wait(worker: Worker) -> None:
    threading.Timer(0.3, worker.kill).start()
    with pytest.raises(EndedError):
        worker.ask(b"time.sleep(60)", 60, MOST)
    assert has_ended(worker)


def run_in_pool(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, idle: int, work: Callable[[ProcessPool], object]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(variables["PYTHONPATH"].split(os.pathsep)[0])

    async def main() -> None:
        pool = ProcessPool("answers", idle=idle, most=MOST)
        try:
            await work(pool)  # type: ignore[misc]
        finally:
            pool.close()
            assert len(pool) == 0

    asyncio.run(main())


def test_idle_processes_are_asked_again(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    number = b"[b'%d' % os.getpid()]"

    async def work(pool: ProcessPool) -> None:
        first = await pool.ask(number, 60)
        assert await pool.ask(number, 60) == first
        numbers = await asyncio.gather(*(pool.ask(number, 60) for _ in range(3)))
        assert len({bytes(found) for found in [first, *numbers]}) == 3 and len(pool) == 1
        # One that was killed while it was idle is replaced.
        pool._idle[0].kill()
        assert await pool.ask(number, 60) not in [first, *numbers]
        with pytest.raises(EndedError):
            await pool.ask(b"os._exit(1)", 60)
        assert len(pool) == 0

    run_in_pool(variables, monkeypatch, 1, work)


async def cancelled(asked: asyncio.Task[bytearray], worker: Worker) -> None:
    """Cancel a caller, and wait until the process of its worker has ended."""
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    ends = time.monotonic() + 10
    while time.monotonic() < ends and not all(pipe.closed for pipe in worker._pipes()):
        await asyncio.sleep(0.01)
    assert worker._process.returncode is not None and all(pipe.closed for pipe in worker._pipes())


def test_a_process_whose_caller_is_cancelled_is_killed(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(pool: ProcessPool) -> None:
        asked = asyncio.create_task(pool.ask(b"time.sleep(60)", 60))
        await asyncio.sleep(0.3)
        [worker] = pool._busy
        await cancelled(asked, worker)
        assert len(pool) == 0

    run_in_pool(variables, monkeypatch, 1, work)


def test_a_process_that_was_not_yet_asked_ends_with_its_caller(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads are busy, so that none has begun to ask it."""

    async def work(pool: ProcessPool) -> None:
        free = threading.Event()
        pool._threads = Threads("asking", 1)
        held = asyncio.create_task(pool._threads.run(free.wait))
        try:
            asked = asyncio.create_task(pool.ask(b"[b'']", 60))
            await asyncio.sleep(0.1)
            [worker] = pool._busy
            await cancelled(asked, worker)
        finally:
            free.set()
            await held

    run_in_pool(variables, monkeypatch, 1, work)


def test_a_process_that_has_just_answered_ends_with_its_caller(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is there, but the caller is cancelled before it is told."""
    answered = threading.Event()
    read = Worker.read

    def told(worker: Worker, request: bytes, seconds: float, most: int, begin: Begin) -> None:
        read(worker, request, seconds, most, begin)
        answered.set()

    async def work(pool: ProcessPool) -> None:
        asked = asyncio.create_task(pool.ask(b"[b'a']", 60))
        await asyncio.sleep(0)
        [worker] = pool._busy
        assert answered.wait(30)  # nothing else runs in the loop
        await cancelled(asked, worker)

    monkeypatch.setattr(Worker, "read", told)
    run_in_pool(variables, monkeypatch, 1, work)


def test_a_closed_pool_starts_no_process(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: ProcessPool) -> None:
        pool.close()
        pool.start()
        assert len(pool) == 0

    run_in_pool(variables, monkeypatch, 1, work)
