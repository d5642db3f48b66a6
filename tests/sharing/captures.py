"""Small captures whose names determine their number of events, and a check that a warehouse has them whole."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

import etq
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run

# Rows per table for each capture. A whole capture has two events for each of its runs.
_WHOLE = """
    SELECT
        c.name,
        c.sha256,
        (SELECT count(*) FROM runs AS r WHERE r.capture_id = c.capture_id),
        (SELECT count(*) FROM event_ticks AS t WHERE t.capture_id = c.capture_id),
        (SELECT count(*) FROM labels AS l WHERE l.capture_id = c.capture_id),
        (SELECT max(o.calls) FROM op_times AS o WHERE o.capture_id = c.capture_id)
    FROM captures AS c
"""


def runs_of(number: int) -> int:
    # Of a thousand numbers they are large.
    return 1000 if 1000 <= number < 2000 else 1 + number % 5


def content(number: int) -> bytes:
    """A capture of that number: no two are the same."""
    runs = [
        run("Execute", kernel("add", number, number + 2 + at), execute(0, number + 9)) for at in range(runs_of(number))
    ]
    return dump(*runs)


def write(folder: Path, numbers: range) -> None:
    for number in numbers:
        (folder / f"c{number}.etdp").write_bytes(content(number))


def torn(warehouse: Warehouse) -> list[object]:
    """The captures that aren't whole. The name of a capture determines its number of runs."""
    rows = warehouse.rows(_WHOLE)[1]
    wrong: list[object] = []
    for name, _, runs, events, labels, calls in rows:
        expected = runs_of(int(name[1:]))
        if (runs, events, labels, calls) != (expected, 2 * expected, 1, expected):
            wrong.append((name, runs, events, labels, calls))
    return wrong


def ingest_until_killed(path: str, first: int, committed: Connection) -> None:
    """Ingest captures from a number on, three each time the file is opened, and report each once it is committed."""
    committed.send(-1)
    for start in range(first, 10**6, 3):
        with etq.open(path) as warehouse:
            for number in range(start, start + 3):
                ingest_one(warehouse, number)
                committed.send(number)


def ingest_one(warehouse: Warehouse, number: int) -> None:
    warehouse.ingest(content(number), name=f"c{number}", labels={"number": str(number)})


def ingest(path: str, folder: str, numbers: list[int]) -> None:
    """Ingest captures of a folder one after the other, as commands do, and report each once it is committed."""
    for number in numbers:
        with etq.open(path) as warehouse:
            capture = warehouse.ingest(f"{folder}/c{number}.etdp", labels={"number": str(number)})
        print(number, int(capture.is_new), flush=True)
