"""Runs of a phase: chosen among by every view that chooses runs."""

from __future__ import annotations

import duckdb
import pytest

import etq
from etq import catalog
from etq.warehouse import Warehouse
from tests.builders import dump, framework, kernel, run
from tests.conftest import CAPTURES

SCHEDULED = [each for each in catalog.public_objects() if any(p.name == "skip_first" for p in each.parameters)]


@pytest.mark.parametrize("macro", SCHEDULED, ids=[each.name for each in SCHEDULED])
def test_what_takes_a_schedule_takes_a_phase(macro: catalog.SqlObject) -> None:
    if macro.kind == "table macro":
        assert [(each.name, each.default) for each in macro.parameters][-1] == ("phase", "NULL")


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
        return [row[1] for row in rows]

    assert executes() == [100, 11, 12, 13, 14]
    assert executes(phase="prefill") == [100]
    assert executes(phase="decode") == [11, 12, 13, 14]
    # Of the five Executes, the first two are left out: of the decode runs one.
    assert executes(phase="decode", skip_first=2) == [12, 13, 14]
    assert executes(phase="other") == []
    totals = warehouse.op_totals("run", unit="ns", phase="decode").fetchall()
    assert [(row[0], row[3], row[4], row[8]) for row in totals] == [
        ("add", 4, 46, 92),
        ("(unattributed)", 4, 4, 8),
    ]


def test_an_unknown_phase_is_an_error(warehouse: Warehouse) -> None:
    warehouse.ingest(generation(), name="run")
    with pytest.raises(duckdb.Error, match="no phase 'decoding'; known are load, prefill, decode, other"):
        warehouse.op_totals("run", phase="decoding").fetchall()


def test_a_baseline_is_of_the_phase_too(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "convnet/convnet_100runs.etdp", name="run")
    warehouse.ingest(CAPTURES / "convnet/convnet_method_only.etdp", name="untraced")
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE capture_id = 1 AND run_index > 90")
    with pytest.raises(duckdb.Error, match="no execute of the baseline untraced is of phase decode; say which are"):
        warehouse.framework_tax("run", baseline="untraced", phase="decode").fetchall()
    warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE capture_id = 2 AND run_index = 3")
    [alone] = warehouse.framework_tax("untraced", phase="decode").fetchall()
    row = warehouse.framework_tax("run", baseline="untraced", phase="decode").fetchall()[0]
    assert row[1] - row[5] == pytest.approx(alone[1], rel=1e-12)


def test_phases_stay_when_a_file_is_read_again() -> None:
    path = CAPTURES / "mlp/mlp.etdp"
    with etq.open() as warehouse:
        warehouse.ingest(path, name="run")
        warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index = 2")
        warehouse.connection.execute("INSERT INTO metrics VALUES (1, NULL, 'battery', 50, '%', NULL, 0, NULL)")
        warehouse.ingest(path, clock_bits=32)
        assert warehouse.sql("SELECT run_index FROM runs WHERE phase = 'decode'").fetchall() == [(2,)]
        assert warehouse.sql("SELECT name, value FROM metrics").fetchall() == [("battery", 50)]
