"""What is planted into a lake is found, and worded as in a warehouse's file."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copyfile, copytree

import duckdb
import pytest

import etq
from etq.lake import export
from etq.lake.checking import check
from etq.maintenance import checking
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.lake.test_lake import FLEET

pytestmark = pytest.mark.long

deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse, and a lake of it."""
    folder = tmp_path_factory.mktemp("kept")
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest_many(FLEET[:2])
        for rank in range(2):
            warehouse.ingest(CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz", labels={"job": "gpu"})
        export(folder / "lake", warehouse)
    return folder


def problems_of_lake(lake: Path) -> dict[str, tuple[str, ...]]:
    return {part.what.split(" (")[0]: part.problems for part in check(lake) if part.problems}


def problems_of_file(path: Path) -> dict[str, tuple[str, ...]]:
    return {part.what.split(" (")[0]: part.problems for part in checking.check(path) if part.problems}


def test_a_lake_without_problems(kept: Path) -> None:
    """The parts are those of the file, but for its tables."""
    parts, of_file = [*check(kept / "lake")], [*checking.check(kept / "lab.duckdb")]
    assert not any(part.problems for part in parts) and parts[2:] == of_file[1:]


# A table, its column, another value, and for which rows; the part that finds it. Each is of another table or row, so that
# all are found at once. Nothing is computed for the capture whose runs have the same key.
FAULTS = (
    ("op_times", "total_ticks", "total_ticks + 1", "op_index = 1", "rollups, by the events"),
    ("event_ticks", "self_ticks", "self_ticks + 1", "event_index = 2", "times of events and runs"),
    ("runs", "run_index", "0", "run_index = 1 AND capture_id = {first}", "keys"),
    ("event_ticks", "signature_index", "999", "event_index = 3", "references between tables"),
)


def test_the_same_is_found_as_in_a_file(kept: Path, tmp_path: Path) -> None:
    copyfile(kept / "lab.duckdb", tmp_path / "lab.duckdb")
    copytree(kept / "lake", tmp_path / "lake")
    with duckdb.connect(tmp_path / "lab.duckdb") as connection:
        [(of_file,)] = connection.execute("SELECT capture_id FROM captures WHERE name = '00'").fetchall()
        captures = deltalake.DeltaTable(tmp_path / "lake/captures").to_pyarrow_table().to_pylist()
        [of_lake] = [each["capture_id"] for each in captures if each["name"] == "00"]
        for table, column, value, where, _ in FAULTS:
            changed = deltalake.DeltaTable(tmp_path / "lake" / table)
            changed.update(predicate=where.format(first=of_lake), updates={column: value})
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where.format(first=of_file)}")
    found, expected = problems_of_lake(tmp_path / "lake"), problems_of_file(tmp_path / "lab.duckdb")
    assert found.keys() == expected.keys() == {part for *_, part in FAULTS}
    for part in found:
        # Advice about the ranks of a job is compared in a file alone.
        without_keys = [
            [re.sub("capture_id [0-9]+", "", text) for text in each[part] if not text.startswith("all_advice: rank")]
            for each in (found, expected)
        ]
        assert without_keys[0] == without_keys[1] != []


def test_files_and_loads(kept: Path, tmp_path: Path) -> None:
    copytree(kept / "lake", tmp_path / "lake")
    table = deltalake.DeltaTable(tmp_path / "lake/captures")
    table.delete("name = '00'")
    found = problems_of_lake(tmp_path / "lake")
    assert "event_ticks: has rows of 1 capture missing from the load of these rows" in found["loads"]
    [path] = (tmp_path / "lake/event_ticks").glob("load_id=*/*.parquet")
    path.write_bytes(path.read_bytes()[:1000])
    [[problem]] = problems_of_lake(tmp_path / "lake").values()
    assert problem.startswith(f"event_ticks/{path.parent.name}/{path.name}: damaged: ")
    result = run_etq("db", "check", "--db", str(tmp_path / "lake"))
    assert result.exit_code == 1 and "1 problem" in result.output
