"""Other engines open a lake's tables without etq, and count and add up the same."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import etq
from etq.lake import export
from tests.lake.test_lake import FLEET, one_of

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs/how-to/spark.md"
deltalake = pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake in which some captures were replaced."""
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
    text = PAGE.read_text().split(f"\n### {section}\n")[1].split("\n### ")[0]
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


def test_ibis_finds_the_medians_of_builds(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As etq's view has the time of each op of each capture."""
    pytest.importorskip("ibis", reason="ibis isn't installed: pip install --group lake-test")
    (tmp_path / "fleet").symlink_to(lake)
    monkeypatch.chdir(tmp_path)
    names = dict[str, Any]()
    exec(compile(examples("Ibis"), str(PAGE), "exec"), names)
    times = defaultdict[tuple[str, str], list[float]](list)
    with etq.open(lake) as warehouse:
        for capture, build in warehouse.rows("SELECT c.name, c.labels['build'] FROM labelled_captures AS c")[1]:
            query = "SELECT o.op, o.per_execute FROM op_totals($capture) AS o WHERE o.kind = 'kernel'"
            for op, time in warehouse.rows(query, capture=capture)[1]:
                times[build, op].append(time)
    assert {build for build, _ in times} == {"1", "2"}
    expected = [(*key, len(found), median(found)) for key, found in times.items()]
    expected.sort(key=lambda row: (row[0], -row[3]))
    assert [tuple(row.values()) for row in names["times"].to_pylist()] == expected
