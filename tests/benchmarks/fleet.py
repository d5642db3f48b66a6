"""What questions across captures take in warehouses of 1,000 and of 10,000 captures of 100 runs of 50 ops.

    python -m tests.benchmarks.fleet                  # makes both warehouses: 101 million events, some minutes
    python -m tests.benchmarks.fleet --quick          # that of 1,000 alone
    python -m tests.benchmarks.fleet FILE.duckdb …    # asks such that `make_fleet` made

Times are of questions in this process, warm; beside each, how many times that is of a plain aggregate over one capture's
rollups, asked in turn with it, and what is required where something is.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import etq
from etq.database.rollups import fill_rollups
from tests.benchmarks.make_dump import EVENTS_PER_RUN
from tests.benchmarks.make_fleet import CAPTURES_OF_COMMIT, PLANTED, RUNS

BASELINE = "SELECT sum(o.p25) FROM op_times AS o WHERE o.capture_id = 7"
BYTES_OF_AN_EVENT = 12


@dataclass(frozen=True)
class Question:
    """A query, and the milliseconds it may take in a warehouse of so many captures."""

    what: str
    query: str
    parameters: dict[str, str] = field(default_factory=dict)
    required: tuple[int, float] | None = None
    times: int = 9


def questions(captures: int) -> list[Question]:
    """What is asked: of captures far apart, and of all."""
    one = {"base": f"mlp-{captures // 10 + 1}", "new": f"mlp-{captures - 9}"}
    first, last = captures // CAPTURES_OF_COMMIT // 10, captures // CAPTURES_OF_COMMIT - 4
    ten = {"base": f"model=mlp,commit={commit(first)}", "new": f"model=mlp,commit={commit(last)}"}
    ops, whole, trend = (
        "FROM compare_ops($base, $new)",
        "FROM compare_captures($base, $new)",
        "FROM trend('op', 'gelu@9'",
    )
    return [
        Question("compare_ops of two captures", ops, one, (10_000, 50)),
        Question("compare_captures of two captures", whole, one),
        Question("compare_ops of two selectors of 10", ops, ten, (1_000, 100)),
        Question("compare_captures of two selectors of 10", whole, ten),
        Question("trend of an op over all captures", f"{trend}, \"by\" := 'model')", required=(10_000, 100)),
        Question("regressions of all series", "FROM regressions()", required=(10_000, 5_000), times=3),
    ]


def commit(number: int) -> str:
    """The label of a commit, as `make_fleet` gives it."""
    return hashlib.sha1(f"commit {number}".encode()).hexdigest()


def milliseconds(ask: Callable[[], object]) -> float:
    """The time that a call takes."""
    begin = time.perf_counter()
    ask()
    return (time.perf_counter() - begin) * 1e3


def ask(warehouse: etq.Warehouse, question: Question, captures: int) -> list[tuple[Any, ...]]:
    """Time a question in turn with the baseline, print both's medians' ratio, and return its last answer."""
    answer: list[tuple[Any, ...]] = []

    def once() -> None:
        answer[:] = warehouse.rows(question.query, **question.parameters)[1]

    once()
    rounds = [(milliseconds(once), milliseconds(lambda: warehouse.rows(BASELINE))) for _ in range(question.times)]
    taken, baseline = (statistics.median(each) for each in zip(*rounds, strict=True))
    required = ""
    if question.required is not None and question.required[0] == captures:
        required = f", required {question.required[1]:g}"
    print(f"{'':4}{question.what:42}{taken:9.1f} ms, {taken / baseline:6.0f} times the baseline{required}")
    return answer


def found(regressions: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> int:
    """How many of the planted changes are among the regressions: on their device, of their op or of the total."""
    rows = [dict(zip(columns, row, strict=True)) for row in regressions]
    return sum(
        any(
            f"device={each.device}" in row["series"]
            and (row["what"] == "total" if each.instruction is None else row["instruction_id"] == each.instruction)
            and (row["verdict"] == "slower") == (each.factor > 1)
            for row in rows
        )
        for each in PLANTED
    )


def measure(path: Path) -> None:
    """Ask a warehouse all questions."""
    with etq.open(path, read_only=True) as warehouse:
        captures = int(warehouse.rows("SELECT count(*) FROM captures")[1][0][0])
        size = path.stat().st_size / (captures * RUNS * EVENTS_PER_RUN)
        print(f"a warehouse of {captures:,} captures: {size:.1f} bytes an event, required {BYTES_OF_AN_EVENT}")
        for question in questions(captures):
            answer = ask(warehouse, question, captures)
        columns = warehouse.rows(f"{question.query} LIMIT 0")[0]
        print(f"{'':8}of {len(PLANTED)} planted changes, {found(answer, columns)} are among these {len(answer)}")


def measure_rollup(path: Path) -> None:
    """The rollups of one capture alone, as its ingest writes them: written, and taken back."""
    with etq.open(path) as warehouse:
        taken = []
        for capture_id in range(1, 10):
            warehouse.connection.execute("BEGIN")
            taken.append(milliseconds(partial(fill_rollups, warehouse.connection, capture_id)))
            warehouse.connection.execute("ROLLBACK")
        print(f"{'':4}{'rollups of one capture, at its ingest':42}{statistics.median(taken):9.1f} ms")


def make_and_measure(folder: Path, captures: int) -> None:
    """Make a warehouse and ask it all questions."""
    path = folder / f"fleet{captures}.duckdb"
    command = [sys.executable, "-m", "tests.benchmarks.make_fleet", str(path), str(captures)]
    made, filled, _ = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    measure(path)
    measure_rollup(path)
    print(f"{'':4}{'rollups, 200 captures at once':42}{filled / captures * 1e3:9.1f} ms a capture")
    print(f"{'':8}(the warehouse was made in {made + filled:.0f} s)")
    path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouses", nargs="*", type=Path, metavar="FILE.duckdb", help="made by make_fleet, and kept")
    parser.add_argument("--quick", action="store_true", help="leave out the warehouse of 10,000 captures")
    options = parser.parse_args()
    for path in options.warehouses:
        measure(path)
    if not options.warehouses:
        with tempfile.TemporaryDirectory() as name:
            for captures in [1_000] + ([] if options.quick else [10_000]):
                make_and_measure(Path(name), captures)


if __name__ == "__main__":
    main()
