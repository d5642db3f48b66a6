"""The Inspector's values of ops, and their distances, are those of the views, which find them in SQL."""

from __future__ import annotations

import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq.ingest.etdump.debug_buffer import doubles
from etq.inspector import Inspector
from etq.inspector.gaps import Pair, _by, _distances_of
from etq.inspector.op_values import OpValue, logged_values, reference_op_values
from etq.storage.op_results import EDGE, Graphs
from etq.storage.sources import source_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.records import node, record, tensor
from tests.sampling import thinned

EXPORTED = "exported_program"
DUMPS = [
    str(path.relative_to(CAPTURES))
    for path in sorted(CAPTURES.glob("**/*.etdp"))
    if path.with_suffix(".bin").exists() and any(path.parent.glob("*.etrecord"))
]


def rows_of_view(warehouse: Warehouse, key: int) -> dict[Any, tuple[Any, ...]]:
    query = "FROM _values_by_handle('asked') AS v"
    columns = "v.method, v.debug_handle, v.output_index, v.debug_handles, v.sizes, v.mapping, v.problem, v.elements"
    found = warehouse.rows(f"WITH asked AS (SELECT $key AS capture_id) SELECT {columns} {query}", key=key)[1]
    return {row[:3]: row[3:] for row in found}


def check(expected: dict[Any, tuple[Any, ...]], found: dict[Any, OpValue]) -> None:
    assert expected.keys() == found.keys()
    for key, (handles, sizes, mapping, problem, elements) in expected.items():
        value = found[key]
        assert (list(value.handles), value.sizes, value.mapping, value.problem) == (handles, sizes, mapping, problem)
        assert (value.value is None) == (elements is None)
        assert value.value is None or np.array_equal(doubles(value.value), elements, equal_nan=True)


@pytest.mark.long
@pytest.mark.parametrize(
    "name", thinned(DUMPS, ("mlp/mlp_debug5.etdp", "demo_int/demo_int_debug.etdp", "gaps/vit/vit.etdp"))
)
def test_values(warehouse: Warehouse, name: str) -> None:
    path = CAPTURES / name
    [given, *_] = sorted(path.parent.glob("*.etrecord"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Inspector(path, etrecord=given)
        capture = warehouse.ingest(path, etrecord=given, debug_buffer=path.with_suffix(".bin"), keep_values=True)
    queries = made._queries.with_ops
    graphs = Graphs(queries.rows, 1, EDGE, EXPORTED)
    found = logged_values(queries, source_of(path.with_suffix(".bin")), graphs)
    check(rows_of_view(warehouse, capture.capture_id), found)
    reference = path.with_suffix(".reference.npz")
    if reference.exists():
        values: dict[str, list[Any]] = {}
        with np.load(reference) as arrays:
            for key in arrays:
                values.setdefault(key.partition("/")[0], []).append(arrays[key])
        stored = warehouse.ingest_reference(warehouse.rows("SELECT r.name FROM records AS r")[1][0][0], values)
        of_nodes = reference_op_values(graphs, EXPORTED, "forward", values)
        assert of_nodes
        check(rows_of_view(warehouse, stored.capture_id), of_nodes)


def test_distances(warehouse: Warehouse, tmp_path: Path) -> None:
    """Also of NaN, infinities, no elements, and zeros: of each pair of a few arrays."""
    inf, nan = math.inf, math.nan
    arrays = [
        np.array(each, np.float64)
        for each in ([1, 2, 3], [1, 2, 4], [0, 0, 0], [nan, 2, 3], [1, nan, 3], [inf, 2, 3], [-inf, 2, nan], [nan] * 3,
                     [inf] * 3)
    ]  # fmt: skip
    pairs = [*itertools.product(arrays, arrays), (np.zeros(0), np.zeros(0))]
    nodes = [node("aten.relu.default", tensor(f"n{at}", 3), at + 1, x=tensor("x", 3)) for at in range(len(pairs))]
    (tmp_path / "made.etrecord").write_bytes(record(*nodes))
    warehouse.ingest_record(tmp_path / "made.etrecord")
    for side in (0, 1):
        values = {f"n{at}": [pair[side]] for at, pair in enumerate(pairs)}
        warehouse.ingest_reference("made", values, graph=EDGE, name=("base", "new")[side])
    for metric in ("MSE", "L1", "SNR"):
        query = "SELECT g.debug_handle, g.gap, g.problem FROM numeric_gap('base', 'new', $metric) AS g"
        rows = {handle: row for handle, *row in warehouse.rows(query, metric=metric)[1]}
        assert len(rows) == len(pairs)
        for at, pair in enumerate(pairs):
            sides = [OpValue((1,), "n", "float64", [each.size], each, "exact", None) for each in pair]
            distances, problem = _distances_of(sides[0], sides[1])
            gap, expected = rows[at + 1]
            shown = _by(Pair("", (1,), "n", "exact", problem, distances, None, None), metric)
            assert shown.problem == expected
            assert shown.gap == [pytest.approx(nan if gap is None else gap, rel=1e-12, nan_ok=True)]
