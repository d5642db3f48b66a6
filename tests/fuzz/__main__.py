"""Run many damaged files: `python -m tests.fuzz --count 100000 --jobs 1`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.inputs import SHARES, made
from tests.fuzz.runner import INGESTED, Plan, run, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed; each next has the next")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--kind", choices=SHARES, help="inputs of one kind alone")
    parser.add_argument("--ingested", type=int, default=INGESTED, help="one in so many is ingested, too")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the one input of --seed there, run nothing")
    given = parser.parse_args()
    if given.write is not None:
        return _write(given.seed, given.kind, given.write)
    report = run(Plan(given.seed, given.count, given.kind, given.ingested), given.jobs, watch=True)
    print(summary(report))
    return 1 if report.failures else 0


def _write(seed: int, kind: str | None, folder: Path) -> int:
    found = made(seed, kind)
    print("; ".join(found.edits))
    path = folder / f"{found.kind}-{seed}-{Path(found.original.name).name}"
    path.write_bytes(found.content)
    print(path)
    if found.beside is not None:
        path.with_suffix(".beside").write_bytes(found.beside)
    return 0


sys.exit(main())
