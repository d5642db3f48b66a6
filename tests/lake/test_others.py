"""Other engines open a lake's tables without etq, and count and add up the same."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq.lake import check, compact, export
from tests.lake.test_lake import FLEET, one_of

PAGE = Path(__file__).parents[2] / "docs/how-to/lake-engines.md"
deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which some captures were replaced, so that the tables still have their rows."""
    folder = tmp_path_factory.mktemp("others") / "lake"
    one_of(FLEET[:4], folder, build="1")
    with etq.open() as warehouse:
        warehouse.ingest_many(FLEET[1:3], labels={"build": "2"})
        export(folder, warehouse, replace=True)
    return folder


@pytest.fixture(scope="module")
def expected(lake: Path) -> Any:
    """The captures, and the events and ticks of all."""
    with etq.open(lake) as warehouse:
        query = "SELECT count(DISTINCT t.capture_id), count(*), sum(t.elapsed_ticks)::BIGINT FROM event_ticks AS t"
        return warehouse.rows(query)[1][0]


def examples(section: str) -> str:
    """The code of a section of the page about other engines."""
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return "".join(re.findall(r"^```py\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("section", ["Polars", "DuckDB", "deltalake"])
def test_examples_of_the_page(
    section: str, lake: Path, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if section == "Polars":
        pytest.importorskip("polars", reason="polars isn't installed: pip install --group lake-test")
    (tmp_path / "fleet").symlink_to(lake)
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    exec(compile(examples(section), str(PAGE), "exec"), names)
    assert names["events"] == expected[1]


def test_polars(lake: Path, expected: Any) -> None:
    polars = pytest.importorskip("polars", reason="polars isn't installed: pip install --group lake-test")
    captures = polars.scan_delta(str(lake / "captures"))
    ticks = polars.scan_delta(str(lake / "event_ticks")).join(captures, on=["capture_id", "load_id"], how="semi")
    found = ticks.select(
        polars.col("capture_id").n_unique(), polars.len().alias("events"), polars.col("elapsed_ticks").sum()
    ).collect()
    assert found.row(0) == expected


def test_duckdb_on_the_listed_files(lake: Path, expected: Any) -> None:
    files = {name: deltalake.DeltaTable(str(lake / name)).file_uris() for name in ("captures", "event_ticks")}
    query = """
        SELECT count(DISTINCT t.capture_id), count(*), sum(t.elapsed_ticks)::BIGINT
        FROM read_parquet($event_ticks, hive_partitioning = true) AS t
        SEMI JOIN read_parquet($captures, hive_partitioning = true) AS c USING (capture_id, load_id)
    """
    assert duckdb.execute(query, files).fetchall() == [expected]


def test_the_library_alone(lake: Path, expected: Any) -> None:
    captures, ticks = (
        deltalake.DeltaTable(str(lake / name)).to_pyarrow_table() for name in ("captures", "event_ticks")
    )
    keys = set(zip(captures["capture_id"].to_pylist(), captures["load_id"].to_pylist(), strict=True))
    rows = zip(*(ticks[name].to_pylist() for name in ("capture_id", "load_id", "elapsed_ticks")), strict=True)
    kept = [(key, elapsed) for key, load, elapsed in rows if (key, load) in keys]
    assert (len({key for key, _ in kept}), len(kept), sum(elapsed for _, elapsed in kept)) == expected
    assert len(kept) < len(ticks), "rows of captures that were replaced are left"


def test_others_may_optimize_a_table(lake: Path, expected: Any) -> None:
    for name in ("captures", "event_ticks"):
        deltalake.DeltaTable(str(lake / name)).optimize.compact()
        deltalake.DeltaTable(str(lake / name)).optimize.z_order(["capture_id"])
    with etq.open(lake) as warehouse:
        query = "SELECT count(DISTINCT t.capture_id), count(*), sum(t.elapsed_ticks)::BIGINT FROM event_ticks AS t"
        assert warehouse.rows(query)[1] == [expected]
    assert one_of(FLEET[4:5], lake).new == 1
    with etq.open(lake) as warehouse:
        before = warehouse.rows(query)
    compact(lake, leave_seconds=-1)  # deletes the files that they replaced
    with etq.open(lake) as warehouse:
        assert warehouse.rows(query) == before
    assert check(lake) == []


def test_without_a_note_the_logs_are_read(lake: Path, tmp_path: Path) -> None:
    """As if other programs had made all commits that are left."""
    query = "SELECT t.capture_id, count(*) FROM event_ticks AS t GROUP BY ALL ORDER BY ALL"
    shutil.copytree(lake, tmp_path / "lake")
    for commit in (tmp_path / "lake" / "captures" / "_delta_log").glob("*.json"):
        commit.write_bytes(commit.read_bytes().replace(b'"etq":', b'"other":'))
    with etq.open(lake) as one, etq.open(tmp_path / "lake") as other:
        assert one.rows(query) == other.rows(query) and one.rows(query)[1]
    assert one_of(FLEET[6:7], tmp_path / "lake").new == 1 and one_of(FLEET[6:7], tmp_path / "lake").known == 1


def test_others_may_commit_more_often(lake: Path) -> None:
    """The versions of the tables are found although the last commits don't have them."""
    query = "SELECT t.capture_id, count(*) FROM event_ticks AS t GROUP BY ALL ORDER BY ALL"
    with etq.open(lake) as warehouse:
        before = warehouse.rows(query)
    for number in range(10):
        deltalake.DeltaTable(str(lake / "captures")).alter.set_table_description(str(number))
    with etq.open(lake) as warehouse:
        assert warehouse.rows(query) == before and before[1]
    assert one_of(FLEET[5:6], lake).new == 1
