"""The costs of the calls of a trace's ops: the call to which each work of a device is attributed, and the operations
and bytes of that call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, filled, flags, integers, lists, numbers, texts
from etq.ingest.costs.arguments import NO_INPUTS, Arguments
from etq.ingest.costs.arguments import Inputs as CallInputs
from etq.ingest.costs.call import Lengths
from etq.ingest.costs.costs import Cost, cost_of
from etq.ingest.costs.experts import allocates_for_experts
from etq.ingest.costs.formulas import Formula, formulas, traced_op
from etq.ingest.costs.numbers import wholes_in
from etq.ingest.trace.columns import Numbered, texts_of
from etq.ingest.trace.inputs import Inputs
from etq.ingest.trace.launches import Whole, are, nearest
from etq.ingest.trace.op_work import Kinds, Ops, OpWork, is_backward_of_weights
from etq.ingest.trace.passes import Passes
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import Slices

_TEXT: Final = pa.dictionary(pa.int32(), pa.large_string())
CALL_COSTS: Final = pa.schema(
    [
        *(("cost_index", pa.int32()), ("op", pa.string()), ("family", pa.string())),
        *(("shapes", _TEXT), ("dtypes", _TEXT), ("strides", _TEXT), ("inputs", pa.string()), ("type", pa.string())),
        *((name, pa.int64()) for name in ("flops", "bytes", "most_bytes", "flops_at_most", "flops_at_least")),
        *(("is_bytes_alone", pa.bool_()), ("is_least", pa.bool_()), ("assumed", pa.string()), ("reason", pa.string())),
        *(("compared_as", pa.string()), ("compared_family", pa.string()), ("compared_inputs", pa.list_(pa.int32()))),
    ]
)
COSTED_OPS: Final = pa.schema(
    [
        *((name, pa.int32()) for name in ("run_index", "event_index", "owner_index", "compared_index", "cost_index")),
        *(("inner_flops", pa.int64()), ("is_recomputed", pa.bool_()), ("host_ticks", pa.int64())),
    ]
)
# The lengths of the sequences of a step. vLLM, and SGLang for ROCm, write them into the name of the step. For prompts
# and for generation, the name has sums over sequences: of queries (sq), of keys (sk), and of their squares and
# products.
_LENGTHS: Final = re.compile(
    r"context_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)_generation_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
)
_BETWEEN_DEVICES: Final = re.compile("record_param_comms$|nccl:|c10d::|_c10d_functional::|symm_mem::")
# The names that torch.compile gives to its code.
_COMPILED: Final = re.compile("Torch-Compiled Region|CompiledFunction(?:Backward)?$")
# Autograd's call of a node of the backward pass, which is an op of its own. The call itself computes nothing.
_ENGINE: Final = "autograd::engine::evaluate_function: "
_PAGED: Final = ("paged", "latent")
# How many names of steps are cached.
_STEPS: Final = 100
# Patterns for the types of tensors in lists, in the names of kernels: those of _foreach ops, and those that
# concatenate. The latter names only show the bytes of an element.
_TYPE: Final = r"([^,<>]*(?:<[^<>]*>)?)"
_CONCATENATED: Final = re.compile(rf"CatArrayBatchedCopy\w*<{_TYPE}")
_OPAQUE: Final = re.compile(r"^.*::(OpaqueType<\d+).*$")
_OF_EACH: Final = re.compile(rf"Functor<{_TYPE}")
_COPIED: Final = re.compile(rf"CopyFunctor<[^,<>]*(?:<[^<>]*>)?, {_TYPE}")


def cost_tables(
    slices: Slices, kinds: Kinds, ops: Ops, passes: Passes, inputs: Inputs, assumed: Mapping[str, str]
) -> Iterator[tuple[str, LazyBatch]]:
    """Yield the tables `call_costs` and `costed_ops`, which are computed when they are first read. `assumed` are sizes
    that the trace lacks.
    """
    work = OpWork(slices, kinds, ops, passes)
    costs = _Costs(work, _steps_of(slices, kinds, work.rows), inputs, assumed)
    if len(costs.work.ops):
        yield "call_costs", LazyBatch(CALL_COSTS, costs.rows_of_costs)
        yield "costed_ops", LazyBatch(COSTED_OPS, costs.rows_of_ops)


def columns_of_ops(work: OpWork, flops: Whole) -> dict[str, pa.Array]:
    """Return all columns of `costed_ops` except `cost_index`, for the ops that launched work, and for those to which it
    is attributed. `flops` are the operations of each op, -1 if they are unknown.
    """
    every, place = work.every, np.full(len(work.at), NONE, np.int64)
    place[work.ops] = np.arange(len(work.ops))
    launches = place[every] != NONE
    owner, compared = (np.append(each, NONE)[place[every]] for each in (work.owner, work.compared))
    inner = work.inner_flops(flops)[every]
    ticks = np.zeros(len(every), np.int64) if work.host_ticks is None else work.host_ticks[every]
    return {
        "run_index": numbers(work.run[every].astype(np.int32)),
        "event_index": numbers(work.at[every].astype(np.int32)),
        "owner_index": numbers(work.at[owner].astype(np.int32), ~launches),
        "compared_index": numbers(work.at[compared].astype(np.int32), ~launches | (compared == owner)),
        "inner_flops": numbers(inner, inner == NONE),
        "is_recomputed": flags(work.recomputed(flops)[every]),
        "host_ticks": numbers(ticks, ~launches | (work.host_ticks is None)),
    }


class _Costs:
    """The costs of the calls to which work is attributed."""

    def __init__(self, work: OpWork, steps: Whole, inputs: Inputs, assumed: Mapping[str, str]) -> None:
        """`steps` are as from `_steps_of`."""
        self.work, self._steps, self._inputs, self._assumed = work, steps, inputs, assumed

    def rows_of_costs(self) -> pa.RecordBatch:
        """Return the table `call_costs`."""
        return self._found.rows

    def rows_of_ops(self) -> pa.RecordBatch:
        """Return the table `costed_ops`."""
        every, cost = self.work.every, self._found.cost
        flops = np.append(filled(self._found.rows.column("flops"), NONE), NONE)[cost]
        found = columns_of_ops(self.work, flops)
        found["cost_index"] = numbers(cost[every].astype(np.int32), cost[every] == NONE)
        return batch({name: found[name] for name in COSTED_OPS.names})

    @cached_property
    def _found(self) -> _Found:
        """The costs of the calls to which work is attributed."""
        work = self.work
        owners = np.unique(np.concatenate([work.owner, work.compared]))
        described = work.described(owners)
        distinct, inputs = self._inputs.at(np.where(described == NONE, NONE, work.at[described]))
        products, tops = work.launched()
        known = _Known(distinct, self._assumed)
        made = self._made(owners, tops)
        columns = (owners, work.kind[owners], inputs, tops[owners], products[owners], self._steps_at(owners))
        # Most calls equal an earlier one, which is found by numbers.
        numbers_of: dict[tuple[object, ...], int] = {}
        costs: list[int] = []
        for row, kind, code, top, count, step in zip(*(each.tolist() for each in columns), strict=True):
            sizes = tuple(made.get(row, ()))
            key = kind, code, top, count, step, sizes
            if key not in numbers_of:
                lengths = None if step == NONE else _lengths_in(work.names[step])
                call = _Call(work.names[kind], work.formulas[kind], lengths, count, sizes)
                numbers_of[key] = known.number(call, code, None if top == NONE else work.names[top])
            costs.append(numbers_of[key])
        cost = np.full(len(work.at), NONE, np.int64)
        cost[owners] = costs
        return _Found(cost, known.rows())

    def _made(self, rows: Whole, tops: Whole) -> dict[int, list[tuple[float, ...]]]:
        """Return the sizes of the tensors that calls of experts allocate, if their kernels show what these are for.
        `tops` are the kinds of work that takes most time.
        """
        work = self.work
        shows = [allocates_for_experts(name) for name in work.names]
        is_shown = (tops[rows] != NONE) & np.array(shows, np.bool_)[tops[rows]]
        calls = rows[is_shown & work.are(rows, lambda formula: formula.counts == "assumed experts")]
        found: dict[int, list[tuple[float, ...]]] = {row: [] for row in calls.tolist()}
        if not found:
            return found
        is_made = are(work.kind, [name == "aten::empty" for name in work.names]) & np.isin(work.parent, calls)
        ops = np.flatnonzero(is_made)
        distinct, codes = self._inputs.at(work.at[ops])
        for parent, code in zip(work.parent[ops].tolist(), codes.tolist(), strict=True):
            inputs = None if code == NONE else CallInputs.of(*texts_of(each or None for each in distinct[code]))
            found[parent].append(tuple(() if inputs is None else wholes_in(inputs.value(0)) or ()))
        return found

    def _steps_at(self, rows: Whole) -> Whole:
        """Return for each op that reads a cache the kind of its step, whose name has the lengths of the sequences; -1
        for other ops.
        """
        if not len(self._steps):
            return np.full(len(rows), NONE, np.int64)
        is_paged = self.work.are(rows, lambda formula: formula.moves in _PAGED)
        return np.where(is_paged, self._steps[rows], NONE)


def _steps_of(slices: Slices, kinds: Kinds, rows: Whole) -> Whole:
    """Return for each of these slices the kind of the innermost step around it that has the lengths of sequences in its
    name.

    The kind is -1 for none; the result is empty if no step has lengths.
    """
    tells = [not each.on_device and "sqsk" in name for (_, name), each in zip(kinds.names, kinds.classes, strict=True)]
    if not any(tells):
        return np.zeros(0, np.int64)
    step = nearest(slices.parent, are(kinds.kind, tells))[rows]
    return np.where(step == NONE, NONE, kinds.kind[step])


class _Found(NamedTuple):
    """The number of the cost of each op, -1 for none; and the table `call_costs`."""

    cost: Whole
    rows: pa.RecordBatch


class _Call(NamedTuple):
    """A call of an op: its name, its formula, the lengths of its sequences, the number of products in its work, and the
    sizes of what it allocates for its experts.
    """

    label: str
    formula: Formula | None
    lengths: Lengths | None
    products: int
    made: tuple[tuple[float, ...], ...]


class _Known:
    """The distinct costs of calls. Of calls with equal inputs, only one cost is computed."""

    def __init__(self, written: Sequence[tuple[bytes, ...]], assumed: Mapping[str, str]) -> None:
        self._written, self._assumed = written, assumed
        self._numbers: dict[tuple[object, ...], int] = {}
        self._costs = Numbered()

    def number(self, call: _Call, code: int, top: str | None) -> int:
        """Return the number that identifies the cost of a call; calls with the same op, inputs and cost share a number.
        `code` is the number of the call's inputs, -1 for none; `top` is the name of its work that takes the most time.
        """
        given = None if code == NONE else self._written[code]
        listed = _listed_types(top) if given is not None and b'"TensorList"' in given[1] else None
        if call.formula is None or not is_backward_of_weights(call.formula):
            call = call._replace(products=0)
        key = (call, _key(call.formula, given), listed)
        if (number := self._numbers.get(key)) is None:
            cost = self._cost(call, given, listed, top)
            number = self._numbers[key] = self._costs[call.label, call.formula, given and given[:3], cost]
        return number

    def _cost(
        self, call: _Call, given: tuple[bytes, ...] | None, listed: tuple[str, ...] | None, top: str | None
    ) -> Cost:
        formula = call.formula
        inputs = None if given is None else CallInputs.of(*texts_of(each or None for each in given))
        if formula is None:
            arguments = Arguments("", inputs or NO_INPUTS, listed)
            text = None if inputs is None else arguments.text
            if call.label.startswith(_ENGINE) and top == call.label:  # its own time on the host, no device's
                return Cost(text, arguments.main.type, 0, 0)
            return Cost(text, arguments.main.type, reason=_why_uncounted(call.label))
        if inputs is None:
            return Cost(reason=_UNSHAPED[is_backward_of_weights(formula)], is_bytes_alone=formula.moves == "named")
        try:
            return cost_of(call.label, formula, inputs, listed, call.lengths, self._assumed, call.products, call.made)
        except (ArithmeticError, ValueError):  # impossible values of one call must not prevent reading the file
            return Cost(reason="an argument that its formula needs is impossible")

    def rows(self) -> pa.RecordBatch:
        """Return the table `call_costs`."""
        labels, calls, given, costs = [*zip(*self._costs, strict=True)] or [()] * 4
        found = {
            "cost_index": integers(range(len(labels))),
            "op": texts(labels),
            "family": texts([*map(_family, labels, calls)]),
        }
        written = [texts_of(each or None for each in inputs or (None,) * 3) for inputs in given]
        for at, name in enumerate(("shapes", "dtypes", "strides")):
            found[name] = encoded([each[at] for each in written], np.arange(len(written)), is_large=True)
        for name in Cost._fields:
            values = [getattr(cost, name) for cost in costs]
            if CALL_COSTS.field(name).type == pa.string():
                found[name] = texts(values)
            else:
                found[name] = flags(values) if name.startswith("is_") else integers(values, np.int64)
        found |= _compared(labels, calls)
        return batch({name: found[name] for name in CALL_COSTS.names})


def _compared(labels: Sequence[str], calls: Sequence[Formula | None]) -> dict[str, pa.Array]:
    """Return the columns for comparisons of devices: the op and family as which each call is compared."""
    known = formulas()
    equal = [known.equal.get(traced_op(label) or "") for label in labels]
    others = [None if each is None else known.of_ops.get(traced_op(each.label) or "") for each in equal]
    positions = [() if each is None else each.inputs for each in equal]
    return {
        "compared_as": texts([label if one is None else one.label for label, one in zip(labels, equal, strict=True)]),
        "compared_family": texts([*map(_family, labels, map(lambda a, b: a or b, others, calls))]),
        "compared_inputs": lists(
            integers([place for each in positions for place in each]),
            np.array([*map(len, positions)], np.int64),
            np.array([each is None for each in equal], np.bool_),
        ),
    }


_UNSHAPED: Final = {
    False: "recorded without shapes: profile(record_shapes=True) writes them",
    True: "its forward call, which has its weight, is not in the trace, or was recorded without shapes",
}


def _key(formula: Formula | None, given: tuple[bytes, ...] | None) -> object:
    """Return what the cost depends on.

    If the op's arguments have no names, their values are left out: the cost doesn't depend on them, and they differ
    from call to call.
    """
    if given is None or formula is None:
        return given and given[:3]
    is_by_values = formula.op in formulas().arguments or formula.counts == "unwritten operations"
    return given if is_by_values else given[:3]


def _listed_types(kernel: str | None) -> tuple[str, ...] | None:
    """Return the types of the tensors in the lists that an op takes: of the first list, and of the others.

    They are read from the name of a kernel that the op launches; None if the name doesn't contain them.
    """
    name = kernel or ""
    if "CatArrayBatchedCopy" in name:
        match = _CONCATENATED.search(name)
        return (_OPAQUE.sub(r"\1>", match[1] if match else ""),)
    if "multi_tensor_apply_kernel<" not in name:
        return None
    match, copied = _OF_EACH.search(name), _COPIED.search(name)
    first = match[1] if match else ""
    return first, (copied[1] if copied else "") if "CopyFunctor<" in name else first


@lru_cache(_STEPS)
def _lengths_in(name: str) -> Lengths | None:
    match = _LENGTHS.search(name)
    if match is None:
        return None
    queries, keys, squares, pairs, more, more_keys, more_squares, more_pairs = map(float, match.groups())
    generated = more_pairs - (more_squares - more) / 2
    return Lengths(queries + more, keys + more_keys, pairs - squares / 2 + generated, more, more_keys, generated)


def _family(label: str, formula: Formula | None) -> str | None:
    """Return what an op computes; None for an op without a formula that doesn't communicate."""
    if formula is not None:
        return formula.family
    return "communication" if _BETWEEN_DEVICES.match(label) else None


def _why_uncounted(label: str) -> str:
    """Return why an op without a formula has no cost."""
    if _BETWEEN_DEVICES.match(label):
        return "it moves data between devices: see collectives"
    if _COMPILED.match(label):
        return "the trace lacks the ops of the compiled code"
    return f"no formula for {label}"
