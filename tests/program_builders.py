"""ExecuTorch programs made to order, with the flatbuffers package: readable methods in, bytes out.

program(method("forward", [tensor(4, at=0)], [kernel("aten::add.out", 0)], inputs=[0]), constants=[b"1234"])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np

KERNEL, DELEGATE, MOVE, JUMP_FALSE, FREE = 1, 2, 3, 4, 5
NULL, INT, BOOL, DOUBLE, TENSOR, STRING, INT_LIST, DOUBLE_LIST, BOOL_LIST, TENSOR_LIST, OPTIONAL_LIST = range(1, 12)


@dataclass(frozen=True)
class Table:
    """Fields by slot: a Table, a text, a list of Tables, an array (a vector of its scalars), or a numpy scalar."""

    fields: dict[int, Any] = field(default_factory=dict)

    def write(self, builder: flatbuffers.Builder) -> int:
        written = {slot: _write(builder, value) for slot, value in self.fields.items() if value is not None}
        builder.StartObject(max(self.fields, default=-1) + 1)
        for slot, value in written.items():
            if isinstance(value, np.generic):
                builder.PrependSlot(_FLAGS[type(value)], slot, value.item(), None)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())


_FLAGS = {
    np.uint8: flatbuffers.number_types.Uint8Flags, np.int8: flatbuffers.number_types.Int8Flags,
    np.bool_: flatbuffers.number_types.BoolFlags, np.int16: flatbuffers.number_types.Int16Flags,
    np.int32: flatbuffers.number_types.Int32Flags, np.uint32: flatbuffers.number_types.Uint32Flags,
    np.int64: flatbuffers.number_types.Int64Flags, np.uint64: flatbuffers.number_types.Uint64Flags,
    np.float32: flatbuffers.number_types.Float32Flags, np.float64: flatbuffers.number_types.Float64Flags,
}  # fmt: skip


def _write(builder: flatbuffers.Builder, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, Table):
        return value.write(builder)
    offsets = [each.write(builder) for each in value]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def value(kind: int, member: Table | None = None) -> Table:
    return Table({0: np.uint8(kind), 1: member or Table()})


def tensor(
    *sizes: int,
    at: int | None = None,
    memory: int = 1,
    type: int = 6,
    constant: int = 0,
    name: str | None = None,
    dynamism: int = 0,
    external: bool = False,
) -> Table:
    """A tensor, of float32 unless another type is given; `at` an offset in planned memory."""
    where = None
    if at is not None:
        where = Table({0: np.uint32(memory), 1: np.uint32(at % 2**32), 2: np.uint32(at >> 32)})
    extra = None
    if name is not None or external:
        extra = Table({1: name, 2: np.int8(external)})
    return value(
        TENSOR,
        Table(
            {
                0: np.int8(type), 2: np.array(sizes, np.int32), 5: np.uint32(constant), 6: where,
                8: np.int8(dynamism), 9: extra,
            }
        ),
    )  # fmt: skip


def tensor_list(*items: int) -> Table:
    return value(TENSOR_LIST, Table({0: np.array(items, np.int32)}))


def move(source: int, target: int) -> Table:
    return Table({0: np.uint8(MOVE), 1: Table({0: np.int32(source), 1: np.int32(target)})})


def jump_false(condition: int, target: int) -> Table:
    return Table({0: np.uint8(JUMP_FALSE), 1: Table({0: np.int32(condition), 1: np.int32(target)})})


def free(index: int) -> Table:
    return Table({0: np.uint8(FREE), 1: Table({0: np.int32(index)})})


@dataclass(frozen=True)
class Kernel:
    op: str
    arguments: tuple[int, ...]


def kernel(op: str, *arguments: int) -> Kernel:
    """A call of an operator, like aten::add.out, with these values."""
    return Kernel(op, arguments)


def delegate_call(index: int, *arguments: int) -> Table:
    return Table({0: np.uint8(DELEGATE), 1: Table({0: np.int32(index), 1: np.array(arguments, np.int32)})})


def delegate(backend: str, index: int, *, in_segment: bool = False) -> Table:
    return Table({0: backend, 1: Table({0: np.int8(in_segment), 1: np.uint32(index)})})


def method(
    name: str,
    values: Sequence[Table],
    instructions: Sequence[Table | Kernel] = (),
    *,
    inputs: Sequence[int] = (),
    outputs: Sequence[int] = (),
    delegates: Sequence[Table] = (),
    buffers: Sequence[int] = (0, 64),
) -> Table:
    ops = list(dict.fromkeys(each.op for each in instructions if isinstance(each, Kernel)))
    made = [
        each
        if isinstance(each, Table)
        else Table(
            {0: np.uint8(KERNEL), 1: Table({0: np.int32(ops.index(each.op)), 1: np.array(each.arguments, np.int32)})}
        )
        for each in instructions
    ]
    operators = [Table({0: op.partition(".")[0], 1: op.partition(".")[2]}) for op in ops]
    return Table(
        {
            0: name, 2: list(values), 3: np.array(inputs, np.int32), 4: np.array(outputs, np.int32),
            5: [Table({2: made})], 6: operators, 7: list(delegates), 8: np.array(buffers, np.int64),
        }
    )  # fmt: skip


def program(
    *methods: Table,
    constants: Sequence[bytes] = (),
    blobs: Sequence[bytes] = (),
    segments: Sequence[bytes] = (),
    fields: dict[int, Any] | None = None,
    size_prefixed: bool = False,
) -> bytes:
    """The file: constants and blobs inline; segments behind, each at the next multiple of 16; more fields by slot."""
    ends = np.cumsum([0] + [-(-len(each) // 16) * 16 for each in segments]).tolist()
    builder = flatbuffers.Builder()
    root = Table(
        {
            0: np.uint32(0),
            1: list(methods),
            2: [Table({0: np.frombuffer(each, np.uint8)}) for each in constants],
            3: [Table({0: np.frombuffer(each, np.uint8)}) for each in blobs],
            4: [
                Table({0: np.uint64(start), 1: np.uint64(len(each))})
                for start, each in zip(ends, segments, strict=False)
            ],
            **(fields or {}),
        }
    )
    builder.Finish(root.write(builder), file_identifier=b"ET12")
    made = bytes(builder.Output())
    if segments:
        size = len(made) + 32
        base = -(-size // 16) * 16
        behind = b"".join(each.ljust(-(-len(each) // 16) * 16, b"\0") for each in segments)
        header = b"eh00" + (32).to_bytes(4, "little")
        header += b"".join(number.to_bytes(8, "little") for number in (size, base, len(behind)))
        root_at = int.from_bytes(made[:4], "little") + 32
        made = root_at.to_bytes(4, "little") + b"ET12" + header + made[8:]
        made = made.ljust(base, b"\0") + behind
    return (len(made).to_bytes(4, "little") if size_prefixed else b"") + made


def subsegments(segment: int, *offsets: int) -> Table:
    return Table({0: np.uint32(segment), 1: np.array(offsets, np.uint64)})


def named(key: str, segment: int) -> Table:
    return Table({0: key, 1: np.uint32(segment)})
