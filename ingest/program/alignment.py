"""Aligns the events within a delegate's call with the ops of the delegate's graph, by order and kind.

XNNPACK runs the ops of a graph in order, and logs an event for each operator that it made from them. An event has the
name of the operator's kind. This kind may differ from the kind of the op: a 1x1 convolution runs as fully connected.
Ops that are fused into others, or removed, have no event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
import numpy.typing as npt

_UNARY: Final = frozenset(
    {
        *("abs", "ceiling", "clamp", "elu", "exp", "floor", "gelu", "hardswish", "leakyrelu", "log", "negate"),
        *("reciprocalsquareroot", "sigmoid", "sine", "cosine", "square", "squareroot", "tanh"),
    }
)
_BINARY: Final = frozenset(
    {"add", "divide", "maximum", "minimum", "multiply", "prelu", "squareddifference", "subtract"}
)
# By the kind of an operator, the kinds of ops that may run as such an operator. A lookup table replaces unary ops on
# 8-bit numbers, together with the conversions around them; it never replaces conversions alone.
_RUN_AS: Final[Mapping[str, AbstractSet[str]]] = {
    "fullyconnected": {"convolution"},
    "deconvolution": {"convolution"},
    "copy": {"reshape"},
    "invalidunaryop": _UNARY,
    "unaryelementwise": _UNARY,
    "invalidbinaryop": _BINARY,
    "binaryelementwise": _BINARY,
}
# The kinds of events that always belong to an op. Operators with other names may run any op, or none.
KINDS: Final = frozenset(
    {
        *(_UNARY | _BINARY | _RUN_AS.keys()),
        *("argmaxpooling", "averagepooling", "batchmatrixmultiply", "constantpad", "convert", "convolution"),
        *("maxpooling", "mean", "reshape", "resizebilinear", "scaleddotproductattention", "slice", "softmax", "sum"),
        "transpose",
    }
)


def aligned(events: Sequence[str], ops: Sequence[Sequence[str]]) -> list[int | None]:
    """Return the op that each event of a call ran, as the op's place in the call's graph; None if uncertain.

    `events` has the kinds of the events; `ops` has for each op the kinds of its possible events, in order. The events
    of known kinds are assigned to ops in order. An event is certain if every such assignment gives it to the same op.
    If no assignment is possible, another graph ran, and no event is certain. Time and memory are proportional to the
    number of events times the number of events that all ops may have.
    """
    owners = np.repeat(np.arange(len(ops)), [len(kinds) for kinds in ops])
    known = [at for at, kind in enumerate(events) if kind in KINDS]
    fits = _fitting([events[at] for at in known], [kind for kinds in ops for kind in kinds])
    found: list[int | None] = [None] * len(events)
    first, last = _first_places(fits), _first_places(fits[::-1, ::-1])
    if first is not None and last is not None:
        for at, low, high in zip(known, owners[first], owners[::-1][last][::-1], strict=True):
            found[at] = int(low) if low == high else None
    return found


def _first_places(fits: npt.NDArray[np.bool_]) -> list[int] | None:
    """Return the earliest possible place of each event; None if an event has no place."""
    places: list[int] = []
    start = 0
    for row in fits:
        ahead = row[start:]
        if not ahead.any():
            return None
        places.append(start + int(ahead.argmax()))
        start = places[-1] + 1
    return places


def may_run(event: str, op: str) -> bool:
    """Whether an event of a kind may run an op of a kind."""
    return event == op or op in _RUN_AS.get(event, ())


def _fitting(events: Sequence[str], ops: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether an event may have run an op, by event and op."""
    rows, columns = [_PLACES[event] for event in events], [_PLACES.get(each, -1) for each in ops]
    found: npt.NDArray[np.bool_] = _MAY_RUN[np.ix_(rows, columns)]
    return found


_PLACES: Final = {kind: place for place, kind in enumerate(sorted(KINDS))}
# By kinds of events and of ops; the last column is for ops of other kinds.
_MAY_RUN: Final = np.eye(len(_PLACES), len(_PLACES) + 1, dtype=np.bool_)
for _event, _ops in _RUN_AS.items():
    _MAY_RUN[_PLACES[_event], [_PLACES[_op] for _op in _ops]] = True
