"""Faults around a warehouse: no space, no rights, files that vanish, a clock that goes backward."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import etq
from etq.database import contents
from etq.errors import WarehouseError
from etq.storage import capture as storing
from etq.storage.sources import source_of
from tests.processes import ROOT
from tests.sharing import captures

pytestmark = pytest.mark.long

# Root may write everywhere, unless it gives that up.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def error_of(*command: object, before: list[str] | None = None) -> str:
    """The error of a command that fails: one line, without a place in etq's code."""
    done = subprocess.run(
        [*(before or []), sys.executable, *map(str, command)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    return done.stderr


def filled(path: Path, count: int = 3) -> None:
    """A copy of a warehouse with so many captures, as etq has made and closed it."""
    path.write_bytes(_filled(count))
    contents.note_passed(str(path), is_own=True)


@cache
def _filled(count: int) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "lab.duckdb")
        with etq.open(path) as warehouse:
            for number in range(count):
                captures.ingest_one(warehouse, number)
        return path.read_bytes()


# Ingests until an error, with a limit on file sizes, and prints how many were ingested.
UNTIL_FULL = """
import resource, sys
import etq
from tests.sharing.captures import ingest_one
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
done = 0
try:
    with etq.open(sys.argv[1]) as warehouse:
        while True:
            ingest_one(warehouse, 1000 + done)
            done += 1
except etq.EtqError as error:
    print(done, type(error).__name__, error)
"""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path, moved = tmp_path / "lab.duckdb", tmp_path / "moved.duckdb"
    filled(path, 0)
    command = [sys.executable, "-c", UNTIL_FULL, str(path), str(2 * 2**20)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert output.returncode == 0 and output.stderr == "", output.stderr
    done, kind, error = output.stdout.split(" ", 2)
    assert kind == "WarehouseError" and error.startswith(f"{path}: ") and int(done) > 0
    assert "out of space" in error
    # With free space again: all captures that were reported are there, whole.
    shutil.copy(path, moved)
    if (log := Path(f"{path}.wal")).exists():
        shutil.copy(log, f"{moved}.wal")
    with etq.open(moved) as warehouse:
        assert captures.torn(warehouse) == []
        assert len(warehouse.captures().fetchall()) == int(done)
        captures.ingest_one(warehouse, 1000 + int(done))


# Ingests files at once, with a limit on file sizes, and prints what came before the error, and the error.
MANY_UNTIL_FULL = """
import resource, sys
import etq
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
told = []
try:
    with etq.open(sys.argv[1]) as warehouse:
        warehouse.ingest_many(sys.argv[3:], progress=lambda file, result: told.append(type(result).__name__))
except etq.EtqError as error:
    print(told.count("Capture"), len(told), type(error).__name__, error)
"""


def test_a_full_disk_ends_an_ingest_of_many(tmp_path: Path) -> None:
    """At the first file that it refuses, with the number of those that are stored: they are there, whole."""
    path, files = tmp_path / "lab.duckdb", []
    filled(path, 0)
    for number in range(40):
        files.append(tmp_path / f"c{number}.etdp")
        files[-1].write_bytes(captures.content(number))
    command = [sys.executable, "-c", MANY_UNTIL_FULL, str(path), str(40_000), *map(str, files)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert output.returncode == 0 and output.stderr == "", output.stderr
    stored, told, kind, error = output.stdout.split(" ", 3)
    assert kind == "WarehouseError" and 0 < int(stored) == int(told) < 40
    assert "out of space" in error and error.endswith(f"; {stored} of 40 files are stored\n"), error
    with etq.open(path, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == int(stored)
        assert warehouse.rows("SELECT count(DISTINCT e.capture_id) FROM events AS e")[1] == [(int(stored),)]


@pytest.mark.skipif(bool(UNPRIVILEGED) and not shutil.which("setpriv"), reason="root, and no setpriv to give up rights")
def test_without_the_right_to_write(tmp_path: Path) -> None:
    path, capture = tmp_path / "lab.duckdb", tmp_path / "c9.etdp"
    filled(path)
    capture.write_bytes(captures.content(9))
    before = path.read_bytes()
    path.chmod(0o444)
    ingest = ("-m", "etq", "ingest", capture, "--db")
    output = error_of(*ingest, path, before=UNPRIVILEGED)
    assert output.startswith(f"Error: {path}: ") and "get permission to write" in output
    assert "permission denied" in output.lower()
    path.chmod(0o644)
    tmp_path.chmod(0o555)
    output = error_of(*ingest, tmp_path / "new.duckdb", before=UNPRIVILEGED)
    assert output.startswith(f"Error: {tmp_path}/new.duckdb: ") and "permission denied" in output.lower()
    output = error_of(*ingest, path, before=UNPRIVILEGED)
    assert f"{path}" in output and "permission denied" in output.lower()
    # It is read all the same.
    command = [*UNPRIVILEGED, sys.executable, "-m", "etq", "captures", "--db", str(path), "--format", "csv"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert len(asked.stdout.splitlines()) == 4
    tmp_path.chmod(0o755)
    assert path.read_bytes() == before
    sidecar = tmp_path / "c9.etdp.json"
    sidecar.write_text("{}")
    sidecar.chmod(0)
    output = error_of(*ingest, path, before=UNPRIVILEGED)
    assert f"{sidecar}: can't be read: permission denied; sidecar=False leaves sidecars out" in output
    capture.chmod(0)
    assert f"{capture}: can't be read: permission denied" in error_of(
        *ingest, path, "--no-sidecar", before=UNPRIVILEGED
    )


def test_a_warehouse_that_is_removed_or_replaced_while_it_is_open(tmp_path: Path) -> None:
    path, other = tmp_path / "lab.duckdb", tmp_path / "other.duckdb"
    filled(other, 2)
    for is_replaced in (False, True):
        filled(path)
        with etq.open(path) as warehouse:
            if is_replaced:
                other.replace(path)
            else:
                path.unlink()
            for ingest in (
                lambda: captures.ingest_one(warehouse, 9),
                lambda: warehouse.ingest_many([captures.content(9), captures.content(10)]),
                lambda: warehouse.label("c1", a="b"),
            ):
                with pytest.raises(WarehouseError, match=r"lab.duckdb: removed or replaced while it was open"):
                    ingest()
            if not is_replaced:
                with pytest.raises(WarehouseError, match="already open in this process"):
                    etq.open(path)
        assert not Path(f"{path}.wal").exists() and path.exists() == is_replaced
    with etq.open(path) as warehouse:
        assert len(warehouse.captures().fetchall()) == 2


def test_a_log_of_another_warehouse_beside_the_file(tmp_path: Path) -> None:
    path, other = tmp_path / "lab.duckdb", tmp_path / "other.duckdb"
    code = (
        "import os, sys, duckdb; c = duckdb.connect(sys.argv[1]); c.execute('CREATE TABLE t (i INTEGER)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, other], check=True)
    filled(path)
    Path(f"{other}.wal").rename(f"{path}.wal")
    with pytest.raises(WarehouseError, match=r"lab.duckdb.wal belongs to another database; move it away"):
        etq.open(path)


def test_files_that_were_cut_off(tmp_path: Path) -> None:
    for size in (4096, 8192):
        path = tmp_path / f"lab{size}.duckdb"
        filled(path)
        os.truncate(path, size)
        for read_only in (True, False):
            with pytest.raises(WarehouseError, match=r"lab\d+.duckdb: a database that breaks off: copy it again"):
                etq.open(path, read_only=read_only)
    path = tmp_path / "empty.duckdb"
    path.touch()
    with pytest.raises(WarehouseError, match=r"empty.duckdb: not a DuckDB database"):
        etq.open(path, read_only=True)
    with etq.open(path) as warehouse:
        captures.ingest_one(warehouse, 1)
        [(version,)] = warehouse.rows("SELECT tags['storage_version'] FROM duckdb_databases() LIMIT 1")[1]
        assert version.startswith("v1.5")


@pytest.mark.parametrize("small", [2**20, 2**30])
def test_the_hash_is_of_the_bytes_that_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """Also of a file that is larger than `SMALL`: its copy is mapped."""
    monkeypatch.setattr("etq.storage.sources.SMALL", small)
    path = tmp_path / "large"
    for change in (None, path.unlink, lambda: path.write_bytes(b"other" * 2**20), lambda: os.truncate(path, 0)):
        # Content that could be JSON would be read in parts, which refuses a file that changes.
        content = b"\0" + os.urandom(2**20)
        path.write_bytes(content)
        source = source_of(path)
        if change is not None:
            change()
        source.start_hashing()
        assert source.sha256 == hashlib.sha256(content).hexdigest()
        assert bytes(source.content) == content


def test_a_clock_that_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = [datetime(2026, 5, 1), datetime(2020, 1, 1), datetime(2020, 1, 2), datetime(2026, 5, 2)]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return moments[0]

    monkeypatch.setattr(storing, "datetime", Clock)
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        for number in range(4):
            captures.ingest_one(warehouse, number)
            moments.pop(0) if len(moments) > 1 else None
            assert warehouse.capture("@latest").name == f"c{number}"
        monkeypatch.undo()
        at = [moment for (moment,) in warehouse.rows("SELECT ingested_at FROM captures ORDER BY capture_id")[1]]
        tick = timedelta(microseconds=1)
        first = datetime(2026, 5, 1)
        assert at == [first, first + tick, first + 2 * tick, datetime(2026, 5, 2)]
        assert [each.name for each in warehouse.prune(1, dry_run=True)] == ["c0", "c1", "c2"]
