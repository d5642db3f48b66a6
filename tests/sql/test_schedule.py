"""`schedule` against torch.profiler's, as its documentation words it."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from tests.sampling import examples

SMALL = st.integers(0, 4)


def by_the_book(
    step: int, wait: int, warmup: int, active: int, repeat: int, skip_first: int, skip_first_wait: int
) -> str:
    """Walk from step 0: skip, then cycles of wait, warm-up and active steps, the first perhaps without its wait."""
    phases = ["NONE"] * skip_first
    cycle = 0
    while len(phases) <= step:
        if repeat and cycle >= repeat:
            return "NONE"
        phases += [] if cycle == 0 and skip_first_wait else ["NONE"] * wait
        phases += ["WARMUP"] * warmup + ["RECORD"] * (active - 1) + ["RECORD_AND_SAVE"]
        cycle += 1
    return phases[step]


@examples(60)
@given(SMALL, SMALL, st.integers(1, 4), SMALL, SMALL, st.integers(0, 1))
def test_every_step(wait: int, warmup: int, active: int, repeat: int, skip_first: int, skip_first_wait: int) -> None:
    with etq.open() as warehouse:
        rows = warehouse.sql(
            """SELECT s.step, schedule(s.step, wait := $wait, warmup := $warmup, active := $active, repeat := $repeat,
                   skip_first := $skip_first, skip_first_wait := $skip_first_wait)
               FROM range(40) AS s(step) ORDER BY s.step""",
            wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first, skip_first_wait=skip_first_wait,
        ).fetchall()  # fmt: skip
    for step, action in rows:
        assert action == by_the_book(step, wait, warmup, active, repeat, skip_first, skip_first_wait)


@pytest.mark.parametrize("bad", ["wait := -1", "active := 0", "repeat := -1", "skip_first := -2", "warmup := -1"])
def test_bad_settings_are_refused(bad: str) -> None:
    with etq.open() as warehouse, pytest.raises(duckdb.Error, match="a schedule needs"):
        warehouse.sql(f"SELECT schedule(1, {bad})").fetchall()
