"""Every capture against the Inspector: all columns, rows and their order.

The deliberate differences are in `test_dropin_differences`, with both answers.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from etq.choices import TimeScale
from etq.errors import QueryError
from etq.warehouse.ephemeral import open_ephemeral
from tests.parity import oracle
from tests.sampling import FEW, thinned

ALONE = "without_etrecord"
# Captures for which the Inspector raises.
RAISES = {
    "mlp_alloc": ("ValueError", "Unable to find populated event"),
    "mlp_debug5_diff": ("AssertionError", "Tensors Debug Data is different"),
    "mlp_debug_shortbin": ("ValueError", "buffer length"),
    "twins_debug": ("RuntimeError", "The size of tensor"),
}
# The Inspector counts some events of `mlp_wrap32` a tick short.
ANSWERED = [name for name in oracle.names(ALONE) if name not in (*RAISES, "mlp_wrap32")]
STATISTICS = ("p10", "p50", "p90", "avg", "min", "max")
QUERY = "FROM inspector_events($capture, unit := $unit, repeats := 'last')"


def assert_same(ours: dict[str, Any], theirs: dict[str, Any], factor: float = 1e-6) -> None:
    """Equal but for the rounding error of the Inspector for delegated events, whose start and end it scales separately."""
    where = f"{theirs['event_block_name']} / {theirs['event_name']}"
    is_scaled = theirs["delegate_debug_identifier"] is not None
    loss = 4 * math.ulp(max(theirs["start_time"]) * factor) if is_scaled else 0
    values = [([row[name] for name in STATISTICS], row["raw"] or []) for row in (ours, theirs)]
    for our, their in zip(*values, strict=True):
        for value, expected in zip(our, their, strict=True):
            if value is None or expected is None:
                assert value is expected is None, where
            else:
                assert math.isclose(value, expected, rel_tol=1e-12, abs_tol=loss), f"{where}: {value} != {expected}"


@pytest.mark.parametrize("name", thinned(ANSWERED, (*FEW, "maploop")))
def test_dataframe_and_blocks(name: str) -> None:
    blocks = oracle.answer(name, ALONE)["blocks"]
    warehouse, capture = open_ephemeral(oracle.capture_path(name))
    with warehouse:
        columns, rows = warehouse.rows(QUERY, capture=capture, unit="ms")
        in_blocks = warehouse.rows("SELECT name, events FROM event_blocks($capture)", capture=capture)[1]
    assert in_blocks == [(block["name"], block["n_events"]) for block in blocks]
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [row["instruction_id"] for row in found] == [event["instruction_id"] for event in oracle.events(name, ALONE)]
    for ours, theirs in zip(found, oracle.frame(name, ALONE), strict=True):
        identifier = theirs["delegate_debug_identifier"]
        expected = {
            **{name: theirs[name] for name in ("event_block_name", "event_name", "is_delegated_op")},
            "start_ticks": theirs["start_time"],
            "delegate_debug_identifier": None if identifier is None else str(identifier),
        }
        assert {name: ours[name] for name in expected} == expected
        assert (ours["raw"] is None) == (theirs["raw"] is None), theirs["event_name"]
        assert_same(ours, theirs)
        # Without an ETRecord, the Inspector has no values for these columns.
        assert (theirs["op_types"], theirs["stack_traces"], theirs["module_hierarchy"]) == ([], {}, {})
        assert theirs["delegate_backend_name"] is None


SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "cycles": 1.0}
TARGETS: dict[TimeScale, tuple[str, ...]] = {
    "ns": ("ms", "us", "ns", "s"), "us": ("ms", "ns"), "ms": ("s",), "s": ("ns",), "cycles": ("cycles",),
}  # fmt: skip


@pytest.mark.parametrize("source", thinned(TARGETS, ["ns", "cycles"]))
@pytest.mark.parametrize("name", thinned(oracle.names("time_scales"), ["demo_int"]))
def test_time_scales(name: str, source: TimeScale) -> None:
    # The recorded columns lack the ids of delegated events; their dataframe has the rows of the other answer.
    others = oracle.frame(name, ALONE)
    warehouse, capture = open_ephemeral(oracle.capture_path(name), time_scale=source)
    with warehouse:
        for target in TARGETS[source]:
            answer = oracle.answer(name, "time_scales")[f"{source.upper()}->{target.upper()}"]
            columns, rows = warehouse.rows(QUERY, capture=capture, unit=target)
            for row, theirs, other in zip(rows, oracle.rows(answer["dataframe"]), others, strict=True):
                ours = dict(zip(columns, row, strict=True))
                assert ours["unit"] == target
                event = {**other, **{name: theirs[name] for name in STATISTICS}, "raw": ours["raw"]}
                assert_same(ours, event, SECONDS[source] / SECONDS[target])


@pytest.mark.parametrize(("source", "target"), [("ns", "cycles"), ("cycles", "ms")])
def test_cycles_and_time_are_no_units_of_each_other(source: TimeScale, target: str) -> None:
    answer = oracle.answer("mlp", "time_scales")[f"{source.upper()}->{target.upper()}"]
    assert answer["construct"]["error_type"] == "RuntimeError"
    warehouse, capture = open_ephemeral(oracle.capture_path("mlp"), time_scale=source)
    with warehouse, pytest.raises(QueryError, match=f"mlp counts {source}, which cannot be converted to {target}"):
        warehouse.inspector_events(capture, unit=target).fetchall()


def test_where_the_inspector_raises_there_is_an_answer() -> None:
    for name, (kind, text) in RAISES.items():
        error = oracle.answer(name, ALONE)["construct"]
        assert not error["ok"] and error["error_type"] == kind and text in error["error"]
        warehouse, capture = open_ephemeral(oracle.capture_path(name))
        with warehouse:
            query = "SELECT p50 FROM inspector_events($capture) WHERE event_name = 'Method::execute'"
            assert any(p50 > 0 for (p50,) in warehouse.rows(query, capture=capture)[1])
