"""Large traces are read from their file in parts: what happens if another process writes to it meanwhile."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import EtqError, FormatError
from etq.ingest.trace import text
from etq.storage import large_file, sources
from etq.warehouse.ephemeral import open_ephemeral
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long

TRACE = CAPTURES / "torch" / "transformer_stack.pt.trace.json.gz"


@pytest.fixture(params=["json", "json.gz"])
def trace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sources, "SMALL", 1_000)
    monkeypatch.setattr(text, "_PART", 2**16)
    path = tmp_path / f"large.pt.trace.{request.param}"
    packed = TRACE.read_bytes()
    path.write_bytes(packed if request.param == "json.gz" else gzip.decompress(packed))
    os.utime(path, (0, 0))
    return path


def cut(path: Path) -> None:
    os.truncate(path, 5_000)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"new")


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


CHANGES = pytest.mark.parametrize("change", [cut, overwrite, grow], ids=lambda change: change.__name__)


@CHANGES
@pytest.mark.parametrize("after", [0, 2])
def test_a_file_that_changes_between_parts_stores_nothing(
    trace: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], after: int
) -> None:
    reads = 0
    read = large_file.LargeFile.__getitem__

    def reading(self: large_file.LargeFile, part: slice) -> bytes:
        nonlocal reads
        reads += 1
        if reads == after + 3:
            change(trace)
        return read(self, part)

    monkeypatch.setattr(large_file.LargeFile, "__getitem__", reading)
    with etq.open() as warehouse:
        with pytest.raises(FormatError, match="changed while it was read"):
            warehouse.ingest(trace)
        assert warehouse.rows("FROM captures")[1] == warehouse.rows("FROM event_ticks")[1] == []


@CHANGES
def test_a_file_that_changes_before_its_inputs_are_read(trace: Path, change: Callable[[Path], Any]) -> None:
    warehouse, capture = open_ephemeral(str(trace))
    assert warehouse.rows("FROM key_averages($capture)", capture=capture)[1]
    change(trace)
    with pytest.raises(EtqError, match="changed while it was read"):
        warehouse.rows("FROM key_averages($capture, by := 'shape')", capture=capture)


def test_a_file_that_the_system_cannot_read_any_more(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    source = sources.source_of(trace)
    monkeypatch.setattr(os, "pread", fails)
    monkeypatch.setattr(large_file, "file_digest", fails)
    for read in (lambda: source.content[:10], lambda: source.sha256):
        with pytest.raises(FormatError, match="can't be read: input/output error"):
            read()
    source.start_hashing()
    with pytest.raises(FormatError, match="can't be read: input/output error"):
        _ = source.sha256
