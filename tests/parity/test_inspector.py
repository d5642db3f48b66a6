"""Every capture against the Inspector: all columns, rows and their order.

Each deliberate difference is a separate test below, which has both answers.
"""

from __future__ import annotations

import math
from typing import Any

import duckdb
import pytest

from etq import FormatError
from etq.choices import TimeScale
from etq.warehouse.ephemeral import open_ephemeral
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

# Captures for which the Inspector raises; the tests below have etq's answers.
RAISES = {
    "mlp_alloc": ("ValueError", "Unable to find populated event"),
    "mlp_debug5_diff": ("AssertionError", "Tensors Debug Data is different"),
    "mlp_debug_shortbin": ("ValueError", "buffer length"),
    "twins_debug": ("RuntimeError", "The size of tensor"),
}
ANSWERED = [name for name in oracle.names("without_etrecord") if name not in RAISES]
WRAPPED = "mlp_wrap32"


def our_rows(name: str, unit: str = "ms", repeats: str = "last") -> list[dict[str, Any]]:
    warehouse, capture = open_ephemeral(oracle.capture_path(name), ["inspector_events"])
    with warehouse:
        query = "FROM inspector_events($capture, unit := $unit, repeats := $repeats)"
        columns, rows = warehouse.rows(query, capture=capture, unit=unit, repeats=repeats)
        return [dict(zip(columns, row, strict=True)) for row in rows]


def their_rows(dataframe: dict[str, Any]) -> list[dict[str, Any]]:
    columns = [column.split(" ")[0] for column in dataframe["columns"]]
    return [dict(zip(columns, row, strict=True)) for row in dataframe["rows"]]


def assert_same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    assert [row["event_name"] for row in ours] == [row["event_name"] for row in theirs]
    for our, their in zip(ours, theirs, strict=True):
        where = f"{their['event_block_name']} / {their['event_name']}"
        assert our["event_block_name"] == their["event_block_name"], where
        assert our["start_ticks"] == their["start_time"], where
        loss = scaling_loss(their)
        for column in ("p10", "p50", "p90", "avg", "min", "max"):
            assert_close(our[column], their[column], loss, f"{where}: {column}")
        assert (our["raw"] is None) == (their["raw"] is None), where
        for index, (value, expected) in enumerate(zip(our["raw"] or [], their["raw"] or [], strict=True)):
            assert_close(value, expected, loss, f"{where}: raw[{index}]")


def scaling_loss(their: dict[str, Any], factor: float = 1e-6) -> float:
    """The rounding error of the Inspector for delegated events, whose start and end it scales separately."""
    return 4 * math.ulp(max(their["start_time"]) * factor) if their.get("delegate_debug_identifier") is not None else 0


def assert_close(value: float | None, expected: float | None, loss: float, where: str) -> None:
    if value is None or expected is None:
        assert value is None and expected is None, where
    else:
        assert math.isclose(value, expected, rel_tol=1e-12, abs_tol=loss), f"{where}: {value} != {expected}"


@pytest.mark.parametrize("name", thinned(name for name in ANSWERED if name != WRAPPED))
def test_dataframe(name: str) -> None:
    theirs = their_rows(oracle.answer(name, "without_etrecord")["dataframe"]["value"])
    ours = our_rows(name)
    assert_same(ours, theirs)
    for our, their in zip(ours, theirs, strict=True):
        identifier = their["delegate_debug_identifier"]
        assert our["delegate_debug_identifier"] == (None if identifier is None else str(identifier))
        assert our["is_delegated_op"] == their["is_delegated_op"]
        # Without an ETRecord, the Inspector has no values for these columns.
        assert (their["op_types"], their["stack_traces"], their["module_hierarchy"]) == ([], {}, {})
        assert their["delegate_backend_name"] is None


@pytest.mark.parametrize("name", thinned(ANSWERED))
def test_blocks(name: str) -> None:
    blocks = oracle.answer(name, "without_etrecord")["blocks"]
    warehouse, capture = open_ephemeral(oracle.capture_path(name), ["event_blocks", "inspector_events"])
    with warehouse:
        ours = warehouse.event_blocks(capture).fetchall()
        assert [(name, events) for _, name, _, _, _, events, _ in ours] == [
            (block["name"], block["n_events"]) for block in blocks
        ]
        events = warehouse.sql("SELECT instruction_id FROM inspector_events($c, repeats := 'last')", c=capture)
        assert [row[0] for row in events.fetchall()] == [
            event["instruction_id"] for block in blocks for event in block["events"]
        ]


SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "cycles": 1.0}
TARGETS: dict[TimeScale, tuple[str, ...]] = {
    "ns": ("ms", "us", "ns", "s"),
    "us": ("ms", "ns"),
    "ms": ("s",),
    "s": ("ns",),
    "cycles": ("cycles",),
}


@pytest.mark.parametrize("source", TARGETS)
@pytest.mark.parametrize("name", thinned(oracle.names("time_scales"), ["demo_int"]))
def test_time_scales(name: str, source: TimeScale) -> None:
    # The recorded columns lack the ids of delegated events; their dataframe has the rows of the other answer.
    identifiers = [
        row["delegate_debug_identifier"]
        for row in their_rows(oracle.answer(name, "without_etrecord")["dataframe"]["value"])
    ]
    warehouse, capture = open_ephemeral(oracle.capture_path(name), ["inspector_events"], time_scale=source)
    with warehouse:
        for target in TARGETS[source]:
            answer = oracle.answer(name, "time_scales")[f"{source.upper()}->{target.upper()}"]
            query = "FROM inspector_events($capture, unit := $unit, repeats := 'last')"
            columns, rows = warehouse.rows(query, capture=capture, unit=target)
            ours = [dict(zip(columns, row, strict=True)) for row in rows]
            for our, their, identifier in zip(ours, their_rows(answer["dataframe"]), identifiers, strict=True):
                event = {**their, "delegate_debug_identifier": identifier}
                loss = scaling_loss(event, SECONDS[source] / SECONDS[target])
                for column in ("p10", "p50", "p90", "avg", "min", "max"):
                    assert_close(our[column], their[column], loss, f"{our['event_name']}, {target}: {column}")
                assert our["unit"] == target


@pytest.mark.parametrize(("source", "target"), [("ns", "cycles"), ("cycles", "ms")])
def test_cycles_and_time_are_no_units_of_each_other(source: TimeScale, target: str) -> None:
    answer = oracle.answer("mlp", "time_scales")[f"{source.upper()}->{target.upper()}"]
    assert answer["construct"]["error_type"] == "RuntimeError"
    warehouse, capture = open_ephemeral(oracle.capture_path("mlp"), ["inspector_events"], time_scale=source)
    with warehouse, pytest.raises(duckdb.Error, match=f"mlp counts {source}, which cannot be converted to {target}"):
        warehouse.inspector_events(capture, unit=target).fetchall()


def test_difference_durations_of_delegated_events_are_exact() -> None:
    theirs = their_rows(oracle.answer("demo_int", "without_etrecord")["dataframe"]["value"])
    ours = our_rows("demo_int")
    [at] = [index for index, row in enumerate(theirs) if row["start_time"][0] == 15643144]
    assert theirs[at]["raw"][0] == 0.027000000000001023
    assert ours[at]["raw"][0] == 0.027


def test_difference_a_32_bit_clock_that_wraps_is_not_one_tick_short() -> None:
    theirs = their_rows(oracle.answer(WRAPPED, "without_etrecord")["dataframe"]["value"])
    ours = our_rows(WRAPPED, unit="ms")
    differing = [
        (our["event_name"], run, round(value * 1e6), round(expected * 1e6))
        for our, their in zip(ours, theirs, strict=True)
        for run, (value, expected) in enumerate(zip(our["raw"], their["raw"], strict=True))
        if not math.isclose(value, expected, rel_tol=1e-12)
    ]
    # The three events that are open in run 1 when the counter passes zero.
    assert differing == [
        ("native_call_permute_copy.out", 0, 65037, 65036),
        ("OPERATOR_CALL", 0, 73800, 73799),
        ("Method::execute", 0, 4549519, 4549518),
    ]


def test_difference_every_iteration_of_a_loop_is_kept() -> None:
    theirs = their_rows(oracle.answer("maploop", "without_etrecord")["dataframe"]["value"])
    assert sum(len(row["raw"]) for row in theirs) == 97
    ours = our_rows("maploop", repeats="all")
    assert sum(len(row["raw"]) for row in ours) == 397
    assert max(row["occurrence"] for row in ours) == 5


def test_difference_two_methods_in_one_block_are_seen_by_their_runs() -> None:
    # Both return one block of ten runs, as the dump doesn't distinguish the methods; etq keeps each run's index.
    theirs = oracle.answer("twins", "without_etrecord")["blocks"]
    assert [(block["name"], block["n_events"]) for block in theirs] == [("Default", 2), ("Execute", 7)]
    warehouse, capture = open_ephemeral(oracle.capture_path("twins"), ["event_blocks"])
    with warehouse:
        assert [row[1:6] for row in warehouse.event_blocks(capture).fetchall()] == [
            ("Default", 2, 0, 1, 2),
            ("Execute", 10, 2, 11, 7),
        ]


@pytest.mark.parametrize("name", sorted(RAISES))
def test_difference_where_the_inspector_raises_there_is_an_answer(name: str) -> None:
    error = oracle.answer(name, "without_etrecord")["construct"]
    kind, text = RAISES[name]
    assert not error["ok"] and error["error_type"] == kind and text in error["error"]
    ours = our_rows(name)
    assert any(row["event_name"] == "Method::execute" and row["p50"] > 0 for row in ours)


def test_difference_damaged_files_are_named() -> None:
    theirs = oracle.answer("malformed", "")
    # The Inspector opens these without reporting the second dump, the trailing bytes or the missing byte.
    for name in ("mlp_concatenated", "mlp_trailing", "mlp_trunc_minus1"):
        assert theirs[f"{name}.etdp"]["ok"]
    with empty_warehouse() as warehouse:
        damaged = CAPTURES / "malformed"
        warehouse.ingest(damaged / "mlp_concatenated.etdp", name="concatenated")
        warehouse.ingest(damaged / "mlp_trailing.etdp", name="trailing")
        found = warehouse.sql(
            "SELECT c.name, f.rule, f.detail FROM findings AS f JOIN captures AS c USING (capture_id)"
        )
        assert found.fetchall() == [
            ("concatenated", "several dumps", "2 ETDumps in one file; dump_index distinguishes their runs"),
            ("trailing", "trailing bytes", "24 bytes after the last dump belong to none and are ignored"),
        ]
        assert warehouse.rows("SELECT count(*) FROM events")[1] == [(2 * 51 + 247,)]
        with pytest.raises(
            FormatError, match="the ETDump is truncated: its size prefix is 17244 bytes, the file has 17243"
        ):
            warehouse.ingest(damaged / "mlp_trunc_minus1.etdp")
        # … and it can't open this one, which only lacks the size prefix.
        assert not theirs["mlp_nosizeprefix.etdp"]["ok"]
        warehouse.ingest(damaged / "mlp_nosizeprefix.etdp", name="nosizeprefix")
        assert warehouse.rows("SELECT runs, events FROM capture_summary WHERE name = 'nosizeprefix'")[1] == [(6, 247)]
