"""Invariants of views on real captures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import pytest

from etq.database.handles import Capture
from etq.warehouse.views import table_macros
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, COPIES
from tests.sampling import thinned
from tests.warehouses import empty_warehouse

NAMES = sorted(path.stem for path in CAPTURES.glob("*/*.etdp") if path.parent.name != "malformed")
NAMES = [name for name in NAMES if name not in COPIES]


@pytest.mark.long
def test_profiling_levels(all_captures: Warehouse) -> None:
    def level_of(name: str) -> str | None:
        if "debug" in name or name in ("mlp_progout", "mlp_filesink"):
            return "debug"
        if name == "mlp_0runs":
            return None
        return "method_only" if name.endswith("method_only") else "all"

    levels = dict(all_captures.rows("SELECT name, profiling_level FROM captures")[1])
    assert levels == {name: level_of(name) for name in levels}


def test_rows_lie_sorted(all_captures: Warehouse) -> None:
    keys = all_captures.rows("SELECT capture_id, run_index, event_index FROM event_ticks ORDER BY rowid")[1]
    assert all(one < other for one, other in pairwise(keys))
    assert len(keys) > 50_000


# These need a linked record or another argument; tests/parity/test_records.py covers them.
OF_RECORDS = {
    *("module_totals", "source_totals", "find_total_for_module", "event_nodes", "event_ops", "delegate_coverage"),
    *("delegate_graph", "node_totals", "node_memory", "node_roofline", "module_ops"),
}


@pytest.fixture(scope="module")
def several() -> Iterator[Warehouse]:
    """Three captures whose runs after the first are decode steps, and three prof_results."""
    names = ["mlp/mlp_alloc.etdp", "mlp_xnn/mlp_xnn.etdp", "mlp/mlp_method_only.etdp"]
    blobs = [f"prof_result/{name}.prof_result.bin" for name in ("delegate", "two_blocks_interleaved", "no_kernels")]
    with empty_warehouse() as warehouse:
        for capture in warehouse.ingest_many([CAPTURES / name for name in (*names, *blobs)])[:3]:
            warehouse.phase(cast("Capture", capture), "decode", runs="1-")
        yield warehouse


VIEWS = sorted({each.name for each in table_macros() if each.parameters[0].name == "capture"} - OF_RECORDS)


@pytest.mark.parametrize("view", thinned(VIEWS, ["op_totals", "time_tree", "prof_result_tax"]))
def test_views_of_many_captures_in_one_query(several: Warehouse, view: str) -> None:
    """The argument may be a column, so the captures can be chosen by any query."""
    of_blobs = view.startswith("prof_result_")
    chosen = f"SELECT c.name FROM captures AS c WHERE (c.format = 'prof_result') = {of_blobs}"
    together = several.rows(f"SELECT c.name, v.* FROM ({chosen}) AS c, LATERAL (FROM {view}(c.name)) AS v")[1]
    names = [name for (name,) in several.rows(chosen)[1]]
    assert len(names) == 3
    for name in names:
        ours = [row[1:] for row in together if row[0] == name]
        alone = several.rows(f"FROM {view}($capture)", capture=name)[1]
        assert sorted(ours, key=repr) == sorted(alone, key=repr)
