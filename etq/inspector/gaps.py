"""Gaps between the values that a runtime logged and those of the exported program, in the Inspector's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from etq.database.handles import Record
from etq.errors import ArgumentError, ArgumentTypeError
from etq.inspector.comparators import Comparator, DebugHandle
from etq.inspector.frames import import_pandas, object_frame
from etq.inspector.tensors import tensor_of
from etq.storage.outputs import find_outputs
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
    JOIN graphs AS g ON g.record_id = k.record_id AND $graph IN (g.stage, g.member)
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


@dataclass(frozen=True)
class Pair:
    """A value of the reference and the runtime's value of the same op: their distance by each metric, and the reason if
    it is unknown.
    """

    method: str
    handles: DebugHandle
    op: str
    mapping: str
    problem: str | None
    distances: Mapping[str, float | None]
    truth: Any
    given: Any


@dataclass(frozen=True)
class Compared:
    """Two values that were compared, with the debug handles of each: their distances, and the reason if those are
    unknown.

    pair  the pair that they come from; None if a comparator made them up
    """

    pair: Pair | None
    handles: tuple[DebugHandle, DebugHandle]
    values: tuple[Any, Any]
    gap: list[float]
    problem: str | None


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
        if not queries.rows("SELECT 1 FROM signature_outputs AS o WHERE o.capture_id = $key LIMIT 1"):
            find_outputs(warehouse.connection, queries.capture.capture_id)
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

    def frame(self, distance: str | Comparator, inspector: Any) -> pandas.DataFrame:
        """Return the DataFrame of `Inspector.calculate_numeric_gap`; see there."""
        import_pandas()
        if isinstance(distance, str):
            metric = distance.strip().upper()
            if metric not in METRICS:
                raise ArgumentError(
                    f"no distance {distance!r}; known are {', '.join(METRICS)}, and your own comparators"
                )
            return _frame(self._nodes, [_by(pair, metric) for pair in self._pairs])
        if not callable(getattr(distance, "element_compare", None)):
            raise ArgumentTypeError(
                f"a distance is one of {', '.join(METRICS)}, or a comparator with the method element_compare, "
                f"not {distance!r}"
            )
        if getattr(distance, "inspector", inspector) is None:
            with suppress(AttributeError):  # one that can't be set isn't used
                distance.inspector = inspector  # type: ignore[attr-defined]
        return _frame(self._nodes, _compared(self._pairs, distance))


def _graph_of(queries: CaptureQueries, graph: str | None) -> str:
    """Return the graph to run: that of a name, or the first that the record has."""
    held = queries.rows("SELECT g.stage, g.member FROM graphs AS g ORDER BY g.graph_id")
    names = [stage for stage, _ in held]
    if graph is None:
        return EXPORTED if EXPORTED in names else EDGE
    if graph not in names and graph not in [member for _, member in held]:
        raise ArgumentError(f"the record has no graph {graph!r}; it has {', '.join(dict.fromkeys(names)) or 'none'}")
    return graph


def _pairs(rows: list[tuple[Any, ...]]) -> list[Pair]:
    pairs = []
    for method, _, _, handles, op, mapping, problem, mse, l1, snr, *values in rows:
        truth, given = (_value(*each) for each in (values[:3], values[3:]))
        distances = {"MSE": mse, "L1": l1, "SNR": snr}
        pairs.append(Pair(method, tuple(handles), op, mapping, problem, distances, truth, given))
    return pairs


def _value(elements: list[float], sizes: list[int] | None, scalar_type: str | None) -> Any:
    """Return a logged value as executorch's Inspector gives it to comparators: a tensor of torch, or a number."""
    return elements[0] if sizes is None else tensor_of(np.array(elements, np.float64).reshape(sizes), scalar_type)


def _by(pair: Pair, metric: str) -> Compared:
    """Return the gap of a pair by one of etq's metrics."""
    gap = pair.distances[metric]
    handles, values = (pair.handles, pair.handles), (pair.truth, pair.given)
    return Compared(pair, handles, values, [float("nan") if gap is None else gap], pair.problem)


def _compared(pairs: list[Pair], comparator: Comparator) -> list[Compared]:
    """Return gaps by a user's comparator: if it raises an exception for a pair, only that pair has no gap.

    As in executorch, what its `preprocessing` returns is compared, but None and outputs of several values.
    """
    mapping = {(pair.handles, pair.truth): (pair.handles, pair.given) for pair in pairs}
    preprocessing = getattr(comparator, "preprocessing", None)
    if preprocessing is not None:
        mapping = preprocessing(mapping)
    _check_mapping(mapping)
    by_value = {id(value): pair for pair in pairs for value in (pair.truth, pair.given)}
    by_handles = {pair.handles: pair for pair in reversed(pairs)}
    results: list[Compared] = []
    for (handles, truth), (given_handles, given) in mapping.items():
        if truth is None or given is None or (isinstance(truth, Sequence) and len(truth) > 1):
            continue
        pair = by_value.get(id(given)) or by_value.get(id(truth)) or by_handles.get(given_handles)
        gap, problem = [float("nan")], None
        try:
            gap = _distances(comparator, truth, given)
        except Exception as error:
            problem = str(error) or type(error).__name__
        results.append(Compared(pair, (handles, given_handles), (truth, given), gap, problem))
    return results


def _check_mapping(mapping: Any) -> None:
    """Raise `ArgumentTypeError` or `ArgumentError` for what a comparator's `preprocessing` must not return."""
    if not isinstance(mapping, dict):
        raise ArgumentTypeError(f"preprocessing() returned {type(mapping).__name__}; it returns a dict of pairs")
    for side, each in [side for pair in mapping.items() for side in zip(("key", "value"), pair, strict=True)]:
        is_pair = isinstance(each, tuple) and len(each) == 2
        if not is_pair or not isinstance(each[0], tuple) or not all(isinstance(handle, int) for handle in each[0]):
            raise ArgumentError(
                f"preprocessing() returned a {side} that is not (debug handles, value), where the handles are a tuple "
                f"of integers: {type(each).__name__}{f' with {each[0]!r}' if is_pair else ''}"
            )


def _distances(comparator: Comparator, truth: Any, given: Any) -> list[float]:
    """Return the distance of two values, or those of the members of two sequences."""
    if not isinstance(truth, Sequence) and not isinstance(given, Sequence):
        return [comparator.element_compare(truth, given)]
    if not isinstance(truth, Sequence) or not isinstance(given, Sequence) or len(truth) != len(given):
        raise ArgumentError("a sequence of values is compared with one of the same length")
    return [comparator.element_compare(one, other) for one, other in zip(truth, given, strict=True)]


def _frame(nodes: dict[tuple[str, int], list[tuple[str, str | None]]], rows: list[Compared]) -> pandas.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        method = "" if row.pair is None else row.pair.method
        ops = [node for handle in row.handles[0] for node in nodes.get((method, handle), [])]
        values = (
            row.handles[0],
            list(dict.fromkeys(name for name, _ in ops)),
            row.values[0],
            [] if row.pair is None else [row.pair.op],
            row.handles[1],
            row.values[1],
            row.gap,
            dict(ops),
            row.problem,
            None if row.pair is None else row.pair.mapping,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return object_frame(columns)
