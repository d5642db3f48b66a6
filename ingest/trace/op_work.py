"""Finds the call of an op to which work of a trace's devices is attributed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from etq.ingest.costs.formulas import Formula, formulas, traced_op
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Whole, are, nearest
from etq.ingest.trace.passes import Passes
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.waits import Trace

_NOT_OPERATORS: Final = ("DataParallel.forward", "DistributedDataParallel.forward")
# Work of these ops is attributed to the op of attention that chose them.
_CHOOSING: Final = "aten._scaled_dot_product"
_CHOSEN: Final = frozenset(
    f"aten._{kind}_attention_{way}" for kind in ("flash", "efficient", "cudnn") for way in ("forward", "backward")
)
# Backward passes of TransformerEngine's functions have no argument for the weight; it is an argument of the forward
# call.
_BACKWARD: Final = "Backward"
_OF_WEIGHTS: Final = "LinearBackward"


def is_backward_of_weights(formula: Formula) -> bool:
    """Whether an op is the backward pass of a product that takes its inputs from the forward call."""
    return formula.op.endswith(_OF_WEIGHTS)


def _is_any(_: Formula) -> bool:
    return True


class Kinds(NamedTuple):
    """The categories and names of slices, their classes, and the kind of each slice [n]."""

    names: Sequence[tuple[str, str]]
    classes: Sequence[Class]
    kind: Whole


class Work(NamedTuple):
    """Work of devices as arrays [m]: the row of the op that launched it, its kind, and its ticks."""

    op: Whole
    kind: Whole
    ticks: Whole


class Ops(NamedTuple):
    """What is known about the ops of slices, as arrays [n]. -1 stands for no op.

    run        the run of each slice
    around     the op that contains it
    owner      the op to which the time of a device event belongs
    is_called  whether it is a call of an op of its own, as in `Calls.operator`
    own_ticks  its own time, as from `operator_ticks`
    """

    run: Whole
    around: Whole
    owner: Whole
    is_called: Flags
    own_ticks: Whole


def work_of(trace: Trace, kinds: Kinds, ops: Ops) -> Work:
    """Return the work of devices that ops launched. For a trace without work of devices, return its ops."""
    is_work = are(kinds.kind, [each.is_work for each in kinds.classes])
    if is_work.any():
        op = np.where(is_work & (trace.elapsed >= 0), ops.owner, NONE)
        rows = np.flatnonzero(op != NONE)
        return Work(op[rows], kinds.kind[rows], trace.elapsed[rows])
    is_operator = are(
        kinds.kind,
        [
            each.activity == "op" and each.purpose not in ("module", "data_loading") and _is_operator(name)
            for (_, name), each in zip(kinds.names, kinds.classes, strict=True)
        ],
    )
    rows = np.flatnonzero(is_operator & (trace.elapsed >= 0) & ops.is_called)
    return Work(rows, kinds.kind[rows], np.zeros(len(rows), np.int64))


def _is_operator(name: str) -> bool:
    return not name.startswith("Optimizer.") and name not in _NOT_OPERATORS


class OpWork:
    """The work of a trace by the ops to which it is attributed. Only columns of the trace's ops are held, not of other
    slices.

    Arrays of m ops: rows (their slices), at (positions in the file), run, kind, parent (the op that contains each op,
    or -1), sequence, and `backward` and `repeats` of `Passes`. `ops` are the places of the ops with work, ascending.
    `host_ticks` are the ops' own times on the host; None if the trace has work of devices.
    """

    def __init__(self, trace: Trace, kinds: Kinds, ops: Ops, passes: Passes) -> None:
        self.names = [name for _, name in kinds.names]
        rows = self.rows = np.flatnonzero(are(kinds.kind, [each.activity == "op" for each in kinds.classes]))
        place = np.full(len(kinds.kind) + 1, NONE, np.int64)
        place[rows] = np.arange(len(rows))
        self.at, self.run, self.kind = trace.at[rows], ops.run[rows], kinds.kind[rows]
        self.parent, self.sequence = place[ops.around[rows]], trace.sequence[rows]
        self.backward, self.repeats = passes.backward[rows], passes.repeats[rows]
        self._is_kernel = [each.activity == "kernel" for each in kinds.classes]
        self._is_product = [
            each.kernel_family == "GEMM" and "splitKreduce" not in name
            for (_, name), each in zip(kinds.names, kinds.classes, strict=True)
        ]
        is_on_device = are(kinds.kind, [each.is_work for each in kinds.classes]).any()
        self.host_ticks = None if is_on_device else ops.own_ticks[rows]
        work = work_of(trace, kinds, ops)
        self._work = work._replace(op=place[work.op])
        self.ops = np.unique(self._work.op)

    @cached_property
    def every(self) -> Whole:
        """The ops with work, and the ops to which it is attributed, in the order of the tables."""
        found = np.unique(np.concatenate([self.ops, self.owner, self.compared]))
        return found[np.lexsort((self.at[found], self.run[found]))]

    @cached_property
    def formulas(self) -> Sequence[Formula | None]:
        """The formula of each kind."""
        known, of_names = formulas(), dict[str, Formula | None]()
        for name in dict.fromkeys(self.names[kind] for kind in np.unique(self.kind).tolist()):
            of_names[name] = known.of(name)
        return [of_names.get(name) for name in self.names]

    def are(self, ops: Whole, tells: Callable[[Formula], bool]) -> Flags:
        """Return for each op whether `tells` is true for its formula; false without a formula, and for the op -1."""
        of_kinds = [each is not None and tells(each) for each in self.formulas]
        return self._are(ops, of_kinds)

    def _are(self, ops: Whole, of_kinds: Sequence[bool]) -> Flags:
        found: Flags = (ops != NONE) & np.array(of_kinds, np.bool_)[self.kind[ops]]
        return found

    @cached_property
    def owner(self) -> Whole:
        """The call to whose cost the work of each of `ops` is attributed.

        It is the op itself. If the op has no formula, or was chosen by an op of attention, it is the parent if that has
        a formula, otherwise the parent's parent. But an op that contains other ops with costs doesn't get the work. For
        example, the work of aten::_flash_attention_forward is attributed to the attention that called it.
        """
        parent = self.parent[self.ops]
        grand = np.where(parent == NONE, NONE, self.parent[parent])
        is_chosen = self.are(self.ops, lambda formula: formula.op in _CHOSEN)
        chooses = self.are(parent, lambda formula: formula.op.startswith(_CHOOSING))
        counts = self.are(self.ops, _is_any) & ~(is_chosen & chooses)
        # Whether an op contains other ops with costs of their own.
        composite = np.zeros(len(self.at) + 1, np.bool_)
        composite[parent[counts]] = composite[grand[counts]] = True
        composite[NONE] = False
        of_parent = self.are(parent, _is_any)
        takes_parent = ~counts & of_parent & ~composite[parent]
        takes_grand = ~counts & ~of_parent & self.are(grand, _is_any) & ~composite[grand]
        return np.where(takes_parent, parent, np.where(takes_grand, grand, self.ops))

    @cached_property
    def compared(self) -> Whole:
        """Like `owner`, but for comparisons of devices. If an op stands for the ops of backends, all work launched
        within it is attributed to it.
        """
        equal = formulas().equal
        named = [equal.get(traced_op(name) or "") for name in self.names]
        has_all = [each is not None and each.has_all for each in named]
        dispatches = self._are(np.arange(len(self.at)), has_all)
        around = np.where(dispatches, np.arange(len(self.at)), nearest(self.parent, dispatches))[self.ops]
        return np.where(around == NONE, self.owner, around)

    def described(self, owners: Whole) -> Whole:
        """Return for each op the call whose inputs determine its cost: the op itself, or its forward call. -1 if the
        trace has no forward call, or several.
        """
        is_backward = self.are(owners, is_backward_of_weights)
        if not is_backward.any():
            return owners
        forward: dict[tuple[int, str], int] = {}
        counts: Counter[tuple[int, str]] = Counter()
        for row in np.flatnonzero(self.sequence != NONE).tolist():
            formula = self.formulas[self.kind[row]]
            if formula is not None:
                key = int(self.sequence[row]), formula.op
                forward.setdefault(key, row)
                counts[key] += 1
        found = owners.copy()
        for at in np.flatnonzero(is_backward).tolist():
            formula = self.formulas[self.kind[owners[at]]]
            op = "" if formula is None else formula.op.removesuffix(_BACKWARD)
            key = int(self.sequence[owners[at]]), op
            found[at] = forward[key] if counts[key] == 1 else NONE
        return found

    def launches_kernels(self) -> Flags:
        """Return for each op whether kernels are attributed to it."""
        found = np.zeros(len(self.at), np.bool_)
        ops = self._work.op[np.array(self._is_kernel, np.bool_)[self._work.kind]]
        found[self.owner[np.searchsorted(self.ops, ops)]] = True
        return found

    def recomputed(self, flops: Whole) -> Flags:
        """Return which ops compute again, in the backward pass, what the forward pass computed. `flops` are the
        operations of each op, -1 if they are unknown.

        They are, or are within, ops of the forward pass in a call of the backward pass: with activation checkpointing,
        activations that weren't kept are computed again, and autograd records the ops that compute them like those of
        the forward pass. The call must do other work, too: where the backward pass is to be differentiated
        (create_graph), autograd records all ops of the call.
        """
        # Host times of autograd's functions are not their own work.
        does_more = np.where(flops == NONE, self.launches_kernels(), flops > 0) & ~self.repeats
        does_more[np.setdiff1d(np.arange(len(self.at)), self.owner)] = False
        found: Flags = self.repeats & np.isin(self.backward, self.backward[does_more])
        return found

    def inner_flops(self, flops: Whole) -> Whole:
        """Return how many operations of each op other ops within it do, which count for themselves; at most its own
        operations. -1 if there are none, and in a trace with work of devices, where only ops that launched work count.

        The operations of an op belong to the nearest op with operations among the three innermost ops around it.
        """
        found = np.full(len(self.at), NONE, np.int64)
        if self.host_ticks is None:
            return found
        counts = np.zeros(len(self.at) + 1, np.bool_)
        counts[self.owner] = flops[self.owner] > 0
        around = np.full(len(self.at), NONE, np.int64)
        above = np.append(self.parent, NONE)
        for outer in (above[above[self.parent]], above[self.parent], self.parent):
            around = np.where(counts[outer], outer, around)
        inner = np.flatnonzero(counts[:-1] & (around != NONE))
        columns = (around[inner], flops[around[inner]], flops[inner])
        for outer, most, more in zip(*(each.tolist() for each in columns), strict=True):
            found[outer] = min(max(int(found[outer]), 0) + more, most)
        return found

    def launched(self) -> tuple[Whole, Whole]:
        """Return for each op the number of products in its work, and the kind of the work that takes the most time; -1
        for none.
        """
        work = self._work._replace(op=np.searchsorted(self.ops, self._work.op))
        products, tops = np.zeros(len(self.at), np.int64), np.full(len(self.at), NONE, np.int64)
        order = np.argsort(work.ticks, kind="stable")
        is_product = np.array(self._is_product, np.bool_)[work.kind]
        # `owner` comes last, so its results replace those of `compared`.
        for owner in (self.compared, self.owner):
            own = owner[work.op]
            products[own] = np.bincount(own[is_product], minlength=len(self.at))[own]
            tops[own[order]] = work.kind[order]  # the longest remains
        return products, tops
