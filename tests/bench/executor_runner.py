"""Stands in for executor_runner in tests: takes its options, works for each op, and writes an ETDump.

What it does stands in FILE.json beside the program FILE: {"ops": {"add": 40}}, the work of each op in units of
about a microsecond, and how it fails: {"fail": "crash", "at": 3} in its third process. On a device, where it is not,
it has one op.
"""

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import builders

_BLOCK = bytes(1024)


def main() -> None:
    options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
    program = Path(options["model_path"])
    beside = Path(f"{program}.json")
    told: dict[str, Any] = json.loads(beside.read_text()) if beside.exists() else {"ops": {"add": 20}}
    calls = Path(f"{program}.calls")
    with calls.open("a") as file:
        file.write(json.dumps(options) + "\n")
    count = len(calls.read_text().splitlines())
    print("running", program.name, "for the", count)
    out = Path(options["etdump_path"])
    if told.get("fail") is not None and count == told["at"]:
        fail(told["fail"], out)
    out.write_bytes(builders.dump(*(execute(told["ops"]) for _ in range(int(options["num_executions"])))))


def execute(ops: dict[str, float]) -> builders.Run:
    """One execute: its ops, which do work, and the time that each took."""
    events = []
    begin = time.perf_counter_ns()
    for number, (name, units) in enumerate(ops.items()):
        start = time.perf_counter_ns()
        for _ in range(round(units)):
            hashlib.sha256(_BLOCK)
        events.append(builders.kernel(name, start, time.perf_counter_ns(), number))
    return builders.run("Execute", *events, builders.execute(begin, time.perf_counter_ns()))


def fail(how: str, out: Path) -> None:
    """Fail in one of the ways in which runners do."""
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "status":
        sys.exit("no such operator: quantum::fft")
    if how == "hang":
        Path("runner.pid").write_text(str(os.getpid()))
        time.sleep(600)
    if how == "half":
        out.write_bytes(builders.dump(execute({"add": 5}))[:-40])
    sys.exit(0)


if __name__ == "__main__":
    main()
