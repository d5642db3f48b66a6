"""A lake answers as the warehouse whose captures it holds, and loses nothing among several writers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import etq
from etq import catalog
from etq.cli import main
from etq.errors import EtqError, WarehouseError
from etq.lake import Added, add, compact, export
from etq.lake.checking import check
from etq.lake.reading.tables import Lake, tables_of
from etq.lake.writing import compacting, loads
from etq.lake.writing.changing import add_contents
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.spark.answers import differences
from tests.spark.questions import asked, build, calls

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

# Keys of a lake's captures are hashes.
NEW_KEYS = {"capture_id", "record_id", "program_id"}
# Views about the warehouse's file or the time of its creation.
OF_THE_FILE = {"capture_sizes", "warehouse"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, Warehouse]]:
    """A warehouse of captures of every format, with records, programs, labels, metrics and values; the lake of it."""
    folder = tmp_path_factory.mktemp("lakes")
    build(folder / "lab.duckdb")
    with etq.open(folder / "lab.duckdb", read_only=True) as warehouse:
        export(folder / "lake", warehouse)
        with etq.open(folder / "lake") as opened:
            yield warehouse, opened


def ask(warehouse: Warehouse, call: str) -> tuple[list[str], list[Any]] | str:
    """The columns and rows of an answer without keys, in an order that last digits of floats don't change; or the error."""
    try:
        columns, found = warehouse.rows(f"FROM {call}")
    except EtqError as error:
        return str(error)
    kept = [place for place, column in enumerate(columns) if column not in NEW_KEYS]
    rows = [tuple(row[place] for place in kept) for row in found]
    return [columns[place] for place in kept], sorted(
        rows, key=lambda row: repr([f"{each:.9g}" if isinstance(each, float) else each for each in row])
    )


def test_views_answer_as_in_the_warehouse(pair: tuple[Warehouse, Warehouse]) -> None:
    asked_calls = [call for each in asked() if each.name not in OF_THE_FILE for call in calls(each)]
    wrong: dict[str, list[Any]] = {}
    for call in asked_calls if IS_WHOLE else asked_calls[::16]:
        one, other = (ask(warehouse, call) for warehouse in pair)
        if isinstance(one, str) or isinstance(other, str):
            wrong[call] = [] if one == other else [one, other]
        else:
            wrong[call] = [other[0]] if one[0] != other[0] else differences(one[1], other[1])
    assert len(wrong) > (150 if IS_WHOLE else 10) and {call: found for call, found in wrong.items() if found} == {}


def test_tables_of_the_lake_have_rows(pair: tuple[Warehouse, Warehouse]) -> None:
    """The test above would pass on empty ones."""
    warehouse, lake = pair
    counts = {each.name: lake.rows(f"SELECT count(*) FROM {each.name}")[1][0][0] for each in catalog.tables()}
    assert {name for name, count in counts.items() if count == 0} == {"change_comments", "named_views"}, (
        "the warehouse has none"
    )
    assert lake.rows("SELECT count(DISTINCT o.op) FROM op_totals('mlp') AS o")[1][0][0] > 3
    assert lake.rows("SELECT count(*) FROM compare_ops('half=0', 'half=1')")[1][0][0] > 3
    sizes = dict(lake.rows("SELECT name, stored_bytes FROM capture_sizes")[1])
    assert len(sizes) > 20 and all(size > 0 for size in sizes.values())
    # In the order of ingest.
    names = warehouse.rows("SELECT name FROM captures ORDER BY capture_id")[1]
    assert lake.rows("SELECT name FROM capture_summary")[1] == names


WRITES: dict[str, tuple[Any, ...]] = {
    "ingest": (CAPTURES / "mlp/mlp.etdp",), "ingest_many": ([CAPTURES / "mlp/mlp.etdp"],),
    "ingest_record": (CAPTURES / "mlp/mlp.etrecord",),
}  # fmt: skip
CHANGES: dict[str, tuple[Any, ...]] = {
    "label": ("mlp",), "metric": ("mlp", "temperature", 1), "phase": ("mlp", "decode"), "remove": ("mlp",), "prune": (0,),
    "remove_comment": (1,), "link": ("mlp", "mlp"), "ingest_again": (),
}  # fmt: skip


def test_files_are_not_read_into_an_open_lake(pair: tuple[Warehouse, Warehouse]) -> None:
    _, lake = pair
    assert lake.read_only and "lake" in repr(lake)
    for name, given in WRITES.items():
        with pytest.raises(WarehouseError, match="does not change a lake; add captures with: etq lake add"):
            getattr(lake, name)(*given)
    with pytest.raises(WarehouseError, match="can't be compacted"):
        lake.compact()
    assert lake.path is not None
    with etq.open(lake.path, read_only=True) as opened:
        for name, given in CHANGES.items():
            with pytest.raises(WarehouseError, match="lake: opened read-only; open it for writing"):
                getattr(opened, name)(*given, **{"runs": "1-"} if name == "phase" else {})


def one_of(files: Sequence[Path], lake: Path, **labels: str) -> Added:
    """Add these files."""
    return add(lake, lambda warehouse: warehouse.ingest_many(files, labels=labels))


FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))


def contents(lake: Path) -> list[Any]:
    """Each capture, its labels, and how many events it has."""
    with etq.open(lake) as warehouse:
        return warehouse.rows("SELECT c.sha256, c.labels, c.events, c.runs FROM capture_summary AS c ORDER BY ALL")[1]


def test_captures_of_a_lake_are_ordered_by_their_recording(tmp_path: Path) -> None:
    """Traces have the time in the file, ETDumps the time of ingest."""
    lake = tmp_path / "lake"
    for path in (FLEET[0], CAPTURES / "torch/mlp_train.pt.trace.json.gz", CAPTURES / "torch/lists.pt.trace.json.gz"):
        one_of([path], lake)
    with etq.open(lake) as warehouse:
        known = warehouse.rows("SELECT s.name, s.captured_at::DATE::VARCHAR FROM capture_summary AS s")[1]
        assert known == [("00", None), ("mlp_train", "2026-11-20"), ("lists", "2026-11-22")]
        order = "SELECT o.name FROM _outdated_captures(0) AS o ORDER BY o.age"
        assert warehouse.rows(order)[1] == [("00",), ("lists",), ("mlp_train",)]
        found = [warehouse.capture(selector).name for selector in ("@latest", "@previous")]
        assert found == ["00", "lists"]


def test_files_that_cannot_be_read_make_no_lake(tmp_path: Path) -> None:
    """A lake that exists stays as it is; one is made with the first file that can be read."""
    lake, damaged = tmp_path / "new/lake", tmp_path / "damaged.etdp"
    damaged.write_bytes(b"junk")
    runner = CliRunner()
    for path in (tmp_path / "missing.etdp", damaged):
        assert runner.invoke(main, ["lake", "add", str(lake), str(path)]).exit_code == 1
        assert [each.name for each in tmp_path.iterdir()] == [damaged.name]
    dump = CAPTURES / "mlp/mlp_1run.etdp"
    assert runner.invoke(main, ["lake", "add", str(lake), str(damaged), str(dump)]).exit_code == 1
    assert runner.invoke(main, ["lake", "add", str(lake), str(damaged)]).exit_code == 1
    with etq.open(lake) as warehouse:
        assert warehouse.rows("SELECT name FROM captures")[1] == [("mlp_1run",)]
    result = runner.invoke(main, ["lake", "add", str(damaged / "lake"), str(dump)])
    assert result.exit_code == 1
    assert result.output == f"Error: {damaged}: not a folder that can be written; name another for the lake\n"


def test_captures_give_way_to_those_of_the_same_content(tmp_path: Path) -> None:
    """Those that were loaded together with them stay, also if there are none."""
    lake = tmp_path / "lake"
    one_of(FLEET[:3], lake, build="1")
    for number in ("2", "3"):
        with etq.open() as warehouse:
            warehouse.ingest_many(FLEET[1:4], labels={"build": number})
            assert export(lake, warehouse, replace=True) == (Added(1, 0, 2) if number == "2" else Added(0, 0, 3))
        assert sorted(labels for _, labels, *_ in contents(lake)) == ["build=1", *[f"build={number}"] * 3]
        assert {events for *_, events, _ in contents(lake)} == {1962}


def test_compacting_changes_no_answer(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:3]:
        one_of([path], lake, build="1")
    query = "FROM op_totals('build=1,@latest') UNION ALL FROM op_totals('build=1,@previous')"
    with etq.open(lake) as older:
        before, asked = contents(lake), older.rows(query)[1]
        assert compact(lake) == (3, 1)
        assert older.rows(query)[1] == asked, "who has it open goes on with the files of before"
    with etq.open(lake) as warehouse:
        assert warehouse.rows(query)[1] == asked
    assert compact(lake) == (1, 1) and contents(lake) == before
    one_of(FLEET[3:4], lake)
    assert compact(lake) == (2, 1) and len(contents(lake)) == 4


def test_a_question_about_a_day_opens_the_files_of_its_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is exported together, and compacted, is parted by days, whatever was added first. Any engine finds the loads
    of a day in `captures`, and skips the files of others, as loads are partitions.
    """
    with etq.open() as warehouse:
        # Of each day one of device a and three of b, in turns.
        dumps = [dump(run("Execute", kernel("add", start, start + 2), execute(start, start + 3))) for start in range(8)]
        for place, device in enumerate("abbabbbb"):
            day = datetime(2026, 11, 1 + place % 2)
            warehouse.ingest(dumps[place], name=str(place), labels={"device": device}, captured_at=day)
        with monkeypatch.context() as patched:
            patched.setattr(loads, "MOST_CONTENTS", 4)
            export(tmp_path / "exported", warehouse)
        lake = Lake.at(tmp_path / "added")
        keys = warehouse.rows("SELECT c.name, c.sha256, c.capture_id FROM captures AS c")[1]
        for names in ("0", "157", "3", "246"):
            of_load = {sha256: key for name, sha256, key in keys if name in names}
            add_contents(lake, warehouse.connection, "capture", of_load)
    before = opened(tmp_path / "added")
    tables = before[1] // 4
    assert tables > 5 and before == (2 * tables, 4 * tables), "day 1 is in two of four loads"
    monkeypatch.setattr(compacting, "MOST_MERGED", 4)
    assert compact(lake) == (4, 2)
    assert opened(tmp_path / "added") == opened(tmp_path / "exported") == (tables, 2 * tables)


def opened(lake: Path) -> tuple[int, ...]:
    """How many files pyarrow opens for the loads of the first day, and how many there are, of tables of captures."""
    from deltalake import DeltaTable
    from pyarrow import dataset

    tables = [
        DeltaTable(str(lake / name)).to_pyarrow_dataset() for name in tables_of("capture") if (lake / name).is_dir()
    ]
    captures = tables[-1].to_table(["captured_at", "load_id"]).to_pylist()
    is_of_day = dataset.field("load_id").isin([each["load_id"] for each in captures if each["captured_at"].day == 1])
    return tuple(sum(len([*table.get_fragments(which)]) for table in tables) for which in (is_of_day, None))


def test_going_back_and_other_schemas(tmp_path: Path) -> None:
    """All tables as they were at a time, also before a compaction; then a lake of another schema is refused."""
    from deltalake import DeltaTable

    lake = tmp_path / "lake"
    one_of(FLEET[:2], lake, build="1")
    before = contents(lake)
    time.sleep(0.01)
    then = datetime.now(UTC)
    one_of(FLEET[2:3], lake)
    compact(lake)
    for table in lake.iterdir():
        DeltaTable(str(table)).restore(then)
    assert contents(lake) == before
    DeltaTable(str(lake / "captures")).alter.set_table_description("etq schema 0")
    for work in (etq.open, compact, lambda lake: one_of(FLEET[3:4], lake), lambda lake: [*check(lake)]):
        with pytest.raises(WarehouseError, match="lake: made by another version of etq; add the files again to a new"):
            work(lake)


def test_commands(tmp_path: Path) -> None:
    lake, runner = str(tmp_path / "lake"), CliRunner()
    for path in FLEET[:2]:
        assert runner.invoke(main, ["lake", "add", lake, str(path)]).exit_code == 0
    assert runner.invoke(main, ["lake", "compact", lake]).output == f"{lake}: 2 loads, now 1\n"
    assert "1962" in runner.invoke(main, ["captures", "--db", lake]).output
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        warehouse.ingest_many(FLEET[1:3])
    exported = runner.invoke(main, ["lake", "export", lake, "--db", str(tmp_path / "lab.duckdb")])
    assert exported.output == f"{lake}: captures: 1 new, 1 known\n"
