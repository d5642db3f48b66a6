"""Which files of a folder are profiling files: by what they begin with, whatever their names."""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path
from typing import Final

from etq.ingest.recognition import OTHER, PACKED, PROGRAM, RECORD, UNREADABLE, left_out
from etq.ingest.registry import HEAD
from tests.builders import dump
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace

EVENTS: Final = [event("cpu_op", "aten::add", 0, 10)]
DUMP: Final = dump()
LONG: Final = [{"pg_name": str(at), "ranks": [*range(100)]} for at in range(1000)]

TAKEN: Final = {
    "rank0.json": trace(*EVENTS),
    "rank0.json.gz": gzip.compress(trace(*EVENTS)),
    "with_a_mark": b"\xef\xbb\xbf" + trace(*EVENTS),
    "events_last.json": json.dumps({"deviceProperties": [{"name": "x"}], "traceEvents": EVENTS}).encode(),
    "long_head.json": json.dumps({"distributedInfo": {"pg_config": LONG}, "traceEvents": EVENTS}).encode(),
    "list.json": json.dumps(EVENTS).encode(),
    "cut_off.json": trace(*EVENTS)[:-20],
    "run.bin": DUMP,
    "log.txt": b"booting\n" + base64.b64encode(DUMP) + b"\ndone\n",
    "blob.dat": (CAPTURES / "prof_result" / "delegate.prof_result.bin").read_bytes(),
    # Whatever is in them: the reader says what is wrong.
    "damaged.etdp": b"nothing",
    "empty.pt.trace.json": b"",
}
LEFT: Final = {
    "empty.json": (b"", OTHER), "notes.txt": (b"traceEvents: none", OTHER),
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


def test_real_files_without_their_names(tmp_path: Path) -> None:
    damaged = ("bad_", "truncated_", "empty")
    for ending in (".etdp", ".pt.trace.json.gz", ".prof_result.bin"):
        paths = [path for path in CAPTURES.rglob(f"*{ending}") if not path.name.startswith(damaged)]
        paths = [path for path in paths if "malformed" not in path.parts]
        assert paths
        for path in paths:
            link = tmp_path / f"{len([*tmp_path.iterdir()])}"
            link.symlink_to(path)
            assert left_out(str(link)) is None, path
