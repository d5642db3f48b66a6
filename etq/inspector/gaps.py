"""Gaps between the values that a runtime logged and those of the exported program, in the Inspector's columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from etq.errors import ArgumentError, ArgumentTypeError
from etq.ingest.etdump.debug_buffer import doubles
from etq.inspector.comparators import Comparator, DebugHandle
from etq.inspector.frames import import_pandas, object_frame
from etq.inspector.op_values import Key, OpValue, logged_values, reference_op_values, without_ones
from etq.inspector.tensors import tensor_of
from etq.storage.op_results import Graphs
from etq.torch.reference import EDGE, EXPORTED, reference_values

if TYPE_CHECKING:
    import pandas

    from etq.inspector.rows import CaptureQueries
    from etq.storage.sources import Source

METRICS: Final = ("MSE", "L1", "SNR")
COLUMNS: Final = (
    *("aot_debug_handle", "aot_ops", "aot_intermediate_output", "runtime_ops", "runtime_debug_handle"),
    *("runtime_intermediate_output", "gap", "stacktraces", "problem", "mapping"),
)


@dataclass(frozen=True)
class Pair:
    """A value of the reference and the runtime's value of the same op: their distance by each metric, or the reason why
    it is unknown.
    """

    method: str
    handles: DebugHandle
    op: str
    mapping: str
    problem: str | None
    distances: Mapping[str, float | None]  # without unknown distances
    truth: Any
    given: Any


@dataclass(frozen=True)
class Compared:
    """Two compared values, with the debug handles of each: their distances, or the reason why these are unknown.

    pair  the pair that they come from; None if a comparator created them
    """

    pair: Pair | None
    handles: tuple[DebugHandle, DebugHandle]
    values: tuple[Any, Any]
    gap: list[float]
    problem: str | None


class Gaps:
    """A run and its reference, for several kinds of distance.

    queries  the queries of the run, which is linked to its record
    """

    def __init__(self, queries: CaptureQueries, record: str, buffer: Source, graph: str | None) -> None:
        name, stage, method, record_id = _graph_of(queries, graph)
        given = reference_values(record, name)
        graphs = Graphs(queries.rows, record_id, EDGE, stage)
        truths = reference_op_values(graphs, stage, method, given)
        self._pairs = [*_pairs(truths, logged_values(queries, buffer, graphs))]
        traces = graphs.stack_traces(queries.rows)
        self._nodes = {
            (graphs.methods[of], handle): [(graphs.names[of, node] or "", traces[of, node]) for node in nodes]
            for (of, handle), nodes in graphs.handled(stage).items()
        }

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
            with suppress(AttributeError):  # if it can't be set, it isn't used
                distance.inspector = inspector  # type: ignore[attr-defined]
        return _frame(self._nodes, _compared(self._pairs, distance))


def _graph_of(queries: CaptureQueries, graph: str | None) -> tuple[str, str, str, int]:
    """Return the graph to run, the named one or the record's first: its name, stage, method and record."""
    held = queries.rows("SELECT g.stage, g.member, g.method, g.record_id FROM graphs AS g ORDER BY g.graph_id")
    names = list(dict.fromkeys(stage for stage, *_ in held))
    name = graph or (EXPORTED if EXPORTED in names else EDGE)
    found = [(name, stage, method, record) for stage, member, method, record in held if name in (stage, member)]
    if not found:
        raise ArgumentError(f"the record has no graph {name!r}; it has {', '.join(names) or 'none'}")
    return found[0]


def _pairs(truths: Mapping[Key, OpValue], given: Mapping[Key, OpValue]) -> Iterator[Pair]:
    """Yield the values of ops that both sides have."""
    problems = [
        {key[:2]: f"unknown in {side}: {value.problem}" for key, value in sorted(values.items()) if value.problem}
        for side, values in (("base", truths), ("new", given))
    ]
    for key in sorted(key for key, value in truths.items() if value.value is not None):
        truth, value = truths[key], given.get(key)
        if value is None or value.value is None:
            continue
        problem = problems[0].get(key[:2]) or problems[1].get(key[:2])
        if problem is None and without_ones(truth.sizes or ()) != without_ones(value.sizes or ()):
            problem = "sizes differ"
        distances, found = ({}, problem) if problem else _distances_of(truth, value)
        mapping = "inferred" if "inferred" in (truth.mapping, value.mapping) else "exact"
        yield Pair(key[0], value.handles, value.name, mapping, found, distances, _shown(truth), _shown(value))


def _distances_of(truth: OpValue, given: OpValue) -> tuple[dict[str, float | None], str | None]:
    """Return the distances of two values as the view `numeric_gap` defines them, and what is wrong with them."""
    one, other = (np.zeros(0) if each.value is None else doubles(each.value) for each in (truth, given))
    if not one.size:
        return {}, "no elements"
    count = min(one.size, other.size)
    pair = one[:count], other[:count]
    is_nan = [np.isnan(each) for each in pair]
    with np.errstate(all="ignore"):
        difference = np.where((pair[0] == pair[1]) | (is_nan[0] & is_nan[1]), 0, pair[1] - pair[0])
        mse, l1 = float(np.mean(difference**2)), float(np.sum(np.abs(difference)))
        finite = one[np.isfinite(one)]
        snr = None if not finite.size else float(10 * np.log10(np.mean(finite**2) / mse))
    mismatches = np.count_nonzero(is_nan[0] != is_nan[1])
    problem = f"{mismatches} elements are NaN on one side only" if mismatches else None
    return {"MSE": mse, "L1": l1, "SNR": math.inf if l1 == 0 else snr}, problem


def _shown(value: OpValue) -> Any:
    """Return a value as executorch's Inspector passes it to comparators: a torch tensor, or a number."""
    assert value.value is not None
    return value.value.item() if value.sizes is None else tensor_of(value.value.reshape(value.sizes), value.scalar_type)


def _by(pair: Pair, metric: str) -> Compared:
    """Return the gap of a pair by one of etq's metrics."""
    gap = pair.distances.get(metric)
    handles, values = (pair.handles, pair.handles), (pair.truth, pair.given)
    gap = math.nan if gap is None else gap
    problem = pair.problem or (
        "not defined: elements are not finite, too large or too small" if math.isnan(gap) else None
    )
    return Compared(pair, handles, values, [gap], problem)


def _compared(pairs: list[Pair], comparator: Comparator) -> list[Compared]:
    """Return gaps by a user's comparator: if it raises an exception for a pair, only that pair has no gap.

    As in executorch, the results of its `preprocessing` are compared, except None and outputs of several values.
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
    """Raise `ArgumentTypeError` or `ArgumentError` for invalid results of a comparator's `preprocessing`."""
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
