"""Gaps between the values that a runtime logged and those of the exported program, in the Inspector's columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from etq.database.handles import Record
from etq.errors import ArgumentError
from etq.inspector.comparators import NumericalComparatorBase
from etq.inspector.frames import import_pandas, object_frame
from etq.storage.values import keep_values
from etq.torch.reference import EDGE, EXPORTED, reference_values

if TYPE_CHECKING:
    import pandas

    from etq.inspector.rows import CaptureQueries
    from etq.storage.sources import Source

METRICS: Final = ("MSE", "L1", "SNR")
_PAIRS: Final = """
    SELECT d.method, d.debug_handle, d.output_index, d.new_handles, d.new_op, d.mapping,
        d.problem, d.mse, d.l1, d.snr,
        d.base_elements, d.base_sizes, d.base_type, d.new_elements, d.new_sizes, d.new_type
    FROM _value_distances($base, $new, true) AS d
    WHERE d.base_elements IS NOT NULL AND d.new_elements IS NOT NULL
    ORDER BY d.method, d.debug_handle, d.output_index
"""
_NODES: Final = """
    SELECT g.method, h.debug_handle, p.name, p.stack_trace
    FROM captures AS k
    JOIN graphs AS g ON g.record_id = k.record_id AND g.stage = $graph
    JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
    JOIN node_debug_handles AS h
        ON h.record_id = p.record_id AND h.graph_id = p.graph_id AND h.node_index = p.node_index
    WHERE k.capture_id = $base
    ORDER BY g.graph_id, p.node_index
"""
COLUMNS: Final = (
    *("aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops", "runtime_debug_handle"),
    *("runtime_intermediate_output", "gap", "stacktraces", "problem", "mapping"),
)
Place = tuple[str, int, int]


class Value(np.ndarray[Any, np.dtype[Any]]):
    """An array that can be the key of a mapping, by its identity, as tensors can."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@dataclass(frozen=True)
class Pair:
    """A value of the reference and the runtime's value of the same op: their distance by each metric, and the reason if
    it is unknown.
    """

    place: Place
    handles: tuple[int, ...]
    op: str
    mapping: str
    problem: str | None
    distances: Mapping[str, float | None]
    truth: Any
    given: Any


# A pair, its distance as a list of one, and the reason if the distance is unknown.
Compared = tuple[Pair, list[float], str | None]


class Gaps:
    """A run and its reference, for several kinds of distance.

    queries  the run's, which is linked to its record; the reference and the values of `buffer` are stored next to it
    """

    def __init__(self, queries: CaptureQueries, record: str, buffer: Source, graph: str | None) -> None:
        self._queries = queries
        self.graph = _graph_of(queries, graph)
        given = reference_values(record, self.graph)
        warehouse = queries.warehouse
        keep_values(warehouse.connection, queries.capture.capture_id, buffer)
        [stored] = warehouse.rows("SELECT r.record_id, r.name, r.sha256, r.is_complete FROM records AS r")[1]
        self._keys = {
            "base": warehouse.ingest_reference(Record(*stored), given, graph=self.graph).capture_id,
            "new": queries.capture.capture_id,
        }
        self._pairs = _pairs(self.rows(_PAIRS))
        self._nodes: dict[tuple[str, int], list[tuple[str, str | None]]] = {}
        for method, handle, name, trace in self.rows(_NODES, graph=self.graph):
            self._nodes.setdefault((method, handle), []).append((name, trace))

    def rows(self, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in which $base and $new are the keys of the reference and the run."""
        used = {name: key for name, key in self._keys.items() if f"${name}" in query}
        return self._queries.warehouse.rows(query, **used, **parameters)[1]

    def frame(self, distance: str | NumericalComparatorBase, inspector: Any) -> pandas.DataFrame:
        """Return the DataFrame of `Inspector.calculate_numeric_gap`; see there."""
        import_pandas()
        if isinstance(distance, NumericalComparatorBase):
            if distance.inspector is None:
                distance.inspector = inspector
            return _frame(self._nodes, _compared(self._pairs, distance))
        metric = distance.strip().upper()
        if metric not in METRICS:
            raise ArgumentError(f"no distance {distance!r}; known are {', '.join(METRICS)}, and your own comparators")
        return _frame(self._nodes, _by(self._pairs, metric))


def _graph_of(queries: CaptureQueries, graph: str | None) -> str:
    held = [stage for (stage,) in queries.rows("SELECT DISTINCT g.stage FROM graphs AS g")]
    if graph is None:
        return EXPORTED if EXPORTED in held else EDGE
    if graph not in (EXPORTED, EDGE):
        raise ArgumentError(f"the reference graph is {EXPORTED} or {EDGE}, not {graph!r}")
    return graph


def _pairs(rows: list[tuple[Any, ...]]) -> list[Pair]:
    pairs = []
    for method, handle, index, handles, op, mapping, problem, mse, l1, snr, *values in rows:
        truth, given = (_value(*each) for each in (values[:3], values[3:]))
        distances = {"MSE": mse, "L1": l1, "SNR": snr}
        pairs.append(Pair((method, handle, index), tuple(handles), op, mapping, problem, distances, truth, given))
    return pairs


def _by(pairs: list[Pair], metric: str) -> list[Compared]:
    """Return gaps by one of etq's metrics."""
    gaps = [pair.distances[metric] for pair in pairs]
    return [(pair, [float("nan") if gap is None else gap], pair.problem) for pair, gap in zip(pairs, gaps, strict=True)]


def _value(elements: list[float], sizes: list[int] | None, scalar_type: str | None) -> Any:
    if sizes is None:
        return elements[0]
    known = scalar_type if scalar_type in np.sctypeDict else None
    return np.array(elements).astype(known or np.float64).reshape(sizes).view(Value)


def _compared(pairs: list[Pair], comparator: NumericalComparatorBase) -> list[Compared]:
    """Return gaps by a user's comparator: if it raises an exception for a pair, only that pair has no gap."""
    mapping = {(pair.handles, pair.truth): (pair.handles, pair.given) for pair in pairs}
    pair_of_value = {id(pair.given): pair for pair in pairs}
    results: list[Compared] = []
    for at, ((handles, truth), (_, given)) in enumerate(comparator.preprocessing(mapping).items()):
        before = pair_of_value.get(id(given)) or pairs[min(at, len(pairs) - 1)]
        pair = replace(before, handles=handles, truth=truth, given=given)
        try:
            results.append((pair, [comparator.element_compare(truth, given)], None))
        except Exception as error:
            results.append((pair, [float("nan")], str(error)))
    return results


def _frame(nodes: dict[tuple[str, int], list[tuple[str, str | None]]], rows: list[Compared]) -> pandas.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for pair, gap, problem in rows:
        ops = [node for handle in pair.handles for node in nodes.get((pair.place[0], handle), [])]
        values = (
            pair.handles,
            list(dict.fromkeys(name for name, _ in ops)),
            pair.truth,
            [pair.op],
            pair.handles,
            pair.given,
            gap,
            dict(ops),
            problem,
            pair.mapping,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return object_frame(columns)
