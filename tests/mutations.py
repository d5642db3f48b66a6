"""Changes the product in small ways, one after the other, and tells which of them the tests find.

    python -m tests.mutations --count 60 --seed 1 [--jobs 2] [--only 7,12] [-- arguments for pytest]

A mutant changes one token of `sql`, `ingest`, `etq/verdicts` or `etq/analysis`: a constant, a comparison, a sign, a
join, an aggregate, a side. Its tests run in a copy of the tree until one fails: those of the files that name what was
changed, then, of the mutants that none of these has found, all.
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
from functools import cache, partial
from pathlib import Path
from queue import Queue
from typing import Final, NamedTuple

from etq import catalog

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = ("sql", "ingest", "etq/verdicts", "etq/analysis")
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
    """The pairs, and the files of tests that name most often what was changed: the module, or a view that uses it."""
    names = {
        Path(mutant.path).stem,
        ".".join(Path(mutant.path).parts[:2]),
    }  # a module, or what is imported from its package
    if mutant.path.endswith(".sql"):
        before = (ROOT / mutant.path).read_text()[: mutant.start]
        changed = {*re.findall(r"^CREATE (?:MACRO|VIEW|TABLE) (\w+)", before, re.M)[-1:]}
        names = changed | {name for name, used in _uses().items() if changed & used}
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b|^def test_.*$", re.M)
    found = []
    for path in sorted(folder.glob("tests/**/test_*.py")):
        hits = [hit for hit in pattern.findall(path.read_text() + " " + path.stem.removeprefix("test_")) if hit]
        found.append((-len(hits), str(path.relative_to(folder))))
    return [*dict.fromkeys(["tests/pairs/test_pairs.py", *(name for number, name in sorted(found)[:8] if number)])]


@cache
def _uses() -> dict[str, set[str]]:
    """What each public view needs."""
    return {each.name: {*catalog.in_order([each.name])} for each in catalog.public_objects()}


def _first_failure(mutant: Mutant, folder: Path, arguments: list[str], *, is_named: bool) -> str:
    """The first test that fails, of the files that name what was changed or of all; an empty text if none does."""
    path = folder / mutant.path
    text = path.read_text()
    path.write_text(text[: mutant.start] + mutant.new + text[mutant.start + len(mutant.old) :])
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", *arguments]
    command = [sys.executable, "-m", "pytest", *options, *(_naming(mutant, folder) if is_named else [])]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=1800)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "more than 1800 s"
    finally:
        path.write_text(text)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    if done.returncode in (0, 5):
        return ""
    return failed[1] if failed else "no test ran: " + (done.stdout + done.stderr).strip().splitlines()[-1]


def main() -> int:
    """Run the mutants, print a line for each, and how many were found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="numbers of mutants, with commas")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--named", action="store_true", help="run no test but those that name what was changed")
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

        def run(numbered: tuple[int, Mutant], is_named: bool) -> bool:
            at, mutant = numbered
            folder = folders.get()
            try:
                failed = _first_failure(mutant, folder, options.tests, is_named=is_named)
            finally:
                folders.put(folder)
            if failed or not is_named or options.named:
                change = f"{mutant.path}:{mutant.line} {mutant.old} -> {mutant.new or 'nothing'}"
                print(f"{at:3} {change}: {'found by ' + failed if failed else 'NOT FOUND'}", flush=True)
            return bool(failed)

        with ThreadPoolExecutor(options.jobs) as pool:
            left = [each for each, found in zip(chosen, pool.map(partial(run, is_named=True), chosen), strict=True) if not found]  # fmt: skip
            others = 0 if options.named else sum(pool.map(partial(run, is_named=False), left))
    print(f"{len(chosen) - len(left) + others} of {len(chosen)} found")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
