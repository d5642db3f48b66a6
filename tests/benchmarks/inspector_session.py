"""What a whole session with the drop-in Inspector takes, side by side with `executorch.devtools.Inspector`.

    python -m tests.benchmarks.inspector_session --oracle ENV/bin/python    # prints the table of docs/benchmarks.md

A session is one process, which imports the Inspector and asks each model's once: all that is first in a process counts.
Both sides take turns. Each needs torch, for numeric gaps. CPU time is that of the process, all its threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from tests.benchmarks.inspector_calls import CAPTURES, Times, medians_of, row_of, shown

# Captures with a record; those with logged values have the same name, and end in .bin.
MODELS = ("mlp/mlp_debug5", "convnet/convnet_debug", "transformer/transformer_100runs", "bf16/bf16_100runs",
          "demo_int/demo_int_debug", "mlp_xnn/mlp_xnn_100runs", "convnet_xnn/convnet_xnn_debug")  # fmt: skip
CALLS = """
import contextlib, io, json, sys, time, warnings
from pathlib import Path
begun = time.perf_counter()
warnings.simplefilter("ignore")
module, *dumps = sys.argv[1:]
seconds = {}
def timed(name, call):
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        return call()
    finally:
        before = seconds.get(name, (0, 0))
        seconds[name] = (before[0] + time.perf_counter() - wall, before[1] + time.process_time() - cpu)
def imported():
    if module == "etq":
        from etq.inspector import Inspector
    else:
        from executorch.devtools import Inspector
    return Inspector
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    Inspector = timed("import", imported)
    for dump in map(Path, dumps):
        record, buffer = dump.parent / (dump.parent.name + ".etrecord"), dump.with_suffix(".bin")
        given = {"etrecord": str(record), "debug_buffer_path": str(buffer) if buffer.exists() else None}
        made = timed("construction", lambda: Inspector(etdump_path=str(dump), **given))
        timed("event_blocks", lambda: made.event_blocks)
        timed("find_total_for_module", lambda: made.find_total_for_module("L__self__"))
        timed("to_dataframe", made.to_dataframe)
        timed("print_data_tabular", lambda: made.print_data_tabular(io.StringIO()))
        if buffer.exists():
            timed("calculate_numeric_gap", lambda: made.calculate_numeric_gap("MSE"))
seconds["the whole process"] = (time.perf_counter() - begun, time.process_time())
print(json.dumps(seconds))
"""


def measure(python: str, module: str) -> dict[str, Times]:
    """What each call takes in a session, of all models together: wall and CPU time."""
    command = [python, "-c", CALLS, module, *(str(CAPTURES / f"{model}.etdp") for model in MODELS)]
    printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    return dict(json.loads(printed.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", metavar="PYTHON", help="a Python with executorch, to compare with")
    parser.add_argument("--rounds", type=int, default=8, help="processes of each side  [default: 8]")
    options = parser.parse_args()
    sides = {"etq": sys.executable, **({"executorch": options.oracle} if options.oracle else {})}
    taken: dict[str, dict[str, list[Times]]] = {module: {} for module in sides}
    for _ in range(options.rounds):
        for module, python in sides.items():
            for name, each in measure(python, module).items():
                taken[module].setdefault(name, []).append(each)
    medians = [{name: medians_of(each) for name, each in of.items()} for of in taken.values()]
    print(row_of(f"{len(MODELS)} models", *(f"{module}: wall, CPU (ms)" for module in sides)))
    print("|---" * (1 + len(sides)) + "|")
    for name in medians[0]:
        print(row_of(f"`{name}`", *(shown(each[name]) for each in medians)))


if __name__ == "__main__":
    main()
