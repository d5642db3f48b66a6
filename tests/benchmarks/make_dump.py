"""Make a large ETDump quickly: `make_dump.py OUT EVENTS` writes runs of 101 profile events (50 operators, or those given,
and their kernels, and Method::execute) as a runtime lays them out (size-prefixed, every string repeated).

One run is built with the flatbuffers package; its bytes are repeated, which FlatBuffers allows because all references
are relative, and its times are overwritten: each run has durations of its own, spread as real ones are (log-normal,
2 % for most, a slow run now and then), so that the file compresses no better than a real one.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import flatbuffers
import numpy as np

EVENTS_PER_RUN = 101
# Stands for times until they are overwritten: found again by its bytes, none of them zero.
MARK = 0x1122334455667700
_TEN = "addmm permute_copy relu native_layer_norm add convolution _softmax mul bmm gelu"
OPERATORS = _TEN.split() * 5


def build_run(operators: Sequence[str] = OPERATORS) -> tuple[bytes, int, list[int], list[int], list[int]]:
    """The bytes of one run's RunData, and in them: its table, the starts and ends of its events, and all tables."""
    builder = flatbuffers.Builder(16384)
    marks: list[tuple[int, int]] = []

    def profile_event(name: str, chain: int, instruction: int) -> int:
        text = builder.CreateString(name)
        builder.StartObject(8)
        builder.PrependUint64Slot(7, MARK + 2 * len(marks) + 1, 0)
        builder.PrependUint64Slot(6, MARK + 2 * len(marks), 0)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        builder.PrependInt32Slot(2, instruction, -1)
        if chain:
            builder.PrependInt32Slot(1, chain, 0)
        marks.append((len(marks), instruction))
        event = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, event, 0)
        return int(builder.EndObject())

    events = []
    for instruction, operator in enumerate(operators):
        events.append(profile_event(f"native_call_{operator}.out", 0, instruction))
        events.append(profile_event("OPERATOR_CALL", 0, instruction))
    events.append(profile_event("Method::execute", -1, 0))
    builder.StartVector(4, len(events), 4)
    for event in reversed(events):
        builder.PrependUOffsetTRelative(event)
    vector = builder.EndVector()
    name = builder.CreateString("Execute")
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(3, vector, 0)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    run = builder.EndObject()
    builder.Finish(run)
    data = bytes(builder.Output())
    starts = [data.index(struct.pack("<Q", MARK + 2 * index)) for index in range(len(marks))]
    ends = [data.index(struct.pack("<Q", MARK + 2 * index + 1)) for index in range(len(marks))]
    table = reference(data, 0)
    pointers = field(data, table, 3)
    events_at = [reference(data, pointers + reference_at) for reference_at in range(4, 4 + 4 * len(marks), 4)]
    tables = [table, *events_at, *(field(data, event, 0) for event in events_at)]
    return data, table, starts, ends, tables


def reference(data: bytes, at: int) -> int:
    """Where the u32 reference at a place leads."""
    offset: int = struct.unpack_from("<I", data, at)[0]
    return at + offset


def field(data: bytes, table: int, slot: int) -> int:
    """Where the reference in a slot of a table leads."""
    vtable: int = table - struct.unpack_from("<i", data, table)[0]
    offset: int = struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
    return reference(data, table + offset)


def times(runs: int, seed: int = 1, operators: int = len(OPERATORS)) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of each event of each run [runs, 101], in ns."""
    random = np.random.default_rng(seed)
    typical = np.resize([14200, 38900, 130, 900, 450, 21000, 1300, 420, 5200, 2600], operators)
    disturbed = np.where(random.random((runs, 1)) < 0.02, 1.4, 1.0)
    return around((typical * random.lognormal(0, 0.02, (runs, operators)) * disturbed).astype(np.int64), random)


def around(kernel: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of each event of runs whose kernels [runs, 50] take this long."""
    runs, operators = kernel.shape
    last = 2 * operators
    before, after = random.integers(40, 120, (runs, operators)), random.integers(30, 260, (runs, operators))
    gap = random.integers(30, 90, (runs, operators))
    whole = gap + before + kernel + after
    begin = np.cumsum(whole, axis=1) - whole + gap
    execute = whole.sum(axis=1) + random.integers(300, 900, runs)
    origin = np.cumsum(execute + 5000) - execute + 14_000_000
    start, end = np.empty((runs, last + 1), np.int64), np.empty((runs, last + 1), np.int64)
    start[:, 0:last:2], end[:, 0:last:2] = begin + before, begin + before + kernel
    start[:, 1:last:2], end[:, 1:last:2] = begin, begin + before + kernel + after
    start[:, last], end[:, last] = 0, execute
    return start + origin[:, None], end + origin[:, None]


def write(path: Path, events: int, seed: int = 1, operators: Sequence[str] = OPERATORS) -> int:
    """Write a dump of about that many profile events (whole runs); return how many there are."""
    runs = -(-events // (2 * len(operators) + 1))
    data, table, starts, ends, tables = build_run(operators)
    data += bytes(-len(data) % 8)
    # Root: reference, identifier, the root's vtable and table, then the vector of runs.
    head = struct.pack("<I4s", 16, b"ED00") + struct.pack("<4H", 8, 8, 0, 4) + struct.pack("<iII", 8, 4, runs)
    blocks_at = len(head) + 4 * runs
    padding = -(blocks_at + 4) % 8
    blocks_at += padding
    vector_at = len(head)
    references = blocks_at + np.arange(runs) * len(data) + table - (vector_at + 4 * np.arange(runs))
    size = blocks_at + runs * len(data)
    start, end = times(runs, seed, len(operators))
    with path.open("wb") as file:
        file.write(struct.pack("<I", size) + head)
        file.write(references.astype("<u4").tobytes() + bytes(padding))
        step = 1000
        one = np.frombuffer(data, np.uint8)
        for first in range(0, runs, step):
            many = np.tile(one, (min(step, runs - first), 1))
            for positions, values in ((starts, start), (ends, end)):
                for event, position in enumerate(positions):
                    column = values[first : first + step, event]
                    many[:, position : position + 8] = column.astype("<u8").view(np.uint8).reshape(-1, 8)
            for position in tables:
                # The runs share the first one's vtables, as they do in real dumps.
                back = struct.unpack_from("<i", data, position)[0] + np.arange(first, first + len(many)) * len(data)
                many[:, position : position + 4] = back.astype("<i4").view(np.uint8).reshape(-1, 4)
            file.write(many.tobytes())
    return runs * len(starts)


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), int(sys.argv[2])))
