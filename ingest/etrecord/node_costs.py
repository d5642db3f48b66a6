"""The costs of the nodes of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import chosen, encoded
from etq.ingest.costs.nodes import NodeCost, Taken, Value, cost_of_node
from etq.ingest.etrecord.export_json import DTYPES, TensorMeta

_NUMBERS: Final = ("flops", "bytes_read", "bytes_written")
# An argument of a node: (position, index of the name, index of the literal), or (position, index of the name, index of
# the value, index of the value's tensor).
Wire = tuple[int, ...]


class NodeCosts:
    """The distinct costs of nodes."""

    def __init__(
        self, tensors: Sequence[TensorMeta | None], names: Sequence[str | None], literals: Sequence[bytes]
    ) -> None:
        self._values, self._names, self._literals = [*map(value_of, tensors)], names, literals
        self._known: dict[tuple[object, ...], int] = {}
        self._costs: list[NodeCost] = []

    def number(self, op_type: str, wires: list[Wire], outputs: list[int]) -> int:
        """Return the number of the cost of a node, by its arguments and the tensors of its outputs."""
        wires.sort(key=lambda wire: wire[0])
        first: dict[int, int] = {}
        # The cost depends on whether a value is taken twice, but not on which value it is.
        key = (
            op_type,
            *outputs,
            *(
                wire if len(wire) == 3 else (*wire[:2], first.setdefault(wire[2], len(first)), wire[3])
                for wire in wires
            ),
        )
        if (number := self._known.get(key)) is None:
            taken = [self._taken(wire) for wire in wires]
            number = self._known[key] = len(self._costs)
            self._costs.append(cost_of_node(op_type, taken, [self._values[each] for each in outputs]))
        return number

    def _taken(self, wire: Wire) -> Taken:
        position, name, *what = wire
        if len(what) == 1:
            return Taken(position, self._names[name] or "", None, self._literals[what[0]].decode(errors="replace"), -1)
        return Taken(position, self._names[name] or "", self._values[what[1]], None, what[0])

    def columns(self, codes: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """Return columns of the table `costed_nodes`; `codes` are the numbers of the nodes' costs."""
        found = {}
        for name in NodeCost._fields:
            values = [getattr(cost, name) for cost in self._costs]
            found[name] = chosen(values, codes, np.int64) if name in _NUMBERS else encoded(values, codes)
        return found


def value_of(meta: TensorMeta | None) -> Value:
    """Return a value in the form that the cost is computed from."""
    if meta is None:
        return Value(None, None)
    dtype = DTYPES[meta.dtype] if 0 <= meta.dtype < len(DTYPES) else None
    return Value(tuple(size.as_int for size in meta.sizes), dtype)
