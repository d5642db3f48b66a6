"""Large traces that follow other files are read by other processes."""

from __future__ import annotations

import errno
import gzip
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import EtqError
from etq.storage import bulk, other_process, sources
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.unit.test_warehouse import contents

pytestmark = pytest.mark.long

TRACES = sorted((CAPTURES / "torch").glob("*.pt.trace.json.gz"))[:3]


@pytest.fixture(params=["whole", "parts"])
def started(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The processes that are started. Every trace is large, and is read from memory or in parts."""
    monkeypatch.setattr(bulk, "SMALL", 0)
    monkeypatch.setattr(bulk, "processes", lambda: 2)
    if request.param == "parts":
        monkeypatch.setattr(sources, "SMALL", 1_000)
    processes: list[Any] = []
    start = subprocess.Popen

    def starting(*arguments: Any, **options: Any) -> Any:
        processes.append(start(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", starting)
    yield processes
    assert all(each.poll() is not None for each in processes)


IN_PARTS = pytest.mark.parametrize("started", ["parts"], indirect=True)


def number_of_captures(warehouse: Warehouse) -> Any:
    return warehouse.rows("SELECT count(*) FROM captures")[1][0][0]


def test_the_rows_are_those_of_files_that_are_read_here(started: list[Any]) -> None:
    with etq.open() as here, etq.open() as there:
        for each in TRACES:
            here.ingest(each)
        assert not started
        there.ingest_many(TRACES)
        # A first file is read here.
        assert [each.returncode for each in started] == [0] * (len(TRACES) - 1)
        assert contents(there) == contents(here)


def test_each_damaged_file_is_an_error_and_the_others_are_stored(started: list[Any], tmp_path: Path) -> None:
    packed = TRACES[0].read_bytes()
    damaged = {
        "cut.pt.trace.json.gz": packed[:-100],
        "text.pt.trace.json": gzip.decompress(packed)[:3_000],
        "other.pt.trace.json": b'{"a": [1, 2, 3]}' + b" " * 2_000,
    }
    for name, content in damaged.items():
        (tmp_path / name).write_bytes(content)
    alone = []
    with etq.open() as warehouse:
        for name in damaged:
            with pytest.raises(EtqError) as caught:
                warehouse.ingest(tmp_path / name)
            alone.append(str(caught.value))
        first, *results, last = warehouse.ingest_many([TRACES[0], *(tmp_path / name for name in damaged), TRACES[1]])
        assert [str(each) for each in results] == alone
        assert not isinstance(first, EtqError) and not isinstance(last, EtqError)
        assert number_of_captures(warehouse) == 2
    assert [each.returncode == 0 for each in started] == [False] * len(damaged) + [True]


@IN_PARTS
def test_a_file_that_changes_while_it_is_read_is_an_error(
    started: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL", 1_000)
    path = tmp_path / "changing.pt.trace.json.gz"
    path.write_bytes(TRACES[1].read_bytes())
    read = other_process.OtherProcess.tables

    def changed(self: other_process.OtherProcess) -> Any:
        self._process.wait()
        with path.open("ab") as file:
            file.write(b"\0")
        return read(self)

    monkeypatch.setattr(other_process.OtherProcess, "tables", changed)
    with etq.open() as warehouse:
        _, result = warehouse.ingest_many([TRACES[0], path])
        assert "changed while it was read" in str(result)
        assert number_of_captures(warehouse) == 1
    assert [each.returncode for each in started] == [0]


@IN_PARTS
def test_an_error_while_storing_ends_the_processes(started: list[Any]) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with etq.open() as warehouse, pytest.raises(KeyboardInterrupt):
        warehouse.ingest_many(TRACES, progress=stop)
    assert started


@IN_PARTS
def test_without_processes_or_temporary_files_traces_are_read_here(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    for where, name in ((subprocess, "Popen"), (tempfile, "TemporaryFile")):
        with monkeypatch.context() as patch, etq.open() as warehouse:
            patch.setattr(where, name, refused)
            warehouse.ingest_many(TRACES[:3])
            assert number_of_captures(warehouse) == 3
    assert not started
