"""The values of ops by debug handle, logged by a runtime or from a reference. They equal those of the view
`numeric_gap`, but nothing is stored, and no large query is planned.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.etdump.debug_buffer import tensors_at
from etq.storage.outputs import OpOutput, outputs_of, outputs_of_nodes

if TYPE_CHECKING:
    from etq.inspector.rows import CaptureQueries
    from etq.storage.op_results import Graphs
    from etq.storage.sources import Source

_ID: Final = "coalesce({0}.delegate_debug_id::VARCHAR, {0}.delegate_debug_str, '')"
_LOGGED: Final = f"""
    SELECT v.run_index, v.event_index, v.value_index, r.block_index, v.chain_index, v.instruction_id, {_ID.format("v")},
        v.is_output, r.method, v.name, v.scalar_type, v.sizes, v.strides, v.byte_offset, v.number
    FROM debug_values AS v JOIN runs AS r USING (capture_id, run_index)
    WHERE v.capture_id = $key ORDER BY v.run_index, v.event_index, v.value_index
"""
_EVENTS: Final = f"""
    SELECT t.run_index, s.chain_index, s.instruction_id, {_ID.format("s")}, t.event_index
    FROM event_ticks AS t JOIN signatures AS s USING (capture_id, signature_index)
    WHERE t.capture_id = $key AND s.kind IN ('kernel', 'delegate_call', 'delegate')
        AND t.run_index IN (SELECT v.run_index FROM debug_values AS v WHERE v.capture_id = $key)
    ORDER BY t.run_index, t.event_index
"""
_OWNERS: Final = f"""
    SELECT s.block_index, s.chain_index, s.instruction_id, {_ID.format("s")}, s.signature_index, s.kind, s.label,
        p.method, p.debug_handles
    FROM signatures AS s LEFT JOIN signature_ops AS p USING (capture_id, signature_index)
    WHERE s.capture_id = $key AND s.kind IN ('kernel', 'delegate_call', 'delegate') ORDER BY s.slot
"""
_OUTPUTS: Final = """
    SELECT d.method, d.instruction_id, d.outputs
    FROM captures AS k JOIN delegates AS d USING (record_id) WHERE k.capture_id = $key
"""
# Method, debug handle, and index of the op's output.
Key = tuple[str, int, int]
Array = npt.NDArray[Any]


class OpValue(NamedTuple):
    """The value of an op's output.

    handles      debug handles of the event
    name         name of the op
    scalar_type  by torch's name; None for a number
    sizes        None for a number
    value        None if unknown, as `problem` may say
    mapping      exact or inferred
    """

    handles: tuple[int, ...]
    name: str
    scalar_type: str | None
    sizes: list[int] | None
    value: Array | None
    mapping: str | None
    problem: str | None


class _Place(NamedTuple):
    """A logged value of an event that may be that of an op. If there are several, the smallest in this order is
    taken.
    """

    is_unknown: bool
    run: int
    is_of_call: bool
    before_last: int
    value_index: int


class _Logged(NamedTuple):
    run: int
    event: int
    value_index: int
    block: int | None
    chain: int
    instruction: int | None
    delegate_id: str
    is_output: bool
    method: str | None
    name: str | None
    scalar_type: str | None
    sizes: list[int] | None
    strides: list[int] | None
    offset: int | None
    number: float | None


class _Owner(NamedTuple):
    signature: int
    kind: str
    label: str | None
    method: str | None
    handles: list[int] | None


def logged_values(queries: CaptureQueries, buffer: Source, graphs: Graphs) -> dict[Key, OpValue]:
    """Return the value of each op of a linked capture, from the first run that has a value.

    graphs  the graphs of its record, including the edge graphs

    Raises `FormatError` for a debug buffer of another run.
    """
    outputs: dict[int, list[OpOutput]] = defaultdict(list)
    for output in outputs_of(queries.rows, queries.capture.capture_id, graphs):
        outputs[output.signature].append(output)
    found: dict[Key, tuple[_Place, _Logged, _Owner, OpOutput]] = {}
    for logged, owner, position in _outputs_of_events(queries):
        for output in outputs.get(owner.signature, ()):
            if output.position in (None, position):
                place = _Place(
                    output.problem is not None, logged.run, owner.kind != "delegate", -logged.event, logged.value_index
                )
                key = (owner.method or logged.method or "", output.handle, output.result or 0)
                if key not in found or place < found[key][0]:
                    found[key] = (place, logged, owner, output)
    places = [
        (one.scalar_type or "", one.sizes or [], one.strides or [], one.offset) for _, one, _, _ in found.values()
    ]
    tensors = tensors_at(buffer.content, places, buffer.uri)
    return {
        key: _op_value(logged, owner, output, tensor)
        for (key, (_, logged, owner, output)), tensor in zip(found.items(), tensors, strict=True)
    }


def _op_value(logged: _Logged, owner: _Owner, output: OpOutput, tensor: Array | None) -> OpValue:
    sizes, problem = logged.sizes, output.problem
    if problem is None and not _can_be(sizes, output.sizes):
        problem = f"its sizes {sizes} are not those of its node, {_shown(output.sizes)}"
    known = [size for size in output.result_sizes or () if size is not None]
    if problem is None and sizes is not None and output.result_sizes is not None and known == output.result_sizes:
        sizes = known if known and sizes and math.prod(known) == math.prod(sizes) else sizes
    value = tensor if logged.number is None else np.array([logged.number])
    is_given = problem is None and value is not None
    return OpValue(
        tuple(owner.handles or ()),
        owner.label or logged.name or "",
        logged.scalar_type,
        sizes,
        value if is_given else None,
        output.mapping if problem is None else None,
        problem,
    )


def _outputs_of_events(queries: CaptureQueries) -> Iterator[tuple[_Logged, _Owner, int]]:
    """Yield the values that are outputs of events, each with its event and its position among the outputs.

    Values with the same instruction and delegate id belong to one call, unless an event with these is between them.
    """
    owners: dict[tuple[Any, ...], _Owner] = {}
    for *key, signature, kind, label, method, handles in queries.rows(_OWNERS):
        owners.setdefault((*key,), _Owner(signature, kind, label, method, handles))
    ends: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for *key, event in queries.rows(_EVENTS):
        ends[(*key,)].append(event)
    calls: dict[tuple[Any, ...], list[_Logged]] = defaultdict(list)
    for row in queries.rows(_LOGGED):
        logged = _Logged(*row)
        call = (logged.run, logged.chain, logged.instruction, logged.delegate_id)
        calls[call, bisect_right(ends.get(call, []), logged.event)].append(logged)
    counts = {(method, instruction): outputs for method, instruction, outputs in queries.rows(_OUTPUTS)}
    for values in calls.values():
        first = values[0]
        owner = owners.get((first.block, first.chain, first.instruction, first.delegate_id))
        if owner is None or first.chain == -1:
            continue
        count = len(values)  # of a delegate's call, only the last are outputs
        if owner.kind == "delegate_call":
            count = min(count, counts.get((owner.method, first.instruction)) or 0)
        outputs = [logged for logged in values[len(values) - count :] if not logged.is_output]
        yield from ((logged, owner, position) for position, logged in enumerate(outputs))


def reference_op_values(
    graphs: Graphs, stage: str, method: str, given: Mapping[str, Sequence[Any]]
) -> dict[Key, OpValue]:
    """Return the value of each op of a method's graph at a stage, from the values of its nodes.

    given  the outputs of each node: arrays and numbers; None for outputs that are neither
    """
    names = [*given]
    places = {name: [(event, at) for at in range(len(given[name]))] for event, name in enumerate(names)}
    found: dict[Key, tuple[_Place, OpOutput]] = {}
    for output in outputs_of_nodes(graphs, stage, method, places):
        value_index = output.position or 0
        place = _Place(output.problem is not None, 0, True, -output.signature, value_index)
        key = (method, output.handle, value_index)
        if key not in found or place < found[key][0]:
            found[key] = (place, output)
    return {key: _reference_value(names, given, output) for key, (_, output) in found.items()}


def _reference_value(names: list[str], given: Mapping[str, Sequence[Any]], output: OpOutput) -> OpValue:
    name = names[output.signature]
    value = given[name][output.position or 0]
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None
    sizes, scalar_type = (None, None) if array is None else ([*array.shape], str(array.dtype))
    if array is None and isinstance(value, bool | int | float):
        array = np.array([float(value)])
    known = array if output.problem is None else None
    return OpValue((output.handle,), name, scalar_type, sizes, known, output.mapping, output.problem)


def _can_be(logged: list[int] | None, sizes: list[int | None] | None) -> bool:
    """Whether a logged tensor can be the value of a node, by its sizes: dimensions of 1 may be left out or added,
    symbolic sizes can be any, also 1.
    """
    if sizes is None:
        return True
    pattern = "".join(r"(\d+,)?" if size is None else f"{size}," for size in without_ones(sizes))
    return re.fullmatch(pattern, "".join(f"{size}," for size in without_ones(logged or ()))) is not None


def without_ones(sizes: Iterable[int | None]) -> list[int | None]:
    """Return the sizes that aren't 1."""
    return [size for size in sizes if size != 1]


def _shown(sizes: Sequence[int | None] | None) -> str:
    return f"[{', '.join('NULL' if size is None else str(size) for size in sizes or ())}]"
