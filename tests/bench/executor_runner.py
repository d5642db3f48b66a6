"""Stands in for executor_runner in tests: takes its options, and writes an ETDump of times that it draws, so that no test
depends on how busy the machine is.

What it does stands in FILE.json beside the program FILE: {"ops": {"add": 40}}, the microseconds of each op, which vary by
1 %, and how it fails: {"fail": "crash", "at": 3} in its third process. On a device, where it is not, it has one op.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests import builders


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
    drawn = random.Random(f"{program.name} {count}")
    out.write_bytes(builders.dump(*(execute(told["ops"], drawn) for _ in range(int(options["num_executions"])))))


def execute(ops: dict[str, float], drawn: random.Random) -> builders.Run:
    """One execute: its ops, one after the other, and the time that each took."""
    events = []
    begin = at = time.perf_counter_ns()
    for number, (name, microseconds) in enumerate(ops.items()):
        end = at + round(1000 * microseconds * drawn.gauss(1, 0.01))
        events.append(builders.kernel(name, at, end, number))
        at = end + 100
    return builders.run("Execute", *events, builders.execute(begin, at))


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
        out.write_bytes(builders.dump(execute({"add": 5}, random.Random(0)))[:-40])
    sys.exit(0)


if __name__ == "__main__":
    main()
