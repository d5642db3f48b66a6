"""Every captured dump, event by event, against the whole dump as ExecuTorch's own deserialiser decodes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from etq.warehouse.ephemeral import open_ephemeral
from tests.parity import oracle
from tests.sampling import thinned

KINDS = ["null", "int", "bool", "float", "double", "tensor", "tensor_list", "string"]
# The fields of values that are numbers, and their members.
NUMBERS = {f"{each}_value": f"{each}_val" for each in ("int", "float", "double", "bool")}
# Captures with values of runs, as outputs of a program, and of a sink of files; with delegates; with allocations.
FEW = ("mlp", "mlp_alloc", "mlp_debug5", "scalars_debug", "convnet_xnn", "demo_int", "cond_mixed", "mlp_wrap32")


def known(value: int) -> int | None:
    return None if value == -1 else value


def blob(value: Any) -> bytes | None:
    return value["__bytes__"].encode("latin1") or None if value else None


def all_events(dump: dict[str, Any], field: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for run_index, run in enumerate(dump["run_data"]):
        for event_index, event in enumerate(run["events"] or []):
            if event[field]:
                yield run_index, event_index, event[field]


def ids_of(event: dict[str, Any]) -> tuple[int, int | None, int | None]:
    chain = event["chain_index"]
    chain = chain - 2**64 if chain >= 2**63 else chain
    return chain, known(event["instruction_id"]), known(event["delegate_debug_id_int"])


@pytest.mark.parametrize("name", thinned(oracle.names("etdump"), FEW))
def test_everything(name: str) -> None:
    dump = oracle.answer(name, "etdump")["value"]
    expected: dict[str, list[tuple[Any, ...]]] = {
        "SELECT name, bundled_input_index FROM runs ORDER BY run_index": [
            (run["name"], known(run["bundled_input_index"])) for run in dump["run_data"]
        ],
        """
        SELECT run_index, event_index, name, chain_index, instruction_id, delegate_debug_id, delegate_debug_str,
            delegate_metadata, start_ticks, end_ticks
        FROM events ORDER BY run_index, event_index
        """: [
            (
                *(*place, event["name"], *ids_of(event), event["delegate_debug_id_str"] or None),
                *(blob(event["delegate_debug_metadata"]), event["start_time"], event["end_time"]),
            )
            for *place, event in all_events(dump, "profile_event")
        ],
        "SELECT * EXCLUDE (capture_id) FROM allocations ORDER BY ALL": [
            (*place, event["allocator_id"], event["allocation_size"])
            for *place, event in all_events(dump, "allocation_event")
        ],
        "SELECT * EXCLUDE (capture_id) FROM allocators ORDER BY ALL": [
            (run_index, number, allocator["name"])
            for run_index, run in enumerate(dump["run_data"])
            for number, allocator in enumerate(run["allocators"] or [], 1)
        ],
        """
        SELECT run_index, event_index, value_index, chain_index, instruction_id, delegate_debug_id, name, is_output,
            kind, sizes, strides, byte_offset, number
        FROM debug_values ORDER BY run_index, event_index, value_index
        """: [row for *place, event in all_events(dump, "debug_event") for row in values_of(place, event)],
    }
    warehouse, _ = open_ephemeral(oracle.capture_path(name))
    with warehouse:
        for query, rows in expected.items():
            assert warehouse.rows(query)[1] == rows


def values_of(place: list[int], event: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of `debug_values` of an event: one for each tensor, or one."""
    value = event["debug_entry"]
    kind = KINDS[value["val"]] if isinstance(value["val"], int) else value["val"].split(".")[-1].lower()
    kind = kind.replace("tensorlist", "tensor_list")
    tensors = [value["tensor"]] if value["tensor"] else (value["tensor_list"] or {"tensors": []})["tensors"]
    number = next((float(value[field][member]) for field, member in NUMBERS.items() if value[field]), None)
    is_output = bool(value["output"] and value["output"]["bool_val"])
    for index, tensor in enumerate(tensors or [None]):
        sizes = [tensor and tensor[each] for each in ("sizes", "strides", "offset")]
        yield (*place, index, *ids_of(event), event["name"] or None, is_output, kind, *sizes, number)


def test_a_value_of_each_kind_is_compared() -> None:
    dumps = (oracle.answer(name, "etdump")["value"] for name in ("mlp_debug5", "scalars_debug"))
    kinds = {str(event["debug_entry"]["val"]) for dump in dumps for *_, event in all_events(dump, "debug_event")}
    assert len(kinds) >= 4
