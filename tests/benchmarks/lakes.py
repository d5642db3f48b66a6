"""How a lake grows: 100, 1,000 and 10,000 captures of 41 runs, added 1,000 at a time, and asked.

    python -m tests.benchmarks.lakes             # all three: some minutes
    python -m tests.benchmarks.lakes --quick     # without 10,000 captures

Captures are those of `tests/captures/fleet`, each with an end of its own. Times of questions are of a lake that is
compacted and open, in this process, warm, in turn with a baseline: the sum of one column of one capture's rollups.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import etq
import etq.lake
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from tests.benchmarks.fleet import in_turn
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


def add(lake: Path, files: Sequence[Path]) -> float:
    """Add files, some at a time, with a label that parts them; the seconds it took."""
    begin = time.perf_counter()
    for start in range(0, len(files), ADDED_AT_ONCE):
        for side in (0, 1):
            chosen = files[start : start + ADDED_AT_ONCE][side::2]
            labels = {"side": ("base", "new")[side]}
            etq.lake.add(lake, partial(etq.Warehouse.ingest_many, sources=chosen, labels=labels))
    return time.perf_counter() - begin


def ask(lake: Path) -> list[tuple[float, float]]:
    """The median milliseconds of each question, and how many times that is of the baseline in turn with it."""
    with etq.open(lake) as warehouse:
        return [in_turn(warehouse, query, BASELINE, TIMES) for query in QUESTIONS.values()]


def parquet(lake: Path) -> list[Path]:
    """The files that the lake has now: those of before a compaction stay for a week."""
    state = read(Lake.at(lake))
    return [Path(path) for table in state.files for path in state.paths(table)]


def grow(lake: Path, files: Sequence[Path], sizes: Sequence[int]) -> None:
    """Add up to each size, compact and ask, and print a line of the table."""
    there = 0
    for size in sizes:
        seconds, before = add(lake, files[there:size]), len(parquet(lake))
        etq.lake.compact(lake, leave_seconds=-1)
        found = parquet(lake)
        total = sum(path.stat().st_size for path in found)
        asked = "".join(f"{taken:12.0f} ({ratio:4.1f})" for taken, ratio in ask(lake))
        rate, kilobytes = (size - there) / seconds, total / size / 1e3
        print(f"{size:9,}{rate:11.0f}{kilobytes:11.2f}{before:8}{len(found):9}{asked}", flush=True)
        there = size


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
        grow(Path(name) / "lake", files, sizes)


if __name__ == "__main__":
    main()
