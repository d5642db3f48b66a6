"""Other engines open a lake's tables without etq, and count and add up the same."""

from __future__ import annotations

import re
from pathlib import Path
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
