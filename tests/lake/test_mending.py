"""Going back to a version of a lake; taking out what is damaged; what is left over, and a disk that is full."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import etq
from etq.cli import main
from etq.database import temporary
from etq.errors import WarehouseError
from etq.lake import changes, check, compact, export, repair, restore
from etq.lake.reading import state
from etq.lake.reading.tables import Lake
from etq.lake.writing import commits, mending
from tests.conftest import CAPTURES
from tests.lake.test_lake import FLEET, contents, one_of

deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


def events_by_the_logs(lake: Path) -> int:
    """The events of the captures, as another engine reads them from the logs of the tables."""
    names = ("captures", "event_ticks")
    files = {name: deltalake.DeltaTable(str(lake / name)).file_uris() for name in names}
    query = """
        SELECT count(*) FROM read_parquet($event_ticks, hive_partitioning = true) AS t
        SEMI JOIN read_parquet($captures, hive_partitioning = true) AS c USING (capture_id, load_id)
    """
    return int(duckdb.execute(query, files).fetchall()[0][0])


def events(rows: list[Any]) -> int:
    return sum(number for _, _, number, _ in rows)


def test_a_version_is_restored(tmp_path: Path) -> None:
    """Also one before captures were replaced, and before a compaction took its loads out of the logs."""
    lake = tmp_path / "lake"
    versions: dict[int, list[Any]] = {}

    def note() -> None:
        versions[state.read(Lake.at(lake)).version] = contents(lake)

    one_of(FLEET[:2], lake, build="1")
    note()
    one_of(FLEET[2:4], lake, build="1")
    note()
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[1:3], labels={"build": "2"})
        export(lake, warehouse, replace=True)
    note()
    compact(lake)
    note()
    assert len({str(rows) for rows in versions.values()}) == 3
    for version, rows in [*versions.items(), *reversed(versions.items())]:
        before = len(contents(lake))
        assert restore(lake, version) == (before, len(rows))
        assert contents(lake) == rows and events_by_the_logs(lake) == events(rows)
        assert [fault for fault in check(lake) if not fault.is_left_over] == []
        assert changes(lake, version) == []
    assert one_of(FLEET[4:5], lake).new == 1
    compact(lake, leave_seconds=-1)
    assert check(lake) == [] and len(contents(lake)) == len(versions[min(versions)]) + 1


def test_programs_that_were_put_together_stay(tmp_path: Path) -> None:
    """A version of captures is restored although the files that programs had then are deleted."""
    lake = tmp_path / "lake"
    etq.lake.add(lake, lambda warehouse: warehouse.ingest_program(CAPTURES / "mlp/mlp.pte"))
    etq.lake.add(lake, lambda warehouse: warehouse.ingest_program(CAPTURES / "convnet_xnn/convnet_xnn.pte"))
    one_of(FLEET[:1], lake)
    version = state.read(Lake.at(lake)).version
    compact(lake, leave_seconds=-1)
    one_of(FLEET[1:2], lake)
    assert restore(lake, version) == (2, 1) and [fault for fault in check(lake) if not fault.is_left_over] == []
    with etq.open(lake) as opened:
        assert opened.rows("SELECT count(*) FROM programs")[1] == [(2,)]


def restorable(lake: Path) -> int:
    """Make a lake of one capture, which a version of two and then one of none follow; return that of two."""
    one_of(FLEET[:1], lake)
    one_of(FLEET[1:2], lake)
    restore(lake, 0)
    one_of(FLEET[2:3], lake)
    return 2


def test_what_is_restored_while_a_compaction_looks_for_old_files_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    version = restorable(lake)
    vacuum = deltalake.DeltaTable.vacuum
    done: list[Any] = []

    def late(table: Any, *arguments: Any, **options: Any) -> Any:
        found = vacuum(table, *arguments, **options)
        if found and not done:
            done.append(found)
            assert restore(lake, version) == (1, 2)
        return found

    monkeypatch.setattr(deltalake.DeltaTable, "vacuum", late)
    compact(lake, leave_seconds=0)
    assert done and len(contents(lake)) == 2 and [fault for fault in check(lake) if not fault.is_left_over] == []


def test_what_a_compaction_deletes_while_it_is_restored_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process added meanwhile stays."""
    lake = tmp_path / "lake"
    version = restorable(lake)
    rows = contents(lake)
    commit = commits.change

    def late(*arguments: Any) -> bool:
        made = commit(*arguments)
        if made and all(each.exists() for each in files):
            one_of(FLEET[3:4], lake)
            for each in files:
                each.unlink()
        return made

    files = [lake / table / each.path for table, of in state.read(Lake.at(lake), version).files.items() for each in of]
    monkeypatch.setattr(mending, "change", late)
    with pytest.raises(WarehouseError, match="missing, so that version 2 can't be restored$"):
        restore(lake, version)
    assert [fault for fault in check(lake) if not fault.is_left_over] == []
    found = contents(lake)
    assert len(found) == 2 and rows[0] in found


def test_a_version_whose_files_are_deleted_is_not_restored(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:2]:
        one_of([path], lake)
    compact(lake, leave_seconds=-1)
    rows, before = contents(lake), sorted(lake.rglob("*"))
    for version, message in (
        (1, "missing, so that version 1 can't be restored"),
        (99, "has no version 99; the latest"),
    ):
        result = CliRunner().invoke(main, ["lake", "restore", str(lake), "--version", str(version)])
        assert result.exit_code == 1 and message in result.output and len(result.output.splitlines()) == 1
    assert contents(lake) == rows and sorted(lake.rglob("*")) == before
    result = CliRunner().invoke(main, ["lake", "restore", str(lake), "--version", "3"])
    assert (result.exit_code, result.output) == (0, f"{lake}: 2 captures, now 2\n")


@pytest.mark.parametrize("table", ["captures", "runs", "event_ticks"])
@pytest.mark.parametrize("how", ["missing", "cut", "other rows"])
def test_what_is_damaged_is_taken_out(tmp_path: Path, table: str, how: str) -> None:
    """The captures of the damaged load, and no other; they can be added again."""
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    one_of(FLEET[1:3], lake)
    rows = contents(lake)
    damaged = next(path for path in (lake / table).glob("load_id=*-2/*.parquet"))
    if how == "missing":
        damaged.unlink()
    elif how == "cut":
        damaged.write_bytes(damaged.read_bytes()[:-100])
    else:
        damaged.write_bytes(next((lake / table).glob("load_id=*-1/*.parquet")).read_bytes())
    result = CliRunner().invoke(main, ["lake", "check", str(lake), "--repair"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{damaged}: ")
    named = [line.split(": ")[0] for line in result.stdout.splitlines() if line.endswith(": taken out; add it again")]
    assert named == ([] if table == "captures" else ["01", "02"])
    assert len(contents(lake)) == 1 and [fault for fault in check(lake) if not fault.is_left_over] == []
    assert events_by_the_logs(lake) == events(contents(lake))
    assert one_of(FLEET[:3], lake).new == 2
    assert contents(lake) == rows
    compact(lake, leave_seconds=-1)
    assert check(lake) == [] and contents(lake) == rows


def test_damaged_records_are_taken_out(tmp_path: Path) -> None:
    lake, record = tmp_path / "lake", CAPTURES / "mlp/mlp.etrecord"

    def read(warehouse: etq.Warehouse) -> None:
        warehouse.ingest_many([CAPTURES / "mlp/mlp.etdp"], link_to=[warehouse.ingest_record(record)])

    etq.lake.add(lake, read)
    query = "SELECT m.* FROM module_times AS m ORDER BY ALL"
    with etq.open(lake) as opened:
        before = opened.rows(query)
    [graphs] = (lake / "graphs").glob("load_id=*/*.parquet")
    graphs.unlink()
    assert repair(lake) == [] and [fault for fault in check(lake) if not fault.is_left_over] == []
    with etq.open(lake) as opened:
        counts = "SELECT (SELECT count(*) FROM records), (SELECT count(*) FROM captures)"
        assert opened.rows(counts)[1] == [(0, 1)]
    etq.lake.add(lake, lambda warehouse: warehouse.ingest_record(record))
    with etq.open(lake) as opened:
        assert opened.rows(counts)[1] == [(1, 1)]
        assert opened.rows(query) == before and len(before[1]) > 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can't be mounted")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Leave no room on a disk."""
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass


def test_compacting_frees_room_on_a_full_disk(small_disk: Path) -> None:
    """What nobody needs is deleted before anything is written."""
    lake = small_disk / "lake"
    for path in FLEET[:3]:
        one_of([path], lake)
    rows = contents(lake)
    left = lake / "event_ticks/load_id=ab-1/left.parquet"
    left.parent.mkdir()
    left.write_bytes(bytes(1 << 20))
    os.utime(left, (time.time() - 10**6,) * 2)
    fill(small_disk)
    assert shutil.disk_usage(small_disk).free == 0
    assert compact(lake) == (3, 1)
    assert not left.exists() and contents(lake) == rows
    assert shutil.disk_usage(small_disk).free > 1 << 19


def test_a_full_disk_is_an_error_of_one_line(small_disk: Path) -> None:
    lake = small_disk / "lake"
    for path in FLEET[:3]:
        one_of([path], lake)
    rows = contents(lake)
    fill(small_disk)
    for command in (["compact", str(lake)], ["add", str(lake), str(FLEET[3])]):
        result = CliRunner().invoke(main, ["lake", *command])
        [*_, error] = result.output.splitlines()
        assert result.exit_code == 1 and error.startswith(f"Error: {lake}"), result.output
        assert error.lower().endswith(": no space left on device") and "{" not in error
    assert contents(lake) == rows
    (small_disk / "filling").unlink()
    assert one_of(FLEET[3:4], lake).new == 1
    compact(lake, leave_seconds=-1)
    assert check(lake) == [] and len(contents(lake)) == 4


def test_what_is_not_moved_to_its_place_is_swept(tmp_path: Path) -> None:
    """Names that DuckDB and the library give to files until they are whole; folders of loads without files."""
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    left = [
        lake / "captures/_delta_log/00000000000000000002.json#1",
        lake / "runs/_delta_log/00000000000000000001.checkpoint.parquet#2",
        lake / "runs/load_id=ab-1/tmp_0123456789abcdef.parquet",
        lake / "runs/load_id=cd-1",
    ]
    for path in left[:3]:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"PAR1")
    left[3].mkdir()
    inside = {*lake.rglob("*")} - {*left}
    assert {fault.file for fault in check(lake)} >= {str(left[2])}
    compact(lake)
    assert all(path.exists() for path in left), "a writer may still be at work"
    for path in left:
        os.utime(path, (time.time() - 10**6,) * 2)
    compact(lake)
    assert not any(path.exists() for path in left)
    assert {path for path in inside if path.is_file()} <= {*lake.rglob("*")} and check(lake) == []


def test_temporary_folders_of_killed_commands_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the next command; one that another process still has is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    command = [sys.executable, "-c", "from etq.database.temporary import temporary_folder as t\nwith t() as f: print(f, flush=True); input()"]  # fmt: skip
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    folders = []
    for each in started:
        assert each.stdout is not None
        folders.append(Path(each.stdout.readline().strip()))
        (folders[-1] / "added.duckdb").write_bytes(b"x")
    started[0].send_signal(signal.SIGKILL)
    started[0].wait()
    with temporary.temporary_folder():
        assert all(each.exists() for each in folders), "it may just have been made"
    for folder in folders:
        os.utime(folder, (time.time() - 10**4,) * 2)
    with temporary.temporary_folder() as own:
        assert [each.exists() for each in folders] == [False, True] and Path(own).exists()
    for each in started:
        each.communicate("\n")
    assert [*tmp_path.iterdir()] == []


def test_folders_that_only_have_such_a_name_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake, too, may be in the folder for temporary files, and be called so."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    lake = tmp_path / "etq-lake-fleet"
    one_of(FLEET[:1], lake)
    (tmp_path / "etq-lake-1-abcdefgh").mkdir()
    for folder in (lake, tmp_path / "etq-lake-1-abcdefgh"):
        os.utime(folder, (time.time() - 10**6,) * 2)
    with temporary.temporary_folder():
        assert check(lake) == []
        assert (tmp_path / "etq-lake-1-abcdefgh").exists()


def test_a_killed_add_leaves_nothing_beside_the_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aside = tmp_path / "temporary"
    aside.mkdir()
    environment = {**os.environ, "TMPDIR": str(aside)}
    command = [sys.executable, "-m", "etq", "lake", "add", str(tmp_path / "lake"), *map(str, FLEET)]
    writer = subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)
    for _ in range(600):
        if [*aside.rglob("*.duckdb")]:
            break
        time.sleep(0.05)
    writer.kill()
    writer.wait()
    left = [*aside.iterdir()]
    assert left
    for each in left:
        os.utime(each, (time.time() - 10**4,) * 2)
    subprocess.run(command[:-18], env=environment, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    assert [*aside.iterdir()] == []
