"""Drawn files by seed, what `etq advice` says of each, and what of that is false."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.command_line import run_etq
from tests.drawn import checks, dump_checks, dumps, foreign, traces
from tests.drawn.checks import Row
from tests.drawn.truth import Truth

# Of 30 seeds, 7 are of dumps and 2 of foreign files.
DUMPS, FOREIGN = (3, 7, 12, 16, 19, 22, 28), (9, 24)


@dataclass
class Verdict:
    """What was said about the file of a seed."""

    seed: int
    what: str
    findings: Counter[str] = field(default_factory=Counter)
    false: list[tuple[str, str]] = field(default_factory=list)  # rule and why
    missed: list[str] = field(default_factory=list)

    @property
    def unchecked(self) -> list[str]:
        return [why for _, why in self.false if why.startswith("unchecked")]


@dataclass(frozen=True)
class Case:
    """A file of a seed, or those of a job's ranks, and their checks: of a finding, and of all findings."""

    seed: int
    what: str
    files: list[tuple[str, bytes]]
    false_parts: Callable[[int, Row], list[str]]
    missed: Callable[[int, list[Row]], list[str]]
    is_foreign: bool = False  # an error is right

    @property
    def is_job(self) -> bool:
        return len(self.files) > 1


def case(seed: int) -> Case:
    """The case of a seed."""
    group, place = divmod(seed, 30)
    if place in DUMPS:
        return _dump(seed, len(DUMPS) * group + DUMPS.index(place))
    if place in FOREIGN:
        return _foreign(seed, len(FOREIGN) * group + FOREIGN.index(place))
    return _trace(seed, 21 * group + sum(each not in DUMPS + FOREIGN for each in range(place)))


def _dump(seed: int, number: int) -> Case:
    drawn = dumps.draw(number)
    return Case(
        seed, f"dump: clock {drawn.step} ns, noise {drawn.noise}, first run {drawn.warm}, {len(drawn.slow)} slow runs of {len(drawn.runs)}",
        [(f"drawn_{seed}.etdp", drawn.content())],
        lambda _, row: dump_checks.false_parts_of(drawn, row), lambda _, rows: dump_checks.missed(drawn, rows),
    )  # fmt: skip


def _foreign(seed: int, number: int) -> Case:
    what, content = foreign.draw(number)
    return Case(
        seed, f"foreign: {what}", [(f"drawn_{seed}.json", content)],
        lambda _, row: [f"said of a file of {what}: {row['finding']}"], lambda _, rows: [], True,
    )  # fmt: skip


def _trace(seed: int, number: int) -> Case:
    drawn = traces.draw(number)
    files = traces.documents(drawn)
    truths = [Truth(drawn, rank) for rank in range(len(files))]
    what = f"trace: {', '.join(drawn.problems)}; {drawn.tool or 'no steps'}; {drawn.device.name if drawn.device else 'CPU'}"
    what += "; training" if drawn.is_training else "; inference"
    return Case(
        seed, what, [(f"drawn_{seed}_{rank}.json", each) for rank, each in enumerate(files)],
        lambda rank, row: checks.false_parts(checks.About(truths[rank], row), row),
        lambda rank, rows: checks.missed(truths[rank], rows),
    )  # fmt: skip


Ask = Callable[[list[str]], tuple[int, str]]


def within_process(arguments: list[str]) -> tuple[int, str]:
    """Run etq in this process: its status and output."""
    result = run_etq(*arguments)
    return result.exit_code, result.stdout if result.exit_code == 0 else result.stderr


def by_command(command: str) -> Ask:
    """Run another etq."""

    def ask(arguments: list[str]) -> tuple[int, str]:
        done = subprocess.run([*shlex.split(command), *arguments], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout if done.returncode == 0 else done.stderr

    return ask


def answers(drawn: Case, folder: Path, ask: Ask) -> Iterator[tuple[int, list[Row] | str]]:
    """The findings about each file, or the error."""
    for name, content in drawn.files:
        (folder / name).write_bytes(content)
    names = [str(folder / name) for name, _ in drawn.files]
    options: list[str] = []
    if drawn.is_job:
        options = ["--db", str(folder / f"job_{drawn.seed}.duckdb")]
        for rank, name in enumerate(names):
            status, output = ask(["ingest", name, "--name", f"r{rank}", "--job", "j", *options])
            if status:
                yield rank, output
                return
        names = [f"r{rank}" for rank in range(len(names))]
    for rank, name in enumerate(names):
        status, output = ask(["advice", name, *options, "--format", "json"])
        yield rank, json.loads(output or "[]") if status == 0 else output


def judge(drawn: Case, answered: Iterator[tuple[int, list[Row] | str]]) -> Verdict:
    """Compare what was said with the truth."""
    verdict = Verdict(drawn.seed, drawn.what)
    for rank, rows in answered:
        if isinstance(rows, str):
            verdict.false += [] if drawn.is_foreign else [("error", rows.strip())]
            continue
        for row in rows:
            verdict.findings[row["rule"]] += 1
            why = drawn.false_parts(rank, row)
            if why:
                verdict.false.append((row["rule"], "; ".join(why)))
        verdict.missed += drawn.missed(rank, rows)
    return verdict
