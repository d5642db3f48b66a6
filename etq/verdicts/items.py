"""A comparison of samples, whose ops may be of different programs: its verdicts, with a description of each item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from typing import Any, Final

import numpy as np

from etq.verdicts.alignment import align
from etq.verdicts.arithmetic import Flags, Places
from etq.verdicts.comparison import compare
from etq.verdicts.conditions import differing
from etq.verdicts.findings import findings_of_input, other_programs
from etq.verdicts.samples import Table, tables

_SIDES: Final = ("base", "new")
# The names of an item, from the last capture that has it, of new if possible, otherwise of base.
_OF_ITEM: Final = ("op", "module_path", "matched")
# Properties of an item that differ between the sides, from the last capture of each side.
_OF_SIDE: Final = {"kind": None, "instruction_id": np.nan, "place": np.nan}
_UNITS: Final = ("cycles", "ns")


def compared(
    samples: Mapping[str, Any],
    ops: Mapping[str, Any],
    shapes: Mapping[str, Any],
    conditions: Mapping[str, Any],
    labels: Mapping[str, Any],
    is_one_clock: bool,
    alpha: float,
    min_effect: float | None,
    phase: str | None,
    allow_mismatch: bool,
) -> dict[str, list[Any]]:
    """Return the result of `etq.verdicts.comparison.compare`, with columns that describe the item of each row.

    samples     columns of `_comparison_samples`; ops without an item have the one that `align` finds
    ops         what `align` takes
    shapes      ops whose input shapes differ between the sides: op, shapes of base only, and shapes of new only
    conditions  conditions of the captures of both sides, see `differing`
    labels      labels that differ between the sides: name and detail
    phase       the runs that are compared; None: all
    """
    samples = aligned(samples, ops)
    sides = (samples["capture_id"][samples["side"] == side] for side in _SIDES)
    differ = [(name, f"{base} in base, {new} in new") for name, base, new in differing(conditions, *sides)]
    others = [*other_programs(samples)]
    findings = findings_of_input(samples, differ, [*zip(labels["name"], labels["detail"], strict=True)], others, phase)
    do_differ = bool(differ or others)
    return of_tables(tables(samples), shapes, do_differ, is_one_clock, alpha, min_effect, allow_mismatch, findings)


def aligned(samples: Mapping[str, Any], ops: Mapping[str, Any]) -> dict[str, Any]:
    """Return samples in which each op has an item, see `compared`; and columns by which `of_tables` describes items."""
    has: dict[str, Any] = {f"has_{name}": ~_are_none(samples[name]) for name in (*_OF_ITEM, "kind")}
    has |= {f"has_{name}": np.isfinite(samples[name]) for name in ("instruction_id", "place")}
    has |= {f"is_in_{unit}": samples["counted"] == unit for unit in _UNITS}
    has |= {f"is_{kind}": samples["kind"] == kind for kind in ("delegate", "delegate_call")}
    return {**samples, "item": _items(samples, ops), **has}


def of_tables(given: Sequence[Table], shapes: Mapping[str, Any], *more: Any) -> dict[str, list[Any]]:
    """Return the same as `compared` for tables of samples that are `aligned`; `more` are the other arguments of
    `compare`.
    """
    described = _described(given)
    found = compare((each.samples(_other_graphs(each)) for each in given), _of_items(shapes, described), *more)
    keys = ((level.removeprefix("slow "), item) for level, item in zip(found["level"], found["item"], strict=True))
    rows = [described["row"].get(key, -1) for key in keys]  # the last row describes none
    return found | {name: [values[row] for row in rows] for name, values in described.items() if name != "row"}


def _items(samples: Mapping[str, Any], ops: Mapping[str, Any]) -> Any:
    if not len(ops["name"]):
        return samples["item"]
    places = zip(ops["capture_id"].tolist(), ops["op_index"].tolist(), strict=True)
    item_of = dict(zip(places, align(ops), strict=True))
    rows = zip(samples["item"], samples["capture_id"].tolist(), samples["place"].tolist(), strict=True)
    return np.array([item_of[capture, place] if item is None else item for item, capture, place in rows], np.object_)


def _other_graphs(table: Table) -> Flags:
    """Whether items are calls of a delegate that has different ops on both sides."""
    samples = table.columns
    if not samples["is_delegate_call"].any():
        return np.zeros(len(table.rows), np.bool_)

    def known(side: str, kind: str) -> set[Any]:
        """The items of a kind on a side, with their scopes and instructions."""
        rows = table.rows[:, table.sides == side]
        rows = rows[(rows >= 0) & samples[f"is_{kind}"][rows]]
        return {*zip(*(samples[name][rows].tolist() for name in ("item", "scope", "instruction_id")), strict=True)}

    graphs: dict[str, defaultdict[Any, set[Any]]] = {side: defaultdict(set) for side in _SIDES}
    for side, graph in graphs.items():
        parts: defaultdict[Any, set[Any]] = defaultdict(set)
        for item, *call in known(side, "delegate"):
            parts[*call].add(item)
        for item, *call in known(side, "delegate_call"):
            graph[item] |= parts.get((*call,), set())
    base, new = graphs.values()
    others = {item for item in base.keys() & new.keys() if base[item] != new[item]}
    is_other = np.array([item in others for item in samples["item"][table.firsts]], np.bool_)
    return np.asarray(samples["is_delegate_call"][table.firsts] & is_other, np.bool_)


def _described(given: Sequence[Table]) -> dict[str, Any]:
    """Columns that describe items, and by level and item the row of each; the last row describes none."""
    found = [_descriptions(each) for each in given]
    columns = {name: [*chain(*(each[name] for each in found)), None] for name in (found[0] if found else ())}
    keys = [
        key
        for each in given
        for key in zip(*(each.columns[name][each.firsts].tolist() for name in ("level", "item")), strict=True)
    ]
    return {"row": {key: row for row, key in enumerate(keys)}, **columns}


def _descriptions(table: Table) -> dict[str, list[Any]]:
    """Columns that describe the items of a table."""
    # The first place describes no item.
    lacking = np.full((len(table.rows), 1), -1)
    of_sides = {side: np.hstack([lacking, table.rows[:, table.sides == side]]) for side in _SIDES}
    of_both = np.hstack([*of_sides.values()])

    def has(rows: Places, column: str) -> Flags:
        return np.asarray((rows >= 0) & table.columns[column][rows], np.bool_)

    def last(rows: Places, name: str, missing: Any) -> list[Any]:
        """The value of the last row of each item that has one."""
        place = np.where(has(rows, f"has_{name}"), np.arange(rows.shape[1]), 0).max(axis=1)
        values = table.columns[name][rows[np.arange(len(rows)), place]]
        found: list[Any] = np.where(place > 0, values, missing).tolist()
        return found

    columns = {name: last(of_both, name, None) for name in _OF_ITEM}
    is_total = (table.columns["level"][table.firsts] == "total").tolist()
    scopes = table.columns["scope"][table.firsts].tolist()
    for side, rows in of_sides.items():
        columns |= {f"{side}_{name}": last(rows, name, missing) for name, missing in _OF_SIDE.items()}
        is_there, adds = (rows >= 0).max(axis=1), has(rows, "is_additive").max(axis=1)
        columns[f"is_in_{side}"] = [value if known else None for known, value in zip(is_there, adds, strict=True)]
        # The share of the captures with its total that have the item.
        captures = (rows >= 0).sum(axis=1).tolist()
        of_total = dict(compress(zip(scopes, captures, strict=True), is_total))
        columns[f"{side}_part"] = [
            count / of_total.get(scope, count) if count else None for scope, count in zip(scopes, captures, strict=True)
        ]
    units = [has(of_both, f"is_in_{unit}").any(axis=1).tolist() for unit in _UNITS]
    columns["counted"] = [" ".join(compress(_UNITS, known)) or None for known in zip(*units, strict=True)]
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
