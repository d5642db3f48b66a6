"""Runs of a phase: chosen among by every view that chooses runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import theilslopes

import etq
from etq import catalog
from etq.errors import ArgumentError, QueryError
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, framework, kernel, run
from tests.conftest import CAPTURES
from tests.unit.test_metrics_reader import GENERATION, log
from tests.warehouses import empty_warehouse


def test_views_with_a_schedule_have_a_phase() -> None:
    with_steps = [each for each in catalog.public_objects() if any(p.name == "steps" for p in each.parameters)]
    tables = [each for each in with_steps if each.kind == "table macro"]
    lack = [each.name for each in tables if ("phase", "NULL") not in [(p.name, p.default) for p in each.parameters]]
    assert tables and lack == []


def generation() -> bytes:
    """A prompt of 100 ticks, then four tokens of 11, 12, 13 and 14."""
    return dump(
        run("Default", framework("Program::load_method", start=0, end=500)),
        *[
            run("Execute", kernel("add", start=0, end=ticks - 1), framework("Method::execute", start=0, end=ticks))
            for ticks in (100, 11, 12, 13, 14)
        ],
    )


def test_a_phase_restricts_and_steps_count_all_runs_of_a_name(warehouse: Warehouse) -> None:
    warehouse.ingest(generation(), name="run")
    warehouse.connection.execute(
        "UPDATE runs SET phase = CASE run_index WHEN 0 THEN 'load' WHEN 1 THEN 'prefill' ELSE 'decode' END"
    )

    def executes(**chosen: object) -> list[float]:
        rows = warehouse.framework_tax("run", unit="ns", **chosen).fetchall()  # type: ignore[arg-type]
        return [row[2] for row in rows]

    assert executes() == [100, 11, 12, 13, 14]
    assert executes(phase="prefill") == [100]
    assert executes(phase="decode") == [11, 12, 13, 14]
    # `skip_first` leaves out the first two of the five executes; one of these is a decode run.
    assert executes(phase="decode", steps="skip_first=2") == [12, 13, 14]
    assert executes(phase="other") == []
    totals = warehouse.op_totals("run", unit="ns", phase="decode").fetchall()
    assert [(row[0], row[4], row[5], row[9]) for row in totals] == [("add", 4, 46, 92), ("(unattributed)", 4, 4, 8)]


def test_an_unknown_phase_is_an_error(unchanged: Warehouse) -> None:
    with pytest.raises(QueryError, match="unknown phase 'decoding'; known are load, prefill, decode, mixed, other"):
        unchanged.op_totals("llm", phase="decoding").fetchall()


def test_a_baseline_is_of_the_phase_too(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "convnet/convnet_100runs.etdp", name="run")
    warehouse.ingest(CAPTURES / "convnet/convnet_method_only.etdp", name="untraced")
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE capture_id = 1 AND run_index > 90")
    with pytest.raises(
        QueryError,
        match="no execute of the baseline untraced is of phase decode; set the phases with etq label --phase",
    ):
        warehouse.framework_tax("run", baseline="untraced", phase="decode").fetchall()
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE capture_id = 2 AND run_index = 3")
    [alone] = warehouse.framework_tax("untraced", phase="decode").fetchall()
    row = warehouse.framework_tax("run", baseline="untraced", phase="decode").fetchall()[0]
    assert row[2] - row[6] == pytest.approx(alone[2], rel=1e-12)


def test_phases_stay_when_a_file_is_read_again() -> None:
    path = CAPTURES / "mlp/mlp.etdp"
    with empty_warehouse() as warehouse:
        warehouse.ingest(path, name="run")
        warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index = 2")
        warehouse.connection.execute("INSERT INTO metrics VALUES (1, NULL, 'battery', 50, '%', NULL, 0, NULL)")
        warehouse.ingest(path, clock_bits=32)
        assert warehouse.rows("SELECT run_index FROM runs WHERE phase = 'decode'")[1] == [(2,)]
        assert warehouse.rows("SELECT name, value FROM metrics")[1] == [("battery", 50)]


@pytest.fixture
def llm(warehouse: Warehouse) -> Warehouse:
    """A warehouse with the generation above."""
    warehouse.ingest(generation(), name="llm")
    return warehouse


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Warehouse]:
    """The same, not to be written to."""
    with empty_warehouse() as warehouse:
        warehouse.ingest(generation(), name="llm")
        yield warehouse


def phases(warehouse: Warehouse) -> list[str | None]:
    rows = warehouse.rows("SELECT r.phase FROM runs AS r WHERE r.capture_id = 1 ORDER BY r.run_index")[1]
    return [phase for (phase,) in rows]


@pytest.mark.long
def test_phases_are_set_by_number_and_rule(llm: Warehouse) -> None:
    assert llm.phase("llm", "load", name="Default") == 1
    assert llm.phase("llm", "other", name="Execute") == 5
    assert llm.phase("llm", "decode", runs="2-", name="Execute") == 4
    assert llm.phase("llm", "prefill", runs=[1]) == 1
    assert phases(llm) == ["load", "prefill", "decode", "decode", "decode", "decode"]
    assert llm.phase("llm", None, runs="0,3-4") == 3
    assert phases(llm) == [None, "prefill", "decode", None, None, "decode"]


def test_phases_are_set_by_method(warehouse: Warehouse) -> None:
    record = CAPTURES / "multimethod/multimethod.etrecord"
    capture = warehouse.ingest(record.with_suffix(".etdp"), name="several", etrecord=record)
    methods = dict(warehouse.rows("SELECT r.method, count(*) FROM runs AS r WHERE r.method NOT NULL GROUP BY 1")[1])
    method, count = sorted(methods.items())[0]
    assert warehouse.phase(capture, "prefill", method=method) == count
    chosen = warehouse.rows("SELECT DISTINCT r.method FROM runs AS r WHERE r.phase = 'prefill'")[1]
    assert chosen == [(method,)]


def test_missing_runs(unchanged: Warehouse) -> None:
    missing: list[tuple[dict[str, Any], str]] = [
        ({}, "a phase applies to runs: give their numbers, their name or their method"),
        ({"runs": "1-6"}, "no run 6: the capture has 6 runs, counted from 0"),
        ({"runs": "9-"}, "no run 9"),
        ({"runs": [-1]}, "no run -1"),
        ({"runs": "3-1"}, "'3-1' are not runs: 3-1 ends before it begins"),
        ({"runs": "1;2"}, "'1;2' are not runs: give numbers from 0 and ranges, such as 0, 1-39,45 or 40-"),
        ({"runs": ""}, "'' are not runs"),
        ({"name": "Run"}, "no run has the name 'Run'; there are Default, Execute"),
        ({"method": "x"}, "no run has the method 'x'; there are none; link a record or program, which name methods"),
        ({"runs": "0", "name": "Execute"}, "no run is chosen by all of this together"),
    ]
    for given, message in missing:
        with pytest.raises(ArgumentError, match=message):
            unchanged.phase("llm", "decode", **given)
    with pytest.raises(ArgumentError, match="no phase 'decoding'; known are load, prefill, decode, mixed, other"):
        unchanged.phase("llm", "decoding", runs="1")
    assert set(phases(unchanged)) == {None}


# Tokens of prompts and generated ones, and phases of five executes: the prompt in one run, and a run a token; the first
# token out of the prompt's run; a token of the prompt a run, and the same; and two generations.
COUNTED = [
    ([(9, 4)], "PDDDD"), ([(9, 5)], "PDDDD"), ([(3, 2)], "PPPDD"), ([(4, 2)], "PPPPD"), ([(1, 4)], "PDDDD"),
    ([(9, 1), (9, 2)], "PDPDD"), ([(2, 1), (1, 1)], "PPDPD"), ([(9, 1), (9, 1), (8, 3)], "PPPDD"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("tokens", "expected"), COUNTED)
def test_phases_by_counted_tokens(llm: Warehouse, tokens: list[tuple[int, int]], expected: str) -> None:
    counted = [{**GENERATION, "prompt_tokens": prompt, "generated_tokens": made} for prompt, made in tokens]
    llm.ingest_metrics("llm", log(*counted))
    output = llm.phases_from_metrics("llm")
    assert phases(llm) == ["load", *({"P": "prefill", "D": "decode"}[each] for each in expected)]
    assert output == {"load": 1, "prefill": expected.count("P"), "decode": expected.count("D")}


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (
            [],
            "llm has no prompt_tokens and generated_tokens; read them from the log of its runner: etq label llm --metrics",
        ),
        (
            [(9, 114)],
            "5 runs of llm execute, which doesn't fit the 9 tokens of prompts and 114 generated in 1 generations, which "
            "take 114, 115, 122, 123 runs; set the phases: etq label llm --phase decode --runs FIRST-LAST",
        ),
        (
            [(9, 2**63 - 1)],
            "5 runs of llm execute, which doesn't fit the 9 tokens of prompts and 9223372036854775808 generated in 1 "
            "generations, which take 9223372036854775808 runs; set the phases",
        ),
        ([(2, 4)], "5 runs of llm execute, which fits in more than one way the 2 tokens of prompts and 4 generated"),
    ],
)
def test_tokens_that_do_not_fit_set_no_phases(llm: Warehouse, tokens: list[tuple[int, int]], message: str) -> None:
    for prompt, made in tokens:
        llm.ingest_metrics("llm", log({**GENERATION, "prompt_tokens": prompt, "generated_tokens": made}))
    with pytest.raises(etq.WarehouseError, match=message):
        llm.phases_from_metrics("llm")
    assert set(phases(llm)) == {None}


def test_tokens_of_two_files_set_no_phases(llm: Warehouse) -> None:
    for made in (1, 2):
        llm.ingest_metrics("llm", log({**GENERATION, "prompt_tokens": 9, "generated_tokens": made}))
    with pytest.raises(etq.WarehouseError, match="llm has token counts from more than one file; set the phases"):
        llm.phases_from_metrics("llm")


def test_phase_totals(llm: Warehouse) -> None:
    llm.phase("llm", "decode", runs="2-4")
    llm.phase("llm", "load", runs="0")
    assert llm.phase_totals("llm", unit="ns").fetchall() == [
        ("load", 1, 0, 0, 0, None, None, None, None, "ns"),
        (None, 2, 1, 5, 2, 114.0, 57.0, 14.0, 100.0, "ns"),
        ("decode", 3, 2, 4, 3, 36.0, 12.0, 11.0, 13.0, "ns"),
    ]


@pytest.mark.long
def test_the_trend_of_tokens(llm: Warehouse) -> None:
    with pytest.raises(
        QueryError, match="no run of llm is of phase decode; set the phases: etq label llm --phase decode --runs"
    ):
        llm.decode_trend("llm").fetchall()
    llm.phase("llm", "prefill", runs="1")
    llm.phase("llm", "decode", runs="2-")
    # 11, 12, 13, 14: each token takes one tick more than the one before it, exactly.
    rows = llm.decode_trend("llm", unit="ns").fetchall()
    assert [row[:4] for row in rows] == [(0, position, 2 + position, 11.0 + position) for position in range(4)]
    for row in rows:
        assert row[4:7] == pytest.approx((1, 11, 1), rel=1e-12)
        assert row[7] == "ns"
    # Positions start again after each prompt. Runs without a phase are left out.
    llm.phase("llm", "prefill", runs="1,4")
    llm.phase("llm", None, runs="2")
    rows = llm.decode_trend("llm", unit="ns").fetchall()
    assert [row[:4] for row in rows] == [(0, 0, 3, 12.0), (1, 0, 5, 14.0)]
    assert [row[4:7] for row in rows] == [(None, None, None)] * 2


def test_the_trend_is_scipys_theil_sen_line(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="run")
    warehouse.phase("run", "decode", runs="2-")
    rows = warehouse.decode_trend("run", unit="us").fetchall()
    executes = {row[0]: row[2] for row in warehouse.framework_tax("run", unit="us").fetchall()}
    assert [(row[2], row[3]) for row in rows] == [(run, executes[run]) for run in range(2, 101)]
    values = [row[3] for row in rows]
    slope, intercept, *_ = theilslopes(values, range(99), method="joint")
    signs = [np.sign(values[j] - values[i]) for i in range(99) for j in range(i + 1, 99)]
    assert rows[0][4:7] == pytest.approx((slope, intercept, np.mean(signs)), rel=1e-9)
