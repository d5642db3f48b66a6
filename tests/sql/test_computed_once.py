"""Results that views share in a report: the same answers, for one capture and these arguments alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq import QueryError
from etq.analysis.focus import computed_once, of_trace
from tests.benchmarks.make_gpu_trace import make_gpu_trace
from tests.conftest import CAPTURES

pytestmark = pytest.mark.long

STEPS = CAPTURES / "torch" / "mlp_train.pt.trace.json.gz"
OF_TRACES = (
    *("_nested_times", "backward_times", "collectives", "critical_ops", "critical_path", "device_breakdown"),
    *(
        "device_idle",
        "device_idle_causes",
        "idle_parts",
        "key_averages",
        "launch_totals",
        "passes",
        "peak_memory",
        "queue_summary",
    ),
    *("tensor_core_use", "wide_steps", "work_totals", "average_step", "gpu_utilization"),
    *("kernel_table", "module_tree", "timeline"),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    make_gpu_trace(folder / "gpu.pt.trace.json", 2_000, 1)
    with etq.open(folder / "lab.duckdb") as warehouse:
        warehouse.ingest(STEPS, name="cpu")
        warehouse.ingest(folder / "gpu.pt.trace.json", name="gpu")
    return folder / "lab.duckdb"


@pytest.fixture
def warehouse(file: Path) -> Iterator[etq.Warehouse]:
    with etq.open(file, read_only=True) as opened:
        yield opened


def answers(
    warehouse: etq.Warehouse, capture: str, views: tuple[str, ...] = OF_TRACES
) -> dict[str, list[tuple[Any, ...]]]:
    asked = {view: warehouse.rows(f"FROM {view}($capture)", capture=capture)[1] for view in views}
    # Sums of floats differ in their last digits by the order of rows.
    return {view: sorted((tuple(map(rounded, row)) for row in rows), key=repr) for view, rows in asked.items()}


def rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else value


def definitions(warehouse: etq.Warehouse) -> list[tuple[Any, ...]]:
    query = """
        SELECT database_name, function_name, md5(macro_definition) FROM duckdb_functions()
        WHERE NOT internal ORDER BY ALL
    """
    return warehouse.rows(query)[1]


@pytest.mark.parametrize(
    ("name", "views"),
    [("gpu", ("key_averages", "device_idle", "wide_steps")), *((name, OF_TRACES) for name in ("cpu", "gpu"))],
)
def test_views_have_the_same_rows(warehouse: etq.Warehouse, name: str, views: tuple[str, ...]) -> None:
    alone = answers(warehouse, name, views)
    with computed_once(warehouse, warehouse.capture(name), of_trace(None, has_devices=name == "gpu")):
        assert answers(warehouse, name, views) == alone
        plan = warehouse.connection.execute("EXPLAIN FROM operator_table(?)", [name]).fetchall()
        assert "_computed_operator" in str(plan)
    assert sum(bool(rows) for rows in alone.values()) > (7 if name == "cpu" else 15 if views == OF_TRACES else 2)


def test_nothing_remains_even_after_an_error(warehouse: etq.Warehouse) -> None:
    before = definitions(warehouse), warehouse.connection.execute("SHOW ALL TABLES").fetchall()
    with pytest.raises(ZeroDivisionError), computed_once(warehouse, warehouse.capture("gpu")):
        assert definitions(warehouse) != before[0]
        raise ZeroDivisionError
    assert (definitions(warehouse), warehouse.connection.execute("SHOW ALL TABLES").fetchall()) == before
    assert warehouse.rows("FROM key_averages('cpu')")[1]


def test_other_arguments_are_an_error(warehouse: etq.Warehouse) -> None:
    with computed_once(warehouse, warehouse.capture("gpu")):
        assert warehouse.rows("FROM operator_table('gpu')")[1]
        with pytest.raises(QueryError, match="other arguments"):
            warehouse.rows("FROM critical_path('gpu', step := 1)")
