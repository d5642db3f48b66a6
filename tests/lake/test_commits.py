"""A capture is in a lake whole or not at all, whenever a writer is killed, and a lake is as it was at each version."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import WarehouseError
from etq.lake import Added, changes, check, compact, export
from etq.lake.reading import state
from etq.lake.reading.connection import connect_tables
from etq.lake.reading.tables import Lake
from etq.lake.writing import commits, stores
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.lake.test_lake import FLEET, contents, one_of
from tests.sampling import IS_WHOLE, whole

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


class KilledError(BaseException):
    """Ends a writer's work as a kill does: nothing of it runs any more."""


@pytest.fixture(scope="module")
def more() -> Iterator[Warehouse]:
    """Captures, some of them linked, to be added to a lake or to replace its own."""
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[1:3], labels={"build": "2"})
        record, program = (
            warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"),
            warehouse.ingest_program(CAPTURES / "mlp/mlp.pte"),
        )
        warehouse.ingest_many([CAPTURES / "mlp/mlp_1run.etdp"], link_to=[record, program])
        yield warehouse


def killed_after(number: int, work: Callable[[], object]) -> bool:
    """Do this work, but end after so many commits; whether there were so many."""
    left, commit, delete = number, commits.commit, stores.delete

    def counted(self: Lake, *arguments: Any, **options: Any) -> None:
        nonlocal left
        commit(self, *arguments, **options)
        left -= 1
        if left == 0:
            raise KilledError

    def deleted(*arguments: Any) -> None:
        if left != 0:
            delete(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits, "commit", counted)
        patched.setattr(stores, "delete", deleted)
        try:
            work()
        except KilledError:
            return True
        return False


@pytest.mark.parametrize("what", ["add", "replace", "compact"] if IS_WHOLE else ["add"])
def test_a_kill_between_any_two_commits(tmp_path: Path, what: str, more: Warehouse) -> None:
    """After a kill, readers see the lake before or after the operation; repeating the operation completes it."""

    def work(lake: Path) -> object:
        return compact(lake, leave_seconds=-1) if what == "compact" else export(lake, more, replace=what == "replace")

    def rows(lake: Path) -> list[Any]:
        names = ("captures", "labels", "signatures", "event_ticks", "records", "graphs", "programs", "instructions")
        counts = ", ".join(f"(SELECT count(*) FROM {name})" for name in names)
        return tables_of(lake, f"SELECT {counts}") + tables_of(
            lake, "SELECT c.sha256, l.value FROM captures AS c LEFT JOIN labels AS l USING (capture_id) ORDER BY ALL"
        )

    start, whole = tmp_path / "start", tmp_path / "whole"
    one_of(FLEET[:2], start, build="1")
    if what == "compact":
        export(start, more)
        one_of(FLEET[3:4], start, build="1")
    shutil.copytree(start, whole)
    work(whole)
    before, after = rows(start), rows(whole)
    assert (before == after) == (what == "compact")
    seen: list[bool] = []
    is_killed, number = True, 1
    while is_killed:
        lake = tmp_path / str(number)
        shutil.copytree(start, lake)
        is_killed = killed_after(number, lambda lake=lake: work(lake))  # type: ignore[misc]
        number += 1 if IS_WHOLE else 9  # Every ninth kill, unless all are asked for.
        now = rows(lake)
        # A record or program that nothing refers to yet may be there before the captures.
        assert now[1:] in (before[1:], after[1:]) and now[0][:4] in (before[0][:4], after[0][:4])
        seen.append(now[1:] == after[1:])
        if len(seen) % 5 == 1:
            assert [fault for fault in check(lake) if not fault.is_left_over] == []
            work(lake)
            assert rows(lake) == after
        shutil.rmtree(lake)
    assert len(seen) > (10 if IS_WHOLE else 2) and seen == sorted(seen) and seen[-1]


@whole
def test_what_a_killed_writer_left_is_compacted_away(tmp_path: Path, more: Warehouse) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:1], lake)
    before = tables_of(lake, "SELECT count(*) FROM event_ticks")
    for number in (1, 5):
        assert killed_after(number, lambda: export(lake, more))
    assert tables_of(lake, "SELECT count(*) FROM event_ticks") == before
    assert {fault.is_left_over for fault in check(lake)} == {True}
    compact(lake)
    assert {fault.is_left_over for fault in check(lake)} == {True}, "a writer may still be at work"
    compact(lake, leave_seconds=-1)
    assert check(lake) == [] and tables_of(lake, "SELECT count(*) FROM event_ticks") == before


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the names of files")
def test_what_is_added_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files before the commits that name them: after a power failure, the lake has all that was reported as added."""
    lake, on_disk = tmp_path / "lake", list[str]()
    one_of(FLEET[:1], lake)
    before, fsync = {*lake.rglob("*")}, os.fsync

    def noted(file: int) -> None:
        fsync(file)
        on_disk.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", noted)
    one_of(FLEET[1:2], lake)
    new = {str(path) for path in {*lake.rglob("*")} - before if path.is_file()}
    assert new <= {*on_disk}
    places = {path: at for at, path in enumerate(on_disk)}
    made = [path for path in new if "/_delta_log/" in path]
    assert len(made) > 3 and on_disk[-2] == max(path for path in made if "/captures/" in path)
    for commit in made:
        folder = commit.split("_delta_log")[0]
        assert all(places[path] < places[commit] for path in new - {*made} if path.startswith(folder))


def tables_of(lake: Path, query: str) -> list[Any]:
    """The rows of a query of a lake's tables alone."""
    with connect_tables(state.read(Lake.at(lake))) as connection:
        return connection.execute(query).fetchall()


def test_a_load_that_a_compaction_gave_up_is_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever's clock is wrong: its rows of children are gone."""
    lake, commit = tmp_path / "lake", commits.commit
    one_of(FLEET[:1], lake)
    compacted: list[bool] = []

    def late(self: Lake, table: str, *arguments: Any, **options: Any) -> None:
        if table == "captures" and not compacted:
            compacted.append(True)
            compact(lake, leave_seconds=-1)
        commit(self, table, *arguments, **options)

    monkeypatch.setattr(commits, "commit", late)
    with pytest.raises(WarehouseError, match="a compaction deleted files that took too long to add; add them again"):
        one_of(FLEET[1:2], lake)
    assert len(contents(lake)) == 1
    assert one_of(FLEET[1:2], lake) == Added(1, 0, 0)
    assert len(contents(lake)) == 2 and [fault for fault in check(lake) if not fault.is_left_over] == []


def test_versions(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:2], lake, build="1")
    first = state.read(Lake.at(lake)).version
    one_of(FLEET[2:3], lake, build="1")
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[:2], labels={"build": "2"})
        export(lake, warehouse, replace=True)
    compact(lake)
    asked = "SELECT c.sha256, c.labels, c.events FROM capture_summary AS c ORDER BY ALL"

    def at(version: int | None) -> list[Any]:
        with etq.open(lake, version=version) as warehouse:
            return warehouse.rows(asked)[1]

    assert [labels for _, labels, _ in at(first)] == ["build=1"] * 2
    assert len(at(first + 1)) == 3 and {labels for _, labels, _ in at(first + 1)} == {"build=1"}
    assert sorted(labels for _, labels, _ in at(None)) == ["build=1", "build=2", "build=2"] and at(first + 2) == at(
        None
    )
    assert {events for _, _, events in at(first)} <= {events for _, _, events in at(None)} and at(0) == []
    assert [(each.name, each.what) for each in changes(lake, first)] == [
        ("00", "replaced"), ("01", "replaced"), ("02", "added"),
    ]  # fmt: skip
    assert [each.what for each in changes(lake, first + 1, version=first)] == ["removed"]
    assert changes(lake, first + 2) == [], "compacting changes no capture"
    with etq.open(lake, version=first) as older, pytest.raises(WarehouseError, match="an older version"):
        older.safe_sql("SELECT 1")
    with pytest.raises(WarehouseError, match="lake: "):
        etq.open(lake, version=999)
    with pytest.raises(WarehouseError, match="only a lake has versions"):
        etq.open(tmp_path / "lab.duckdb", version=1)
