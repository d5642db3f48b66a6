"""How a lake grows: 100, 1,000 and 10,000 captures of 41 runs, added 1,000 at a time, and asked.

    python -m tests.benchmarks.lakes             # all three: some minutes
    python -m tests.benchmarks.lakes --quick     # without 10,000 captures

Captures are those of `tests/captures/fleet`, each with an end of its own. Times of questions are of a lake that is
compacted and open, in this process, warm, in turn with a baseline: the sum of one column of one capture's rollups. The last
lines are computed from the largest lake, and say how.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import etq
import etq.lake
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.lake.writing.compacting import MOST_MERGED
from tests.benchmarks.fleet import milliseconds
from tests.benchmarks.make_captures import make_captures

SIZES = (100, 1_000, 10_000)
ADDED_AT_ONCE = 1_000
RUNS = 41
TIMES = 7
BASELINE = "SELECT sum(o.p25) FROM op_times AS o WHERE o.capture_id = (SELECT min(c.capture_id) FROM captures AS c)"
QUESTIONS = {
    "fleet": """
        SELECT o.family, count(*), median(o.p25)
        FROM op_times AS o
        JOIN labels AS l ON l.capture_id = o.capture_id AND l.key = 'side' AND l.value = 'new'
        GROUP BY o.family ORDER BY o.family
    """,
    "op_totals": "FROM op_totals('000007')",
    "compare_ops": "FROM compare_ops('000003', '000033')",
}


@dataclass(frozen=True)
class Measured:
    """A lake of so many captures: seconds to add the last ones, how many these were, files, bytes and milliseconds."""

    captures: int
    added: int
    seconds: float
    files: int
    bytes: int
    files_before: int
    asked: dict[str, tuple[float, float]]


def add(lake: Path, files: Sequence[Path]) -> float:
    """Add files, some at a time, with a label that parts them; the seconds it took."""
    begin = time.perf_counter()
    for start in range(0, len(files), ADDED_AT_ONCE):
        for side in (0, 1):
            chosen = files[start : start + ADDED_AT_ONCE][side::2]
            labels = {"side": ("base", "new")[side]}
            etq.lake.add(lake, partial(etq.Warehouse.ingest_many, sources=chosen, labels=labels))
    return time.perf_counter() - begin


def ask(lake: Path) -> dict[str, tuple[float, float]]:
    """The median milliseconds of each question, and how many times that is of the baseline in turn with it."""
    found = {}
    with etq.open(lake) as warehouse:
        for what, query in QUESTIONS.items():
            assert warehouse.rows(query)[1] and warehouse.rows(BASELINE)[1]
            once, base = (partial(warehouse.rows, each) for each in (query, BASELINE))
            rounds = [(milliseconds(once), milliseconds(base)) for _ in range(TIMES)]
            taken, baseline = (statistics.median(each) for each in zip(*rounds, strict=True))
            found[what] = (taken, taken / baseline)
    return found


def parquet(lake: Path) -> list[Path]:
    """The files that the lake has now: those of before a compaction stay for a week."""
    state = read(Lake.at(lake))
    return [Path(path) for table in state.files for path in state.paths(table)]


def grow(lake: Path, files: Sequence[Path], sizes: Sequence[int]) -> list[Measured]:
    """Add up to each size, compact and ask."""
    measured: list[Measured] = []
    there = 0
    for size in sizes:
        seconds, before = add(lake, files[there:size]), len(parquet(lake))
        etq.lake.compact(lake, leave_seconds=-1)
        found = parquet(lake)
        total = sum(path.stat().st_size for path in found)
        measured.append(Measured(size, size - there, seconds, len(found), total, before, ask(lake)))
        show(measured[-1])
        there = size
    return measured


def show(each: Measured) -> None:
    """Print a line of the table."""
    asked = "".join(f"{taken:12.0f} ({ratio:4.1f})" for taken, ratio in each.asked.values())
    print(
        f"{each.captures:9,}{each.added / each.seconds:11.0f}{each.bytes / each.captures / 1e3:11.2f}"
        f"{each.files_before:8}{each.files:9}{asked}",
        flush=True,
    )


def plan(measured: Sequence[Measured], dumps: int) -> None:
    """Print what a million captures take, by what the largest lake took of each."""
    last = measured[-1]
    of_capture, rate = last.bytes / last.captures, last.added / last.seconds
    loads, now = -(-1_000_000 // MOST_MERGED), -(-last.captures // MOST_MERGED)
    print(f"computed for 1,000,000 captures of {RUNS} runs, from the lake of {last.captures:,}:")
    print(f"    storage: {of_capture * 1e6 / 1e9:.1f} GB (bytes a capture), of {dumps / 1e9 * 1e6:.0f} GB of dumps")
    print(f"    files: {loads * last.files // now:,} in {loads} loads of {MOST_MERGED:,}")
    print(f"    adding: {1e6 / rate / 3600:.1f} hours by one process (captures a second)")
    if len(measured) > 1:
        first = measured[-2]
        each = (last.asked["fleet"][0] - first.asked["fleet"][0]) / (last.captures - first.captures)
        seconds = each * 1e6 / 1e3
        print(f"    the fleet's question: {seconds:.1f} s (what each capture added, from {first.captures:,} on)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the lake of 10,000 captures")
    sizes = SIZES[: 2 if parser.parse_args().quick else 3]
    with tempfile.TemporaryDirectory() as name:
        captures = Path(__file__).parents[1] / "captures" / "fleet"
        make_captures(captures, Path(name) / "dumps", sizes[-1])
        files = sorted((Path(name) / "dumps").iterdir())
        load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
        print(f"{os.cpu_count()} cores, load {load}; captures of {RUNS} runs")
        print(f"{'captures':>9}{'added/s':>11}{'kB each':>11}{'files':>8}{'compact':>9}", end="")
        print("".join(f"{what + ' ms (ratio)':>19}" for what in QUESTIONS))
        measured = grow(Path(name) / "lake", files, sizes)
        plan(measured, sum(path.stat().st_size for path in files) // len(files))


if __name__ == "__main__":
    main()
