"""Changes the product in small ways, one after the other, and tells which of them the tests find.

    python -m tests.mutations --count 60 --seed 1 [--jobs 2] [--only 7,12] [-- arguments for pytest]

A mutant changes one token of `sql`, `ingest` or `etq/verdicts`: a constant, a comparison, a sign, a join, an aggregate, a
side. Its tests run in a copy of the tree: first the files that name what was changed, then all others, until one fails.
The same seed on the same product makes the same mutants, so that two suites can be compared. Status 0 if all were run.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("sql", "ingest", "etq/verdicts")
# What a token becomes. A number becomes the next one.
PYTHON: Final = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*",
    "min": "max", "max": "min", "sum": "max", "and": "or", "or": "and", "not": "", "True": "False", "False": "True",
    "floor": "ceil", "ceil": "floor",
}  # fmt: skip
SQL: Final = {
    **PYTHON,
    "<>": "=", "avg": "max", "any_value": "count", "first": "last", "true": "false", "false": "true", "left": "INNER",
    "base": "new", "new": "base", "asc": "DESC", "desc": "ASC", "least": "greatest", "greatest": "least",
}  # fmt: skip
_SQL_TOKEN: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\$\$.*?\$\$|\"[^\"]*\"|[A-Za-z_]\w*|\d+(?:\.\d+)?|<>|[<>!=]=|[<>+\-*/]", re.S)  # fmt: skip


class Mutant(NamedTuple):
    """A token, at a place in the text of a file, that is replaced."""

    path: str
    start: int
    old: str
    new: str
    line: int


def mutants(count: int, seed: int) -> list[Mutant]:
    """`count` mutants, equally many of each kind of token in each part, as far as there are; in an order by the seed."""
    chosen = random.Random(seed)
    kinds: dict[tuple[str, str], list[Mutant]] = {}
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".sql", ".py"):
                for each in _of_file(path):
                    kinds.setdefault((part, "number" if each.old[0].isdigit() else each.old.lower()), []).append(each)
    taken: list[Mutant] = []
    while len(taken) < count:
        for kind in chosen.sample(sorted(kinds), len(kinds)):
            taken += [kinds[kind].pop(chosen.randrange(len(kinds[kind])))] if kinds[kind] else []
    return taken[:count]


def _of_file(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    is_sql = path.suffix == ".sql"
    for start, old in _sql_tokens(text) if is_sql else _python_tokens(text):
        new = str(int(old) + 1) if old.isdigit() else SQL.get(old.lower()) if is_sql else PYTHON.get(old)
        is_star = old == "*" and re.search(
            r"(count|columns)\($|select\s+$|,\s*$|\.$|\($|distinct\s+$", text[:start].lower()
        )
        is_sign = old in "+-" and re.search(r"[(,=\[{:]\s*$|(return|then|else|when|and)\s+$", text[:start].lower())
        if new is not None and not is_star and not is_sign:
            yield Mutant(str(path.relative_to(ROOT)), start, old, new, text.count("\n", 0, start) + 1)


def _sql_tokens(text: str) -> Iterator[tuple[int, str]]:
    for found in _SQL_TOKEN.finditer(text):
        if not found[0].startswith(("--", "/*", "'", "$$", '"')):
            yield found.start(), found[0]


def _python_tokens(text: str) -> Iterator[tuple[int, str]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.OP, tokenize.NAME, tokenize.NUMBER) and not token.line.lstrip().startswith(
            ("from ", "import ", "def ")
        ):
            yield starts[token.start[0] - 1] + token.start[1], token.string


def _copy(folder: Path) -> None:
    """A copy of the tree's tracked and new files; the captures are a link."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)  # fmt: skip
    for name in listed.stdout.split("\0"):
        if name and not name.startswith("tests/captures/") and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    (folder / "tests/captures").symlink_to(ROOT / "tests/captures")
    stub = ROOT / "etq/warehouse/views.pyi"
    if stub.exists():
        shutil.copy2(stub, folder / "etq/warehouse/views.pyi")


def _naming(mutant: Mutant, folder: Path) -> list[str]:
    """The files of tests that name what was changed: the macro or view around it, or the module."""
    names = {Path(mutant.path).stem.lstrip("_")}
    if mutant.path.endswith(".sql"):
        before = (ROOT / mutant.path).read_text()[: mutant.start]
        names |= {
            each.lstrip("_") for each in re.findall(r"CREATE (?:OR REPLACE )?(?:MACRO|VIEW|TABLE) (\w+)", before)[-1:]
        }
    pattern = re.compile("|".join(rf"\b_?{re.escape(each)}\b" for each in names))
    found = []
    for path in sorted(folder.glob("tests/**/test_*.py")):
        times = len(pattern.findall(path.read_text() + path.stem.removeprefix("test_")))
        if times:
            found.append((-times, str(path.relative_to(folder))))
    return [name for _, name in sorted(found)[:8]]


def _run(mutant: Mutant, folder: Path, arguments: list[str]) -> str:
    """The first test that fails; an empty text if none does."""
    path = folder / mutant.path
    text = path.read_text()
    assert text[mutant.start :].startswith(mutant.old)
    path.write_text(text[: mutant.start] + mutant.new + text[mutant.start + len(mutant.old) :])
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        for tests in (_naming(mutant, folder), []):
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "--no-header",
                "-p",
                "no:cacheprovider",
                *arguments,
                *tests,
            ]
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=1800
                )
            except subprocess.TimeoutExpired:
                return "more than 1800 s"
            if done.returncode not in (0, 5):
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
                return failed[1] if failed else "no test ran: " + (done.stdout + done.stderr).strip().splitlines()[-1]
        return ""
    finally:
        path.write_text(text)


def main() -> int:
    """Run the mutants, print a line for each, and how many were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="numbers of mutants, with commas")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    only = {int(each) for each in options.only.split(",")} if options.only else None
    chosen = [(at, each) for at, each in enumerate(mutants(options.count, options.seed)) if only is None or at in only]
    if options.list:
        for at, each in chosen:
            print(f"{at:3} {each.path}:{each.line} {each.old} -> {each.new or 'nothing'}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folders: Queue[Path] = Queue()
        for number in range(options.jobs):
            folder = Path(scratch, str(number))
            _copy(folder)
            folders.put(folder)

        def run(numbered: tuple[int, Mutant]) -> bool:
            at, mutant = numbered
            folder = folders.get()
            try:
                failed = _run(mutant, folder, options.tests)
            finally:
                folders.put(folder)
            change = f"{mutant.path}:{mutant.line} {mutant.old} -> {mutant.new or 'nothing'}"
            print(f"{at:3} {change}: {'found by ' + failed if failed else 'NOT FOUND'}", flush=True)
            return bool(failed)

        with ThreadPoolExecutor(options.jobs) as pool:
            found = sum(pool.map(run, chosen))
    print(f"{found} of {len(chosen)} found")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
