"""Line plots: one run, or one capture, after the other."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from etq.plot.drawing import (
    BLUE,
    GREY,
    LINES,
    RED,
    add_legend,
    call_of,
    fetch,
    new_chart,
    printable_text,
    resolved,
    set_options,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from etq.warehouse.warehouse import Capture, Warehouse


def runs(warehouse: Warehouse, capture: str | Capture, *, unit: str | None = None, **schedule: Any) -> Figure:
    """Draw the time of each run's executes, and how much of it was spent in kernels and delegates, from
    `framework_tax`; with the median over runs and the band between their 10th and 90th percentile.

    unit      ns, us, ms, s or cycles
    schedule  which runs, as parameters of the view: steps, phase

    Raises `EtqError` if no run has an execute whose time is known.
    """
    target = resolved(warehouse, capture)
    arguments = set_options({"unit": unit, **schedule})
    query = f"""
        WITH taxed AS (
            SELECT t.run_index, t.execute, t.execute - t.tax AS work, t.unit
            FROM {call_of("framework_tax", ["capture"], arguments)} AS t WHERE t.execute IS NOT NULL
        )
        SELECT t.run_index, t.execute, t.work, t.unit,
            median(t.execute) OVER (), quantile_cont(t.execute, 0.1) OVER (), quantile_cont(t.execute, 0.9) OVER ()
        FROM taxed AS t ORDER BY t.run_index
    """
    error_text = f"{target.name} has no execute to draw in the runs that are asked for"
    rows = fetch(warehouse, query, error_text, capture=target, **arguments)
    unit_shown, middle, low, high = rows[0][3:]
    figure, axes = new_chart(f"Each run of {target.name}", "run", f"time of the run's executes ({unit_shown})")
    axes.axhspan(low, high, color="#dbe7f0", label="the middle eight tenths of the runs")
    axes.axhline(middle, color=GREY, linewidth=1, label=f"median: {middle:.6g} {unit_shown}")
    style: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4, "color": BLUE}
    axes.plot([row[0] for row in rows], [row[1] for row in rows], label="execute", **style)
    worked = [row for row in rows if row[2] is not None]
    if worked:
        numbers, works = [row[0] for row in worked], [row[2] for row in worked]
        axes.plot(numbers, works, alpha=0.35, label="of that kernels and delegates", **style)
    _mark_outliers(axes, [row[:2] for row in rows], 2 * high, unit_shown)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    add_legend(axes, loc="best")
    return figure


def _mark_outliers(axes: Axes, runs: list[tuple[int, float]], limit: float, unit: str) -> None:
    """Draw runs far from all others at the upper edge, so that differences between the others remain visible."""
    beyond = [each for each in runs if each[1] > limit > 0]
    if beyond:
        longest = max(time for _, time in beyond)
        axes.plot(
            [run for run, _ in beyond],
            [limit] * len(beyond),
            linestyle="none",
            marker="^",
            markersize=8,
            color=RED,
            label=f"beyond that: up to {longest:.6g} {unit}",
        )
        axes.set_ylim(top=1.06 * limit)


def trend(
    warehouse: Warehouse,
    what: str = "total",
    item: str | None = None,
    *,
    selector: str | None = None,
    over: str | None = None,
    by: str | None = None,
    unit: str | None = None,
    phase: str | None = None,
    min_effect: float | None = None,
) -> Figure:
    """Draw a line for each series of `trend`, one capture after the other, and mark its change points.

    Parameters are those of the view. Raises `EtqError` if there is nothing to draw.
    """
    arguments = set_options(
        {
            "what": what,
            "item": item,
            "selector": selector,
            "over": over,
            "by": by,
            "unit": unit,
            "phase": phase,
            "min_effect": min_effect,
        }
    )
    query = f"""
        SELECT t.series, t.position, t.label, t.normalized, t.unit, t.change_percent
        FROM {call_of("trend", [], arguments)} AS t WHERE t.normalized IS NOT NULL ORDER BY t.series, t.position
    """
    rows = fetch(warehouse, query, "no capture has what is to be drawn", **arguments)
    subject = what if item is None else f"{what} {item}"
    figure, axes = new_chart(
        f"{subject[0].upper()}{subject[1:]}, one capture after the other", over or "build", f"{subject} ({rows[0][4]})"
    )
    series = [(name, list(points)) for name, points in groupby(rows, key=lambda row: row[0])]
    for number, (name, points) in enumerate(series):
        axes.plot(
            [row[1] for row in points],
            [row[3] for row in points],
            color=LINES[number % len(LINES)],
            marker="o",
            markersize=4,
            linewidth=1,
            label=shortened(name or "all"),
        )
        _mark_changes(axes, [row for row in points if row[5] is not None], is_last=number == len(series) - 1)
    _name_positions(axes, max((points for _, points in series), key=len))
    add_legend(axes, loc="best")
    return figure


def _mark_changes(axes: Axes, changes: list[tuple[Any, ...]], is_last: bool) -> None:
    """Mark each change point by a ring, with the size of the change."""
    axes.plot(
        [row[1] for row in changes],
        [row[3] for row in changes],
        linestyle="none",
        marker="o",
        markersize=11,
        markerfacecolor="none",
        markeredgecolor=RED,
        label="lasting change" if is_last and changes else "_changes",
    )
    for row in changes:
        axes.annotate(
            f"{row[5]:+.1f} % at {printable_text(row[2])}",
            (row[1], row[3]),
            xytext=(8, 8),
            textcoords="offset points",
            color=RED,
            fontsize="small",
            parse_math=False,
        )


def _name_positions(axes: Axes, points: list[tuple[Any, ...]]) -> None:
    """Label as many captures of the longest series as there is room for."""
    step = -(-len(points) // 12)
    chosen = points[::step]
    axes.set_xticks([row[1] for row in chosen], [shortened(row[2]) for row in chosen], parse_math=False)
    if max(len(row[2]) for row in chosen) > 5:
        axes.tick_params(axis="x", rotation=30)
