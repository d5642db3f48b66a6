"""Damaged files are either read or refused: some new ones, and all that once caused a fault."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from etq.errors import FormatError, WarehouseError
from tests.fuzz import checks, runner
from tests.fuzz.inputs import SHARES, Input, made
from tests.fuzz.originals import Original, corpus, originals
from tests.fuzz.runner import Plan, run, summary
from tests.sampling import IS_WHOLE

CHILD = """
import json, os, sys
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    os.write(1, json.dumps({"at": seed}).encode() + b"\\\\n")
    if seed == 2:
        os.abort()
    while seed == 4:
        pass
    if seed == 5 and int(sys.argv[2]) == 2000 or seed == 6:
        print(json.dumps({"failure": "takes 9 s", "seed": seed, "is_slow": True}), flush=True)
os.write(1, json.dumps({"counts": {"x inputs": 1}, "refusals": {}, "slowest": [0, 1], "largest": 1}).encode() + b"\\\\n")
""".replace("\\\\", "\\")


@pytest.fixture(scope="module")
def lab() -> Iterator[checks.Lab]:
    opened = checks.Lab()
    yield opened
    opened.close()


@pytest.mark.long
def test_damaged_files_are_read_or_refused() -> None:
    count = 2000 if IS_WHOLE else 350
    report = run(Plan(0, count, ingested=11 if IS_WHOLE else 3), jobs=1)
    # If other tests run at the same time, any input may be slow.
    assert [each for each in report.failures if not each.get("is_slow")] == [], summary(report, False)
    assert sum(report.counts[f"{kind} inputs"] for kind in SHARES) == count
    for kind in SHARES:
        inputs, read, ingested = (report.counts[f"{kind} {what}"] for what in ("inputs", "read", "ingested"))
        assert 0 < read < inputs and ingested, f"of {kind} some are read, others refused: {summary(report, False)}"


@pytest.mark.parametrize("original", corpus(), ids=lambda each: each.name)
def test_inputs_that_once_failed(original: Original, lab: checks.Lab) -> None:
    given = Input(original.kind, original, original.content, original.beside, ())
    refusal = checks.read(given)
    for way in (1, 2, 3):
        stored = lab.check(given, way)
        # An invalid label is refused only when it is stored.
        assert (stored is None) == (refusal is None) or "captured_at" in str(stored)


@pytest.mark.parametrize("kind", SHARES)
def test_originals_are_read_and_a_seed_makes_the_same_input(kind: str) -> None:
    for original in originals(kind):
        assert checks.read(Input(kind, original, original.content, original.beside, ())) is None, original.name
    for seed in range(5):
        assert made(seed, kind) == made(seed, kind)
    assert len({made(seed, kind).content for seed in range(20)}) > 10


def test_crashes_and_hangs_name_their_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child crashes at 2, hangs at 4, is slow once at 5 and always at 6."""
    monkeypatch.setattr(runner, "HANGS", 0.5)
    report = run(Plan(0, 2000, child=(sys.executable, "-c", CHILD)), jobs=1)
    found = {each["seed"]: each["failure"] for each in report.failures}
    assert sorted(found) == [2, 4, 6]
    assert (
        found[2].startswith("the process ended with -6") and found[4].startswith("hangs: ") and found[6] == "takes 9 s"
    )


def test_faults_are_seen(lab: checks.Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks find rows left over, errors that are not refusals, texts that can't be shown, and slow inputs."""
    good = originals("etdump")[0]
    given = Input("etdump", good, good.content, None, ())
    with monkeypatch.context() as patch:
        patch.setattr(checks.Lab, "clear", lambda self: None)
        with pytest.raises(checks.FaultError, match="taking a file out again leaves something in .*event_ticks"):
            lab.check(given, 0)
    lab.clear()
    assert lab.check(given, 0) is None
    with pytest.raises(checks.FaultError, match="tells of another fault"):
        checks.refused(WarehouseError("memory: Out of Memory Error: failed to allocate data"))
    assert checks.refused(FormatError("f", "x\x1b[2J")).endswith("x\\x1b[2J")
    assert not checks.is_harmless("a\x1b") and not checks.is_harmless("a\u202e") and checks.is_harmless("ü\u200d")
    monkeypatch.setattr(checks, "MOST_SECONDS", 0.0)
    with pytest.raises(checks.SlowError, match="reading takes"):
        checks.read(given)
