"""Every captured program, value by value, against ExecuTorch's own deserialiser."""

from __future__ import annotations

from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.warehouse import open as open_warehouse
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.sampling import thinned

NAMES = oracle.names("pte")
KINDS = {
    "KernelCall": "kernel", "DelegateCall": "delegate", "MoveCall": "move", "JumpFalseCall": "jump_false",
    "FreeCall": "free",
}  # fmt: skip
VALUE_KINDS = {
    "Null": "null", "Int": "int", "Bool": "bool", "Double": "double", "Tensor": "tensor", "String": "string",
    "IntList": "int_list", "DoubleList": "double_list", "BoolList": "bool_list", "TensorList": "tensor_list",
    "OptionalTensorList": "optional_tensor_list",
}  # fmt: skip
TYPES = {"FLOAT": ("float32", 4), "LONG": ("int64", 8), "BOOL": ("bool", 1), "BFLOAT16": ("bfloat16", 2)}


def program_path(name: str) -> Path:
    [path] = CAPTURES.glob(f"*/{name}.pte")
    return path


def test_every_captured_program_is_compared() -> None:
    assert [program_path(name).stem for name in NAMES] == sorted(path.stem for path in CAPTURES.glob("*/*.pte"))


def instruction(plan: dict[str, Any], arguments: dict[str, Any]) -> tuple[Any, ...]:
    kind = KINDS[arguments["__"]]
    if kind == "kernel":
        op = plan["operators"][arguments["op_index"]]
        return (kind, op["name"], op["overload"] or None, None, arguments["args"], None)
    if kind == "delegate":
        return (kind, None, None, arguments["delegate_index"], arguments["args"], None)
    if kind == "move":
        return (kind, None, None, None, [arguments["move_from"], arguments["move_to"]], None)
    if kind == "jump_false":
        return (kind, None, None, None, [arguments["cond_value_index"]], arguments["destination_instruction"])
    return (kind, None, None, None, [arguments["value_index"]], None)


def value(val: dict[str, Any]) -> tuple[Any, ...]:
    kind = VALUE_KINDS[val["__"]]
    number = next((float(val[key]) for key in ("int_val", "bool_val", "double_val") if key in val), None)
    items = val["items"] if kind in ("int_list", "tensor_list", "optional_tensor_list") else None
    if kind != "tensor":
        return (kind, None, None, None, None, None, None, None, False, number, val.get("string_val"), items)
    type, width = TYPES[val["scalar_type"]]
    allocation = val["allocation_info"]
    assert val["extra_tensor_info"] is None
    return (
        *(
            kind, type, val["sizes"], prod(val["sizes"]) * width, val["shape_dynamism"].lower(),
            val["data_buffer_idx"] or None,
        ),
        allocation and allocation["memory_id"],
        allocation and allocation["memory_offset_low"] + 2**32 * allocation["memory_offset_high"],
        val["data_buffer_idx"] > 0 and allocation is None,
        *(None, None, None),
    )  # fmt: skip


@pytest.mark.parametrize("name", thinned(NAMES))
def test_everything(name: str) -> None:
    """The oracle puts the blobs and constants of segments back inline, and has their sizes."""
    program, data = oracle.answer(name, "pte"), program_path(name).read_bytes()
    plans = sorted(program["execution_plan"], key=lambda plan: str(plan["name"]))
    # Without a header, the oracle leaves the offsets as they are; there is only the reserved entry.
    constants = program["constant_buffer"] or [0 for _ in (program["constant_segment"] or {}).get("offsets", [])]
    expected: dict[str, list[tuple[Any, ...]]] = {
        "SELECT version FROM programs": [(program["version"],)],
        "SELECT method_index, method, inputs, outputs FROM methods ORDER BY method_index": [
            (index, plan["name"], plan["inputs"], plan["outputs"])
            for index, plan in enumerate(program["execution_plan"])
        ],
        "SELECT method, buffer_index, size_bytes FROM planned_buffers ORDER BY ALL": [
            (plan["name"], *each) for plan in plans for each in enumerate(plan["non_const_buffer_sizes"])
        ],
        """
        SELECT method, chain_index, instruction_id, kind, op, overload, delegate_index, arguments, jump_target
        FROM instructions ORDER BY method, chain_index, instruction_id
        """: [
            (plan["name"], chain_index, index, *instruction(plan, each["instr_args"]))
            for plan in plans
            for chain_index, chain in enumerate(plan["chains"])
            for index, each in enumerate(chain["instructions"])
        ],
        """
        SELECT method, value_index, is_input, is_output, kind, scalar_type, sizes, size_bytes, dynamism,
            constant_index, memory_id, memory_offset, is_constant, number, text, items
        FROM program_values ORDER BY method, value_index
        """: [
            (plan["name"], index, index in plan["inputs"], index in plan["outputs"], *value(each["val"]))
            for plan in plans
            for index, each in enumerate(plan["values"])
        ],
        "SELECT count(*) FROM program_values WHERE name IS NOT NULL OR is_external": [(0,)],
        "SELECT method, delegate_index, backend, blob_bytes FROM program_delegates ORDER BY ALL": [
            (plan["name"], index, each["id"], program["backend_delegate_data"][each["processed"]["index"]])
            for plan in plans
            for index, each in enumerate(plan["delegates"])
        ],
        "SELECT constant_index, size_bytes FROM constant_buffers ORDER BY ALL": list(enumerate(constants)),
        "SELECT sum(s.bytes)::BIGINT FROM programs AS p, program_size(p.name) AS s": [(len(data),)],
    }
    with open_warehouse() as warehouse:
        warehouse.ingest_program(program_path(name))
        for query, rows in expected.items():
            assert warehouse.rows(query)[1] == rows, query
        query = "SELECT byte_offset, blob_bytes FROM program_delegates WHERE backend = 'XnnpackBackend'"
        blobs = warehouse.rows(query)[1]
        lives = warehouse.rows(f"""
            SELECT method, value_index, memory_id, memory_offset, size_bytes, first_instruction, last_instruction,
                peak_bytes, planned_bytes
            FROM planned_memory('{name}')
        """)[1]
    assert bool(blobs) == name.endswith("_xnn")
    assert all(data[start + 4 : start + 8] == b"XH00" and start + size <= len(data) for start, size in blobs)
    # Two values of branches of `cond`, of which one is taken, share memory: both are moved to the result.
    assert clashes(lives) == ([(22, 27)] if name == "cond" else [])
    assert lives and all(0 < row[7] <= row[8] for row in lives)


def clashes(rows: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    """Values that live at the same time in the same memory: the planner reused it for others only."""
    return [
        (one[1], other[1])
        for one, other in combinations(rows, 2)
        if one[0] == other[0] and one[2] == other[2] and None not in (one[5], other[5])
        and max(one[3], other[3]) < min(one[3] + one[4], other[3] + other[4])
        and max(one[5], other[5]) <= min(one[6], other[6])
    ]  # fmt: skip
