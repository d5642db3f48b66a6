"""How many operators DuckDB plans for a view: planning takes longer than most queries, and grows with their number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

import etq
from etq import catalog
from etq.database.functions import register
from etq.warehouse.warehouse import Warehouse

# The most operators of a view before DuckDB optimizes its plan (a quarter of a millisecond each, with optimizing it),
# and what larger views have, with a twentieth on top.
MOST: Final = 250
LARGER: Final = {
    "causes": 642, "compare_captures": 271, "compare_graphs": 447, "compare_jobs": 308, "compare_modules": 258,
    "compare_ops": 268, "compare_parts": 304, "critical_ops": 320, "critical_path": 324, "find_total_for_module": 275,
    "job_critical_path": 319, "jobs": 292, "key_averages": 290, "rank_steps": 259, "regressions": 265, "series": 326,
    "step_efficiency": 252, "stragglers": 278, "time_tree": 263, "trend": 294,
}  # fmt: skip


@pytest.fixture(scope="module")
def planning() -> Iterator[Warehouse]:
    """An empty warehouse: what is planned before it is optimized doesn't depend on the rows."""
    with etq.open() as opened:
        register(opened.connection)
        opened.connection.execute("SET explain_output = 'all'")
        yield opened


def operators(node: dict[str, Any]) -> int:
    return 1 + sum(map(operators, node["children"]))


@pytest.mark.long
def test_views_are_planned_within_their_budgets(planning: Warehouse) -> None:
    wrong = {}
    for each in catalog.public_objects():
        if each.kind not in ("view", "table macro"):
            continue
        required = ", ".join("'x'" for parameter in each.parameters if parameter.default is None)
        call = f"{each.name}({required})" if each.kind == "table macro" else each.name
        plans = dict(planning.connection.execute(f"EXPLAIN (FORMAT json) FROM {call}").fetchall())
        planned, most = sum(map(operators, json.loads(plans["logical_plan"]))), LARGER.get(each.name, MOST)
        if planned > most:
            wrong[each.name] = f"{planned} operators, more than {most}"
    assert wrong == {}, (
        "use a CTE AS MATERIALIZED for what a view reads several times, and give keys, not selectors, to private "
        "macros; or, if its answer is worth it, raise the number"
    )
