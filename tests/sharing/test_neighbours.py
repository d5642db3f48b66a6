"""What lies next to a warehouse, or where a file is to be made, may have been put there by anyone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import etq
from etq.database import schema, template
from etq.database.publishing import new_file
from etq.errors import EtqError, WarehouseError
from etq.maintenance.merge import merge
from tests.command_line import run_etq

CAPTURE = "tests/captures/mlp/mlp.etdp"
KEPT = "a file of its owner's\n"
# A command that waits for a pipe or device is ended after so many seconds.
HANGS = 30


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clean") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURE, name="run")
    return path


@pytest.fixture
def lab(clean: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(clean, tmp_path / "lab.duckdb"))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "elsewhere" / "kept"
    path.parent.mkdir()
    path.write_text(KEPT)
    return path


def link_to(target: Path) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


# What DuckDB 2.0 opens next to a database, by the names in its library and by strace.
LOGS = (".wal", ".wal.checkpoint", ".wal.recovery")


@pytest.mark.parametrize("ending", LOGS)
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_a_log_that_is_no_regular_file_is_refused(lab: Path, kept: Path, ending: str, kind: str) -> None:
    planted = lab.with_name(lab.name + ending)
    absent = kept.with_name("absent")
    make = {"link": link_to(kept), "dangling link": link_to(absent), "pipe": os.mkfifo, "folder": Path.mkdir}
    make[kind](planted)
    before = lab.read_bytes()
    for read_only in (True, False):
        with pytest.raises(WarehouseError) as raised:
            etq.open(lab, read_only=read_only)
        assert str(raised.value) == f"{planted}: not a regular file; move it away, then open the warehouse again"
    assert kept.read_text() == KEPT and not absent.exists() and lab.read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ["label", "run", "a=b", "--db", "{lab}"],
        ["metric", "run", "a=1", "--db", "{lab}"],
        ["remove", "run", "-y", "--db", "{lab}"],
        ["prune", "--keep-last", "0", "-y", "--db", "{lab}"],
        ["merge", "{lab}", "-o", "{lab}.merged"],
        ["captures", "--db", "{lab}"],
        ["sql", "--safe", "FROM captures", "--db", "{lab}"],
    ],
    ids=lambda command: command[0] + ("" if "--safe" not in command else " --safe"),
)
def test_commands_write_to_no_file_that_a_log_links_to(lab: Path, kept: Path, command: list[str]) -> None:
    lab.with_name(f"{lab.name}.wal").symlink_to(kept)
    arguments = [each.format(lab=lab) for each in command]
    done = subprocess.run(
        [sys.executable, "-m", "etq", *arguments], capture_output=True, text=True, check=False, timeout=HANGS
    )
    assert kept.read_text() == KEPT
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "lab.duckdb.wal: not a regular file" in done.stderr


def test_a_log_beside_a_linked_warehouse_is_checked(lab: Path, kept: Path, tmp_path: Path) -> None:
    """DuckDB's log is next to the file that the link leads to."""
    (tmp_path / "link.duckdb").symlink_to(lab)
    lab.with_name(f"{lab.name}.wal").symlink_to(kept)
    with pytest.raises(WarehouseError, match=r"lab\.duckdb\.wal: not a regular file"):
        etq.open(tmp_path / "link.duckdb")
    assert kept.read_text() == KEPT


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_temporary_folder_that_is_none_is_refused(lab: Path, kept: Path, kind: str) -> None:
    planted = lab.with_name(f"{lab.name}.tmp")
    {"link": link_to(kept.parent), "file": Path.touch}[kind](planted)
    for read_only in (True, False):
        with pytest.raises(WarehouseError, match=r"lab\.duckdb\.tmp: not a folder; move it away"):
            etq.open(lab, read_only=read_only)
    assert [each.name for each in kept.parent.iterdir()] == ["kept"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files to others")
def test_what_belongs_to_another_user_is_refused(lab: Path) -> None:
    log = lab.with_name(f"{lab.name}.wal")
    log.touch()
    os.chown(log, 12345, 12345)
    with pytest.raises(WarehouseError, match=r"\.wal: belongs to another user than the warehouse; move it away"):
        etq.open(lab)
    # Of a team's warehouse, each member may write the log.
    lab.chmod(0o664)
    os.chown(lab, 12344, 12345)
    etq.open(lab).close()


def test_a_warehouse_is_not_made_through_a_link(kept: Path, tmp_path: Path) -> None:
    absent = kept.with_name("absent")
    (tmp_path / "lab.duckdb").symlink_to(absent)
    with pytest.raises(WarehouseError, match=r"lab\.duckdb: a link to a file that does not exist; remove the link"):
        etq.open(tmp_path / "lab.duckdb")
    with pytest.raises(WarehouseError, match="exists; a merge makes a new warehouse"):
        merge([], tmp_path / "lab.duckdb")
    assert not absent.exists()


def test_no_output_is_made_through_a_link(kept: Path, tmp_path: Path) -> None:
    absent, link = kept.with_name("absent"), tmp_path / "out.json"
    link.symlink_to(absent)
    for overwrite in (True, False):
        with (
            pytest.raises(EtqError, match=r"out\.json: a link to a file that does not exist; remove the link"),
            new_file(str(link), overwrite=overwrite) as written,
        ):
            Path(written).write_text("new")
    done = run_etq("export", CAPTURE, "--to", "chrome", "-o", str(link), "--force")
    assert "a link to a file that does not exist" in done.stderr
    assert [each.name for each in kept.parent.iterdir()] == ["kept"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files to others")
def test_no_output_follows_the_link_of_another_user(kept: Path, tmp_path: Path) -> None:
    link = tmp_path / "out.json"
    link.symlink_to(kept)
    os.chown(link, 12345, 12345, follow_symlinks=False)
    with pytest.raises(EtqError, match=r"out\.json: a link of another user; remove it"), new_file(str(link)) as written:
        Path(written).write_text("new")
    assert kept.read_text() == KEPT


# Sorts more than fits into memory, and is killed meanwhile.
SPILLS = """
import os, sys, duckdb
with duckdb.connect(sys.argv[1], read_only=True, config={"memory_limit": "64MB", "threads": "1"}) as connection:
    connection.execute("CREATE TEMP TABLE sorted AS SELECT range FROM range(3000000) ORDER BY hash(range)")
    os._exit(9)
"""


def test_what_a_killed_query_left_is_removed_by_the_next_writer(lab: Path) -> None:
    subprocess.run([sys.executable, "-c", SPILLS, str(lab)], check=False)
    temporary = lab.with_name(f"{lab.name}.tmp")
    assert any(temporary.iterdir())
    etq.open(lab, read_only=True).close()
    assert any(temporary.iterdir()), "another reader may use it"
    etq.open(lab).close()
    assert not temporary.exists()


def test_what_a_killed_merge_or_compaction_left_is_removed(lab: Path, tmp_path: Path) -> None:
    kill = (
        "import os, sys, etq; from etq.database import publishing; from etq.maintenance import {0}; "
        "{0}.{1} = lambda *_: os._exit(9); "
    )
    merging = kill.format("merge", "publish_new") + "etq.merge([sys.argv[1]], sys.argv[1] + '.all')"
    compacting = kill.format("compaction", "_put_in_place") + "etq.open(sys.argv[1]).compact()"
    for script in (merging, compacting):
        assert subprocess.run([sys.executable, "-c", script, str(lab)], check=False).returncode == 9
        [left] = tmp_path.glob(".etq-*")
        os.utime(left, (0, 0))
        with etq.open(lab) as warehouse:
            warehouse.compact()
        assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]


@pytest.mark.parametrize("ending", LOGS)
def test_a_log_that_is_a_hard_link_is_refused(lab: Path, kept: Path, ending: str) -> None:
    """DuckDB would write into the file, or cut it off, whose other name is elsewhere."""
    lab.with_name(lab.name + ending).hardlink_to(kept)
    with pytest.raises(WarehouseError, match=rf"{ending}: a hard link to another file; move it away"):
        etq.open(lab)
    assert kept.read_text() == KEPT


@pytest.mark.parametrize("ending", [*LOGS, ".tmp"])
def test_a_merge_or_a_copy_is_not_made_next_to_what_duckdb_would_open(lab: Path, kept: Path, ending: str) -> None:
    target = lab.with_name("new.duckdb")
    target.with_name(target.name + ending).symlink_to(kept)
    for command in (("merge", str(lab), "-o", str(target)), ("backup", str(lab), "-o", str(target))):
        done = run_etq(*command)
        assert done.exit_code == 1 and f"{target}{ending}: left by a process that was killed" in done.stderr, (
            done.output
        )
        assert not target.exists() and kept.read_text() == KEPT


def test_a_link_that_appears_while_a_warehouse_is_made_is_not_followed(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the checks, and before DuckDB makes its log."""
    path = tmp_path / "new.duckdb"
    found = template._template

    def planting(create: Callable[[duckdb.DuckDBPyConnection], None]) -> Path:
        path.with_name(f"{path.name}.wal").symlink_to(kept)
        return found(create)

    found(schema.create_all)
    monkeypatch.setattr(template, "_template", planting)
    with pytest.raises(WarehouseError):
        etq.open(path)
    assert kept.read_text() == KEPT


def test_files_that_are_named_like_unfinished_ones_stay(lab: Path) -> None:
    names = ("lab.duckdb.mine.compact", "merge-old-phones.all.duckdb", ".etq-mine", ".etq-1-abcdefgh")
    for name in names:
        (lab.parent / name).write_text(KEPT)
    (lab.parent / "lab.duckdb.mine.compact.tmp").mkdir()
    with etq.open(lab) as warehouse:
        warehouse.compact()
    merge([lab], lab.parent / "all.duckdb")
    assert all((lab.parent / name).read_text() == KEPT for name in names)
    assert (lab.parent / "lab.duckdb.mine.compact.tmp").is_dir()
    assert len([*lab.parent.iterdir()]) == len(names) + 3
