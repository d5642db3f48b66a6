"""Two op graphs next to each other: each with its modules and places, and the counterparts of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError, counted
from etq.report.columns import Table, table
from etq.report.graph_extras import bounded
from etq.report.kit import Section, added_of, grid
from etq.report.overlays import OVERLAYS
from etq.report.page import Report
from etq.report.placing import levels_of, placed

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The options of `pair_of`: parameters of `compare_graphs`.
OPTIONS: Final = ("base_stage", "new_stage", "unit", "reference", "metric")
SIDES: Final = ("base", "new")

STAGE_NAME: Final = """
    CASE
        WHEN s.is_delegated THEN 'delegated'
        WHEN s.stage = 'edge_dialect_exported_program' THEN 'edge'
        WHEN s.stage = 'exported_program' THEN 'exported'
        ELSE s.stage
    END
"""
# For each side: key of the record, the stage of its graphs in `graphs`, and its name in options.
SIDE: Final = f"""
    SELECT CASE WHEN s.is_base THEN 'base' ELSE 'new' END AS side, s.record_id, s.stage,
        {STAGE_NAME} AS stage_name
    FROM _graph_sides($base, $new, $base_stage, $new_stage, $unit) AS s
"""

NODES: Final = """
    SELECT
        p.graph_id, g.method, p.node_index, coalesce(p.name, p.op_type) AS name, p.op_type, p.op, p.subgraph,
        p.module_path
    FROM graphs AS g
    JOIN op_nodes AS p ON p.record_id = g.record_id AND p.graph_id = g.graph_id
    WHERE g.record_id = $record AND g.stage = $stage
    ORDER BY p.graph_id, p.node_index
"""

# The pairs of nodes (`side` is NULL), and for each side and module the sum of its nodes' times and the worst of their
# gaps.
COMPARED: Final = """
    WITH
    pairs AS MATERIALIZED (SELECT *{added} FROM compare_graphs($base, $new{given})),
    sides AS MATERIALIZED ({side}),
    times AS (
        SELECT
            'base' AS side, p.method, p.base_node AS node_index, p.base_time AS self_time, p.base_gap AS gap, p.metric
        FROM pairs AS p
        UNION ALL
        SELECT 'new', p.method, p.new_node, p.new_time, p.new_gap, p.metric FROM pairs AS p
    ),
    members AS (
        SELECT DISTINCT s.side, g.method, m.node_index, m.module_path
        FROM sides AS s
        JOIN graphs AS g ON g.record_id = s.record_id AND g.stage = s.stage
        JOIN node_modules AS m ON m.record_id = g.record_id AND m.graph_id = g.graph_id
    )
    SELECT NULL AS side, NULL AS self_time, NULL AS gap, p.* FROM pairs AS p
    UNION ALL BY NAME
    SELECT
        m.side, m.method, m.module_path, fsum(t.self_time) AS self_time,
        CASE WHEN any_value(t.metric) IN ('snr', 'cosine') THEN -max(-t.gap) ELSE max(t.gap) END AS gap,
        any_value(t.metric) AS metric
    FROM members AS m
    JOIN times AS t ON t.side = m.side AND t.method = m.method AND t.node_index = m.node_index
    GROUP BY m.side, m.method, m.module_path
    ORDER BY method, coalesce(new_node, origin, base_node), new_node, base_node, side, module_path
"""

# The columns of a node that come from its own side, and those that come from its pair.
OF_SIDE: Final = ("shapes", "dtypes", "backend", "time", "gap", "grows")
OF_PAIR: Final = ("change", "changed", "basis", "score", "difference", "unit", "gap_problem")
GROUP_NAMES: Final = (
    "graph_id", "method", "parent", "name", "module_path", "module_class", "rank", "order", "time", "gap",
)  # fmt: skip
NO_VALUES: Final = (None, None)


def pair_of(
    warehouse: Answers, base: str, new: str, names: tuple[str, str] | None = None, **options: str | None
) -> Report:
    """Return a page with both graphs. Options and errors are those of `compare_graphs`; `EtqError` if no method is in
    both.

    names  the names of both sides on the page; by default their selectors
    """
    sought = {"base": base, "new": new, **{name: options.get(name) for name in ("base_stage", "new_stage", "unit")}}
    options = {name: value for name, value in options.items() if value is not None}
    parameters = {**sought, **options}
    given = "".join(f", {name} := ${name}" for name in options)
    query = COMPARED.format(given=given, side=SIDE, added=added_of("compare_graphs"))
    columns, rows = warehouse.rows(query, **parameters)
    found = [_bounded(dict(zip(columns, row, strict=True))) for row in rows]
    pairs = [row for row in found if row["side"] is None]
    times = {
        (row["side"], row["method"], row["module_path"]): (row["self_time"], row["gap"]) for row in found if row["side"]
    }
    sides = {side: tuple(about) for side, *about in warehouse.rows(SIDE, **sought)[1]}
    nodes = {side: warehouse.rows(NODES, record=sides[side][0], stage=sides[side][1]) for side in SIDES}
    numbers = {side: {(row[1], row[2]): number for number, row in enumerate(nodes[side][1])} for side in SIDES}
    methods = [{method for method, _ in numbers[side]} for side in SIDES]
    if not methods[0] & methods[1]:
        raise EtqError(f"{base} and {new} have no method in common: {', '.join(sorted(methods[0] | methods[1]))}")
    tables: dict[str, Table] = {}
    for side, other in zip(SIDES, SIDES[::-1], strict=True):
        more = _values_of(side, other, nodes[side][1], pairs, numbers[other])
        side_times = {key[1:]: value for key, value in times.items() if key[0] == side}
        placed = _placed(warehouse, nodes[side], more, sides[side][:2], side_times)
        tables |= {f"{side}_{name}": each for name, each in placed.items()}
    stages = [sides[side][2] for side in SIDES]
    shown = names or (base, new)
    counts = Counter(row["change"] for row in pairs)
    gap = next(each for each in OVERLAYS if each.key == pairs[0]["metric"])
    facts: dict[str, Any] = {
        "names": shown,
        "stages": stages,
        "counts": dict(sorted(counts.items())),
        "gap": asdict(gap),
    }
    problems = Counter(row["gap_problem"] for row in pairs if not _has_gap(row) and row["gap_problem"] is not None)
    distance = f"Distance from the values of {options.get('reference') or shown[0]}: {gap.title.removeprefix('gap: ')}"
    kinds: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
        "alone": ("Ops without a counterpart", _is_alone),
        "changed": ("Changed ops", lambda row: row["change"] == "changed"),
        "gaps": (distance, _has_gap),
    }
    grids = [
        grid("compare_graphs", _listed(listed, numbers), title, name=f"pair-{name}")
        for name, (title, is_listed) in kinds.items()
        if (listed := [row for row in pairs if is_listed(row)])
    ]
    if grids and problems and grids[-1].title == distance:
        texts = (f"{counted(number, 'op')} can't be compared: {problem}." for problem, number in problems.most_common())
        grids[-1] = replace(grids[-1], text=" ".join(texts), sort=["new_gap"])
    note = None
    if {"reference", "metric"} & set(options) and not any(map(_has_gap, pairs)) and not problems:
        note = "No op has a gap: values are compared where both sides, or a side and the reference, have logged them."
    title = " and ".join(shown if shown[0] != shown[1] else [f"{shown[0]} ({stage})" for stage in stages])
    return Report("graphs", title, [Section("graph_pair", "Two graphs", tables, facts, note, grids=grids)])


def _values_of(
    side: str,
    other: str,
    nodes: Sequence[tuple[Any, ...]],
    pairs: Sequence[dict[str, Any]],
    others: Mapping[tuple[str, int], int],
) -> list[tuple[Any, ...]]:
    """For each node of a side, return the values of its pair, and the number of its counterpart, -1 for none."""
    of_nodes = {(row["method"], row[f"{side}_node"]): row for row in pairs if row[f"{side}_node"] is not None}
    values = []
    for row in nodes:
        pair = of_nodes[row[1], row[2]]
        counterpart = others.get((row[1], pair[f"{other}_node"]), -1)
        values.append((*(pair[f"{side}_{name}"] for name in OF_SIDE), *(pair[name] for name in OF_PAIR), counterpart))
    return values


def _listed(pairs: Sequence[dict[str, Any]], numbers: Mapping[str, Mapping[tuple[str, int], int]]) -> Table:
    """Return these pairs as a table, with the numbers of their nodes."""
    rows = [
        (*row.values(), *(numbers[side].get((row["method"], row[f"{side}_node"]), -1) for side in SIDES))
        for row in pairs
    ]
    return table([*pairs[0], *SIDES], rows)


def _bounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `COMPARED`, in which gaps that aren't finite are converted for a page."""
    sign = -1 if row["metric"] in ("snr", "cosine") else 1
    return row | {name: bounded(row[name], sign) for name in ("gap", "base_gap", "new_gap")}


def _has_gap(row: dict[str, Any]) -> bool:
    return row["base_gap"] is not None or row["new_gap"] is not None


def _is_alone(row: dict[str, Any]) -> bool:
    return row["base_node"] is None or row["new_node"] is None


def _placed(
    warehouse: Answers,
    nodes: tuple[Sequence[str], Sequence[tuple[Any, ...]]],
    more: Sequence[tuple[Any, ...]],
    graphs: tuple[int, str],
    times: dict[tuple[str, str], tuple[float | None, float | None]],
) -> dict[str, Table]:
    """Return the tables of one side, as `graph_tables` does, with the values of this page."""
    made = placed(warehouse, graphs, nodes, levels_of(warehouse, *graphs))
    groups = [(*row, *times.get((row[1], row[4]), NO_VALUES)) for row in made.groups]
    rows = [(*row, *values, *place) for row, values, place in zip(nodes[1], more, made.nodes, strict=True)]
    names = [*nodes[0], *OF_SIDE, *OF_PAIR, "counterpart", "parent", "rank", "order"]
    return {
        "nodes": table(names, rows),
        "groups": table(GROUP_NAMES, groups),
        "edges": table(["maker", "user"], made.edges),
        "bends": table(["group", "owner", "rank", "order"], made.bends),
    }
