"""Files made to take memory or time: absurd counts are refused before memory of that size is allocated."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

import etq
from etq.errors import FormatError
from etq.ingest import dictionary
from etq.ingest.flatbuffers.strings import string_views
from etq.ingest.other_files import other_file
from etq.ingest.recognition import OTHER, kind_of_bytes
from etq.ingest.trace.host_parts import _begin_launches, _Moments, _Names
from etq.ingest.trace.ranks import rank_of
from etq.ingest.trace.repair import Repair
from etq.warehouse.warehouse import Warehouse
from tests import program_builders
from tests.builders import DebugEvent, Tensor, delegate_call, delegated, dump, execute, kernel, run
from tests.fuzz import checks
from tests.fuzz.flatbuffer_damage import layout_of
from tests.fuzz.inputs import Input
from tests.fuzz.originals import Original
from tests.sampling import thinned

LARGE = 2**20


def with_lengths(data: bytes, length: int) -> list[bytes]:
    """Copies of a FlatBuffers file: in each, one of its vectors or texts has another length."""
    files = []
    for at, _ in layout_of(data).vectors:
        files.append(data[:at] + struct.pack("<I", length) + data[at + 4 :])
    return files


def small_dump() -> bytes:
    logged = DebugEvent(Tensor(sizes=(2,), strides=(1,)), name="v", instruction_id=0)
    return dump(run("Execute", execute(0, 9), kernel("add", 1, 5), logged, allocators=("pool",)))


def shared_dump(events: int, name: int, metadata: int) -> bytes:
    """An ETDump whose events all share one name and one metadata vector with these numbers of bytes."""
    builder = flatbuffers.Builder(LARGE)
    text = builder.CreateString("x" * name)
    blob = builder.CreateByteVector(bytes(metadata)) if metadata else 0
    offsets = []
    for _ in range(events):
        builder.StartObject(8)
        builder.PrependUOffsetTRelativeSlot(0, text, 0)
        if blob:
            builder.PrependUOffsetTRelativeSlot(5, blob, 0)
        builder.PrependUint64Slot(7, 1, 0)
        inner = builder.EndObject()
        builder.StartObject(3)
        builder.PrependUOffsetTRelativeSlot(0, inner, 0)
        offsets.append(builder.EndObject())
    vector = vector_of(builder, offsets)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.PrependUOffsetTRelativeSlot(3, vector, 0)
    runs = vector_of(builder, [builder.EndObject()])
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, runs, 0)
    builder.FinishSizePrefixed(builder.EndObject(), b"ED00")
    return bytes(builder.Output())


def vector_of(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def absurd_dumps() -> list[bytes]:
    lengths = (2**32 - 1, 2**31 - 1, 2**28)
    return [each for length in lengths for each in with_lengths(small_dump(), length)]


def absurd_programs() -> list[bytes]:
    made = program_builders.program(
        program_builders.method(
            "forward",
            [program_builders.tensor(4, at=0), program_builders.tensor_list(0, 0)],
            [program_builders.kernel("aten::add.out", 0, 1)],
            inputs=[0],
        ),
        constants=[b"1234"],
        segments=[b"5678"],
    )
    return [each for length in (2**32 - 1, 2**28) for each in with_lengths(made, length)]


# The arguments with which each is ingested. All must be refused.
REFUSED: dict[str, tuple[str, Callable[[], list[bytes]]]] = {
    "lengths in an ETDump": ("ingest", absurd_dumps),
    "metadata that all events share": ("ingest", lambda: [shared_dump(20_000, 8, LARGE)]),
    "lengths in a program": ("ingest_program", absurd_programs),
}
SCRIPT = """
import resource, sys, time
import etq
from pathlib import Path

how, *files = sys.argv[1:]
warehouse = etq.open()
warehouse.ingest(Path(files[0]))
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for file in files[1:]:
    started = time.process_time()
    try:
        getattr(warehouse, how)(Path(file).read_bytes())
        print("read", file)
    except etq.EtqError as error:
        print("refused", error)
    assert time.process_time() - started < 60, file
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held)
"""


@pytest.mark.long
@pytest.mark.parametrize("what", thinned(REFUSED, [*REFUSED][:2]))
def test_absurd_counts_are_refused_before_allocation(what: str, tmp_path: Path) -> None:
    how, make = REFUSED[what]
    paths = [tmp_path / "good"]
    paths[0].write_bytes(small_dump())
    size = 0
    for at, content in enumerate(make()):
        paths.append(tmp_path / f"bad{at}")
        paths[-1].write_bytes(content)
        size = max(size, len(content))
    environment = {**os.environ, "PYTHONPATH": str(Path(etq.__file__).parents[1])}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, how, *map(str, paths)], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    *lines, grown = ran.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["refused"] * (len(paths) - 1), ran.stdout[-2000:]
    # The memory of reading itself: Arrow, numpy, threads. The files claim at least four times as much.
    assert int(grown) * 1024 < 64 * LARGE + 4 * size


@pytest.mark.parametrize(
    ("recognized", "content", "found"),
    [
        (rank_of, "a" * 70_000, ""),
        (rank_of, "[" + "a" * 70_000, ""),
        (rank_of, "1-" + "a" * 70_000 + "\nb", ""),
        (kind_of_bytes, b'{"a":"' + b'\\"' * 2**15, OTHER),
        (other_file, b'{"schema":"' + b"1" * 2**15 + b"x" * 2**15 + b'"', None),
        (other_file, b"<!---->" * 30, None),
    ],
)
def test_files_are_recognized_in_linear_time(recognized: Callable[[Any], Any], content: Any, found: Any) -> None:
    with checks.Seconds("recognizing"):
        assert recognized(content) == found


@pytest.mark.parametrize(
    ("text", "unit", "times"), [(b"", b"\0", 2**20), (b"", b"n", 2**17), (b'"', b" ", 2**20), (b'"', b'\\"', 2**17)]
)
def test_broken_json_is_repaired_in_linear_time(text: bytes, unit: bytes, times: int) -> None:
    """One character repeated, or a text without an end: four times as much takes less than eight times as long."""

    def seconds(count: int) -> float:
        broken = b'{"a":nan,' + text + unit * count
        start = time.process_time()
        repaired = b"".join(Repair().parts(broken[at : at + 2**17] for at in range(0, len(broken), 2**17)))
        taken = time.process_time() - start
        assert repaired == b'{"a":null,' + text + unit * count
        return taken

    # Square growth is sixteen times.
    assert min(seconds(4 * times) for _ in range(3)) < 8 * max(seconds(times) for _ in range(3))


def test_names_of_steps_are_looked_up_in_linear_time() -> None:
    """A trace of 50,000 steps; four times as many take less than eight times as long."""

    def seconds(count: int) -> float:
        patterns = [f"step {number}" for number in range(count)]
        flags, numbers = np.zeros(count, np.bool_), np.zeros(count, np.int64)
        names = _Names._make([patterns, *[flags] * 8, *[numbers] * 3])
        moments = _Moments(*[np.zeros(0, np.int64)] * 10)
        start = time.process_time()
        begins = _begin_launches(names, moments, patterns)
        taken = time.process_time() - start
        assert begins.all()
        return taken

    # Square growth is sixteen times.
    assert min(seconds(8000) for _ in range(3)) < 8 * max(seconds(2000) for _ in range(3))


@pytest.mark.long
def test_a_long_name_that_all_events_share_is_read_once(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashed for each event, it would be 40 GB."""
    encoded: list[int] = []

    def counted(buffer: Any, spans: Any) -> Any:
        encoded.append(spans.total())
        return string_views(buffer, spans)

    monkeypatch.setattr(dictionary, "string_views", counted)
    warehouse.ingest(shared_dump(40_000, LARGE, 0), name="shared")
    query = "SELECT count(*), count(DISTINCT s.name), max(length(s.name)) FROM signatures AS s"
    assert warehouse.rows(query)[1] == [(1, 1, LARGE)]
    assert warehouse.rows("SELECT count(*) FROM event_ticks")[1] == [(40_000,)]
    assert encoded and max(encoded) == LARGE


@pytest.mark.long
def test_logged_tensors_that_share_their_bytes_are_refused(warehouse: Warehouse) -> None:
    tensor = Tensor(scalar_type=0, sizes=(LARGE,), strides=(1,))
    events = [DebugEvent(tensor, name="v", instruction_id=at) for at in range(100)]
    with pytest.raises(
        FormatError, match="bytes: logged tensors overlap: the first 17 take 17,825,792 bytes, the debug"
    ):
        warehouse.ingest(dump(run("Execute", *events)), debug_buffer=bytes(LARGE))
    assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(0,)]
    # Some overlap is accepted: of several dumps, each may have a separate buffer, of which only one is given.
    warehouse.ingest(dump(run("Execute", *events[:3])), debug_buffer=bytes(LARGE))


LONG = 400_000


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("metrics", b"Test Case '-[A test_load_a" + b"_pte" * (LONG // 4)),
        (
            "metrics",
            b"Test Case '-[A test_load_a_pte]' measured [Clock Monotonic Time, s] " + b"values: [" * (LONG // 9),
        ),
        ("metrics", json.dumps([{"metric": "a" + " " * LONG, "actualValue": 1}]).encode()),
        ("etdump", dump(run("Execute", delegate_call(0, 9), delegated("a" + " " * LONG, 1, 2)))),
        ("log", b"abcd " * (LONG // 5)),
    ],
    ids=["a test's name", "values", "a metric's name", "an event's name", "a line of a log"],
)
def test_long_lines_take_no_time(kind: str, content: bytes) -> None:
    """Backtracking would take minutes at this length. `read` fails after a second of processor time."""
    checks.read(Input(kind, Original(kind, "file", content), content, None, ()))
