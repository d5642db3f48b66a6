"""Views of one capture read the events of that capture alone, however many captures a lake has."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

import etq
from etq.catalog import public_objects
from etq.lake import add
from etq.warehouse.warehouse import Warehouse
from tests.benchmarks.make_captures import make_captures
from tests.benchmarks.make_gpu_trace import make_gpu_trace
from tests.conftest import CAPTURES
from tests.sampling import whole

pytestmark = pytest.mark.long

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")

TABLES: Final = ("event_ticks", "trace_events", "device_events", "trace_memory")
# A filter on a join of others passes on the vectors in which the capture begins and ends as a whole.
VECTORS: Final = 2 * 2048
DUMPS: Final = 30
TRACES: Final = 12
VIEWS: Final = [
    each
    for each in public_objects()
    if each.kind == "table macro"
    and [parameter.name for parameter in each.parameters if parameter.default is None] == ["capture"]
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A lake of one load: dumps, two of them with records, and ranks of a job."""
    folder: Path = tmp_path_factory.mktemp("reading")
    make_captures(CAPTURES / "fleet", folder / "dumps", DUMPS)
    for rank in range(TRACES):
        make_gpu_trace(folder / f"rank{rank}.json", 8_000, rank + 1, rank, TRACES)

    def fill(warehouse: Warehouse) -> None:
        warehouse.ingest_many([*(folder / "dumps").iterdir(), *folder.glob("*.json")])
        for model in ("transformer", "mlp_xnn"):
            path = CAPTURES / model / f"{model}_100runs.etdp"
            warehouse.ingest(path, name=model, etrecord=path.with_name(f"{model}.etrecord"))

    add(folder / "lake", fill)
    with etq.open(folder / "lake") as warehouse:
        yield warehouse


def scans(warehouse: Warehouse, query: str) -> Iterator[tuple[str, int]]:
    """Each table that a query reads, and how many rows it reads of it."""
    answer = warehouse.connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}").fetchall()
    operators: list[dict[str, Any]] = json.loads(answer[0][1])["operator"]
    while operators:
        operator = operators.pop()
        operators += operator.get("children", [])
        if files := operator["extra_info"].get("Filename(s)"):
            yield Path(files).parents[1].name, operator["intermediate_rows"]


@pytest.mark.long
@pytest.mark.parametrize("capture", [pytest.param("transformer", marks=whole), "mlp_xnn", "rank0"])
def test_events_of_other_captures_are_not_read(lake: Warehouse, capture: str) -> None:
    sizes = {
        table: lake.rows(
            f"SELECT count(*) FILTER (WHERE c.name = '{capture}'), count(*) FROM {table} AS t "
            "JOIN captures AS c ON c.capture_id = t.capture_id"
        )[1][0]
        for table in TABLES
    }
    assert all(size > 2 * (own + VECTORS) for own, size in sizes.values()), sizes
    read: dict[tuple[str, str], int] = {}
    views = [each.name for each in VIEWS if capture == "rank0" or not each.file.startswith("traces/")]
    for view in views:
        try:
            found = list(scans(lake, f"FROM {view}('{capture}')"))
        except duckdb.InvalidInputException:
            continue  # the view needs another kind of capture
        for table, rows in found:
            read[view, table] = max(rows, read.get((view, table), 0))
    asked = {(view, table): rows for (view, table), rows in read.items() if table in TABLES}
    assert len(asked) > len(views) / 2
    assert {key: rows for key, rows in asked.items() if rows > sizes[key[1]][0] + VECTORS} == {}


def test_opening_a_lake_imports_no_readers_of_files(tmp_path: Path) -> None:
    add(tmp_path / "lake", lambda warehouse: warehouse.ingest(CAPTURES / "mlp" / "mlp_100runs.etdp"))
    script = (
        "import sys, etq; print(etq.open(sys.argv[1]).rows('SELECT name FROM captures')[1]); "
        "print({'numpy', 'pyarrow', 'etq.ingest.registry'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "lake")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[('mlp_100runs',)]\nset()\n"
