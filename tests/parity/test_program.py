"""Every captured program, value by value, against ExecuTorch's own deserialiser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from etq.warehouse.ephemeral import open_ephemeral_program
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.parity import oracle
from tests.sampling import thinned

NAMES = oracle.names("pte")
KINDS = {
    "KernelCall": "kernel",
    "DelegateCall": "delegate",
    "MoveCall": "move",
    "JumpFalseCall": "jump_false",
    "FreeCall": "free",
}
VALUE_KINDS = {
    "Null": "null",
    "Int": "int",
    "Bool": "bool",
    "Double": "double",
    "Tensor": "tensor",
    "String": "string",
    "IntList": "int_list",
    "DoubleList": "double_list",
    "BoolList": "bool_list",
    "TensorList": "tensor_list",
    "OptionalTensorList": "optional_tensor_list",
}
TYPES = {"FLOAT": ("float32", 4), "LONG": ("int64", 8), "BOOL": ("bool", 1), "BFLOAT16": ("bfloat16", 2)}


def program_path(name: str) -> Path:
    [path] = CAPTURES.glob(f"*/{name}.pte")
    return path


def opened(name: str) -> Warehouse:
    return open_ephemeral_program(program_path(name))[0]


def plans(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = oracle.answer(name, "pte")["execution_plan"]
    return found


def test_every_captured_program_is_compared() -> None:
    assert [program_path(name).stem for name in NAMES] == sorted(path.stem for path in CAPTURES.glob("*/*.pte"))


@pytest.mark.parametrize("name", thinned(NAMES))
def test_methods_and_buffers(name: str) -> None:
    with opened(name) as warehouse:
        assert warehouse.rows("SELECT version FROM programs")[1] == [(oracle.answer(name, "pte")["version"],)]
        assert warehouse.rows("SELECT method_index, method, inputs, outputs FROM methods ORDER BY method_index")[1] == [
            (index, plan["name"], plan["inputs"], plan["outputs"]) for index, plan in enumerate(plans(name))
        ]
        assert warehouse.rows("SELECT method, buffer_index, size_bytes FROM planned_buffers ORDER BY ALL")[1] == sorted(
            (plan["name"], index, size)
            for plan in plans(name)
            for index, size in enumerate(plan["non_const_buffer_sizes"])
        )


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


@pytest.mark.parametrize("name", thinned(NAMES))
def test_every_instruction(name: str) -> None:
    with opened(name) as warehouse:
        found = warehouse.rows("""
            SELECT method, chain_index, instruction_id, kind, op, overload, delegate_index, arguments, jump_target
            FROM instructions ORDER BY method, chain_index, instruction_id""")[1]
    assert found == [
        (plan["name"], chain_index, index, *instruction(plan, each["instr_args"]))
        for plan in sorted(plans(name), key=lambda plan: str(plan["name"]))
        for chain_index, chain in enumerate(plan["chains"])
        for index, each in enumerate(chain["instructions"])
    ]


def value(val: dict[str, Any]) -> tuple[Any, ...]:
    kind = VALUE_KINDS[val["__"]]
    number = next((float(val[key]) for key in ("int_val", "bool_val", "double_val") if key in val), None)
    items = val["items"] if kind in ("int_list", "tensor_list", "optional_tensor_list") else None
    if kind != "tensor":
        return (kind, None, None, None, None, None, None, None, False, number, val.get("string_val"), items)
    type, width = TYPES[val["scalar_type"]]
    elements = 1
    for size in val["sizes"]:
        elements *= size
    allocation = val["allocation_info"]
    assert val["extra_tensor_info"] is None
    return (
        *(kind, type, val["sizes"], elements * width, val["shape_dynamism"].lower(), val["data_buffer_idx"] or None),
        allocation and allocation["memory_id"],
        allocation and allocation["memory_offset_low"] + 2**32 * allocation["memory_offset_high"],
        val["data_buffer_idx"] > 0 and allocation is None,
        *(None, None, None),
    )


@pytest.mark.parametrize("name", thinned(NAMES))
def test_every_value(name: str) -> None:
    with opened(name) as warehouse:
        found = warehouse.rows("""
            SELECT method, value_index, is_input, is_output, kind, scalar_type, sizes, byte_size, dynamism,
                constant_index, memory_id, memory_offset, is_constant, number, text, items
            FROM program_values ORDER BY method, value_index""")[1]
        assert warehouse.rows("SELECT count(*) FROM program_values WHERE name IS NOT NULL OR is_external")[1] == [(0,)]
    assert found == [
        (plan["name"], index, index in plan["inputs"], index in plan["outputs"], *value(each["val"]))
        for plan in sorted(plans(name), key=lambda plan: str(plan["name"]))
        for index, each in enumerate(plan["values"])
    ]


@pytest.mark.parametrize("name", thinned(NAMES))
def test_delegates_and_constants(name: str) -> None:
    """The oracle puts the blobs and constants of segments back inline, and has their sizes."""
    program = oracle.answer(name, "pte")
    with opened(name) as warehouse:
        assert warehouse.rows("SELECT method, delegate_index, backend, blob_bytes FROM program_delegates ORDER BY ALL")[
            1
        ] == sorted(
            (plan["name"], index, each["id"], program["backend_delegate_data"][each["processed"]["index"]])
            for plan in program["execution_plan"]
            for index, each in enumerate(plan["delegates"])
        )
        constants = warehouse.rows("SELECT constant_index, size_bytes FROM constant_buffers ORDER BY ALL")[1]
    # Without a header, the oracle leaves the offsets as they are; there is only the reserved entry.
    left = [0 for _ in (program["constant_segment"] or {}).get("offsets", [])]
    assert constants == list(enumerate(program["constant_buffer"] or left))


@pytest.mark.parametrize("name", thinned(NAMES))
def test_bytes_have_the_stated_offsets(name: str) -> None:
    data = program_path(name).read_bytes()
    with opened(name) as warehouse:
        [(total,)] = warehouse.connection.execute(
            "SELECT sum(s.bytes)::BIGINT FROM programs AS p, program_size(p.name) AS s"
        ).fetchall()
        assert total == len(data)
        [(blobs,)] = warehouse.rows("SELECT count(*) FROM program_delegates WHERE backend = 'XnnpackBackend'")[1]
        for start, size in warehouse.rows(
            "SELECT byte_offset, blob_bytes FROM program_delegates WHERE backend = 'XnnpackBackend'"
        )[1]:
            assert data[start + 4 : start + 8] == b"XH00" and start + size <= len(data)
    assert bool(blobs) == name.endswith("_xnn")


@pytest.mark.parametrize("name", thinned(NAMES))
def test_planned_lives_do_not_overlap(name: str) -> None:
    """The planner reused memory only for values that don't live at the same time: the computed lives must agree.

    In `cond`, two values of branches, of which one is taken, share memory: both are moved to the result.
    """
    with opened(name) as warehouse:
        rows = warehouse.rows(f"""
            SELECT method, value_index, memory_id, memory_offset, size_bytes, first_instruction, last_instruction,
                peak_bytes, planned_bytes
            FROM planned_memory('{name}')""")[1]
    clashes = [
        (one[1], other[1])
        for number, one in enumerate(rows)
        for other in rows[number + 1 :]
        if one[0] == other[0] and one[2] == other[2]
        and max(one[3], other[3]) < min(one[3] + one[4], other[3] + other[4])
        and None not in (one[5], other[5])
        and max(one[5], other[5]) <= min(one[6], other[6])
    ]  # fmt: skip
    assert clashes == ([(22, 27)] if name == "cond" else [])
    assert rows and all(0 < row[7] <= row[8] for row in rows)
