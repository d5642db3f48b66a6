"""A lake answers as the warehouse whose captures it holds, and loses nothing among several writers."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import etq
from etq import catalog
from etq.cli import main
from etq.errors import WarehouseError
from etq.lake import Added, add, check, compact, export, is_lake
from etq.lake.reading import state, tables
from etq.lake.reading.tables import Lake
from etq.lake.writing import commits
from etq.lake.writing.compacting import _groups
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import thinned, whole

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

NEW_KEYS = {"capture_id", "record_id", "program_id"}
# Views about the warehouse's file or the time of its creation.
OF_THE_FILE = {"capture_sizes", "warehouse"}
TRACES = ("conv_infer", "iterations")
LINKED = ("mlp", "convnet_xnn", "transformer", "multimethod", "cond", "maploop", "demo_int", "demo_str")


def fill(warehouse: Warehouse) -> None:
    """Captures of every format, with records, a program, labels, metrics, phases and values."""
    for model in LINKED:
        record = CAPTURES / model / f"{model}.etrecord"
        records = [warehouse.ingest_record(record)] if record.exists() else []
        warehouse.ingest_many(sorted((CAPTURES / model).glob("*.etdp")), link_to=records, labels={"model": model})
    warehouse.ingest_many([*sorted(CAPTURES.glob("torch/*.pt.trace.json.gz"))[:3], *CAPTURES.glob("prof_result/*.bin")])
    for model in ("mlp", "convnet_xnn"):
        warehouse.link(model, warehouse.ingest_program(CAPTURES / model / f"{model}.pte"))
    warehouse.metric("mlp", "temperature", 41)
    warehouse.phase("mlp", "decode", runs="2-")
    for number, path in enumerate(sorted(CAPTURES.glob("fleet/mlp/*.etdp"))[:8]):
        warehouse.ingest(path, labels={"model": "fleet", "side": "base" if number % 2 else "new", "build": str(number)})


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, Warehouse]]:
    """A warehouse, and the lake of it."""
    lake = tmp_path_factory.mktemp("lakes") / "lake"
    with etq.open() as warehouse:
        fill(warehouse)
        export(lake, warehouse)
        with etq.open(lake) as opened:
            yield warehouse, opened


def test_captures_are_listed_in_the_order_of_ingest(pair: tuple[Warehouse, Warehouse]) -> None:
    """Keys of a lake's captures are hashes."""
    query = "SELECT name FROM capture_summary"
    warehouse, lake = pair
    names = [name for (name,) in warehouse.rows("SELECT name FROM captures ORDER BY capture_id")[1]]
    assert [name for (name,) in lake.rows(query)[1]] == [name for (name,) in warehouse.rows(query)[1]] == names


def arguments(each: catalog.SqlObject, capture: str) -> dict[str, str] | None:
    """The arguments of a macro; None if it isn't about a capture."""
    known = {
        "capture": capture, "base": capture, "new": "mlp", "record": "mlp", "program": capture, "module": "", "etdump": capture,
        "trace": capture, "method": "forward", "what": "total", "selector": "model=fleet", "over": "build",
        "metric": "mse", "item": "x",
    }  # fmt: skip
    asked = [parameter.name for parameter in each.parameters if parameter.default is None]
    return {name: known[name] for name in asked} if all(name in known for name in asked) else None


def ask(warehouse: Warehouse, name: str, given: dict[str, str]) -> tuple[list[str], list[Any]] | str:
    """The columns and rows of an answer without keys, or the error."""
    call = ", ".join(f'"{parameter}" := ${parameter}' for parameter in given)
    query = f"FROM {name}({call})" if given or catalog.objects()[name].kind == "table macro" else f"FROM {name}"
    try:
        cursor = warehouse.connection.execute(query, given)
    except duckdb.Error as error:
        return str(error).splitlines()[0]
    columns = [described[0] for described in cursor.description or []]
    kept = [place for place, column in enumerate(columns) if column not in NEW_KEYS]
    return [columns[place] for place in kept], [tuple(row[place] for place in kept) for row in cursor.fetchall()]


def is_same(one: Any, other: Any) -> bool:
    """Whether values are the same, apart from the order in which floats are added."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Sequence) and not isinstance(one, str | bytes):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def in_order(rows: list[Any]) -> list[Any]:
    """Rows in an order that the last digits of floats don't change."""
    return sorted(rows, key=lambda row: repr([f"{each:.9g}" if isinstance(each, float) else each for each in row]))


def is_of_traces(*errors: object) -> bool:
    """Whether these are the errors of comparing the modules of captures that have no record and no executes."""
    return all("has no record, so" in str(each) or "has no execute to compare" in str(each) for each in errors)


ASKED = [each for each in catalog.public_objects() if each.kind != "scalar macro" and each.name not in OF_THE_FILE]


@pytest.mark.parametrize("each", thinned(ASKED, ASKED[::24]), ids=lambda each: each.name)
def test_every_view_answers_as_in_the_warehouse(pair: tuple[Warehouse, Warehouse], each: catalog.SqlObject) -> None:
    warehouse, lake = pair
    if arguments(each, "mlp") is None:
        pytest.skip("takes what isn't in every warehouse")
    captures = ["mlp"] if each.kind != "table macro" else ["mlp", "multimethod", *TRACES]
    for capture in captures:
        given_ = arguments(each, capture) or {}
        one, other = ask(warehouse, each.name, given_), ask(lake, each.name, given_)
        if isinstance(one, str) or isinstance(other, str):
            # A trace has neither a record nor executes, and either error may come first.
            assert one == other or (each.name == "compare_modules" and capture in TRACES and is_of_traces(one, other))
        else:
            assert one[0] == other[0]
            assert is_same(in_order(one[1]), in_order(other[1]))


def test_tables_of_the_lake_have_rows(pair: tuple[Warehouse, Warehouse]) -> None:
    """The test above would pass on empty ones."""
    _, lake = pair
    counts = {each.name: lake.rows(f"SELECT count(*) FROM {each.name}")[1][0][0] for each in catalog.tables()}
    # The traces are of CPUs, and a lake has neither overviews nor comments.
    assert {name for name, count in counts.items() if count == 0} == {
        "trace_devices",
        "device_events",
        "event_counters",
        "overview_items",
        "overview_comparisons",
        "change_comments",
    }
    assert lake.rows("SELECT count(DISTINCT o.op) FROM op_totals('mlp') AS o")[1][0][0] > 3
    assert lake.rows("SELECT count(*) FROM compare_ops('side=base', 'side=new')")[1][0][0] > 3
    sizes = dict(lake.rows("SELECT name, stored_bytes FROM capture_sizes")[1])
    assert len(sizes) > 20 and all(size > 0 for size in sizes.values())


def test_a_lake_is_only_read(pair: tuple[Warehouse, Warehouse]) -> None:
    _, lake = pair
    assert lake.read_only and "lake" in repr(lake)
    for write in (
        lambda: lake.ingest(CAPTURES / "mlp/mlp.etdp"),
        lambda: lake.ingest_many([CAPTURES / "mlp/mlp.etdp"]),
        lambda: lake.ingest_record(CAPTURES / "mlp/mlp.etrecord"),
        lambda: lake.label("mlp", a="b"),
        lambda: lake.metric("mlp", "temperature", 1),
        lambda: lake.phase("mlp", "decode", runs="1-"),
        lambda: lake.link("mlp", "mlp"),
        lambda: lake.remove("mlp"),
        lambda: lake.prune(0),
    ):
        with pytest.raises(WarehouseError, match="captures of a lake are read-only; add others with: etq lake add"):
            write()
    with pytest.raises(WarehouseError, match="can't be compacted"):
        lake.compact()


def one_of(files: Sequence[Path], lake: Path, **labels: str) -> Added:
    """Add these files."""
    return add(lake, lambda warehouse: warehouse.ingest_many(files, labels=labels))


FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))


@pytest.fixture(scope="module")
def events() -> dict[str, int]:
    """How many events each capture of the fleet has, by its SHA-256."""
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET)
        return dict(warehouse.rows("SELECT c.sha256, c.events FROM capture_summary AS c")[1])


def contents(lake: Path) -> list[Any]:
    """Each capture, its labels, and how many events it has."""
    with etq.open(lake) as warehouse:
        return warehouse.rows("SELECT c.sha256, c.labels, c.events, c.runs FROM capture_summary AS c ORDER BY ALL")[1]


def test_stored_captures_are_not_added_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert one_of(FLEET[:3], lake) == Added(3, 0, 0)
    before = sorted(lake.rglob("*"))
    assert one_of(FLEET[:3], lake, build="1") == Added(0, 3, 0)
    assert sorted(lake.rglob("*")) == before
    assert one_of(FLEET[2:5], lake) == Added(2, 1, 0)
    assert len(contents(lake)) == 5 and check(lake) == []


def test_captures_give_way_to_those_of_the_same_content(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    one_of(FLEET[:3], lake, build="1")
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[1:4], labels={"build": "2"})
        assert export(lake, warehouse, replace=True) == Added(1, 0, 2)
    assert sorted(labels for _, labels, *_ in contents(lake)) == ["build=1", "build=2", "build=2", "build=2"]
    assert {fault.is_left_over for fault in check(lake)} == {True}
    compact(lake, leave_seconds=-1)
    assert check(lake) == [] and len(contents(lake)) == 4


def test_names_that_others_have_are_made_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By folders below the present one: a lake names no others."""
    monkeypatch.chdir(tmp_path)
    lake = tmp_path / "lake"
    for number, path in enumerate(FLEET[:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "run.etdp").write_bytes(path.read_bytes())
        one_of([folder / "run.etdp"], lake)
    with etq.open(lake) as warehouse:
        names = warehouse.rows("SELECT name FROM captures ORDER BY ingested_at")[1]
        assert len({*names}) == 3 and names[0] == ("run",) and names[1] == ("1/run",)


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


@whole
def test_compacting_changes_no_answer(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for path in FLEET[:3]:
        one_of([path], lake, build="1")
    query = "FROM compare_ops('build=1,@latest', 'build=1,@previous')"
    with etq.open(lake) as older:
        before, asked = contents(lake), older.rows(query)[1]
        assert compact(lake) == (3, 1)
        assert contents(lake) == before
        assert older.rows(query)[1] == asked, "who has it open goes on with the files of before"
    with etq.open(lake) as warehouse:
        assert warehouse.rows(query)[1] == asked
    assert compact(lake, leave_seconds=-1) == (1, 1)
    assert check(lake) == [] and contents(lake) == before
    for table in catalog.tables():
        assert len([*(lake / table.name).glob("load_id=*/*.parquet")]) <= 1


def test_a_large_load_is_not_written_again_for_small_ones() -> None:
    def groups(*sizes: int) -> list[list[int]]:
        """The sizes of the loads that are put together, of a lake with loads of these numbers of captures."""
        loads = {
            load: {
                table: [tables.DataFile(f"load_id={load}/x.parquet", size * rows, 1)]
                for table, rows in (("captures", 1), ("event_ticks", 500))
            }
            for load, size in ((f"{place:x}-{size}", size) for place, size in enumerate(sizes))
        }
        made = state.LakeState(Lake.at("lake"), 1, loads)
        found = _groups(made, "capture", made.files)
        return [[int(load.split("-")[1]) for load in group] for group in found]

    assert groups(1, 2, 3) == [[1, 2, 3]] and groups(10) == []
    assert groups(10, 10, 10_000) == [[10, 10]] and groups(2_000, 1_000, 10_000) == [[1_000, 2_000, 10_000]]
    assert groups(15_000, 14_000) == [] and groups(2_000, 2_000, 2_000) == [[2_000] * 3]


@whole
def test_readers_keep_old_files_for_a_week(tmp_path: Path) -> None:
    """A week from when they were taken out, not from when they were written."""
    lake = tmp_path / "lake"
    for path in FLEET[:3]:
        one_of([path], lake)
    for path in lake.rglob("*.parquet"):
        os.utime(path, (time.time() - 10**6,) * 2)
    with etq.open(lake) as older:
        assert compact(lake) == (3, 1)
        assert older.rows("SELECT count(DISTINCT e.capture_id) FROM event_ticks AS e")[1] == [(3,)]


def test_failures_after_a_commit_keep_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, commit = tmp_path / "lake", commits.commit

    def fails(self: Lake, table: str, *arguments: Any, **options: Any) -> None:
        commit(self, table, *arguments, **options)
        if table == "captures":
            raise OSError("the disk is gone")

    def gone(*_: object) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(commits, "commit", fails)
        with pytest.raises(WarehouseError, match="lake: can't be written: the disk is gone"):
            one_of(FLEET[:1], lake)
    one_of(FLEET[1:2], lake)
    with monkeypatch.context() as patched:
        patched.setattr("etq.lake.writing.compacting._clean_logs", gone)
        with pytest.raises(WarehouseError, match="lake: can't be written: the disk is gone"):
            compact(lake)
    assert [fault for fault in check(lake) if not fault.is_left_over] == []
    assert len(contents(lake)) == 2 and len(state.read(Lake.at(lake)).loads("capture")) == 1


def _add_some(lake: Path, files: list[Path]) -> None:
    for path in files:
        one_of([path], lake, writer=str(os.getpid()))


def test_several_writers_lose_nothing_and_add_nothing_twice(tmp_path: Path, events: dict[str, int]) -> None:
    lake, context = tmp_path / "lake", multiprocessing.get_context("spawn")
    shared, own = FLEET[:2], FLEET[2:5]
    writers = [context.Process(target=_add_some, args=(lake, [*own[part::3], *shared])) for part in range(3)]
    for each in writers:
        each.start()
    seen: set[int] = set()
    while any(each.is_alive() for each in writers):
        if is_lake(lake):
            rows = contents(lake)
            seen.add(len(rows))
            assert all(found == events[sha256] for sha256, _, found, _ in rows), "only whole ones are seen"
        time.sleep(0.05)
    assert [each.exitcode for each in writers] == [0, 0, 0]
    assert len(contents(lake)) == 5 and [fault for fault in check(lake) if not fault.is_left_over] == []
    assert len(seen) > 1
    compact(lake, leave_seconds=-1)
    assert len(contents(lake)) == 5 and check(lake) == []


def test_a_writer_that_is_killed_leaves_nothing_of_the_lake(tmp_path: Path, events: dict[str, int]) -> None:
    lake, context = tmp_path / "lake", multiprocessing.get_context("spawn")
    one_of(FLEET[:1], lake)
    for tenths in range(12, 24, 4):
        writer = context.Process(target=_add_some, args=(lake, FLEET[1:]))
        writer.start()
        time.sleep(tenths / 10)
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        assert [fault for fault in check(lake) if not fault.is_left_over] == []
        assert all(found == events[sha256] for sha256, _, found, _ in contents(lake))
    compact(lake, leave_seconds=-1)
    assert check(lake) == []


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


def test_a_lake_within_a_file_is_refused_before_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = ["lake", "add", str(tmp_path / "file/lake"), str(CAPTURES / "mlp/mlp_1run.etdp")]
    result = CliRunner().invoke(main, command)
    assert (result.exit_code, result.output) == (
        1, f"Error: {tmp_path / 'file'}: not a folder that can be written; name another for the lake\n"
    )  # fmt: skip
