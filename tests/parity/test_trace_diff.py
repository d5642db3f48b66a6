"""The differences of two traces are those of HolisticTraceAnalysis 0.5.0, whose answers `make_hta` made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.warehouses import empty_warehouse

FOLDER = CAPTURES / "torch_diff"
CHANGES = {"+": {"added", "more calls"}, "-": {"removed", "fewer calls"}, "=": {"same"}}


@pytest.fixture(scope="module")
def traces() -> Iterator[Warehouse]:
    with empty_warehouse() as opened:
        opened.ingest_many(sorted(FOLDER.glob("*.pt.trace.json.gz")))
        yield opened


def answers() -> list[tuple[str, dict[str, Any]]]:
    read = oracle.read(FOLDER / "trace_diff.json.gz")
    return [(name, each) for name, given in read.items() for each in given]


@pytest.mark.long
def test_equal_to_holistic_trace_analysis(traces: Warehouse) -> None:
    """Counts, durations, and what was added or removed: for each step, and for all."""
    compared = 0
    for name, answer in answers():
        steps = answer["steps"]
        schedule = None if len(steps) > 1 else f"skip_first={steps[0]},active=1,repeat=1"
        query = """
            SELECT name, base_calls, new_calls, base_time, new_time, change
            FROM trace_diff('base', $new, unit := 'us', steps := $steps)
            WHERE is_device = $is_device AND name <> 'ProfilerStep*'
        """
        given = {"new": name, "steps": schedule, "is_device": answer["device"] == "GPU"}
        found = {row[0]: row[1:] for row in traces.rows(query, **given)[1]}
        expected = {row["name"]: row for row in answer["rows"] if not row["name"].startswith("ProfilerStep#")}
        assert set(found) == set(expected)
        for op, (base_calls, new_calls, base_time, new_time, change) in found.items():
            row = expected[op]
            assert (base_calls, new_calls) == (row["base_counts"], row["new_counts"])
            assert (base_time, new_time) == (row["base_total_duration"], row["new_total_duration"])
            assert change in CHANGES[row["counts_change_categories"]]
            compared += 1
    assert compared > 150


def test_steps_and_other_captures(traces: Warehouse) -> None:
    query = "SELECT base_calls, new_calls, change FROM trace_diff('base', 'calls') WHERE name = $name"
    assert traces.rows(query, name="ProfilerStep*")[1] == [(2, 2, "same")]
    assert traces.rows(query, name="aten::relu")[1] == [(4, 6, "more calls")]
    traces.ingest(CAPTURES / "mlp" / "mlp_1run.etdp", name="dump")
    with pytest.raises(etq.QueryError, match="dump is of format etdump; name two PyTorch traces"):
        traces.rows("FROM trace_diff('base', 'dump')")
