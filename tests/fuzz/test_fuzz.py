"""Damaged files are either read or refused: some new ones, and all that once caused a fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from etq.errors import FormatError, WarehouseError
from tests.fuzz import checks
from tests.fuzz.inputs import SHARES, Input, made
from tests.fuzz.originals import corpus, originals
from tests.fuzz.runner import Plan, run, summary
from tests.sampling import IS_WHOLE

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lab() -> Iterator[checks.Lab]:
    opened = checks.Lab()
    yield opened
    opened.close()


def test_damaged_files_are_read_or_refused() -> None:
    count = 2000 if IS_WHOLE else 200
    report = run(Plan(0, count, ingested=11 if IS_WHOLE else 6), jobs=1)
    # If other tests run at the same time, any input may be slow.
    assert [each for each in report.failures if not each.get("is_slow")] == [], summary(report)
    assert sum(report.counts[f"{kind} inputs"] for kind in SHARES) == count
    for kind in SHARES:
        inputs, read, ingested = (report.counts[f"{kind} {what}"] for what in ("inputs", "read", "ingested"))
        assert 0 < read < inputs and ingested, f"of {kind} some are read, others refused: {summary(report)}"


def test_inputs_that_once_failed(lab: checks.Lab) -> None:
    for original in corpus():
        given = Input(original.kind, original, original.content, original.beside, ())
        refusal = checks.read(given)
        for way in (2, 3):
            stored = lab.check(given, way)
            # An invalid label is refused only when it is stored.
            assert (stored is None) == (refusal is None) or "captured_at" in str(stored), original.name


@pytest.mark.parametrize("kind", SHARES)
def test_originals_are_read(kind: str) -> None:
    for original in originals(kind)[:: 1 if IS_WHOLE else 4]:
        with suppress(checks.SlowError):
            given = Input(kind, original, original.content, original.beside, ())
            assert checks.read(given) is None, original.name
    assert len({made(seed, kind).content for seed in range(20)}) > 10 and made(1, kind) == made(1, kind)


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
