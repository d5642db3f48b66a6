"""A lake is changed as a warehouse's file is: after the same operation, all tables of both have the same rows."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import duckdb
import pytest

import etq
from etq import catalog
from etq.errors import WarehouseError
from etq.lake import compact, export
from etq.lake.reading.tables import COMMENTS, KINDS, NAMED_VIEWS, WHOLE, Lake, kind_of
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq as run
from tests.conftest import CAPTURES
from tests.lake.engines import by_etq, by_others
from tests.lake.test_lake import FLEET, contents, one_of
from tests.lake.test_writers import before_commit, killed_at
from tests.sampling import whole
from tests.unit.test_again import distort
from tests.warehouses import copy_of

pytestmark = pytest.mark.long

deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

Rows = dict[str, Counter[tuple[Any, ...]]]
# When events were pruned, a comment was written, a program read, or a view saved, differs.
_WHEN = {
    "programs": "ingested_at := NULL",
    "findings": "detail := regexp_replace(t.detail, '^pruned at .*? UTC', '')",
    COMMENTS: "written_at := NULL",
    NAMED_VIEWS: "saved_at := NULL",
}


def rows_of_lake(lake: Path, without: Collection[str] = ()) -> Rows:
    """The rows of all tables, as deltalake reads them."""
    with duckdb.connect() as connection:
        for table in catalog.tables():
            connection.execute(table.statement)
            if (lake / table.name / "_delta_log").is_dir():
                connection.register(
                    "_rows", deltalake.DeltaTable(lake / table.name).to_pyarrow_table().drop_columns(["load_id"])
                )
                connection.execute(f"DROP TABLE {table.name}; CREATE TABLE {table.name} AS FROM _rows")
        return rows_of(connection, without)


def rows_of_file(path: Path, without: Collection[str] = ()) -> Rows:
    with duckdb.connect(path, read_only=True) as connection:
        return rows_of(connection, without)


def rows_of(connection: duckdb.DuckDBPyConnection, without: Collection[str] = ()) -> Rows:
    """The rows of all tables of captures, records and programs, with their hashes in the place of keys; and of others."""
    found = {}
    for table in catalog.tables():
        kind = kind_of(table.name)
        if kind is None and table.name not in WHOLE:
            continue
        columns = [
            f"(SELECT k.sha256 FROM {column.name[:-3]}s AS k WHERE k.{column.name} = t.{column.name})"
            if column.name in {f"{each}_id" for each in KINDS}
            else f"t.{column.name}"
            for column in table.columns
            if column.name not in without
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
    warehouse.remove_comment(warehouse.comment("2", "a newer model", over="build", accepted=True))
    warehouse.comment("2", "known", over="build", author="ada")


def _view(warehouse: Warehouse) -> str:
    for name in ("old", "first", "new"):
        warehouse.save_view(name, "build=1", columns=["name", "runs"])
    warehouse.save_view("new", "@first,build<9", sort_by="build")
    warehouse.remove_view("old")
    return ",".join(name for (name,) in warehouse.captures("@new").select("name").fetchall())


FOLDERS = [FLEET[0].parent, CAPTURES / "mlp"]
# What is done one after another.
CHANGES: dict[str, list[Callable[[Warehouse], object]]] = {
    "annotate": [
        _comment,
        _view,
        lambda warehouse: warehouse.label("00", build=None, device="pixel8", captured_at="2026-05-01"),
        lambda warehouse: warehouse.metric("rank0", "temperature", 41),
        lambda warehouse: warehouse.ingest_metrics("rank0", b'{"peak_flops": 1e12, "peak_bandwidth": 1e11}'),
        lambda warehouse: warehouse.phase("mlp", "decode", runs="1-"),
        lambda warehouse: warehouse.link("00", "mlp").name,  # a record that is there
        lambda warehouse: warehouse.link("01", CAPTURES / "mlp/mlp.pte").name,
        lambda warehouse: warehouse.label("rank1", job="other", rank="5"),
    ],
    "prune and remove": [
        lambda warehouse: warehouse.prune(0, selectors=["build=2", "rank0"], keep_rollups=True),
        lambda warehouse: warehouse.remove("rank1"),
        lambda warehouse: warehouse.prune(1, ["build"]),
        lambda warehouse: warehouse.remove("01", "mlp"),
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


def differences(folder: Path, without: Collection[str] = ()) -> dict[str, tuple[Any, Any]]:
    """What the lake has and the file lacks, and the other way round, by table, but for some columns."""
    expected, found = rows_of_file(folder / "lab.duckdb", without), rows_of_lake(folder / "lake", without)
    wrong = {name for name in expected if expected[name] != found[name]}
    return {name: (found[name] - expected[name], expected[name] - found[name]) for name in wrong}


@pytest.fixture
def place(kept: Path, tmp_path: Path) -> Path:
    """A copy of the warehouse and the lake."""
    copy_of(kept / "lab.duckdb", tmp_path)
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


def test_files_are_read_anew(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts that an older version read in another way become new; what people attached, and links, stay."""
    monkeypatch.chdir(tmp_path)
    copy_of(kept / "lab.duckdb", tmp_path)
    with etq.open("lab.duckdb") as warehouse:
        warehouse.metric("00", "temperature", 41)
        warehouse.prune(0, selectors=["01"], keep_rollups=True)
        warehouse.comment("2", "known", over="build")
        expected = rows_of(warehouse.connection)
        distort(warehouse, "00", "mlp")
    export("lake", "lab.duckdb")
    assert rows_of_lake(Path("lake"))["signatures"] != expected["signatures"]
    lines = run("ingest", "--again", *map(str, FOLDERS), "--db", "lake").stderr.splitlines()
    rank = "Note: rank{}: stays as it is: tests/captures/torch_gpu/rank{}.pt.trace.json.gz: not found"
    assert sorted(lines) == [
        "00: read anew",
        "5 captures: 3 left as they are, 2 read anew",
        "Note: 01: stays as it is: its events were pruned; etq ingest FILE brings them back",
        rank.format(0, 0),
        rank.format(1, 1),
        "mlp: read anew",
    ]
    assert rows_of_lake(Path("lake")) == expected


@whole
def test_events_come_back_when_pruned_captures_are_added_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    files = [str(FLEET[0]), *(str(CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz") for rank in range(2))]
    before = rows_of_lake(place / "lake")
    for db in ("lab.duckdb", "lake"):
        assert run("db", "prune", "--keep-last", "0", "--keep-rollups", "-y", "--db", db).exit_code == 0
    assert rows_of_lake(place / "lake")["event_ticks"].total() == 0
    assert run("ingest", *files, "--db", "lab.duckdb").exit_code == 0
    output = run("lake", "add", "lake", *files).output
    assert output.endswith("0 new, 3 known; pruned events of 3 known captures restored\n")
    assert differences(place, without={"uri"}) == {}
    assert rows_of_lake(place / "lake")["device_events"] == before["device_events"]


def test_commands(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a lake as they have a file; what removes from a lake names the command that frees the space."""
    monkeypatch.chdir(place)
    assert run("./lake").output.startswith("./lake: warehouse of ")
    assert run("label", "00", "build=9", "--db", "lake").output == "00: 1 label set\n"
    for command in (("remove", "--all", "job=gpu"), ("prune", "--keep-last", "0", "build=2")):
        done = run("db", *command, "-y", "--db", "lake")
        assert done.exit_code == 0 and "lake compact" in done.output, done.output
    assert "does not change a lake" in run("ingest", str(FLEET[0]), "--db", "lake").output


def test_comments_are_exported_once(place: Path) -> None:
    with etq.open(place / "lab.duckdb") as warehouse:
        warehouse.comment("2", "known", over="build")
    for _ in range(2):
        with etq.open(place / "lake") as lake:
            lake.comment("1", "of the lake", over="build")
        export(place / "lake", place / "lab.duckdb")
    with etq.open(place / "lake") as lake:
        comments = lake.rows("SELECT comment_id, first_bad, text FROM change_comments ORDER BY comment_id")[1]
    assert comments == [(1, "1", "of the lake"), (2, "2", "known"), (3, "1", "of the lake")]


@whole
def test_changes_begin_again_if_others_were_faster(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others did meanwhile stays: labels, a compaction, comments, a removal of the same capture."""
    lake = place / "lake"

    def of_others(change: Callable[[Warehouse], object]) -> None:
        with etq.open(lake) as others:
            change(others)

    with etq.open(lake) as warehouse:
        before_commit(monkeypatch, lambda: of_others(lambda others: others.label("00", team="c")))
        warehouse.remove("01")
        before_commit(monkeypatch, lambda: compact(lake))
        warehouse.label("mlp", device="d")
        noted = partial(Warehouse.comment, first_bad="2", text="of others", over="build")
        before_commit(monkeypatch, lambda: of_others(noted), to="change_comments")
        assert warehouse.comment("2", "known", over="build") == 2
        before_commit(monkeypatch, lambda: of_others(lambda others: others.remove("mlp")))
        with pytest.raises(WarehouseError, match="others have removed it meanwhile; nothing was changed"):
            warehouse.label("mlp", device="e")
    with etq.open(place / "lab.duckdb") as warehouse:
        warehouse.label("00", team="c")
        warehouse.remove("01", "mlp")
        with etq.open(lake) as opened:
            query = "SELECT c.sha256, c.labels, c.events FROM capture_summary AS c"
            assert opened.rows(query) == warehouse.rows(query)
            assert opened.rows("SELECT comment_id, text FROM change_comments ORDER BY 1")[1] == [
                (1, "of others"),
                (2, "known"),
            ]
    compact(lake, leave_seconds=0)
    found = rows_of_lake(lake)
    assert {
        table: rows for table, rows in found.items() if rows != rows_of_file(place / "lab.duckdb")[table]
    }.keys() == {COMMENTS}


@pytest.mark.parametrize(
    "names",
    [pytest.param(["00", "01"], id="a whole load"), pytest.param(["00"], id="a part of a load", marks=whole)],
)
def test_a_kill_before_any_commit_of_a_removal(names: list[str], place: Path) -> None:
    """Readers see all or nothing of the captures; the same command, and for all engines a compaction, completes it."""
    lake, start, number, seen = Lake.at(place / "lake"), contents(place / "lake"), 1, list[int]()
    with etq.open(place / "lab.duckdb") as warehouse:
        gone = {warehouse.capture(name).sha256[:12] for name in names}
        warehouse.remove(*names)
    command = ("db", "remove", *names, "-y", "--db", str(place / "lake"))
    while killed_at(number, lambda: run(*command)):
        now = contents(place / "lake")
        assert now in (start, [each for each in start if each[0] not in gone])
        seen.append(len(now))
        number += 1
    assert "no capture matches" in run(*command).output
    if len(names) == 1:
        compact(lake, leave_seconds=0)
    else:
        assert {*seen} == {len(start), len(start) - len(names)}
    assert differences(place) == {}
    assert by_others(lake) == by_etq(lake)


def _add(lake: Path) -> None:
    for path in FLEET[2:4]:
        one_of([path], lake)


def _remove(lake: Path) -> None:
    with etq.open(lake) as warehouse:
        warehouse.remove("00")


def _label(lake: Path) -> None:
    with etq.open(lake) as warehouse:
        warehouse.label("01", build="5")


def test_one_adds_one_removes_and_one_labels(place: Path) -> None:
    """Readers count the same at every version, and all that each writer did is there."""
    context = multiprocessing.get_context("spawn")
    works = (_add, _remove, _label)
    writers = [context.Process(target=work, args=(place / "lake",), daemon=True) for work in works]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        with etq.open(place / "lake", read_only=True) as reader:
            assert reader.rows(_MIXED)[1] == []
        time.sleep(1)
    assert [writer.exitcode for writer in writers] == [0] * len(works)
    with etq.open(place / "lab.duckdb") as warehouse:
        warehouse.ingest_many(FLEET[2:4])
        query = "SELECT c.sha256, count(*) FROM captures AS c JOIN event_ticks AS e USING (capture_id) GROUP BY 1"
        events = dict(warehouse.rows(query)[1])
        warehouse.remove("00")
        warehouse.label("01", build="5")
    assert_equal_counts(place / "lake", events)
    compact(place / "lake", leave_seconds=0)  # removes rows of the writer who was later with a capture
    assert differences(place, without={"ingested_at", "uri"}) == {}


# Events without a capture, and captures of the fleet with another number of events, or with several of a label.
_MIXED = """
    SELECT e.capture_id FROM event_ticks AS e ANTI JOIN captures AS c USING (capture_id)
    UNION ALL
    SELECT c.capture_id FROM captures AS c WHERE c.format = 'etdump' AND c.name <> 'mlp'
        AND (SELECT count(*) FROM event_ticks AS e WHERE e.capture_id = c.capture_id) <> 1962
    UNION ALL
    SELECT l.capture_id FROM labels AS l GROUP BY l.capture_id, l.key HAVING count(*) > 1
"""


def assert_equal_counts(lake: Path, events: Mapping[str, int]) -> None:
    """By deltalake, Polars and DuckDB in each version of each table; and each version of `captures` has the events of
    its captures, as a load has in all versions that have it.
    """
    polars = pytest.importorskip("polars", reason="polars isn't installed: pip install --group lake-test")
    rows = dict[tuple[str, str], int]()
    for table in ("event_ticks", "labels", "captures"):
        for version in range(deltalake.DeltaTable(lake / table).version() + 1):
            opened = deltalake.DeltaTable(lake / table, version=version)
            counts = Counter(opened.to_pyarrow_table()["load_id"].to_pylist())
            by_polars = polars.scan_delta(str(lake / table), version=version).group_by("load_id").agg(polars.len())
            assert counts == dict(by_polars.collect().iter_rows())
            if files := opened.file_uris():
                by_duckdb = duckdb.execute(
                    "SELECT load_id, count(*) FROM read_parquet($files) GROUP BY 1", {"files": files}
                )
                assert counts == dict(by_duckdb.fetchall())
            assert all(rows.setdefault((table, load), count) == count for load, count in counts.items())
    for version in range(deltalake.DeltaTable(lake / "captures").version() + 1):
        found = deltalake.DeltaTable(lake / "captures", version=version).to_pyarrow_table(columns=["sha256", "load_id"])
        expected = Counter[str]()
        for sha256, load in zip(*found.to_pydict().values(), strict=True):
            expected[load] += events[sha256]
        assert all(rows["event_ticks", load] == count for load, count in expected.items())
