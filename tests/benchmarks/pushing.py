"""Pushers and readers at a server that is killed again and again; prints what became of what it acknowledged.

python -m tests.benchmarks.pushing [PUSHERS CAPTURES READERS KILLS]
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import etq
from etq.remote.client import Client
from etq.remote.pushing import Pusher, ToPush, prepared
from tests.serve.server_process import Reader, ServerProcess, served, write_captures


@dataclass
class Result:
    """What became of captures: those that were acknowledged, and how often each is there, by hash."""

    acknowledged: list[str] = field(default_factory=list)
    there: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    megabytes: float = 0.0
    most: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    kills: int = 0


def measured(folder: Path, pushers: int, captures: int, readers: int, kills: int, seed: int = 1) -> Result:
    """Push captures by several pushers beside readers, and kill the server so often meanwhile."""
    path = folder / "lab.duckdb"
    with etq.open(path):
        pass
    result = Result()
    with served(path) as server:
        reading = [Reader(server) for _ in range(readers)]
        files = [write_captures(folder / str(each), captures, each * captures) for each in range(pushers)]
        pushing = [threading.Thread(target=_push, args=(server, each, result)) for each in files]
        others = [threading.Thread(target=each.run) for each in reading]
        is_over = threading.Event()
        watching = threading.Thread(target=_watch, args=(server, result, is_over))
        start = time.monotonic()
        for thread in (*pushing, *others, watching):
            thread.start()
        _kill(server, kills, random.Random(seed), pushing, result)
        for thread in pushing:
            thread.join()
        result.seconds = time.monotonic() - start
        is_over.set()
        for each in reading:
            each.ended.set()
        for thread in (*others, watching):
            thread.join()
        for each in reading:
            result.statuses += each.statuses
    with etq.open(path, read_only=True) as warehouse:
        rows = warehouse.rows("SELECT c.sha256, count(*) FROM captures AS c GROUP BY ALL")[1]
        result.there = dict(rows)
        query = "SELECT c.sha256, l.value FROM captures AS c JOIN labels AS l USING (capture_id) WHERE l.key = 'file'"
        result.labels = dict(warehouse.rows(query)[1])
    return result


def _push(server: ServerProcess, files: list[str], result: Result) -> None:
    """Push files a few at a time, so that pushes and kills meet at all places."""

    def pushed(capture: ToPush) -> None:
        result.acknowledged.append(capture.push.file.sha256)

    try:
        with Client(server.url, patience=180) as client:
            pusher = Pusher(client, pushed=pushed)
            for start in range(0, len(files), 5):
                together = [prepared(each, {}, labels={"file": Path(each).name}) for each in files[start : start + 5]]
                result.states.update(each.state for each in pusher.push(together, waits=start % 15 == 0))
            pusher.push([prepared(each, {}) for each in files[-1:]])
    except Exception as error:
        result.errors.append(repr(error))


def _kill(
    server: ServerProcess, kills: int, chance: random.Random, pushing: list[threading.Thread], result: Result
) -> None:
    while result.kills < kills and any(each.is_alive() for each in pushing):
        time.sleep(chance.uniform(0.05, 1.5))
        server.kill()
        result.kills += 1
        server.start()


def _watch(server: ServerProcess, result: Result, is_over: Any) -> None:
    while not is_over.wait(0.1):
        found = server.memory()
        total = sum(found.values())
        if total > result.megabytes:
            result.megabytes, result.most = total, found


def main() -> None:
    pushers, captures, readers, kills = map(int, sys.argv[1:] or (4, 150, 8, 20))
    with tempfile.TemporaryDirectory() as folder:
        result = measured(Path(folder), pushers, captures, readers, kills)
    lost = [each for each in result.acknowledged if each not in result.there]
    print(f"{len(set(result.acknowledged))} acknowledged in {result.seconds:.1f} s, {result.kills} kills")
    print(f"lost: {len(lost)}; there twice: {sum(count > 1 for count in result.there.values())}")
    print(f"without their label: {len(set(result.acknowledged) - result.labels.keys())}")
    print(f"errors of pushers: {result.errors}; states: {dict(result.states)}")
    print(f"answers to readers: {dict(result.statuses)}")
    print(f"memory: at most {result.megabytes:.0f} MB, { ({name: round(size) for name, size in result.most.items()}) }")


if __name__ == "__main__":
    main()
