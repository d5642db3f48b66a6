"""Plots of the changes between two sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from etq.plot.drawing import (
    BLUE,
    GREY,
    ORANGE,
    RED,
    add_legend,
    call_of,
    fetch,
    name_rows,
    new_chart,
    set_options,
)
from etq.verdicts import words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from etq.warehouse.warehouse import Capture, Warehouse

_NAMES: Final = {
    "ops": "c.op || coalesce(' in ' || nullif(c.module_path, ''), '') || coalesce(' @' || c.instruction_id, '')",
    "modules": "CASE c.module_path WHEN '' THEN '(model)' ELSE c.module_path END",
}
_VERDICTS: Final = {
    words.SLOWER: (words.SLOWER, RED),
    words.FASTER: (words.FASTER, BLUE),
    words.SAME: (words.SHOWN[words.SAME], GREY),
}


def compare(
    warehouse: Warehouse,
    base: str | Capture,
    new: str | Capture,
    *,
    what: Literal["ops", "modules"] = "ops",
    limit: int = 20,
    **options: Any,
) -> Figure:
    """Draw by how much each op or module changed, from `compare_ops` or `compare_modules`, with its interval and
    coloured by verdict. Changes that explain most of the total's change come first.

    base, new  a capture, or a selector of several
    limit      number of ops or modules to draw
    options    parameters of the view: quantile, phase, history, alpha, min_effect, allow_mismatch

    Added and removed parts have no percentage; the title gives their number. Raises `EtqError` if there is nothing to
    draw.
    """
    arguments = set_options(options)
    sides = {"base": str(base) if isinstance(base, str) else base.sha256,
             "new": str(new) if isinstance(new, str) else new.sha256}  # fmt: skip
    query = f"""
        WITH compared AS (
            SELECT {_NAMES[what]} AS name, c.verdict, c.change_percent, c.low_percent, c.high_percent
            FROM {call_of(f"compare_{what}", ["base", "new"], arguments)} AS c
        )
        SELECT c.name, c.verdict, c.change_percent, c.low_percent, c.high_percent,
            (SELECT count(*) FROM compared AS o WHERE o.change_percent IS NULL)
        FROM compared AS c WHERE c.change_percent IS NOT NULL LIMIT $limit
    """
    rows = fetch(warehouse, query, f"no {what} of both sides can be compared", **sides, **arguments, limit=limit)
    title = f"Change of {what} from {base} to {new}"
    if rows[0][5]:
        title += f"; {rows[0][5]} more have no change to draw"
    figure, axes = new_chart(title, "change of time, without what all have in common (%)", "", bars=len(rows))
    axes.axvline(0, color="black", linewidth=0.8)
    for verdict in dict.fromkeys(row[1] for row in rows):
        label, colour = _VERDICTS.get(verdict, (verdict, ORANGE))
        chosen = [(place, row) for place, row in enumerate(rows) if row[1] == verdict]
        axes.barh([place for place, _ in chosen], [row[2] for _, row in chosen], color=colour, alpha=0.8, label=label)
    with_interval = [(place, row) for place, row in enumerate(rows) if row[3] is not None and row[4] is not None]
    if with_interval:
        axes.errorbar(
            [row[2] for _, row in with_interval],
            [place for place, _ in with_interval],
            xerr=[[row[2] - row[3] for _, row in with_interval], [row[4] - row[2] for _, row in with_interval]],
            fmt="none",
            ecolor="black",
            elinewidth=1,
            capsize=3,
            label="interval",
        )
    name_rows(axes, [row[0] for row in rows])
    add_legend(axes, loc="best")
    return figure
