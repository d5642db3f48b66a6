"""Ops under the roofline of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from etq.plot.drawing import (
    BLUE,
    GREEN,
    GREY,
    add_legend,
    call_of,
    fetch,
    new_chart,
    resolved,
    set_options,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from etq.warehouse.warehouse import Capture, Warehouse

# Height of a name in pixels.
_ROOM: Final = (160, 12)
_BOUNDS: Final = {"memory": ("bound by memory", GREEN), "compute": ("bound by compute", BLUE)}


def roofline(
    warehouse: Warehouse,
    capture: str | Capture,
    peak_flops: float | None = None,
    peak_bandwidth: float | None = None,
    *,
    by: str | None = None,
    limit: int = 8,
    **schedule: Any,
) -> Figure:
    """Draw each op of `roofline` under the roof of the peaks: operations per second over operations per byte. A point's
    area is the op's share of the time.

    peak_flops      the device's peak, in operations per second; by default the capture's metric
    peak_bandwidth  its memory's peak bandwidth, in bytes per second; by default the capture's metric
    by              grouping of events into ops, as in the view
    limit           number of ops that are named, if there is room: those with most time
    schedule        which runs, as parameters of the view: steps, phase

    Needs a linked record. Raises `EtqError` if no op has both rates known.
    """
    target = resolved(warehouse, capture)
    arguments = set_options({"peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth, "by": by, **schedule})
    query = f"""
        SELECT r.op || coalesce(' @' || r.instruction_id, ''), r.bound, r.intensity, r.flops_per_second,
            r.share_percent
        FROM {call_of("roofline", ["capture"], arguments)} AS r
        WHERE r.intensity > 0 AND r.flops_per_second > 0
        ORDER BY r.share_percent DESC NULLS LAST, r.op, r.instruction_id
    """
    error_text = f"{target.name} has no op whose operations, bytes and time are all known"
    rows = fetch(warehouse, query, error_text, capture=target, **arguments)
    title = f"Ops of {target.name} under the roof"
    figure, axes = new_chart(title, "intensity (operations per byte)", "rate (operations per second)")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for bound in dict.fromkeys(row[1] for row in rows):
        label, colour = _BOUNDS.get(bound, ("ops", GREY))
        chosen = [row for row in rows if row[1] == bound]
        axes.scatter(
            [row[2] for row in chosen],
            [row[3] for row in chosen],
            s=[20 + 12 * (row[4] or 0) for row in chosen],
            color=colour,
            alpha=0.7,
            label=label,
        )
    _draw_roof(axes, _peaks(warehouse, target, peak_flops, peak_bandwidth), [row[2] for row in rows])
    _name_ops(axes, [row[:1] + row[2:4] for row in rows[:limit]])
    add_legend(axes, loc="lower right")
    return figure


def _name_ops(axes: Axes, ops: list[tuple[str, float, float]]) -> None:
    """Draw the names of ops next to their points, if there is room; the first ops have precedence."""
    axes.autoscale_view()
    named: list[tuple[float, float]] = []
    for name, intensity, rate in ops:
        x, y = axes.transData.transform((intensity, rate))
        if all(abs(x - other_x) > _ROOM[0] or abs(y - other_y) > _ROOM[1] for other_x, other_y in named):
            named.append((x, y))
            axes.annotate(
                shortened(name),
                (intensity, rate),
                xytext=(7, 3),
                textcoords="offset points",
                fontsize="small",
                parse_math=False,
            )


def _peaks(
    warehouse: Warehouse, capture: Capture, peak_flops: float | None, peak_bandwidth: float | None
) -> tuple[float | None, float | None]:
    """Return the peaks that the view uses: the arguments, else the capture's metrics."""
    query = """
        SELECT
            _peak(_capture_id($capture), 'peak_flops', 'FLOP/s', $peak_flops),
            _peak(_capture_id($capture), 'peak_bandwidth', 'B/s', $peak_bandwidth)
    """
    arguments = {"capture": capture, "peak_flops": peak_flops, "peak_bandwidth": peak_bandwidth}
    [(flops, bandwidth)] = warehouse.rows(query, **arguments)[1]
    return flops, bandwidth


def _draw_roof(axes: Axes, peaks: tuple[float | None, float | None], intensities: list[float]) -> None:
    """Draw the slope of the bandwidth up to the ridge point and the level of operations from there on;
    or only the one that is known.
    """
    flops, bandwidth = peaks
    first, last = min(intensities) / 2, max(intensities) * 2
    if flops is None and bandwidth is None:
        return
    places = [first, last]
    if flops is not None and bandwidth is not None:
        ridge = flops / bandwidth
        places = sorted({first, ridge, max(last, ridge * 2)})
    reached = [
        min(place * bandwidth if bandwidth is not None else float("inf"), flops if flops is not None else float("inf"))
        for place in places
    ]
    axes.plot(places, reached, color="black", linewidth=1, label="what the device can do")
