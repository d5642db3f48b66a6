"""Writers that overlap, or are killed, leave neither missing nor additional rows: for etq at any time, for all engines
once the loser or a compaction has removed them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import WarehouseError
from etq.lake import Added, compact, export
from etq.lake.reading.tables import Lake, loads_of
from etq.lake.writing import loads
from tests.conftest import CAPTURES
from tests.lake.engines import agree, by_etq, by_others, of_files
from tests.lake.test_lake import FLEET, contents, one_of
from tests.sampling import IS_WHOLE, whole

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


class KilledError(BaseException):
    """Ends a writer's work as a kill does: nothing of it runs any more."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.at(tmp_path / "lake")


def before_commit(patch: pytest.MonkeyPatch, meanwhile: Callable[[], object], to: str = "captures") -> None:
    """Have others do something once, just before the next commit to a table."""
    put, left = loads._put, [meanwhile]

    def putting(table: Any, *arguments: Any) -> None:
        if left and table.table_uri.rstrip("/").endswith(f"/{to}"):
            left.pop()()
        put(table, *arguments)

    patch.setattr(loads, "_put", putting)


def test_of_two_writers_of_a_file_one_wins(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path(lake.url)
    before_commit(monkeypatch, lambda: one_of(FLEET[:2], place, build="1"))
    assert one_of(FLEET[1:4], place, build="2") == Added(2, 1, 0)
    assert sorted(labels for _, labels, *_ in contents(place)) == ["build=1", "build=1", "build=2", "build=2"]
    before_commit(monkeypatch, lambda: one_of(FLEET[4:5], place))
    assert one_of(FLEET[4:5], place) == Added(0, 1, 0), "all of it is another's"
    assert agree(lake, *FLEET[:5])


def test_writers_of_other_files_disturb_nobody(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the same name, the second one's is longer."""
    monkeypatch.chdir(tmp_path)
    for number, path in enumerate(FLEET[:2]):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "run.etdp").write_bytes(path.read_bytes())
    files, place = [tmp_path / "0/run.etdp", tmp_path / "1/run.etdp"], Path(lake.url)
    before_commit(monkeypatch, lambda: one_of(files[:1], place))
    assert one_of(files[1:], place) == Added(1, 0, 0)
    with etq.open(place) as warehouse:
        assert sorted(warehouse.rows("SELECT name FROM captures")[1]) == [("1/run",), ("run",)]
    assert agree(lake, *files)


def test_replacing_and_compacting_begin_again_if_others_were_faster(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Path(lake.url)
    one_of(FLEET[:3], place, build="1")

    def replace(build: str) -> Added:
        with etq.open() as warehouse:
            warehouse.ingest_many(FLEET[1:2], labels={"build": build})
            return export(lake, warehouse, replace=True)

    before_commit(monkeypatch, lambda: replace("2"))
    assert replace("3") == Added(0, 0, 1)
    assert sorted(labels for _, labels, *_ in contents(place)) == ["build=1", "build=1", "build=3"]
    before_commit(monkeypatch, lambda: replace("4"))
    compact(lake)  # which leaves to the next one what was replaced
    before_commit(monkeypatch, lambda: compact(lake))
    assert one_of(FLEET[3:4], place) == Added(1, 0, 0)
    assert sorted(filter(None, (labels for _, labels, *_ in contents(place)))) == ["build=1", "build=1", "build=4"]
    assert agree(lake, *FLEET[:4])


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Do this work, but end just before that commit to any table; whether there were so many."""
    left, put, delete = number, loads._put, loads.drop

    def counted(step: Callable[..., None]) -> Callable[..., None]:
        def done(*arguments: Any) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise KilledError
            step(*arguments)

        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loads, "_put", counted(put))
        patched.setattr(loads, "drop", counted(delete))
        patched.setattr("etq.lake.writing.compacting.drop", counted(delete))
        try:
            work()
        except KilledError:
            return True
        return False


def test_what_others_remove_meanwhile_is_no_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    place, table = Path(lake.url), "event_ticks"
    one_of(FLEET[:1], place)

    number = 1
    while len(of_killed := loads_of(lake.open(table)) - loads_of(lake.open("captures"))) == 0:
        assert killed_at(number, lambda: one_of(FLEET[1:2], place))
        number += 1
    before_commit(monkeypatch, lambda: loads.drop(lake, "capture", of_killed), table)
    assert one_of(FLEET[2:3], place) == Added(1, 0, 0)
    compact(lake, leave_seconds=0)
    assert agree(lake, FLEET[0], FLEET[2])


@pytest.mark.parametrize("what", ["add", pytest.param("replace", marks=whole), "compact"])
def test_a_kill_before_any_commit(tmp_path: Path, what: str) -> None:
    """Readers see the lake before or after; repeating the operation and a compaction complete it for all engines."""
    place, seen = tmp_path / "lake", set[str]()
    one_of(FLEET[:2], place, build="1")
    one_of(FLEET[2:3], place, build="1")
    lake = Lake.at(place)
    with etq.open() as more:
        record = more.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        more.ingest_many([*FLEET[1:2], CAPTURES / "mlp/mlp_1run.etdp"], labels={"build": "2"}, link_to=[record])
        work: dict[str, Callable[[], object]] = {
            "add": lambda: export(lake, more), "replace": lambda: export(lake, more, replace=True),
            "compact": lambda: compact(lake, leave_seconds=0),
        }  # fmt: skip
        start = contents(place)
        number = 1
        while killed_at(number, work[what]):
            seen.add("before" if contents(place) == start else "after")
            events = {sha256: count for sha256, _, count, _ in contents(place)}
            assert {sha256: count for sha256, _, count, _ in start}.items() <= events.items()
            number += 1 if IS_WHOLE else 16
        work[what]()
    done = contents(place)
    assert (len(done), len(start)) == ((3, 3) if what == "compact" else (4, 3)) and "before" in seen
    compact(lake, leave_seconds=0)
    assert contents(place) == done
    files = [*FLEET[:3], *([] if what == "compact" else [CAPTURES / "mlp/mlp_1run.etdp"])]
    counts = by_etq(lake)
    assert by_others(lake) == counts and counts["event_ticks"] == of_files(*files)["event_ticks"]


def test_a_compaction_leaves_what_may_still_be_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an hour, unless it is told otherwise; then the writer is refused, and its rows are gone."""
    place = Path(lake.url)
    one_of(FLEET[:1], place)
    before_commit(monkeypatch, lambda: compact(lake))
    assert one_of(FLEET[1:2], place) == Added(1, 0, 0)
    before_commit(monkeypatch, lambda: compact(lake, leave_seconds=0))
    with pytest.raises(
        WarehouseError, match="lake: the load took so long that a compaction discarded it; add it again"
    ):
        one_of(FLEET[2:3], place)
    assert one_of(FLEET[2:3], place) == Added(1, 0, 0) and agree(lake, *FLEET[:3])


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the names of files")
def test_what_is_added_is_on_the_disk(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows before the commit of captures: after a power failure, the lake has all that was reported as added."""
    place, on_disk = Path(lake.url), list[str]()
    one_of(FLEET[:1], place)
    before, fsync = {*place.rglob("*")}, os.fsync

    def noted(file: int) -> None:
        fsync(file)
        on_disk.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", noted)
    one_of(FLEET[1:2], place)
    new = {str(path) for path in {*place.rglob("*")} - before if path.is_file()}
    assert new <= {*on_disk} and len(new) > 6
    assert min(at for at, path in enumerate(on_disk) if "/captures/" in path) > max(
        at for at, path in enumerate(on_disk) if path in new and "/captures/" not in path
    )
