"""Copies of a warehouse that others use: of one moment, whole or not there, and never over what somebody else needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

import etq
from tests.command_line import run_etq
from tests.processes import ROOT
from tests.sharing import captures
from tests.sharing.test_faults import filled
from tests.sharing.test_many_at_once import WRITER, started

pytestmark = pytest.mark.long


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with hardly any room."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def run(*arguments: object) -> Result:
    return run_etq(*map(str, arguments))


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables of a file, in any order, by DuckDB alone."""
    with duckdb.connect(str(path), read_only=True) as connection:
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        return {
            name: sorted(connection.execute(f'SELECT * FROM "{name}"').fetchall(), key=repr) for name in sorted(names)
        }


def test_a_copy_has_all_of_the_file(tmp_path: Path) -> None:
    path, copy = tmp_path / "lab.duckdb", tmp_path / "copy.duckdb"
    filled(path)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 42 AS answer")
    path.chmod(0o600)
    before = path.read_bytes()
    done = run("db", "backup", path, "-o", copy)
    assert done.exit_code == 0, done.stderr
    assert done.stderr == f"{copy}: {copy.stat().st_size / 1e6:.1f} MB\n" and done.stdout == ""
    assert rows_of(copy) == rows_of(path) and rows_of(copy)["mine"] == [(42,)]
    assert path.read_bytes() == before
    assert copy.stat().st_mode & 0o777 == 0o600
    with etq.open(copy) as warehouse:
        assert captures.torn(warehouse) == []
        captures.ingest_one(warehouse, 3)
    assert {each.name for each in tmp_path.iterdir()} == {"lab.duckdb", "copy.duckdb"}


def test_copies_while_others_write(tmp_path: Path) -> None:
    """A copy has what was committed before, and nothing in part."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    captures.write(tmp_path, range(6))
    with started(WRITER, path, tmp_path, *range(6)) as writer:
        assert writer.stdout is not None
        for number in range(2):
            last = int(writer.stdout.readline().split()[0])
            copy = tmp_path / f"copy{number}.duckdb"
            done = run("db", "backup", path, "-o", copy)
            assert done.exit_code == 0, done.stderr
            with etq.open(copy, read_only=True) as warehouse:
                names = {name for (name,) in warehouse.rows("SELECT name FROM captures")[1]}
                assert captures.torn(warehouse) == []
            assert {f"c{each}" for each in range(last + 1)} <= names
            assert names == {f"c{each}" for each in range(len(names))}
        writer.communicate()
        assert writer.returncode == 0
    with etq.open(path, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 6


def refusal(path: Path, output: Path, *options: str) -> str:
    before = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    done = run("db", "backup", path, "-o", output, *options)
    assert done.exit_code == 1 and done.stdout == "" and done.stderr.startswith("Error: "), done.stderr
    assert {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()} == before
    return done.stderr


def test_what_is_refused(tmp_path: Path) -> None:
    path, there = tmp_path / "lab.duckdb", tmp_path / "there.duckdb"
    filled(path)
    there.write_bytes(b"mine")
    assert f"{there}: exists; overwrite it with overwrite=True (--force)" in refusal(path, there)
    link, dangling, twin = tmp_path / "link.duckdb", tmp_path / "dangling.duckdb", tmp_path / "twin.duckdb"
    pipe, copy, nothing = tmp_path / "pipe.duckdb", tmp_path / "copy.duckdb", tmp_path / "no.duckdb"
    link.symlink_to(there)
    dangling.symlink_to(tmp_path / "nowhere.duckdb")
    os.link(path, twin)
    os.mkfifo(pipe)
    for source, output, message in (
        (path, link, f"{link}: a link; name the file itself"),
        (path, dangling, f"{dangling}: a link; name the file itself"), (path, path, f"{path}: the warehouse itself"),
        (path, twin, f"{twin}: the warehouse itself"), (path, pipe, f"{pipe}: not a file"),
        (path, tmp_path / "none" / "copy.duckdb", "its folder does not exist"),
        (tmp_path, copy, "a folder; name the file of a warehouse: lakes are not taken here"), (nothing, copy, "no such file"),
        (there, copy, "not a DuckDB database"),
    ):  # fmt: skip
        assert message in refusal(source, output, "--force")
    log = tmp_path / "there.duckdb.wal"
    log.write_bytes(b"log")
    assert f"{log}: left by a process that was killed" in refusal(path, there, "--force")
    log.unlink()
    assert run("db", "backup", path, "-o", there, "--force").exit_code == 0
    assert rows_of(there) == rows_of(path)


def test_a_full_disk_keeps_the_copy_before(small_disk: Path, tmp_path: Path) -> None:
    path, copy = tmp_path / "lab.duckdb", small_disk / "copy.duckdb"
    filled(path)
    shutil.copy(path, copy)
    before = copy.read_bytes()
    (small_disk / "other").write_bytes(b"x" * (2**24 - 2**19 - len(before)))
    done = run("db", "backup", path, "-o", copy, "--force")
    assert done.exit_code == 1 and "out of space: free some and repeat" in done.stderr, done.stderr
    assert copy.read_bytes() == before
    assert {each.name for each in small_disk.iterdir()} == {"copy.duckdb", "other"}


KILLED = """
import os, sys
from etq.database import publishing
from etq.maintenance.copying import backup
publishing.fsync_file = lambda path: os._exit(9)
backup(sys.argv[1], sys.argv[2], overwrite=True)
"""


def test_a_killed_backup_leaves_the_copy_before(tmp_path: Path) -> None:
    path, copy = tmp_path / "lab.duckdb", tmp_path / "copies" / "copy.duckdb"
    filled(path)
    copy.parent.mkdir()
    copy.write_bytes(b"before")
    done = subprocess.run([sys.executable, "-c", KILLED, path, copy], cwd=ROOT, check=False)
    assert done.returncode == 9 and copy.read_bytes() == b"before"
    with pytest.raises(etq.EtqError, match="exists"):
        etq.backup(path, copy)
