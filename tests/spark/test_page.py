"""The examples for Spark on the page about other engines have the results of DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.lake.test_others import PAGE, examples


@pytest.mark.long
@pytest.mark.parametrize("section", ["Spark SQL", "A notebook on a cluster"])
def test_examples_of_the_page(
    section: str,
    spark: Any,
    lake: Path,
    duck: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "fleet").symlink_to(lake)
    monkeypatch.chdir(tmp_path)
    names = {"spark": spark}
    exec(compile(examples(section), str(PAGE), "exec"), names)
    assert [(names["events"],)] == duck.execute("SELECT count(*) FROM event_ticks").fetchall()
