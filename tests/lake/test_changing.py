"""A lake is changed as a warehouse's file is: after the same operation, all tables of both have the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from shutil import copyfile, copytree
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

import etq
from etq import catalog
from etq.cli import main
from etq.lake import export
from etq.lake.reading.tables import COMMENTS, KINDS, Lake, kind_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.lake.engines import by_etq, by_others
from tests.lake.test_lake import FLEET, contents
from tests.lake.test_writers import killed_at

pytestmark = pytest.mark.long

deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

Rows = dict[str, Counter[tuple[Any, ...]]]
# When events were pruned, or a comment was written, differs.
_WHEN = {"findings": "detail := regexp_replace(t.detail, '^pruned at .*? UTC', '')", COMMENTS: "written_at := NULL"}


def rows_of_lake(lake: Path) -> Rows:
    """The rows of all tables, as deltalake reads them."""
    with duckdb.connect() as connection:
        for table in catalog.tables():
            connection.execute(table.statement)
            if (lake / table.name / "_delta_log").is_dir():
                connection.register(
                    "_rows", deltalake.DeltaTable(lake / table.name).to_pyarrow_table().drop_columns(["load_id"])
                )
                connection.execute(f"DROP TABLE {table.name}; CREATE TABLE {table.name} AS FROM _rows")
        return rows_of(connection)


def rows_of_file(path: Path) -> Rows:
    with duckdb.connect(path, read_only=True) as connection:
        return rows_of(connection)


def rows_of(connection: duckdb.DuckDBPyConnection) -> Rows:
    """The rows of all tables of captures, records and programs, with their hashes in the place of keys; and comments."""
    found = {}
    for table in catalog.tables():
        kind = kind_of(table.name)
        if kind is None and table.name != COMMENTS:
            continue
        columns = [
            f"(SELECT k.sha256 FROM {column.name[:-3]}s AS k WHERE k.{column.name} = t.{column.name})"
            if column.name in {f"{each}_id" for each in KINDS}
            else f"t.{column.name}"
            for column in table.columns
        ]
        when = _WHEN.get(table.name, "").partition(" := ")
        columns = [when[2] if column == f"t.{when[0]}" else column for column in columns]
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table.name} AS t").fetchall()
        found[table.name] = Counter(
            tuple(str(value) if isinstance(value, list) else value for value in row) for row in rows
        )
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse and a lake of it, in two loads: dumps, one with its record, and the ranks of a job."""
    folder = tmp_path_factory.mktemp("kept")
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest_many(FLEET[:2], labels={"build": "1"})
        export(folder / "lake", warehouse)
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", etrecord=CAPTURES / "mlp/mlp.etrecord", labels={"build": "2"})
        for rank in range(2):
            warehouse.ingest(CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz", labels={"job": "gpu"})
        export(folder / "lake", warehouse)
    assert rows_of_lake(folder / "lake") == rows_of_file(folder / "lab.duckdb")
    return folder


def _comment(warehouse: Warehouse) -> None:
    warehouse.remove_comment(warehouse.accept("2", "a newer model", over="build"))
    warehouse.comment("2", "known", over="build", author="ada")


# What is done one after another.
CHANGES: dict[str, list[Callable[[Warehouse], object]]] = {
    "annotate": [
        _comment,
        lambda warehouse: warehouse.label("00", build="3", device="pixel8", captured_at="2026-05-01"),
        lambda warehouse: warehouse.label("mlp", build=None),
        lambda warehouse: warehouse.metric("rank0", "temperature", 41),
        lambda warehouse: warehouse.ingest_metrics("rank0", b'{"peak_flops": 1e12, "peak_bandwidth": 1e11}'),
        lambda warehouse: warehouse.phase("mlp", "decode", runs="1-"),
    ],
    "rank": [lambda warehouse: warehouse.label("rank1", job="other", rank="5")],
    "remove": [lambda warehouse: warehouse.remove("rank1"), lambda warehouse: warehouse.remove("00", "mlp")],
    "prune": [
        lambda warehouse: warehouse.prune(0, selectors=["build=2", "rank0"], keep_rollups=True),
        lambda warehouse: warehouse.prune(1, ["build"]),
        lambda warehouse: warehouse.prune(0),
    ],
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_lake_is_changed_as_a_file_is(what: str, kept: Path, place: Path) -> None:
    answers = []
    for db in ("lab.duckdb", "lake"):
        with etq.open(place / db) as warehouse:
            results = [change(warehouse) for change in CHANGES[what]]
            results = [[each.name for each in result] if isinstance(result, list) else result for result in results]
            answers.append([*results, warehouse.rows("SELECT name FROM captures ORDER BY name")[1]])
    assert answers[0] == answers[1], "also what the warehouse answers that did it"
    assert rows_of_file(place / "lab.duckdb") != rows_of_file(kept / "lab.duckdb"), "the change changes something"
    assert differences(place) == {}


def differences(folder: Path) -> dict[str, tuple[Any, Any]]:
    """What the lake has and the file lacks, and the other way round, by table."""
    expected, found = rows_of_file(folder / "lab.duckdb"), rows_of_lake(folder / "lake")
    wrong = {name for name in expected if expected[name] != found[name]}
    return {name: (found[name] - expected[name], expected[name] - found[name]) for name in wrong}


@pytest.fixture
def place(kept: Path, tmp_path: Path) -> Path:
    """A copy of the warehouse and the lake."""
    copyfile(kept / "lab.duckdb", tmp_path / "lab.duckdb")
    copytree(kept / "lake", tmp_path / "lake")
    return tmp_path


def test_known_captures_get_labels_when_they_are_added_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are found are added, and those that are given replace theirs, as in a file."""
    monkeypatch.chdir(place)
    files = [str(FLEET[0]), str(CAPTURES / "torch_gpu/rank1.pt.trace.json.gz")]
    given = ["--label", "build=7", "--captured-at", "2026-05-01T12:00:00", "--label-from", "{build}/{team}/{}"]
    assert run("ingest", *files, *given, "--db", "lab.duckdb").exit_code == 0
    for expected in ("0 new, 2 known; labels of 2 known captures changed", "0 new, 2 known"):
        assert run("lake", "add", "lake", *files, *given).output.splitlines()[-1] == f"lake: captures: {expected}"
    assert differences(place) == {}
    version = deltalake.DeltaTable("lake/captures").version()
    again = run("lake", "add", "lake", files[0], "--name", "other", "--label-from", "{build}/{team}/{}")
    assert again.output.splitlines()[-1].startswith("Note: --name changed no known capture; etq lake export --replace")
    assert deltalake.DeltaTable("lake/captures").version() == version, "it is written only where it changes"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def test_commands(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for db in ("lab.duckdb", "lake"):
        assert run("label", "00", "build=9", "--db", db).output == "00: 1 label set\n"
        assert "confirm with -y" in run("db", "remove", "01", "--db", db).output
        removed = run("db", "remove", "--all", "job=gpu", "-y", "--db", db).output
        assert removed.startswith("2 captures removed; ") and ("lake compact" in removed) == (db == "lake")
        assert (
            run("db", "prune", "--keep-last", "0", "build=2", "--dry-run", "--db", db).output.splitlines()[0] == "mlp"
        )
        assert run("db", "prune", "--keep-last", "0", "build=2", "-y", "--db", db).exit_code == 0
        assert (
            run("comment", "9", "build=9", "--note", "new", "--over", "build", "--db", db).output == "noted, number 1\n"
        )
    assert differences(place) == {}
    assert "does not change a lake" in run("ingest", str(FLEET[0]), "--db", "lake").output


def test_a_kill_before_any_commit_of_a_removal(place: Path) -> None:
    """Readers see all or nothing of the captures; the same command completes it for all engines."""
    lake, removed = Lake.at(place / "lake"), ("db", "remove", "--all", "build=1", "-y", "--db", str(place / "lake"))
    start, number, seen = contents(place / "lake"), 1, list[int]()
    while killed_at(number, lambda: run(*removed)):
        now = contents(place / "lake")
        assert now in (start, [each for each in start if each[1] != "build=1"])
        seen.append(len(now))
        number += 1
    assert {*seen} == {len(start), len(start) - 2} and run(*removed).exit_code == 1, "they are gone"
    with etq.open(place / "lab.duckdb") as warehouse:
        warehouse.remove("00", "01")
    assert differences(place) == {}
    assert [by_etq(lake)] == [*{str(each): each for each in by_others(lake)}.values()]
