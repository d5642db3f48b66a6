"""Where the time went: bars of ops and of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from etq.plot.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    add_legend,
    call_of,
    fetch,
    name_rows,
    new_chart,
    resolved,
    set_options,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from etq.warehouse.warehouse import Capture, Warehouse

_KINDS: Final = {
    "kernel": ("kernels", BLUE),
    "delegate": ("delegates' events", GREEN),
    "delegate_call": ("delegates' calls without their events", SKY),
    "operator_call": ("operators without a kernel event", PURPLE),
    "slice": ("events", BLUE),
    "framework": ("framework", ORANGE),
    "others": ("all others together", GREY),
}


def ops(
    warehouse: Warehouse,
    capture: str | Capture,
    *,
    by: str | None = None,
    unit: str | None = None,
    limit: int = 15,
    total: bool = False,
    **schedule: Any,
) -> Figure:
    """Draw bars of `op_totals`: each op's self time in an execute of a typical run, and its share; for a PyTorch trace
    the self times on the CPU of `key_averages`, in a step if it has steps.

    by        grouping of events into ops, as in these views
    unit      ns, us, ms, s or cycles
    limit     number of ops; all others of a method become one bar
    total     draw sums over all executes or steps instead
    schedule  which runs, as parameters of the views: steps, phase, method, runs

    Events with another clock, and values that are not times, have no bar. Raises `EtqError` without a time to draw.
    """
    target = resolved(warehouse, capture)
    arguments = set_options({"by": by, "unit": unit, **schedule})
    is_trace = target.format == "torch_trace"
    if is_trace:
        time = "o.self_cpu_time" if total else "coalesce(o.self_cpu_per_step, o.self_cpu_time)"
        columns = f"o.name, 'slice', '', {time}, o.self_cpu_percent, o.unit, o.self_cpu_time, o.steps"
        view, whole = call_of("key_averages", ["capture"], arguments), "NOT o.is_device"
    else:
        name, time = "o.op || coalesce(' @' || o.instruction_id, '')", "o.total" if total else "o.per_execute"
        columns = f"{name}, o.kind, o.method, {time}, o.share_percent, o.unit, o.total_ticks, o.executes"
        view, whole = call_of("op_totals", ["capture"], arguments), "o.share_percent IS NOT NULL"
    # Executes of several methods can't be added.
    query = f"""
        WITH shown (name, kind, method, time, share, unit, ticks, number) AS (
            SELECT {columns} FROM {view} AS o WHERE {whole}
        ),
        ranked AS (
            SELECT s.*, row_number() OVER (ORDER BY s.ticks DESC, s.name, s.kind, s.method) AS place,
                CASE WHEN min(s.method) OVER () <> max(s.method) OVER () THEN ' of ' || s.method ELSE '' END AS part
            FROM shown AS s
        )
        SELECT r.name || r.part, r.kind, r.time, r.share, r.unit, r.number FROM ranked AS r WHERE r.place <= $limit
        UNION ALL
        SELECT '(' || count(*) || ' others)' || r.part, 'others', fsum(r.time), fsum(r.share), max(r.unit),
            max(r.number)
        FROM ranked AS r WHERE r.place > $limit GROUP BY r.method, r.part
    """
    error_text = f"{target.name} has no time of ops to draw in the runs that are asked for"
    rows = fetch(warehouse, query, error_text, capture=target, limit=limit, **arguments)
    title = f"Where the time of {target.name} went, op by op"
    runs = arguments.get("runs", "all" if is_trace else "typical")
    per = "" if total or rows[0][5] is None else f" per {'step' if is_trace else 'execute'}"
    figure, axes = new_chart(title, f"self time{per} in {runs} runs ({rows[0][4]})", "", bars=len(rows))
    for kind in dict.fromkeys(row[1] for row in rows):
        label, colour = _KINDS.get(kind, (kind, GREY))
        places = [place for place, row in enumerate(rows) if row[1] == kind]
        axes.barh(places, [rows[place][2] for place in places], color=colour, label=label)
    _label_shares(axes, [row[2] for row in rows], [row[3] for row in rows])
    name_rows(axes, [row[0] for row in rows])
    add_legend(axes, loc="lower right")
    return figure


def modules(
    warehouse: Warehouse,
    capture: str | Capture,
    *,
    unit: str | None = None,
    limit: int = 25,
    total: bool = False,
    **schedule: Any,
) -> Figure:
    """Draw bars of `module_totals`: each module's total and self time in an execute of a typical run, in the model's
    order.

    unit      ns, us, ms, s or cycles
    limit     number of modules with the largest times; time in no module is shown in any case
    total     draw sums over all executes instead
    schedule  which runs, as parameters of the view: steps, phase, method, runs

    Needs a linked record. Raises `EtqError` without a time to draw.
    """
    target = resolved(warehouse, capture)
    arguments = set_options({"unit": unit, **schedule})
    times = "r.self_time, r.total" if total else "r.self_per_execute, r.per_execute"
    query = f"""
        WITH ranked AS (
            SELECT m.*, row_number() OVER (ORDER BY m.total DESC, m.depth NULLS LAST, m.module_path) AS place
            FROM {call_of("module_totals", ["capture"], arguments)} AS m WHERE m.total > 0
        )
        SELECT
            CASE r.module_path WHEN '' THEN '(model)' ELSE r.module_path END,
            {times}, r.share_percent, r.unit, r.depth IS NULL
        FROM ranked AS r WHERE r.place <= $limit OR r.depth IS NULL ORDER BY r.depth IS NULL, r.module_path
    """
    error_text = f"{target.name} has no time of modules to draw in the runs that are asked for"
    rows = fetch(warehouse, query, error_text, capture=target, limit=limit, **arguments)
    title = f"Where the time of {target.name} went, module by module"
    per, runs = "" if total else " per execute", arguments.get("runs", "typical")
    figure, axes = new_chart(title, f"time{per} in {runs} runs ({rows[0][4]})", "", bars=len(rows))
    places = range(len(rows))
    axes.barh(places, [row[2] for row in rows], color="#bcd7e8", label="with the modules within it")
    for label, colour, is_apart in (("its own ops", BLUE, False), ("no module's", ORANGE, True)):
        chosen = [place for place in places if rows[place][5] is is_apart]
        if chosen:
            axes.barh(chosen, [rows[place][1] for place in chosen], color=colour, label=label)
    _label_shares(axes, [row[2] for row in rows], [row[3] for row in rows])
    name_rows(axes, [row[0] for row in rows])
    add_legend(axes, loc="lower right")
    return figure


def _label_shares(axes: Axes, lengths: list[float], shares: list[float | None]) -> None:
    """Write each bar's share of the total after its end."""
    for place, (length, share) in enumerate(zip(lengths, shares, strict=True)):
        if share is not None:
            axes.annotate(
                f"{share:.1f} %",
                (max(length, 0), place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
