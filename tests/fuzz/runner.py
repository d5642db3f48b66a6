"""Running many inputs in child processes: a crash, a hang or a broken promise names its seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
# Inputs per process: enough to find leaks of memory, but few enough that the last ones have memory left.
TOGETHER: Final = 2000
# Of each kind, one of this many inputs is ingested into a warehouse.
INGESTED: Final = 10


@dataclass
class Report:
    """Results of inputs: numbers by kind, and failures."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, line: dict[str, Any]) -> None:
        if "counts" in line:
            self.counts.update(line["counts"])
        elif "failure" in line:
            self.failures.append(line)


@dataclass(frozen=True)
class Plan:
    """The inputs: seeds from `first` on, of one kind or all, and which part of them is ingested."""

    first: int
    count: int
    kind: str | None = None
    ingested: int = INGESTED


def run(plan: Plan, jobs: int, watch: bool = False) -> Report:
    """Run the inputs of a plan in this many processes, then slow ones again, each in a separate process."""
    started = time.monotonic()
    report = Report()
    stop = plan.first + plan.count
    parts = [range(first, min(first + TOGETHER, stop)) for first in range(plan.first, stop, TOGETHER)]
    with ThreadPoolExecutor(jobs) as pool:
        for lines in pool.map(lambda seeds: _lines(plan, seeds), parts):
            for line in lines:
                report.add(line)
                if watch and "failure" in line:
                    print(f"seed {line['seed']}: {line['failure']}", flush=True)
            if watch:
                done = sum(count for name, count in report.counts.items() if name.endswith(" inputs"))
                print(f"{done} inputs, {len(report.failures)} failures, {time.monotonic() - started:.0f} s", flush=True)
    report.failures = [
        each
        for each in report.failures
        if not each.get("is_slow")
        or any("failure" in line for line in _lines(plan, range(each["seed"], each["seed"] + 1)))
    ]
    report.seconds = time.monotonic() - started
    return report


def _lines(plan: Plan, seeds: range) -> list[dict[str, Any]]:
    """What children report. When one ends at an input, that is a failure, and another goes on behind it."""
    found: list[dict[str, Any]] = []
    while seeds:
        command = [
            *(sys.executable, "-m", "tests.fuzz.child"), str(seeds.start), str(seeds.stop), str(plan.ingested),
            *([plan.kind] if plan.kind else []),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found += lines
        if done.returncode == 0:
            break
        at = [line["at"] for line in lines if "at" in line]
        failure = f"the process ended with {done.returncode}: {done.stderr[-600:]}"
        found.append({"failure": failure, "seed": at[-1] if at else seeds.start})
        # A failure before the first input would be repeated.
        seeds = range(at[-1] + 1, seeds.stop) if at else range(0)
    return found


def summary(report: Report) -> str:
    """The report as text."""
    lines = []
    for kind in sorted({name.rpartition(" ")[0] for name in report.counts}):
        inputs, read, ingested = (report.counts[f"{kind} {what}"] for what in ("inputs", "read", "ingested"))
        lines.append(f"{kind:12} {inputs:7} inputs, {read:7} read, {inputs - read:7} refused; {ingested:6} ingested")
    lines += [f"FAILED seed {each['seed']}: {each['failure']} {each.get('edits', '')}" for each in report.failures]
    return "\n".join([*lines, f"{report.seconds:.0f} s"])


def parse_seeds(arguments: Sequence[str]) -> tuple[range, int, str | None]:
    """The arguments of a child."""
    first, stop, ingested, *kind = arguments
    return range(int(first), int(stop)), int(ingested), kind[0] if kind else None
