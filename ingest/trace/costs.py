"""The costs of the calls of a trace's ops: which call work of devices counts for, and what that computes and moves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import LazyBatch, batch, encoded, flags, integers, lists, numbers, texts
from etq.ingest.costs.arguments import NO_INPUTS, Arguments
from etq.ingest.costs.arguments import Inputs as CallInputs
from etq.ingest.costs.call import Lengths
from etq.ingest.costs.costs import Cost, cost_of
from etq.ingest.costs.formulas import Formula, formulas, traced_op
from etq.ingest.trace.classes import Class
from etq.ingest.trace.columns import Numbered, texts_of
from etq.ingest.trace.inputs import Inputs
from etq.ingest.trace.launches import Whole, are, last_before
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
    [(name, pa.int32()) for name in ("run_index", "event_index", "owner_index", "compared_index", "cost_index")]
)
# The lengths of the sequences of a step in the name that vLLM and SGLang for ROCm give it: sums of queries (sq) and
# keys (sk), of their squares and products for each sequence, for prompts and for generation.
_LENGTHS: Final = re.compile(
    r"context_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)_generation_\d+\(sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)\)"
)
_BETWEEN_DEVICES: Final = re.compile("record_param_comms$|nccl:|c10d::|_c10d_functional::|symm_mem::")
_NOT_OPERATORS: Final = ("DataParallel.forward", "DistributedDataParallel.forward")
# The attention that chose these counts.
_CHOOSING: Final = "aten._scaled_dot_product"
_CHOSEN: Final = frozenset(
    f"aten._{kind}_attention_{way}" for kind in ("flash", "efficient", "cudnn") for way in ("forward", "backward")
)
# Backward passes of TransformerEngine's functions name no weight: the forward call has it.
_BACKWARD: Final = "Backward"
_OF_WEIGHTS: Final = "LinearBackward"
_PAGED: Final = ("paged", "latent")
# Kernels that concatenate, of which only the bytes of an element are known, and those of _foreach ops, have the types
# of the lists of tensors that their op takes in their names.
_TYPE: Final = r"([^,<>]*(?:<[^<>]*>)?)"
_CONCATENATED: Final = re.compile(rf"CatArrayBatchedCopy\w*<{_TYPE}")
_OPAQUE: Final = re.compile(r"^.*::(OpaqueType<\d+).*$")
_OF_EACH: Final = re.compile(rf"Functor<{_TYPE}")
_COPIED: Final = re.compile(rf"CopyFunctor<[^,<>]*(?:<[^<>]*>)?, {_TYPE}")


class Kinds(NamedTuple):
    """The categories and names of slices, their classes, and the kind of each slice [n]."""

    names: Sequence[tuple[str, str]]
    classes: Sequence[Class]
    kind: Whole


class Work(NamedTuple):
    """Work as arrays [m]: the row of the op that launched it, its kind and its ticks."""

    op: Whole
    kind: Whole
    ticks: Whole


def cost_tables(
    slices: Slices, kinds: Kinds, op: Whole, inputs: Inputs, assumed: Mapping[str, str]
) -> Iterator[tuple[str, LazyBatch]]:
    """Yield the tables `call_costs` and `costed_ops`, which are computed when they are first read.

    `op` [n] is the op that contains each slice, -1 for none; `assumed` are sizes that the trace lacks.
    """
    costs = _Costs(slices, kinds, op, inputs, assumed)
    if len(costs.ops):
        yield "call_costs", LazyBatch(CALL_COSTS, costs.rows_of_costs)
        yield "costed_ops", LazyBatch(COSTED_OPS, costs.rows_of_ops)


def work_of(slices: Slices, kinds: Kinds) -> Work:
    """Return the work of devices that ops launched; of a trace without any, its ops."""
    is_work = are(kinds.kind, [each.is_work for each in kinds.classes])
    if is_work.any():
        op = np.where(is_work & (slices.elapsed >= 0), slices.owners.op, NONE)
        rows = np.flatnonzero(op != NONE)
        return Work(op[rows], kinds.kind[rows], slices.elapsed[rows])
    is_operator = are(
        kinds.kind,
        [
            each.activity == "op" and each.purpose not in ("module", "data_loading") and _is_operator(name)
            for (_, name), each in zip(kinds.names, kinds.classes, strict=True)
        ],
    )
    rows = np.flatnonzero(is_operator & (slices.elapsed >= 0) & (slices.calls.operator == np.arange(len(kinds.kind))))
    return Work(rows, kinds.kind[rows], np.zeros(len(rows), np.int64))


def _is_operator(name: str) -> bool:
    return not name.startswith("Optimizer.") and name not in _NOT_OPERATORS


class _Costs:
    """The costs of the calls of a trace's ops, from the columns of its ops alone: other slices aren't held."""

    def __init__(self, slices: Slices, kinds: Kinds, op: Whole, inputs: Inputs, assumed: Mapping[str, str]) -> None:
        self._inputs, self._assumed = inputs, assumed
        self._names = [name for _, name in kinds.names]
        rows = np.flatnonzero(are(kinds.kind, [each.activity == "op" for each in kinds.classes]))
        place = np.full(len(kinds.kind) + 1, NONE, np.int64)
        place[rows] = np.arange(len(rows))
        # Of each op: its position in the file, run, name, the op that contains it, thread, times and sequence number.
        self.at, self.run, self.kind = slices.at[rows], slices.run[rows], kinds.kind[rows]
        self.parent, self.thread, self.sequence = place[op[rows]], slices.thread[rows], slices.sequence[rows]
        self.start, self.end = slices.start[rows], slices.start[rows] + slices.elapsed[rows]
        self._is_product = [
            each.kernel_family == "GEMM" and "splitKreduce" not in name
            for (_, name), each in zip(kinds.names, kinds.classes, strict=True)
        ]
        work = work_of(slices, kinds)
        self._work = work._replace(op=place[work.op])
        self.ops = np.unique(self._work.op)
        self._told = self._steps_with_lengths(slices, kinds)

    def rows_of_costs(self) -> pa.RecordBatch:
        """Return the table `call_costs`."""
        return self._found.rows

    def rows_of_ops(self) -> pa.RecordBatch:
        """Return the table `costed_ops`: the ops that launched work, and those that it counts for."""
        owner, compared, cost = self.owner, self.compared, self._found.cost
        every = np.unique(np.concatenate([self.ops, owner, compared]))
        place = np.searchsorted(self.ops, every)
        place = np.where(np.isin(every, self.ops), np.minimum(place, len(self.ops) - 1), NONE)
        launches = place != NONE
        order = np.lexsort((self.at[every], self.run[every]))

        def indexes(of_ops: Whole, is_any: np.typing.NDArray[np.bool_]) -> pa.Array:
            return numbers(self.at[of_ops].astype(np.int32)[order], ~is_any[order])

        is_other = launches & (compared[place] != owner[place])
        return batch(
            {
                "run_index": numbers(self.run[every].astype(np.int32)[order]),
                "event_index": numbers(self.at[every].astype(np.int32)[order]),
                "owner_index": indexes(owner[place], launches),
                "compared_index": indexes(compared[place], is_other),
                "cost_index": numbers(cost[every].astype(np.int32)[order], (cost[every] == NONE)[order]),
            }
        )

    @cached_property
    def _formulas(self) -> Sequence[Formula | None]:
        """The formula of each kind."""
        known, of_names = formulas(), dict[str, Formula | None]()
        for name in dict.fromkeys(self._names[kind] for kind in np.unique(self.kind).tolist()):
            of_names[name] = known.of(name)
        return [of_names.get(name) for name in self._names]

    def _has(self, rows: Whole, of_kinds: Sequence[bool]) -> np.typing.NDArray[np.bool_]:
        """Return for ops, or -1, whether their kind is one of those; false for -1."""
        found: np.typing.NDArray[np.bool_] = (rows != NONE) & np.array(of_kinds, np.bool_)[self.kind[rows]]
        return found

    @cached_property
    def owner(self) -> Whole:
        """The call whose cost the work of each of `ops` counts for: the op, or, if that has no formula, the op around
        it, as aten::_flash_attention_forward for the attention that called it, if nothing else in that has a cost.
        """
        has_formula = [each is not None for each in self._formulas]
        parent = self.parent[self.ops]
        grand = np.where(parent == NONE, NONE, self.parent[parent])
        chooses = [each is not None and each.op.startswith(_CHOOSING) for each in self._formulas]
        is_chosen = self._has(self.ops, [each is not None and each.op in _CHOSEN for each in self._formulas])
        counts = self._has(self.ops, has_formula) & ~(is_chosen & self._has(parent, chooses))
        # Ops that contain others which have costs of their own.
        composite = np.zeros(len(self.at) + 1, np.bool_)
        composite[parent[counts]] = composite[grand[counts]] = True
        composite[NONE] = False
        of_parent = self._has(parent, has_formula)
        takes_parent = ~counts & of_parent & ~composite[parent]
        takes_grand = ~counts & ~of_parent & self._has(grand, has_formula) & ~composite[grand]
        return np.where(takes_parent, parent, np.where(takes_grand, grand, self.ops))

    @cached_property
    def compared(self) -> Whole:
        """The same in comparisons of devices: ops that stand for those of backends have all that they launched."""
        equal = formulas().equal
        named = [equal.get(traced_op(name) or "") for name in self._names]
        every = np.arange(len(self.at))
        dispatching = np.flatnonzero(self._has(every, [each is not None and each.has_all for each in named]))
        if not len(dispatching):
            return self.owner
        place = last_before(
            *(self.thread[dispatching].astype(np.int64), self.start[dispatching]),
            *(self.thread[self.ops].astype(np.int64), self.start[self.ops]),
        )
        row = dispatching[place]
        holds = (place != NONE) & (self.start[row] <= self.start[self.ops]) & (self.start[self.ops] < self.end[row])
        return np.where(holds, row, self.owner)

    def _steps_with_lengths(self, slices: Slices, kinds: Kinds) -> tuple[Whole, Whole, Whole, list[Lengths | None]]:
        """Return thread, start and end of the steps whose names have the lengths of their sequences, and these."""
        told = {
            at: _lengths_in(name)
            for at, ((_, name), each) in enumerate(zip(kinds.names, kinds.classes, strict=True))
            if not each.on_device and "sqsk" in name
        }
        rows = np.flatnonzero(np.isin(kinds.kind, [*told])) if told else np.zeros(0, np.int64)
        start, thread = slices.start[rows], slices.thread[rows].astype(np.int64)
        return thread, start, start + slices.elapsed[rows], [told[kind] for kind in kinds.kind[rows].tolist()]

    def _lengths(self, rows: Whole) -> list[Lengths | None]:
        """Return the lengths of the sequences of the step of each op, if it reads a cache."""
        thread, start, end, told = self._told
        found: list[Lengths | None] = [None] * len(rows)
        if not told:
            return found
        is_paged = self._has(rows, [each is not None and each.moves in _PAGED for each in self._formulas])
        place = last_before(thread, start, self.thread[rows].astype(np.int64), self.start[rows])
        holds = is_paged & (place != NONE) & (start[place] <= self.start[rows]) & (self.start[rows] < end[place])
        for at in np.flatnonzero(holds).tolist():
            found[at] = told[place[at]]
        return found

    @cached_property
    def _found(self) -> _Found:
        """The costs of the calls that work counts for."""
        owners = np.unique(np.concatenate([self.owner, self.compared]))
        described = self._with_inputs(owners)
        distinct, inputs = self._inputs.at(np.where(described == NONE, NONE, self.at[described]))
        products, tops = self._launched()
        known = _Known(distinct, self._assumed)
        cost = np.full(len(self.at), NONE, np.int64)
        columns = (self.kind[owners], inputs, tops[owners], products[owners])
        for row, kind, code, top, count, lengths in zip(
            owners.tolist(), *(each.tolist() for each in columns), self._lengths(owners), strict=True
        ):
            call = _Call(self._names[kind], self._formulas[kind], lengths, count)
            cost[row] = known.number(call, code, None if top == NONE else self._names[top])
        return _Found(cost, known.rows())

    def _with_inputs(self, owners: Whole) -> Whole:
        """Return the call whose inputs determine the cost of each: itself, or its forward call; -1 if it's missing."""
        is_backward = self._has(owners, [each is not None and each.op.endswith(_OF_WEIGHTS) for each in self._formulas])
        if not is_backward.any():
            return owners
        forward: dict[tuple[int, str], int] = {}
        counts: Counter[tuple[int, str]] = Counter()
        for row in np.flatnonzero(self.sequence != NONE).tolist():
            formula = self._formulas[self.kind[row]]
            if formula is not None:
                key = int(self.sequence[row]), formula.op
                forward.setdefault(key, row)
                counts[key] += 1
        found = owners.copy()
        for at in np.flatnonzero(is_backward).tolist():
            formula = self._formulas[self.kind[owners[at]]]
            op = "" if formula is None else formula.op.removesuffix(_BACKWARD)
            key = int(self.sequence[owners[at]]), op
            found[at] = forward[key] if counts[key] == 1 else NONE
        return found

    def _launched(self) -> tuple[Whole, Whole]:
        """Return for each op the number of products in its work, and the kind of that with most time; -1 for none."""
        work = self._work._replace(op=np.searchsorted(self.ops, self._work.op))
        products, tops = np.zeros(len(self.at), np.int64), np.full(len(self.at), NONE, np.int64)
        order = np.argsort(work.ticks, kind="stable")
        is_product = np.array(self._is_product, np.bool_)[work.kind]
        # What work counts for outside of comparisons comes last, and replaces the other.
        for owner in (self.compared, self.owner):
            own = owner[work.op]
            products[own] = np.bincount(own[is_product], minlength=len(self.at))[own]
            tops[own[order]] = work.kind[order]  # of several, the last one remains
        return products, tops


class _Found(NamedTuple):
    """The number of the cost of each op, -1 for none; and the table `call_costs`."""

    cost: Whole
    rows: pa.RecordBatch


class _Call(NamedTuple):
    """A call of an op: its name, formula, the lengths of its sequences, and the number of its products."""

    label: str
    formula: Formula | None
    lengths: Lengths | None
    products: int


class _Known:
    """The distinct costs of calls. Of calls with equal inputs, one is computed."""

    def __init__(self, written: Sequence[tuple[bytes, ...]], assumed: Mapping[str, str]) -> None:
        self._written, self._assumed = written, assumed
        self._numbers: dict[tuple[object, ...], int] = {}
        self._costs = Numbered()

    def number(self, call: _Call, code: int, top: str | None) -> int:
        """Return the number of the cost of a call. `code` is the number of its inputs, -1 for none; `top` the name of
        the work with most time.
        """
        given = None if code == NONE else self._written[code]
        listed = _listed_types(top) if given is not None and b'"TensorList"' in given[1] else None
        if call.formula is None or not call.formula.op.endswith(_OF_WEIGHTS):
            call = call._replace(products=0)
        key = (call, _key(call.formula, given), listed)
        if (number := self._numbers.get(key)) is None:
            cost = self._cost(call, given, listed)
            number = self._numbers[key] = self._costs[call.label, call.formula, given and given[:3], cost]
        return number

    def _cost(self, call: _Call, given: tuple[bytes, ...] | None, listed: tuple[str, ...] | None) -> Cost:
        formula = call.formula
        inputs = None if given is None else CallInputs.of(*texts_of(each or None for each in given))
        if formula is None:
            arguments = Arguments("", inputs or NO_INPUTS, listed)
            text = None if inputs is None else arguments.text
            return Cost(text, arguments.main.type, reason=_why_uncounted(call.label))
        if inputs is None:
            return Cost(reason=_UNSHAPED[formula.op.endswith(_OF_WEIGHTS)], is_bytes_alone=formula.moves == "named")
        return cost_of(call.label, formula, inputs, listed, call.lengths, self._assumed, call.products)

    def rows(self) -> pa.RecordBatch:
        """Return the table `call_costs`."""
        labels, calls, given, costs = [*zip(*self._costs, strict=True)] or [()] * 4
        found = {
            "cost_index": integers(range(len(labels))),
            "op": texts(labels),
            "family": texts([call and call.family for call in calls]),
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
    """Return the columns about what ops stand for in comparisons of devices."""
    known = formulas()
    equal = [known.equal.get(traced_op(label) or "") for label in labels]
    others = [None if each is None else known.of_ops.get(traced_op(each.label) or "") for each in equal]
    positions = [() if each is None else each.inputs for each in equal]
    return {
        "compared_as": texts([label if one is None else one.label for label, one in zip(labels, equal, strict=True)]),
        "compared_family": texts([each and each.family for each in map(lambda a, b: a or b, others, calls)]),
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
    """Return what the cost depends on: values of arguments that have no name don't count, as they differ from call to
    call.
    """
    if given is None or formula is None:
        return given and given[:3]
    is_by_values = formula.op in formulas().arguments or formula.counts == "unwritten operations"
    return given if is_by_values else given[:3]


def _listed_types(kernel: str | None) -> tuple[str, ...] | None:
    """Return the types of the lists of tensors that an op takes, of the first list and of the others, as the name of a
    kernel that the op launches has them; None for other kernels.
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


def _lengths_in(name: str) -> Lengths | None:
    match = _LENGTHS.search(name)
    if match is None:
        return None
    queries, keys, squares, pairs, more, more_keys, more_squares, more_pairs = map(float, match.groups())
    generated = more_pairs - (more_squares - more) / 2
    return Lengths(queries + more, keys + more_keys, pairs - squares / 2 + generated, more, more_keys, generated)


def _why_uncounted(label: str) -> str:
    """Return why an op without a formula has no cost."""
    if _BETWEEN_DEVICES.match(label):
        return "it moves data between devices: see collectives"
    if label.startswith("Torch-Compiled Region"):
        return "the ops of the compiled code are not written"
    return f"no formula for {label}"
