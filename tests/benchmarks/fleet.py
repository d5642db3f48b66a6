"""What questions across captures take in a warehouse of many captures of 100 runs of 50 ops; `run` asks them.

Times are of questions in this process, warm; beside each, how many times that is of a plain aggregate over one capture's
rollups, asked in turn with it.
"""

from __future__ import annotations

import hashlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import etq
from tests.benchmarks.make_dump import EVENTS_PER_RUN
from tests.benchmarks.make_fleet import CAPTURES_OF_COMMIT, RUNS

BASELINE = "SELECT sum(o.p25) FROM op_times AS o WHERE o.capture_id = 7"
TIMES = 9


def questions(captures: int) -> list[tuple[str, str, dict[str, str]]]:
    """What is asked, the query and its parameters: of captures far apart, and of all."""
    one = {"base": f"mlp-{captures // 10 + 1}", "new": f"mlp-{captures - 9}"}
    first, last = captures // CAPTURES_OF_COMMIT // 10, captures // CAPTURES_OF_COMMIT - 4
    ten = {"base": f"model=mlp,commit={commit(first)}", "new": f"model=mlp,commit={commit(last)}"}
    ops, whole = "FROM compare_ops($base, $new)", "FROM compare_captures($base, $new)"
    return [
        ("compare_ops of two captures", ops, one),
        ("compare_captures of two captures", whole, one),
        ("compare_ops of two selectors of 10", ops, ten),
        ("compare_captures of two selectors of 10", whole, ten),
        ("trend of an op over all captures", "FROM trend('op', 'gelu@9', \"by\" := 'model')", {}),
        ("regressions of all series", "FROM regressions()", {}),
    ]


def commit(number: int) -> str:
    """The label of a commit, as `make_fleet` gives it."""
    return hashlib.sha1(f"commit {number}".encode()).hexdigest()


def milliseconds(ask: Callable[[], object]) -> float:
    """The time that a call takes."""
    begin = time.perf_counter()
    ask()
    return (time.perf_counter() - begin) * 1e3


def in_turn(warehouse: etq.Warehouse, query: str, baseline: str, times: int, **given: str) -> tuple[float, float]:
    """The median milliseconds of a query, and how many times that is of a baseline in turn with it."""
    once, base = partial(warehouse.rows, query, **given), partial(warehouse.rows, baseline)
    assert once()[1] and base()[1], query
    rounds = [(milliseconds(once), milliseconds(base)) for _ in range(times)]
    taken, of_baseline = (statistics.median(each) for each in zip(*rounds, strict=True))
    return taken, taken / of_baseline


def make_and_measure(folder: Path, captures: int) -> None:
    """Make a warehouse and ask it all questions."""
    path = folder / f"fleet{captures}.duckdb"
    command = [sys.executable, "-m", "tests.benchmarks.make_fleet", str(path), str(captures)]
    seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    with etq.open(path, read_only=True) as warehouse:
        size = path.stat().st_size / (captures * RUNS * EVENTS_PER_RUN)
        print(f"a warehouse of {captures:,} captures, made in {seconds:.0f} s: {size:.1f} bytes an event")
        for what, query, given in questions(captures):
            taken, ratio = in_turn(warehouse, query, BASELINE, TIMES, **given)
            print(f"{'':4}{what:42}{taken:9.1f} ms, {ratio:6.0f} times the baseline")
    path.unlink()
