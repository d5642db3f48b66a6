"""Runs an operation for each call by which it writes, with that call failing, and again with all calls after it failing.

    LD_PRELOAD=shim.so python -m tests.sharing.fault_steps FOLDER OPERATION [--every N] [--single]

What each run left is checked. What operations start from is made in FOLDER once. The processes that do the work are forked from this one, which has loaded everything and opened nothing. Prints a line for
each failure of a check, and the number of calls. With --single, a call fails alone, and those after it don't.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import etq
from etq import lake
from etq.errors import EtqError
from etq.maintenance.merge import merge
from etq.warehouse.warehouse import Warehouse
from tests.sharing import captures


def names_of(path: Path) -> list[str]:
    """The sorted names of the captures of a warehouse or lake. Each capture must be whole."""
    if not path.exists():
        return []
    with etq.open(path, read_only=True) as warehouse:
        if path.is_file() and (wrong := captures.torn(warehouse)):
            raise AssertionError(f"torn: {wrong}")
        return sorted(name for (name,) in warehouse.rows("SELECT c.name FROM captures AS c")[1])


def fill(path: Path, numbers: range) -> None:
    with etq.open(path) as warehouse:
        for number in numbers:
            captures.ingest_one(warehouse, number)


def of_lab(folder: Path, change: Callable[[Warehouse], object]) -> None:
    with etq.open(folder / "lab.duckdb") as warehouse:
        change(warehouse)


C01, C04 = ["c0", "c1"], ["c0", "c1", "c4", "c5"]
# What each works on, and what that has before it and after it, or, of several steps, also between them.
OPERATIONS: dict[str, tuple[Callable[[Path], object], str, list[list[str]]]] = {
    "ingest": (
        lambda folder: fill(folder / "lab.duckdb", range(2, 4)), "lab.duckdb", [C01, [*C01, "c2"], [*C01, "c2", "c3"]]
    ),
    "prune": (lambda folder: of_lab(folder, lambda lab: lab.prune(1)), "lab.duckdb", [C01, ["c1"]]),
    "compact": (lambda folder: of_lab(folder, lambda lab: lab.compact()), "lab.duckdb", [C01, C01]),
    "merge": (
        lambda folder: merge([folder / "lab.duckdb", folder / "second.duckdb"], folder / "all.duckdb"), "all.duckdb", [[], C04]
    ),
    "new": (lambda folder: fill(folder / "new.duckdb", range(1)), "new.duckdb", [[], ["c0"]]),
    "lake": (lambda folder: lake.export(folder / "lake", folder / "second.duckdb"), "lake", [C01, C04]),
    "replace in lake": (
        lambda folder: lake.export(folder / "lake", folder / "lab.duckdb", replace=True), "lake", [C01, C01]
    ),
    "compact lake": (lambda folder: lake.compact(folder / "parts"), "parts", [C04, C04]),
    # Removes at once what a lake has replaced.
    "remove from lake": (lambda folder: lake.compact(folder / "replaced", leave_seconds=0), "replaced", [C01, C01]),
}  # fmt: skip


def ended(work: Callable[[], Any]) -> tuple[str, Any]:
    """How work ends, and its result or error."""
    try:
        return "done", work()
    except EtqError as error:
        return "refused", str(error)
    except BaseException as error:
        return "failed", f"{type(error).__name__}: {error}"


def in_child(work: Callable[[], Any]) -> tuple[str, Any]:
    """Run work in a separate process. Returns how it ended, and its result or error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = ended(work)
            with os.fdopen(writing, "wb") as out:
                pickle.dump(answer, out)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        written = answers.read()
    status = os.waitpid(child, 0)[1]
    return pickle.loads(written) if written else ("failed", f"ended with status {status}")


@dataclass(frozen=True)
class Fault:
    """The number of the call of an operation that fails, from 1, or 0 for none; and whether all later calls fail."""

    shim: ctypes.CDLL
    number: int
    goes_on: bool

    def under(self, operation: Callable[[Path], None], folder: Path) -> tuple[str, str, int, str]:
        """How an operation on a folder ends, its error, the number of its calls, and the one that failed."""
        self.shim.fault_set(os.fsencode(folder), self.number, self.goes_on, errno.ENOSPC)
        end, text = ended(lambda: operation(folder))
        return end, text or "", self.shim.fault_count(), self.shim.fault_last().decode()


def complaints(name: str, start: Path, folder: Path, fault: Fault) -> tuple[int, list[str]]:
    """The number of calls of an operation on a copy of a folder, and the faults after one of them failed."""
    work, target, states = OPERATIONS[name]

    def operation(under: Path) -> None:
        work(under)

    shutil.copytree(start, folder)
    answer = in_child(lambda: fault.under(operation, folder))
    end, text, calls, call = answer[1] if answer[0] == "done" else ("failed", answer[1], 0, "")
    wrong = []
    if end == "failed" or "\n" in text or (fault.number == 0 and end != "done"):
        wrong.append("not an error of etq")
    then, found = in_child(lambda: names_of(folder / target))
    if then != "done" and (then, bool(states[0])) != ("refused", False):
        wrong.append(f"then it can't be opened: {found}")
    elif then == "done" and (found not in states or (end == "done" and found != states[-1])):
        wrong.append(f"then it has {found}")
    if end != "done":
        again, why = in_child(lambda: operation(folder))
        # A merge that failed after its file was in place reports that, and makes no second file.
        if again != "done" and (name, found) != ("merge", states[-1]):
            wrong.append(f"again: {why}")
        if (last := in_child(lambda: names_of(folder / target))) != ("done", states[-1]):
            wrong.append(f"again, it has {last}")
    known = {target, f"{target}.wal", *(each.name for each in start.iterdir())}
    if left := sorted({each.name for each in folder.iterdir()} - known):
        wrong.append(f"leaves {left}")
    shutil.rmtree(folder)
    return calls, [f"{name}: call {fault.number} ({call}): {end} {text!r}: {each}" for each in wrong]


def prepare(start: Path) -> None:
    fill(start / "lab.duckdb", range(2))
    fill(start / "second.duckdb", range(4, 6))
    for name, warehouses in (("lake", ["lab"]), ("parts", ["lab", "second"]), ("replaced", ["lab", "lab"])):
        for each in warehouses:
            lake.export(start / name, start / f"{each}.duckdb", replace=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--single", action="store_true")
    options = parser.parse_args()
    shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
    shim.fault_last.restype = ctypes.c_char_p
    start, made = options.folder / "start", options.folder / "made"
    if not start.exists():
        made.mkdir(parents=True)
        assert in_child(lambda: prepare(made))[0] == "done"
        made.rename(start)

    def check(number: int, goes_on: bool) -> int:
        calls, wrong = complaints(options.operation, start, options.folder / "run", Fault(shim, number, goes_on))
        print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
        return calls

    calls = check(0, False)
    for number in range(1, calls + 1, options.every):
        for goes_on in (False,) if options.single else (False, True):
            check(number, goes_on)
    print(f"{options.operation}: {calls} calls", flush=True)


if __name__ == "__main__":
    main()
