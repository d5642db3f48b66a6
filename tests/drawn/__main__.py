"""Draw files, ask etq for advice about them, and print what is false: python -m tests.drawn --seeds 0:300."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

from tests.drawn.cases import answers, by_command, case, judge, within_process


def main() -> int:
    """Print false sentences, missed problems and unchecked texts; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:300", help="first and end, or one")
    parser.add_argument("--etq", help="the command of another etq (default: this one, in this process)")
    parser.add_argument("--keep", type=Path, help="write what was found to this file, as lines of JSON")
    parser.add_argument("--write", type=Path, help="write the files to this folder")
    parser.add_argument("--all", action="store_true", help="list seeds without faults, too")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    ask = by_command(given.etq) if given.etq else within_process
    said: Counter[str] = Counter()
    false: Counter[str] = Counter()
    missed = 0
    kept = given.keep.open("w") if given.keep else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.write or Path(temporary)
        folder.mkdir(exist_ok=True, parents=True)
        for seed in range(int(first), int(end or int(first) + 1)):
            drawn = case(seed)
            verdict = judge(drawn, answers(drawn, folder, ask))
            said += verdict.findings
            false.update(rule for rule, _ in verdict.false)
            missed += len(verdict.missed)
            if given.all or verdict.false or verdict.missed:
                print(f"{seed} ({verdict.what})", *(f"    {rule}: {why}" for rule, why in verdict.false),
                      *(f"    missed: {each}" for each in verdict.missed), sep="\n", flush=True)  # fmt: skip
            if kept:
                kept.write(json.dumps(vars(verdict)) + "\n")
    print("\nfalse of all findings, by rule:")
    for rule in sorted({*said, *false}):
        print(f"    {rule}: {false[rule]} of {said[rule]}")
    print(
        f"{sum(false.values())} of {sum(said.values())} findings are false or unchecked, {missed} problems are missed"
    )
    return int(bool(sum(false.values()) or missed))


if __name__ == "__main__":
    raise SystemExit(main())
