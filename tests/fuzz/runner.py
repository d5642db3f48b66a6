"""Running many inputs in child processes: a crash, a hang or a broken promise names its seed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
# Inputs per process: enough to find leaks of memory, but few enough that the last ones have memory left.
TOGETHER: Final = 2000
# One of this many inputs is ingested into a warehouse.
INGESTED: Final = 10
# Seconds of processor time after which the runner ends a process: a hang in C code never checks a clock.
HANGS: Final = 20.0
_TICK: Final = os.sysconf("SC_CLK_TCK")


@dataclass
class Report:
    """Results of inputs: numbers by kind, refusals by their text without numbers, failures."""

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    largest: int = 0
    seconds: float = 0.0

    def add(self, line: dict[str, Any]) -> None:
        if "counts" in line:
            self.counts.update(line["counts"])
            self.refusals.update(line["refusals"])
            self.slowest = max(self.slowest, (line["slowest"][0], line["slowest"][1]))
            self.largest = max(self.largest, line["largest"])
        elif "failure" in line:
            self.failures.append(line)


@dataclass(frozen=True)
class Plan:
    """The inputs: seeds from `first` on, of one kind or all, and which part of them is ingested."""

    first: int
    count: int
    kind: str | None = None
    ingested: int = INGESTED
    child: tuple[str, ...] = (sys.executable, "-m", "tests.fuzz.child")


class Child:
    """A process that takes inputs one after the other, and reports which one it is at."""

    def __init__(self, seeds: range, plan: Plan) -> None:
        self.seeds = seeds
        self.at = seeds.start - 1
        self.since = 0.0
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        command = [*plan.child, str(seeds.start), str(seeds.stop), str(plan.ingested)]
        command += [plan.kind] if plan.kind else []
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.output, stderr=self.errors, env=environment)
        self._read = 0
        self._rest = b""

    def lines(self) -> Iterator[dict[str, Any]]:
        """The output since the last call."""
        descriptor = self.output.fileno()
        while part := os.pread(descriptor, 2**20, self._read):
            self._read += len(part)
            *whole, self._rest = (self._rest + part).split(b"\n")
            for line in whole:
                yield json.loads(line)

    def busy(self) -> float:
        """Seconds of processor time of the process."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICK

    def close(self) -> None:
        """Close the process's output files."""
        self.output.close()
        self.errors.close()

    def last_words(self) -> str:
        """The end of the process's stderr."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-600:]


def run(plan: Plan, jobs: int, watch: bool = False) -> Report:
    """Run the inputs of a plan in this many processes, then slow ones again, each in a separate process."""
    started = time.monotonic()
    report = Report()
    stop = plan.first + plan.count
    waiting = [range(first, min(first + TOGETHER, stop)) for first in range(plan.first, stop, TOGETHER)][::-1]
    running: list[Child] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(Child(waiting.pop(), plan))
        time.sleep(0.1)
        for child in list(running):
            known = len(report.failures)
            left = _watched(child, report)
            for each in report.failures[known:] if watch else []:
                print(f"seed {each['seed']}: {each['failure']}", flush=True)
            if left is not None:
                child.close()
                running.remove(child)
                if left:
                    waiting.append(left)
                if watch:
                    done = sum(count for name, count in report.counts.items() if name.endswith(" inputs"))
                    print(
                        f"{done} inputs, {len(report.failures)} failures, {time.monotonic() - started:.0f} s",
                        flush=True,
                    )
    report.failures = [each for each in report.failures if not each.get("is_slow") or _again(each, plan)]
    report.seconds = time.monotonic() - started
    return report


def _watched(child: Child, report: Report) -> range | None:
    """None while a child runs; once it has ended, the seeds that it did not run."""
    ended = child.process.poll() is not None
    for line in child.lines():
        if "at" in line:
            child.at, child.since = line["at"], child.busy()
        report.add(line)
    if not ended:
        if child.at < child.seeds.start or child.busy() - child.since < HANGS:
            return None
        child.process.kill()
        child.process.wait()
        report.failures.append({"failure": f"hangs: {HANGS:.0f} s of the processor", "seed": child.at})
        return range(child.at + 1, child.seeds.stop)
    if child.process.returncode == 0:
        return range(0)
    failure = f"the process ended with {child.process.returncode}: {child.last_words()}"
    report.failures.append({"failure": failure, "seed": child.at})
    # A failure before the first input would be repeated.
    return range(child.at + 1, child.seeds.stop) if child.at >= child.seeds.start else range(0)


def _again(failure: dict[str, Any], plan: Plan) -> bool:
    """Whether a slow input is also slow in a separate process."""
    seed = failure["seed"]
    child = Child(range(seed, seed + 1), plan)
    again = Report()
    while _watched(child, again) is None:
        time.sleep(0.05)
    child.close()
    return bool(again.failures)


def summary(report: Report, refusals: bool) -> str:
    """The report as text."""
    lines = []
    kinds = sorted({name.rpartition(" ")[0] for name in report.counts})
    total = 0
    for kind in kinds:
        inputs, loaded, ingested = (report.counts[f"{kind} {what}"] for what in ("inputs", "read", "ingested"))
        total += inputs
        lines.append(
            f"{kind:12} {inputs:7} inputs, {loaded:7} read, {inputs - loaded:7} refused; {ingested:6} ingested"
        )
    lines.append(f"{total} inputs in {report.seconds:.0f} s, {total / max(report.seconds, 0.01):.1f}/s")
    lines.append(
        f"slowest: {report.slowest[0]:.2f} s (seed {report.slowest[1]}); memory at most {report.largest >> 20} MB"
    )
    for each in report.failures:
        lines.append(f"FAILED seed {each['seed']}: {each['failure']} {each.get('edits', '')}")
    if refusals:
        lines += [f"{count:7} {text}" for text, count in report.refusals.most_common()]
    return "\n".join(lines)


def shape(text: str) -> str:
    """A refusal without the parts that differ between files."""
    text = re.sub(r"b'.*'|b\".*\"|'.*?'|\".*?\"", "…", text)
    return re.sub(r"-?\d[\d,.]*", "0", text)[:110]


def parse_seeds(arguments: Sequence[str]) -> tuple[range, int, str | None]:
    """The arguments of a child."""
    first, stop, ingested, *kind = arguments
    return range(int(first), int(stop)), int(ingested), kind[0] if kind else None
