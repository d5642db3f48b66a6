"""The reader of programs on programs made for the purpose, and on damaged ones."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import pytest

from etq import FormatError
from etq.ingest.program.reader import is_program, read_program
from tests.conftest import CAPTURES
from tests.program_builders import (
    DOUBLE_LIST,
    INT,
    STRING,
    TENSOR,
    Table,
    delegate,
    delegate_call,
    free,
    jump_false,
    kernel,
    method,
    move,
    named,
    program,
    subsegments,
    tensor,
    tensor_list,
    value,
)

EVERYTHING = program(
    method(
        "forward",
        [
            tensor(2, 3, at=2**40 + 16, dynamism=1), tensor(4, constant=1, type=4),
            tensor(type=99, name="cache", at=0, constant=1), tensor(8, name="far", external=True), tensor_list(0, 2),
            value(INT, Table({0: np.int64(-7)})), value(STRING, Table({0: "mean"})),
            value(DOUBLE_LIST, Table({0: np.array([1.5])})),
        ],
        [kernel("aten::add.out", 0, 1, 4), kernel("prim::x", 5), delegate_call(0, 0, 2), move(0, 2), jump_false(5, 1), free(2)],
        inputs=[0],
        outputs=[2, 4],
        delegates=[delegate("Left", 0), delegate("Right", 2, in_segment=True)],
        buffers=[0, 2**41],
    ),
    constants=[b"", b"12345678"],
    blobs=[b"blob"],
    segments=[b"c" * 20, b"m" * 8, b"right", b"weights", b"?"],
    fields={5: subsegments(0, 0, 0, 16), 6: [subsegments(1, 0, 0)], 7: [named("w", 3), named("v", 3)]},
)  # fmt: skip


def read(data: Any) -> dict[str, list[dict[str, Any]]]:
    return {table: batch.to_pylist() for table, batch in read_program(data, "test.pte")}


def test_all_fields_of_a_program() -> None:
    tables = read(EVERYTHING)
    assert [tuple(row.values())[3:] for row in tables["instructions"]] == [
        ("kernel", "aten::add", "out", None, [0, 1, 4], None), ("kernel", "prim::x", None, None, [5], None),
        ("delegate", None, None, 0, [0, 2], None), ("move", None, None, None, [0, 2], None),
        ("jump_false", None, None, None, [5], 1), ("free", None, None, None, [2], None),
    ]  # fmt: skip
    columns = "kind scalar_type sizes size_bytes dynamism name constant_index memory_id memory_offset is_constant is_external number text items"
    assert [tuple(row[column] for column in columns.split()) for row in tables["program_values"]] == [
        ("tensor", "float32", [2, 3], 24, "dynamic_bound", None, None, 1, 2**40 + 16, False, False, None, None, None),
        ("tensor", "int64", [4], 32, "static", None, 1, None, None, True, False, None, None, None),
        ("tensor", "scalar type 99", [], None, "static", "cache", 1, 1, 0, False, False, None, None, None),
        ("tensor", "float32", [8], 32, "static", "far", None, None, None, True, True, None, None, None),
        ("tensor_list", None, None, None, None, None, None, None, None, False, False, None, None, [0, 2]),
        ("int", None, None, None, None, None, None, None, None, False, False, -7.0, None, None),
        ("string", None, None, None, None, None, None, None, None, False, False, None, "mean", None),
        ("double_list", None, None, None, None, None, None, None, None, False, False, None, None, None),
    ]
    places = {
        name: [at for at, row in enumerate(tables["program_values"]) if row[name]] for name in ("is_input", "is_output")
    }
    assert places == {"is_input": [0], "is_output": [2, 4]}
    assert [row["size_bytes"] for row in tables["planned_buffers"]] == [0, 2**41]
    segments = [(row["content"], EVERYTHING[row["byte_offset"] :][: row["size_bytes"]]) for row in tables["segments"]]
    assert segments == [
        ("constants", b"c" * 20), ("mutable", b"m" * 8), ("delegate", b"right"), ("named", b"weights"), ("other", b"?"),
    ]  # fmt: skip
    assert [(row["constant_index"], row["location"], row["size_bytes"]) for row in tables["constant_buffers"]] == [
        (0, "inline", 0), (1, "inline", 8), (0, "segment", 0), (1, "segment", 16), (2, "segment", 4),
    ]  # fmt: skip
    for row, blob in zip(tables["program_delegates"], (b"blob", b"right"), strict=True):
        assert EVERYTHING[row["byte_offset"] :][: row["blob_bytes"]] == blob
    assert [(row["key"], row["segment_index"]) for row in tables["named_data"]] == [("w", 3), ("v", 3)]


def test_a_size_prefix_changes_nothing_but_offsets() -> None:
    made = method("forward", [tensor(2, at=0)], [kernel("aten::relu.out", 0, 0)])
    for segments in ([], [b"weights"]):
        plain = program(made, segments=segments)
        prefixed = program(made, segments=segments, size_prefixed=True)
        assert is_program(plain) and is_program(prefixed) and not is_program(b"ET12")
        one, other = read(plain), read(prefixed)
        for row in other["segments"]:
            assert prefixed[row["byte_offset"] :].startswith(b"weights")
            row["byte_offset"] -= 4
        assert one == other


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "^test.pte: the file is empty; copy or export it again$"),
        (b"\x08\x00\x00\x00BP08" + bytes(20), r"this is a bundled program \(.bpte"),
        (b"PK\x03\x04" + bytes(20), "this is a zip"),
        (bytes(200), "not an ExecuTorch program: expected `ET12` at byte 4 or 8"),
        ((CAPTURES / "mlp/mlp.etdp").read_bytes(), "this is an ETDump"),
    ],
)
def test_files_that_are_not_programs_are_named_by_kind(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(content)


@pytest.mark.parametrize(
    ("methods", "fields", "message"),
    [
        ([method("a", []), method("a", [])], {}, "methods of one name: a, a"),
        ([method("a", [tensor(1)], [kernel("x", 1)])], {}, "value 1 of method 'a', which has 1"),
        ([method("a", [tensor(1)], [kernel("x", -1)])], {}, "value -1 of method 'a'"),
        ([method("a", [tensor(1)], [delegate_call(0, 0)])], {}, "delegate 0 of method 'a', which has 0"),
        ([method("a", [], inputs=[3])], {}, "input 3 of method 'a'"),
        ([method("a", [], delegates=[delegate("B", 0)])], {}, r"a delegate's blob is number 0 at location 0"),
        ([method("a", [], delegates=[delegate("B", 9, in_segment=True)])], {}, "blob is in segment 9 of 1"),
        ([method("a", [], delegates=[Table({0: "B"})])], {}, "a delegate has no BackendDelegate.processed"),
        ([method("a", [value(12)])], {}, "EValue.val_type is 12; known are 1 to 11"),
        ([method("a", [Table({})])], {}, "EValue.val_type is 0"),
        ([method("a", [Table({0: np.uint8(5)})])], {}, "EValue.val is missing; expected a Tensor"),
        ([method("a", [], [Table({0: np.uint8(6)})])], {}, "Instruction.instr_args_type is 6"),
        ([method("a", [tensor(1, dynamism=3)])], {}, "Tensor.shape_dynamism is 3"),
        ([method("a", [tensor(1, at=2**63)])], {}, "planned at offset"),
        ([], {5: subsegments(0, 8, 0)}, "offsets of constants don't ascend"),
        ([], {5: subsegments(0, 0, 9)}, "offsets of constants don't ascend within the 8 bytes"),
        ([], {5: subsegments(1, 0)}, "data of constants is in segment 1 of 1"),
        ([], {4: [Table({0: np.uint64(2**64 - 1), 1: np.uint64(8)})]}, "a segment of bytes"),
        ([], {4: [Table({1: np.uint64(8)}), Table({0: np.uint64(4), 1: np.uint64(4)})]}, "begins within other data"),
        ([], {7: [named("w", 2)]}, "named data is in segment 2 of 1"),
    ],
)  # fmt: skip
def test_impossible_programs_are_refused(methods: list[Table], fields: dict[int, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(program(*methods, segments=[b"weights!"], fields=fields))


def test_impossible_sizes_have_no_bytes() -> None:
    tables = read(
        program(method("a", [tensor(2**31 - 1, 2**31 - 1, 2**31 - 1), tensor(-1, 4), tensor(*[2**31 - 1] * 40, 0)]))
    )
    assert [row["size_bytes"] for row in tables["program_values"]] == [None, None, None]


def test_vectors_that_share_their_bytes_are_refused() -> None:
    """Thousands of values that refer to one tensor with one long vector of sizes could take any amount of memory."""
    places: list[int] = []

    class Shared(Table):
        def write(self, builder: flatbuffers.Builder) -> int:
            if not places:
                places.append(super().write(builder))
            return places[0]

    one = value(TENSOR, Shared({2: np.ones(2000, np.int32)}))
    with pytest.raises(FormatError, match=r"the vectors Tensor.sizes take 1600000 bytes together, more than the"):
        read(program(method("forward", [one] * 200)))


@pytest.mark.parametrize("name", ["cond/cond", "nones/nones"])
def test_truncated_at_any_byte(name: str) -> None:
    data = (CAPTURES / f"{name}.pte").read_bytes()
    read(data)
    for size in range(0, len(data), 1 if len(data) < 2000 else 97):
        with pytest.raises(FormatError, match="truncated|empty|not an ExecuTorch program|not the header") as caught:
            read(data[:size])
        assert str(caught.value).startswith("test.pte: ") and "\n" not in str(caught.value)
