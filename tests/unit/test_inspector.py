"""The objects of the drop-in Inspector: behaviour that the recorded answers don't cover."""

from __future__ import annotations

import base64
import gc
import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from etq import EtqError
from etq.database.cursors import database_of
from etq.inspector import (
    Inspector,
    compare_results,
    parse_vgf_neural_statistics_delegate_metadata,
    parse_vgf_neural_statistics_metadata,
)
from etq.inspector.rows import CaptureQueries
from tests.builders import ProfileEvent, delegate_call, delegated, dump, execute, framework, run
from tests.conftest import CAPTURES

MLP = CAPTURES / "mlp/mlp.etdp"


def inspected(*runs: Any, **options: Any) -> Inspector:
    return Inspector(etdump_data=dump(*runs), **options)


def test_wrong_arguments_are_named() -> None:
    mlp = {"etdump_path": str(MLP)}
    for given, message in (
        ({}, "exactly one of etdump_path and etdump_data"),
        ({"etdump_path": "x", "etdump_data": b""}, "exactly one of etdump_path and etdump_data"),
        ({**mlp, "source_time_scale": "cycles"}, "cycles are not a unit of time"),
        ({**mlp, "target_time_scale": "minutes"}, "no time scale 'minutes'; known are ns, us"),
        ({**mlp, "etrecord": 3}, "expected an ETRecord's path or executorch's object, not a int"),
        ({"etdump_path": "missing.etdp"}, "missing.etdp: no such file"),
        ({**mlp, "debug_buffer_path": "missing.bin"}, "missing.bin: no such file"),
    ):
        with pytest.raises(EtqError, match=message):
            Inspector(**given)


def test_without_pandas_tables_name_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    made = Inspector(str(MLP))
    assert len(made.event_blocks) == 2
    for asked in (made.to_dataframe, made.print_data_tabular, made.event_blocks[0].to_dataframe):
        with pytest.raises(EtqError, match=r"pip install 'etq\[pandas\]'"):
            asked()


@pytest.mark.long
def test_counters_are_no_times() -> None:
    """A delegate's values that begin at 0 are counted in an unknown unit, as in SQL, and never stand under one of time."""
    call = delegate_call(start=10_000, end=20_000)
    counters = [ProfileEvent("c", 0, 0, number, None, None, 0, value) for number, value in ((7, 92_569), (8, 5_000))]
    events = [framework("Method::execute", start=0, end=30_000), call, *counters]
    made = inspected(run("Execute", *events), run("Execute", *events), target_time_scale="us")
    for _ in range(2):
        frame = made.to_dataframe()
        assert [*frame["other_unit"]] == [None, None, "unknown", "unknown"] and frame.columns[-1] == "other_unit"
        assert frame["avg (us)"].isna().tolist() == [False, False, True, True]
        assert [*frame["raw"]][1:] == [[10.0] * 2, [92_569.0] * 2, [5_000.0] * 2]
        assert [*made.to_dataframe(include_units=False)["avg"]] == [30.0, 10.0, 92_569.0, 5_000.0]
        assert made.event_blocks
    for options in ({"compat": True}, {"delegate_time_scale_converter": lambda name, ticks: ticks / 1000}):
        frame = inspected(run("Execute", *events), target_time_scale="us", **options).to_dataframe()
        assert "other_unit" not in frame and [*frame["avg (us)"]] == [30.0, 10.0, 92.569, 5.0]


def test_outputs_are_compared_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    # By hand: squares of the reference sum to 25, of the difference to 1; 10 log10 25 = 13.98; cosine 27 / (5 * 5.47...).
    reference, value = np.array([3.0, 4.0], np.float32), np.array([3.0, 5.0], np.float32)
    results = compare_results([reference, 1], [value, 2])
    assert results == {
        "snr": [13.98, None],
        "mse": [0.5, None],
        "cosine_similarity": [round(29 / (5 * math.sqrt(34)), 2), None],
    }
    dashes = "-" * 20
    assert capsys.readouterr().out == (
        f"snr\n{dashes}\n0    13.98000\n1           -\n\n\n"
        f"mse\n{dashes}\n0     0.50000\n1           -\n\n\n"
        f"cosine_similarity\n{dashes}\n0     0.99000\n1           -\n\n\n"
    )
    assert compare_results([reference], [reference], metrics=["snr"], plot=True) == {"snr": [math.inf]}
    with pytest.raises(EtqError, match="no reference output to compare"):
        compare_results(None, [value])
    with pytest.raises(EtqError, match=r"shapes \(2,\) and \(3,\)"):
        compare_results([reference], [np.zeros(3)])


def _statistics(**changed: Any) -> dict[str, Any]:
    blob = {"available": True, "encoding": "base64", "data": base64.b64encode(b"\x01\x02").decode()}
    segment = {"name": "s", "statistics_info": blob, "debug_database": {"available": False}}
    record = {"schema": "executorch.vgf.neural_statistics", "schema_version": 1, "segments": [segment]}
    return {**record, **changed}


def test_vgf_statistics() -> None:
    text = json.dumps(_statistics())
    for metadata in (text, text.encode(), bytearray(text.encode())):
        [segment] = parse_vgf_neural_statistics_metadata(metadata)["segments"]
        assert segment["statistics_info"]["raw_data"] == b"\x01\x02"
        assert segment["debug_database"] == {"available": False, "raw_data": b""}
    others = [b"", "", None, b"\xff", b"[1]", json.dumps({"schema": "another"})]
    assert len(parse_vgf_neural_statistics_delegate_metadata([*others, text])) == 1
    made = inspected(
        run("Execute", replace(delegated("a", 0, 1), delegate_debug_metadata=text.encode()), execute(0, 2))
    )
    assert [record["schema_version"] for record in made.get_vgf_neural_statistics()] == [1]
    assert Inspector(str(MLP)).get_vgf_neural_statistics() == []


@pytest.mark.long
def test_inspectors_have_databases_of_their_own() -> None:
    """All are in one instance of DuckDB, which frees those that are no longer used."""

    def made(is_demo: bool) -> Inspector:
        dump, record = ("demo_int/demo_int_debug", "demo_int/demo_int") if is_demo else ("mlp/mlp_debug5", "mlp/mlp")
        return Inspector(
            str(CAPTURES / f"{dump}.etdp"),
            etrecord=str(CAPTURES / f"{record}.etrecord"),
            debug_buffer_path=str(CAPTURES / f"{dump}.bin"),
        )

    def answers(inspector: Inspector) -> list[str]:
        frame = inspector.to_dataframe()
        return [frame.drop(columns="debug_data").to_csv(), str(inspector.find_total_for_module("L__self__"))]

    def database(inspector: Inspector) -> str:
        return database_of(inspector._queries.warehouse.connection)

    demo, mlp = made(True), made(False)
    of_demo, of_mlp, name = answers(demo), answers(mlp), database(demo)
    assert database(mlp) != name
    del demo
    gc.collect()
    again = made(False)
    assert answers(again) == of_mlp != of_demo
    found = again._queries.warehouse.rows("SELECT database_name FROM duckdb_databases()")[1]
    assert (database(again),) in found and (name,) not in found


@pytest.mark.long
def test_an_interrupted_call_can_be_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it was interrupted: before each of its queries."""
    given: dict[str, Any] = {
        "etrecord": CAPTURES / "mlp/mlp.etrecord",
        "debug_buffer_path": CAPTURES / "mlp/mlp_debug.bin",
    }
    asked = CaptureQueries.rows
    left = [10**9]

    def rows(queries: CaptureQueries, *query: Any, **parameters: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return asked(queries, *query, **parameters)

    def answer(made: Inspector) -> list[str]:
        blocks = [(block.name, block.events) for block in made.event_blocks]
        return [repr(blocks), made.to_dataframe().to_string(), repr(made.find_total_for_module("block1"))]

    monkeypatch.setattr(CaptureQueries, "rows", rows)
    made = Inspector(CAPTURES / "mlp/mlp_debug.etdp", **given)
    expected, needed = answer(made), 10**9 - left[0]
    assert needed > 5
    made = Inspector(CAPTURES / "mlp/mlp_debug.etdp", **given)
    for at in range(1, needed):
        left[0] = at
        try:
            answer(made)
        except KeyboardInterrupt:
            continue
        break
    left[0] = 10**9
    assert answer(made) == expected
