"""What advice says of drawn files is true, and the checks find what is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.drawn.cases import answers, case, judge, within_process
from tests.drawn.checks import Row
from tests.sampling import IS_WHOLE

FAST = 4
LONG = range(FAST, 300) if IS_WHOLE else (*range(FAST, 20), *range(20, 300, 28))
SEEDS = [*range(FAST), *(pytest.param(seed, marks=pytest.mark.long) for seed in LONG)]


@pytest.mark.parametrize("seed", SEEDS)
def test_advice_is_true(seed: int, tmp_path: Path) -> None:
    drawn = case(seed)
    verdict = judge(drawn, answers(drawn, tmp_path, within_process))
    assert (verdict.false, verdict.missed) == ([], []), verdict.what


def _longer(row: Row) -> None:
    row["time_at_stake"] *= 3


def _other_share(row: Row) -> None:
    row["share_percent"] = row["share_percent"] / 3 + 1


def _other_cause(row: Row) -> None:
    row["finding"] = "Device 0 waits for input data."


def _other_remedy(row: Row) -> None:
    row["remedy"] = "Set num_workers and pin_memory of DataLoader."


def _more_words(row: Row) -> None:
    row["finding"] += " The moon is full."


IDLE: dict[str, Any] = {
    "rule": "device idle", "severity": "high", "unit": "us",
    "evidence": "", "remedy": "",
    "finding": "Device 0 idles outside of steps, where nothing of a step is recorded.",
}  # fmt: skip


@pytest.mark.parametrize("change", [_longer, _other_share, _other_cause, _other_remedy, _more_words])
def test_false_sentences_are_found(change: Callable[[Row], None], tmp_path: Path) -> None:
    """A true finding about a file with pauses, and what it becomes."""
    drawn = case(2)  # pauses of a device that idles in nothing else
    row = dict(IDLE, **dict(zip(("time_at_stake", "share_percent"), _pauses(2), strict=True)))
    assert drawn.false_parts(0, row) == []
    change(row)
    assert drawn.false_parts(0, row)


def _pauses(seed: int) -> Iterator[float]:
    """The pauses of a file in microseconds, and in percent of the device's time: from its events alone."""
    events = json.loads(case(seed).files[0][1])["traceEvents"]
    work = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "kernel")
    steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("denoise_step"))
    idle = 0.0
    for (_, begin), (end, _) in pairwise(steps):
        last = max(b for a, b in work if a < end)
        idle += max(0.0, end - max(begin, last))
    yield idle
    yield 100 * idle / (work[-1][1] - work[0][0])


def test_missed_problems_are_found() -> None:
    assert case(2).missed(0, [])[0].startswith("pause: ")
    assert "a failed run" in case(12).missed(0, [])
