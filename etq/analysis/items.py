"""A comparison of samples, whose ops may be of different programs: its verdicts, with a description of each item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from etq.analysis.alignment import align
from etq.verdicts.arithmetic import Flags
from etq.verdicts.comparison import compare

_SIDES: Final = ("base", "new")
# The names of an item, from the last capture that has it, of new if possible, otherwise of base.
_OF_ITEM: Final = ("op", "module_path", "matched")
# Properties of an item that differ between the sides, from the last capture of each side.
_OF_SIDE: Final = {"kind": None, "instruction_id": np.nan, "place": np.nan}
# Other columns of samples that are read for this.
_KNOWN_BY: Final = ("level", "item", "side", "is_additive", "counted")


def compared(
    samples: Mapping[str, Any], ops: Mapping[str, Any], shapes: Mapping[str, Any], *more: Any
) -> dict[str, list[Any]]:
    """Return the result of `etq.verdicts.comparison.compare`, with columns that describe the item of each row.

    samples  columns of `_comparison_samples`; ops without an item have the one that `align` finds
    ops      what `align` takes
    shapes   ops whose input shapes differ between the sides: op, shapes of base only, and shapes of new only
    more     the other arguments of `compare`
    """
    samples = aligned(samples, ops)
    samples["is_other_graph"] = _other_graphs(samples)
    described = _described(samples)
    found = compare(samples, _of_items(shapes, described), *more)
    keys = ((level.removeprefix("slow "), item) for level, item in zip(found["level"], found["item"], strict=True))
    rows = [described["row"].get(key, -1) for key in keys]  # the last row describes none
    return found | {name: [values[row] for row in rows] for name, values in described.items() if name != "row"}


def aligned(samples: Mapping[str, Any], ops: Mapping[str, Any]) -> dict[str, Any]:
    """Return samples in which each op has an item, see `compared`."""
    return {**samples, "item": _items(samples, ops)}


def _items(samples: Mapping[str, Any], ops: Mapping[str, Any]) -> Any:
    if not len(ops["name"]):
        return samples["item"]
    places = zip(ops["capture_id"].tolist(), ops["op_index"].tolist(), strict=True)
    item_of = dict(zip(places, align(ops), strict=True))
    rows = zip(samples["item"], samples["capture_id"].tolist(), samples["place"].tolist(), strict=True)
    return np.array([item_of[capture, place] if item is None else item for item, capture, place in rows], np.object_)


def _other_graphs(samples: Mapping[str, Any]) -> Flags:
    """Whether rows are calls of a delegate that has different ops on both sides."""
    of_calls = samples["kind"] == "delegate_call"
    keys = [*zip(*(samples[name].tolist() for name in ("side", "scope", "instruction_id")), strict=True)]
    parts: defaultdict[Any, set[Any]] = defaultdict(set)
    for row in np.flatnonzero(samples["kind"] == "delegate"):
        parts[keys[row]].add(samples["item"][row])
    graphs: dict[str, defaultdict[Any, set[Any]]] = {side: defaultdict(set) for side in _SIDES}
    for row in np.flatnonzero(of_calls & (samples["side"] != "history")):
        graphs[samples["side"][row]][samples["item"][row]] |= parts.get(keys[row], set())
    base, new = graphs.values()
    others = {item for item in base.keys() & new.keys() if base[item] != new[item]}
    return np.asarray(of_calls & np.array([item in others for item in samples["item"]], np.bool_), np.bool_)


def _described(samples: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that describe items, and by level and item the row of each; the last row describes none."""
    is_new = samples["side"] == "new"
    chosen = np.flatnonzero((is_new | (samples["side"] == "base")) & (samples["level"] != "none"))
    chosen = chosen[np.lexsort((samples["capture_id"][chosen], is_new[chosen]))]
    given = {name: samples[name][chosen] for name in (*_OF_ITEM, *_OF_SIDE, *_KNOWN_BY)}
    keys = [*zip(given["level"].tolist(), given["item"].tolist(), strict=True)]
    row_of = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    rows = np.fromiter(map(row_of.__getitem__, keys), np.int64, len(keys))

    def last(values: Any, missing: Any, is_of: Any = True) -> Any:
        """The value of the last row of each item that has one."""
        found = np.full(len(row_of) + 1, missing, values.dtype)
        has = is_of & (~_are_none(values) if missing is None else np.isfinite(values))
        found[rows[has]] = values[has]
        return found.tolist()

    columns: dict[str, Any] = {"row": row_of} | {name: last(given[name], None) for name in _OF_ITEM}
    for side in _SIDES:
        is_of = given["side"] == side
        columns |= {f"{side}_{name}": last(given[name], missing, is_of) for name, missing in _OF_SIDE.items()}
        found = np.full(len(row_of) + 1, None, np.object_)
        found[rows[is_of]] = False
        found[rows[is_of & given["is_additive"]]] = True
        columns[f"is_in_{side}"] = found.tolist()
    units = {unit: {*rows[given["counted"] == unit].tolist()} for unit in ("cycles", "ns")}
    columns["counted"] = [
        " ".join(unit for unit, of_unit in units.items() if row in of_unit) or None for row in range(len(row_of) + 1)
    ]
    return columns


def _are_none(values: Any) -> Flags:
    return np.asarray(values == None, np.bool_)  # noqa: E711 - of each


def _of_items(shapes: Mapping[str, Any], described: Mapping[str, Any]) -> dict[str, Any]:
    """The shapes of ops, by the items of traces that are calls of these ops."""
    of_op = {op: at for at, op in enumerate(shapes["op"].tolist())}
    kinds = [new or base for base, new in zip(described["base_kind"], described["new_kind"], strict=True)]
    places = {
        item: of_op[described["op"][row]]
        for (level, item), row in described["row"].items()
        if level == "op" and kinds[row] in ("op", "device_op") and described["op"][row] in of_op
    }
    columns = {name: shapes[name][[*places.values()]] for name in ("base_shapes", "new_shapes")}
    return {"item": np.array([*places], np.object_), **columns}
