"""`schedule` against torch.profiler's, as its documentation words it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, framework, run
from tests.sampling import examples
from tests.warehouses import empty_warehouse

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
    with empty_warehouse() as warehouse:
        rows = warehouse.rows(
            """SELECT s.step, schedule(s.step, wait := $wait, warmup := $warmup, active := $active, repeat := $repeat,
                   skip_first := $skip_first, skip_first_wait := $skip_first_wait)
               FROM range(40) AS s(step) ORDER BY s.step""",
            wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first, skip_first_wait=skip_first_wait,
        )[1]  # fmt: skip
    for step, action in rows:
        assert action == by_the_book(step, wait, warmup, active, repeat, skip_first, skip_first_wait)


def test_bad_settings_are_refused(warehouse: Warehouse) -> None:
    for bad in ("wait := -1", "active := 0", "repeat := -1", "skip_first := -2", "warmup := -1"):
        with pytest.raises(QueryError, match="a schedule needs"):
            warehouse.rows(f"SELECT schedule(1, {bad})")


NUMBERS = {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 3, "skip_first_wait": 1}


def test_steps_are_a_schedule(warehouse: Warehouse) -> None:
    query = "SELECT s.step, _is_recorded(s.step, NULL, $steps, NULL) FROM range(40) AS s(step) ORDER BY s.step"
    every = ",".join(f"{key}={number}" for key, number in NUMBERS.items())
    for steps in ("skip_first=1", "active=2,wait=3", " skip_first_wait = 1 , wait= 2,  active =1 ", every):
        numbers = {key.strip(): int(number) for key, number in (pair.split("=") for pair in steps.split(","))}
        given = dict.fromkeys(NUMBERS, 0) | {"active": 1} | numbers
        for step, is_recorded in warehouse.rows(query, steps=steps)[1]:
            assert is_recorded == by_the_book(step, **given).startswith("RECORD"), steps
    assert {row[1] for row in warehouse.rows(query, steps=None)[1]} == {True}


@pytest.mark.long
def test_bad_steps_are_refused(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(run("Execute", framework("Method::execute", start=0, end=9))), name="run")
    no_list = "|skip_first|skip_first=|skip_first=one|skip_first=1.5|skip_first=1;active=2|skipfirst=1|step=1".split(
        "|"
    )
    no_list += "wait=1,|,wait=1|wait=1,,active=1|WAIT=1|wait=9999999999".split("|")
    bad = {
        text: f"steps: '{text}' is not a list of key=number pairs; write them as in 'skip_first=" for text in no_list
    }
    bad |= dict.fromkeys(("active=0", "wait=-1", "wait=1,skip_first=-2"), "a schedule needs step, wait, warmup")
    bad["wait=1,active=2,wait=1"] = "steps: 'wait=1,active=2,wait=1' repeats a key; write each key once"
    for steps, message in bad.items():
        for view in ("op_totals", "run_times", "inspector_events") if steps == "active=0" else ("run_times",):
            with pytest.raises(QueryError) as raised:
                warehouse.rows(f"FROM {view}('run', steps := $steps)", steps=steps)
            assert message in str(raised.value)
