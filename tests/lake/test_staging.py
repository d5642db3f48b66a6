"""Captures that several processes stage are added to the lake all at once, and each only once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import EtqError, WarehouseError
from etq.lake import check
from etq.lake.reading.state import read
from etq.lake.reading.tables import Lake
from etq.lake.writing import commits
from etq.lake.writing.loads import Load, discard_of_prefix
from etq.lake.writing.staging import Known, Rejected, Result, StagingJob, published, stage
from etq.storage.capture import Options
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.lake.test_lake import FLEET, contents, one_of
from tests.sampling import whole

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


def stage_files(folder: Path, files: Sequence[Path], **labels: str) -> list[Result]:
    """Write files aside; the captures and loads."""
    lake = Lake.at(folder)
    commits.make(lake)
    job = StagingJob(lake, "a1", Options(None, labels, None, None, None))
    results = [*stage(job, [(str(path), path.read_bytes()) for path in files])]
    assert not [each for each in results if isinstance(each, Rejected)]
    return results


def publish(folder: Path, results: Sequence[Result]) -> int:
    return published(Lake.at(folder), results)


def names(lake: Path) -> list[str]:
    with etq.open(lake) as warehouse:
        return [name for (name,) in warehouse.rows("SELECT name FROM captures ORDER BY name")[1]]


@whole
def test_loads_of_several_are_one_lake(tmp_path: Path) -> None:
    both, added = tmp_path / "both", tmp_path / "added"
    results = stage_files(both, FLEET[:3], build="1") + stage_files(both, FLEET[3:5], build="1")
    assert contents(both) == [] and len([each for each in results if isinstance(each, Load)]) == 2
    assert publish(both, results) == 5
    one_of(FLEET[:5], added, build="1")
    assert contents(both) == contents(added) != [] and names(both) == names(added)
    assert check(both) == []


def test_captures_written_twice_are_stored_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    results = stage_files(lake, FLEET[:3]) + stage_files(lake, FLEET[1:4]) + stage_files(lake, FLEET[:2])
    assert publish(lake, results) == 4
    assert len(contents(lake)) == 4 and sorted(read(Lake.at(lake)).loads("capture").values()) == [False, True]
    assert check(lake) == []


def test_stored_files_are_not_read_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    early = stage_files(lake, FLEET[:2])
    one_of(FLEET[:1], lake, build="1")
    assert publish(lake, early) == 1
    assert len(contents(lake)) == 2 and contents(lake)[0][1:2] != contents(lake)[1][1:2]
    job = StagingJob(Lake.at(lake), "a1", Options(None, {}, None, None, None))
    again = [*stage(job, [(str(path), path.read_bytes()) for path in FLEET[:2]])]
    assert again == [Known(str(path)) for path in FLEET[:2]]
    assert publish(lake, []) == 0 and check(lake) == []


def test_names_are_as_those_of_one_warehouse(tmp_path: Path) -> None:
    files = []
    for number, path in enumerate(FLEET[:4]):
        files.append(tmp_path / f"device{number % 2}" / str(number) / "run.etdp")
        files[-1].parent.mkdir(parents=True)
        files[-1].write_bytes(path.read_bytes())
    lake, added = tmp_path / "lake", tmp_path / "added"
    results = stage_files(lake, files[2:]) + stage_files(lake, files[:2])
    publish(lake, sorted(results, key=lambda each: "" if isinstance(each, Load) else each.path))
    one_of(files, added)
    assert names(lake) == names(added) and len({*names(lake)}) == 4
    assert check(lake) == []


@whole
def test_other_writers_come_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has added the same capture, and one with the same name, after the check."""
    lake = tmp_path / "lake"
    other = tmp_path / "other" / FLEET[0].name
    other.parent.mkdir()
    other.write_bytes(FLEET[5].read_bytes())
    results = stage_files(lake, FLEET[:3])
    commit, tries = commits.commit, 0

    def late(self: Lake, table: str, *arguments: Any, **options: Any) -> None:
        nonlocal tries
        tries += table == "captures"
        if table == "captures" and tries == 1:
            with monkeypatch.context() as undone:
                undone.setattr(commits, "commit", commit)
                one_of([other, FLEET[1]], lake)
        commit(self, table, *arguments, **options)

    monkeypatch.setattr(commits, "commit", late)
    assert publish(lake, results) == 2
    assert tries == 2 and len(contents(lake)) == 4 and len({*names(lake)}) == 4
    assert sum(events for _, _, events, _ in contents(lake)) == 4 * contents(lake)[0][2]
    assert [fault for fault in check(lake) if not fault.is_left_over] == []


def test_a_file_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    commits.make(Lake.at(lake))
    job = StagingJob(Lake.at(lake), "a1", Options(None, {}, None, None, None), label_from="{model}/{run}0.etdp")
    given = [
        ("x/bad0.etdp", b"no dump"),
        (str(FLEET[0]), FLEET[0].read_bytes()),
        ("other.etdp", FLEET[1].read_bytes()),
        ("x/copy0.etdp", FLEET[0].read_bytes()),
    ]
    results = [*stage(job, given)]
    refused = {each.path: each.error for each in results if isinstance(each, Rejected)}
    assert set(refused) == {"x/bad0.etdp", "other.etdp"}
    assert "other.etdp: the path doesn't end as the pattern" in refused["other.etdp"]
    assert [each for each in results if isinstance(each, Known)] == [Known("x/copy0.etdp")]


def test_records_are_linked(tmp_path: Path) -> None:
    """As `ingest_many` links them, with the rollups by module that need them."""
    record, files = CAPTURES / "mlp/mlp.etrecord", [CAPTURES / "mlp/mlp_100runs.etdp", CAPTURES / "mlp/mlp.etdp"]
    lake, added = tmp_path / "lake", tmp_path / "added"

    def read(warehouse: Warehouse) -> None:
        warehouse.ingest_many(files, link_to=[warehouse.ingest_record(record)])

    etq.lake.add(added, read)
    etq.lake.add(lake, lambda warehouse: warehouse.ingest_record(record))
    job = StagingJob(Lake.at(lake), "a1", Options(None, {}, None, None, None), record=record.read_bytes())
    results = [*stage(job, [(str(path), path.read_bytes()) for path in files])]
    publish(lake, results)
    query = "SELECT m.* FROM module_times AS m ORDER BY ALL"
    with etq.open(lake) as one, etq.open(added) as other:
        assert one.rows(query) == other.rows(query) and len(one.rows(query)[1]) > 3


def test_compaction_deletes_leftovers_only(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    results = stage_files(lake, FLEET[:1])
    publish(lake, results)
    stage_files(lake, FLEET[1:3])
    assert {fault.is_left_over for fault in check(lake)} == {True}
    discard_of_prefix(Lake.at(lake), "a1", {each.id for each in results if isinstance(each, Load)})
    assert check(lake) == [] and len(contents(lake)) == 1


def test_processes_of_other_folders_are_reported(tmp_path: Path) -> None:
    results = stage_files(tmp_path / "there", FLEET[:1])
    commits.make(Lake.at(tmp_path / "here"))
    with pytest.raises(WarehouseError, match="missing; all processes must share the lake's folder"):
        publish(tmp_path / "here", results)
    with pytest.raises(EtqError, match="none: "):
        publish(tmp_path / "none", [])
