"""Every captured dump, event by event, against the whole dump as ExecuTorch's own deserialiser decodes it."""

from __future__ import annotations

from typing import Any

import pytest

from etq.warehouse.ephemeral import open_ephemeral
from tests.parity import oracle
from tests.sampling import thinned

NAMES = oracle.names("etdump")
TABLES = ["events", "runs", "allocators", "allocations", "debug_values"]
KINDS = ["null", "int", "bool", "float", "double", "tensor", "tensor_list", "string"]


def known(value: int) -> int | None:
    return None if value == -1 else value


def blob(value: Any) -> bytes | None:
    return value["__bytes__"].encode("latin1") or None if value else None


@pytest.mark.parametrize("name", thinned(NAMES))
def test_every_event(name: str) -> None:
    dump = oracle.answer(name, "etdump")["value"]
    warehouse, _ = open_ephemeral(oracle.capture_path(name), TABLES)
    with warehouse:
        runs = warehouse.rows("SELECT name, bundled_input_index FROM runs ORDER BY run_index")[1]
        assert runs == [(run["name"], known(run["bundled_input_index"])) for run in dump["run_data"]]
        events = warehouse.rows("""
            SELECT run_index, event_index, name, chain_index, instruction_id, delegate_debug_id, delegate_debug_str,
                delegate_metadata, start_ticks, end_ticks
            FROM events ORDER BY run_index, event_index""")[1]
        assert events == [
            (
                run_index,
                event_index,
                event["name"],
                event["chain_index"],
                known(event["instruction_id"]),
                known(event["delegate_debug_id_int"]),
                event["delegate_debug_id_str"] or None,
                blob(event["delegate_debug_metadata"]),
                event["start_time"],
                event["end_time"],
            )
            for run_index, event_index, event in all_events(dump, "profile_event")
        ]
        allocations = warehouse.rows("SELECT * EXCLUDE (capture_id) FROM allocations ORDER BY ALL")[1]
        assert allocations == [
            (run_index, event_index, event["allocator_id"], event["allocation_size"])
            for run_index, event_index, event in all_events(dump, "allocation_event")
        ]
        allocators = warehouse.rows("SELECT * EXCLUDE (capture_id) FROM allocators ORDER BY ALL")[1]
        assert allocators == [
            (run_index, number, allocator["name"])
            for run_index, run in enumerate(dump["run_data"])
            for number, allocator in enumerate(run["allocators"] or [], 1)
        ]


@pytest.mark.parametrize("name", [name for name in NAMES if "debug" in name or "progout" in name or "filesink" in name])
def test_every_logged_value(name: str) -> None:
    dump = oracle.answer(name, "etdump")["value"]
    warehouse, _ = open_ephemeral(oracle.capture_path(name), TABLES)
    with warehouse:
        values = warehouse.rows("""
            SELECT run_index, event_index, value_index, chain_index, instruction_id, delegate_debug_id, name, is_output,
                kind, sizes, strides, byte_offset, number
            FROM debug_values ORDER BY run_index, event_index, value_index""")[1]
    expected = []
    for run_index, event_index, event in all_events(dump, "debug_event"):
        value = event["debug_entry"]
        kind = KINDS[value["val"]] if isinstance(value["val"], int) else value["val"].split(".")[-1].lower()
        tensors = [value["tensor"]] if value["tensor"] else (value["tensor_list"] or {"tensors": []})["tensors"]
        number = next(
            (
                float(value[field][member])
                for field, member in (
                    ("int_value", "int_val"),
                    ("float_value", "float_val"),
                    ("double_value", "double_val"),
                    ("bool_value", "bool_val"),
                )
                if value[field]
            ),
            None,
        )
        for index, tensor in enumerate(tensors or [None]):
            chain = event["chain_index"]
            expected.append(
                (
                    run_index,
                    event_index,
                    index,
                    chain - 2**64 if chain >= 2**63 else chain,
                    known(event["instruction_id"]),
                    known(event["delegate_debug_id_int"]),
                    event["name"] or None,
                    bool(value["output"] and value["output"]["bool_val"]),
                    kind.replace("tensorlist", "tensor_list"),
                    tensor and tensor["sizes"],
                    tensor and tensor["strides"],
                    tensor and tensor["offset"],
                    number,
                )
            )
    assert len(expected) > 0
    assert values == expected


def all_events(dump: dict[str, Any], field: str) -> list[tuple[int, int, dict[str, Any]]]:
    return [
        (run_index, event_index, event[field])
        for run_index, run in enumerate(dump["run_data"])
        for event_index, event in enumerate(run["events"] or [])
        if event[field]
    ]
