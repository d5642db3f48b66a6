"""What each call of the drop-in Inspector takes, side by side with `executorch.devtools.Inspector`.

    python -m tests.benchmarks.inspector_calls --oracle ENV/bin/python    # prints the table of docs/benchmarks.md

Both sides take turns, a process of each per capture and round. In a process, imports and a first Inspector of the
capture come before; then each call of a new Inspector is timed, of several, and their median taken. The order of calls
is that of the table: what a call leaves for the next ones counts once. CPU time is that of the process, all its threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CAPTURES = Path(__file__).parents[1] / "captures"
CALLS = """
import contextlib, io, json, sys, time, warnings
import pandas
warnings.simplefilter("ignore")
module, dump, record, buffer, times = sys.argv[1:]
seconds = {}
def timed(name, call):
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        return call()
    except Exception:
        name += " (raises)"
    finally:
        seconds.setdefault(name, []).append((time.perf_counter() - wall, time.process_time() - cpu))
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    if module == "etq":
        from etq.inspector import Inspector
    else:
        from executorch.devtools import Inspector
    given = dict(etdump_path=dump, etrecord=record or None, debug_buffer_path=buffer or None)
    for at in range(int(times) + 1):
        if at == 1:
            seconds.clear()
        made = timed("construction", lambda: Inspector(**given))
        if made is None:
            break
        timed("event_blocks", lambda: made.event_blocks)
        timed("to_dataframe", made.to_dataframe)
        timed("print_data_tabular", lambda: made.print_data_tabular(io.StringIO()))
        timed("save_data_to_tsv", lambda: made.save_data_to_tsv(io.StringIO()))
        timed("get_op_list", lambda: made.get_op_list("Execute"))
        if record:
            timed("find_total_for_module, first", lambda: made.find_total_for_module("L__self__"))
            timed("find_total_for_module, next", lambda: made.find_total_for_module("L__self__"))
        if record and buffer:
            timed("calculate_numeric_gap, first", lambda: made.calculate_numeric_gap("MSE"))
            timed("calculate_numeric_gap, next", lambda: made.calculate_numeric_gap("SNR"))
        holder = [made]
        del made
        timed("its end", holder.clear)
print(json.dumps(seconds))
"""
Times = list[float]  # Wall time and CPU time, in seconds.


@dataclass(frozen=True)
class Case:
    """A capture with what else the Inspector is given. `times`: how many Inspectors are made of it in a process."""

    name: str
    dump: Path
    record: Path | None = None
    buffer: Path | None = None
    times: int = 7


def cases(large: Path) -> list[Case]:
    """Return the captures: the smallest and largest that executorch's Inspector reads, and a large dump."""
    demo, transformer, mlp = (CAPTURES / name / name for name in ("demo_int", "transformer", "mlp"))
    demo_debug, mlp_debug = demo.with_name("demo_int_debug.etdp"), mlp.with_name("mlp_debug5.etdp")
    demo, transformer, mlp = (path.with_suffix(".etrecord") for path in (demo, transformer, mlp))
    runs = transformer.with_name("transformer_100runs.etdp")
    return [
        Case("smallest: mlp_1run, 51 events", mlp.with_name("mlp_1run.etdp")),
        Case("smallest with record and values: demo_int_debug", demo_debug, demo, demo_debug.with_suffix(".bin")),
        Case("largest with record: transformer_100runs, 11,502 events", runs, transformer),
        Case("largest with record and values: mlp_debug5", mlp_debug, mlp, mlp_debug.with_suffix(".bin")),
        Case("largest: 1,010,000 events", large, times=1),
    ]


def measure(case: Case, python: str, module: str) -> dict[str, Times]:
    """Return what each call takes: medians of wall and CPU time over the Inspectors of one process."""
    given = [str(each or "") for each in (case.dump, case.record, case.buffer)]
    command = [python, "-c", CALLS, module, *given, str(case.times)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return {name: medians_of(each) for name, each in json.loads(printed.splitlines()[-1]).items()}


def medians_of(times: list[Times]) -> Times:
    """The medians of wall and of CPU times."""
    return [statistics.median(each) for each in zip(*times, strict=True)]


def compare_calls(large: Path, oracle: str | None, rounds: int) -> None:
    """Print a table of each capture's calls, in milliseconds: etq and executorch, wall and CPU time."""
    sides = {"etq": sys.executable, **({"executorch": oracle} if oracle else {})}
    for case in cases(large):
        taken: dict[str, dict[str, list[Times]]] = {module: {} for module in sides}
        for _ in range(1 if case.times == 1 else rounds):
            for module, python in sides.items():
                for name, each in measure(case, python, module).items():
                    taken[module].setdefault(name, []).append(each)
        medians = [{name: medians_of(each) for name, each in of.items()} for of in taken.values()]
        print("\n" + row_of(case.name, *(f"{module}: wall, CPU (ms)" for module in sides)))
        print("|---" * (1 + len(sides)) + "|")
        for name in dict.fromkeys(name for each in medians for name in each):
            print(row_of(f"`{name}`", *(shown(each.get(name)) for each in medians)))
        sums = ([sum(column) for column in zip(*each.values(), strict=True)] for each in medians)
        print(row_of("all calls", *map(shown, sums)), flush=True)


def row_of(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def shown(times: Times | None) -> str:
    """Wall and CPU time in milliseconds, as a cell of a table."""
    return "" if times is None else ", ".join(f"{1000 * each:,.{1 if each < 0.01 else 0}f}" for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", metavar="PYTHON", help="a Python with executorch, to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side per capture  [default: 3]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        large = Path(name) / "large.etdp"
        maker = [sys.executable, "-m", "tests.benchmarks.make_dump", str(large), "1010000"]
        subprocess.run(maker, stdout=subprocess.DEVNULL, check=True)
        compare_calls(large, options.oracle, options.rounds)


if __name__ == "__main__":
    main()
