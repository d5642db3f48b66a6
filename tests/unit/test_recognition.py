"""What a file is, by what it begins with, whatever its name; and what is said of files that are given as what they are not."""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from etq import catalog
from etq.cli.summary import NAMES
from etq.errors import FormatError
from etq.ingest.recognition import KINDS, OTHER, PACKED, PROGRAM, RECORD, UNREADABLE, left_out
from etq.ingest.registry import FORMATS, HEAD
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump
from tests.conftest import CAPTURES
from tests.graph_traces import capture, launches, layers
from tests.trace_builders import event, trace

EVENTS: Final = [event("cpu_op", "aten::add", 0, 10)]
DUMP: Final = dump()
LONG: Final = [{"pg_name": str(at), "ranks": [*range(100)]} for at in range(1000)]

TAKEN: Final = {
    "rank0.json": trace(*EVENTS), "rank0.json.gz": gzip.compress(trace(*EVENTS)),
    "with_a_mark": b"\xef\xbb\xbf" + trace(*EVENTS),
    "events_last.json": json.dumps({"deviceProperties": [{"name": "x"}], "traceEvents": EVENTS}).encode(),
    "long_head.json": json.dumps({"distributedInfo": {"pg_config": LONG}, "traceEvents": EVENTS}).encode(),
    "list.json": json.dumps(EVENTS).encode(), "cut_off.json": trace(*EVENTS)[:-20], "run.bin": DUMP,
    "memory.raw.json": b"[[-1, 1, 65536, 0], [1700000000000000000, 2, 8192, 2]]",
    "memory.json.gz": gzip.compress(b"[[1700000000000000, 1700000000000010], [[0, 1"),
    "log.txt": b"booting\n" + base64.b64encode(DUMP) + b"\ndone\n",
    "blob.dat": (CAPTURES / "prof_result" / "delegate.prof_result.bin").read_bytes(),
    # Whatever is in them: the reader says what is wrong.
    "damaged.etdp": b"nothing",
    "empty.pt.trace.json": b"",
}  # fmt: skip
LEFT: Final = {
    "empty.json": (b"", OTHER), "points.json": (b"[[1, 2, 3, 4], [5, 6, 7, 8]]", OTHER), "grid.json": (b"[[-1, 1, 2]]", OTHER),
    "notes.txt": (b"traceEvents: none", OTHER),
    "results.json": (b'{"metrics": {"traceEvents": []}}', OTHER),
    "rows.json": (b'[{"name": "aten::add", "calls": 2}]', OTHER),
    "notebook.ipynb": (json.dumps({"cells": [json.dumps({"traceEvents": []})]}).encode(), OTHER),
    "execution_trace.json": (b'{"schema": "1.1.1", "pid": 1, "nodes": [{"id": 1}]}', OTHER),
    "snapshot.pickle": (b"\x80\x04}\x94.", OTHER), "zeros.bin": (bytes(4096), OTHER),
    "numbers.bin": (b"".join(at.to_bytes(4, "little") for at in range(1000)), OTHER),
    "ones.bin": ((1).to_bytes(4, "little") * 1000, OTHER), "model.etrecord": (b"PK\x03\x04" + bytes(100), RECORD),
    "model.pte": (b"\x10\0\0\0ET12" + bytes(100), PROGRAM),
    "cut.json.gz": (b"\x1f\x8b\x08\x00" + b"\xff" * 100, PACKED),
    "table.csv.gz": (gzip.compress(b"op,calls\nadd,2\n"), OTHER),
}  # fmt: skip


def test_each_format_has_names() -> None:
    [format] = [column for column in catalog.public_object("captures").columns if column.name == "format"]
    assert {*FORMATS} <= {*KINDS} and {*FORMATS} <= {*NAMES}
    assert [name for name in FORMATS if name not in format.text] == []


def test_what_a_file_is(tmp_path: Path) -> None:
    cases = {name: (content, None) for name, content in TAKEN.items()} | LEFT
    for name, (content, _) in cases.items():
        (tmp_path / name).write_bytes(content)
    assert {name: left_out(str(tmp_path / name)) for name in cases} == {
        name: reason for name, (_, reason) in cases.items()
    }


def test_no_more_than_the_beginning_is_read(tmp_path: Path) -> None:
    """What follows the first bytes isn't looked at, nor is a bomb unpacked."""
    late = b'{"notes": "' + b"x" * HEAD + b'", ' + trace(*EVENTS)[1:]
    (tmp_path / "late.json").write_bytes(late)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(bytes(2**26)))
    assert left_out(str(tmp_path / "late.json")) == left_out(str(tmp_path / "bomb.json.gz")) == OTHER


def test_pipes_and_links_to_nothing_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.json").symlink_to(tmp_path / "none")
    assert left_out(str(tmp_path / "pipe.json")) == left_out(str(tmp_path / "link.json")) == UNREADABLE


A_TRACE: Final = trace(event("cpu_op", "aten::add", 0, 10))
MLP: Final = CAPTURES / "mlp"
FILES: Final = {
    "a trace in JSON": gzip.compress(A_TRACE),
    "an ETDump": (MLP / "mlp.etdp").read_bytes(),
    "an ExecuTorch program (.pte)": (MLP / "mlp.pte").read_bytes(),
    "a zip, perhaps an ETRecord": (MLP / "mlp.etrecord").read_bytes(),
}
# Of options what they take, and what a file of another kind is told.
OPTIONS: Final = {
    "etrecord": ("a zip, perhaps an ETRecord", "not an ETRecord; give the .etrecord of the program"),
    "pte": ("an ExecuTorch program (.pte)", "not a program; give the .pte that was run"),
    "debug_buffer": (None, "not a debug buffer; give the file of values that the runtime wrote with the ETDump"),
    "metrics": (None, "not a file of metrics; give a log of the runner, or JSON"),
}


def readers(warehouse: Warehouse) -> tuple[Callable[..., Any], ...]:
    return warehouse.ingest, open_ephemeral


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", FILES)
def test_what_is_given_with_a_dump(warehouse: Warehouse, option: str, kind: str) -> None:
    fitting, message = OPTIONS[option]
    given: dict[str, Any] = {option: [FILES[kind]] if option == "metrics" else FILES[kind]}
    if kind == fitting:
        assert warehouse.ingest(FILES["an ETDump"], **given).is_new
        return
    if (option, kind) == ("metrics", "an ETDump"):
        message = "bytes"  # as for any file without metrics: the log of a device may have a dump, too
    with pytest.raises(FormatError) as raised:
        warehouse.ingest(FILES["an ETDump"], **given)
    assert message in str(raised.value)
    assert kind in str(raised.value) or option == "metrics"
    assert warehouse.rows("FROM captures")[1] == []


@pytest.mark.parametrize("kind", [each for each in FILES if each != "a trace in JSON"])
def test_what_is_given_as_a_graph_capture(warehouse: Warehouse, kind: str) -> None:
    message = "not a graph capture; give the trace that torch's profiler wrote while the graphs were captured"
    for read in readers(warehouse):
        with pytest.raises(FormatError) as raised:
            read(A_TRACE, graph_captures=[FILES[kind]])
        assert f"this is {kind}, {message}" in str(raised.value)


def test_a_trace_is_not_its_own_capture(warehouse: Warehouse) -> None:
    nodes = layers(2)
    for read in readers(warehouse):
        with pytest.raises(FormatError, match="is the trace itself; give the trace that was recorded while its graphs"):
            read(launches([nodes]), graph_captures=[capture([nodes]), launches([nodes])])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"etrecord": MLP / "mlp.etrecord"}, "a trace in JSON has no ETRecord: leave it out, or give an ETDump"),
        ({"debug_buffer": MLP / "mlp_debug.bin"}, "a trace in JSON has no debug buffer: leave it out"),
    ],
)
def test_what_a_trace_does_not_have(warehouse: Warehouse, given: dict[str, Any], message: str) -> None:
    for each in given.values():
        assert each.exists()
    for read in readers(warehouse):
        with pytest.raises(FormatError, match=message):
            read(A_TRACE, **given)
    assert warehouse.rows("FROM captures")[1] == []
