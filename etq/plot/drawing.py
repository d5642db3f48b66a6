"""Helpers of plots: an empty figure with named axes, printable names, colours, queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from etq.errors import EtqError, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from etq.warehouse.warehouse import Capture, Warehouse

# Colours that people who don't see red or green can distinguish: M. Okabe and K. Ito, Color Universal Design, 2008.
BLUE: Final = "#0072B2"
SKY: Final = "#56B4E9"
GREEN: Final = "#009E73"
ORANGE: Final = "#E69F00"
RED: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
GREY: Final = "#999999"
LINES: Final = (BLUE, ORANGE, GREEN, PURPLE, RED, SKY)
_LONGEST_NAME: Final = 48


def new_chart(title: str, x: str, y: str, *, bars: int | None = None) -> tuple[Figure, Axes]:
    """Return a figure and its axes with a title and axis labels, high enough for `bars` rows.

    Raises `EtqError` if matplotlib is missing.
    """
    try:
        from etq.plot.chart import Chart
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise EtqError("plots need matplotlib: pip install 'etq[plot]'") from None
    height = 4.8 if bars is None else 1.4 + 0.3 * max(bars, 3)
    figure = Chart(figsize=(9, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(printable_text(title), loc="left", parse_math=False)
    axes.set_xlabel(printable_text(x), parse_math=False)
    axes.set_ylabel(printable_text(y), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="both" if bars is None else "x", color="#dddddd", linewidth=0.8)
    return figure, axes


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Name horizontal bars, the first on top."""
    axes.set_yticks(range(len(names)), [shortened(name) for name in names], parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def add_legend(axes: Axes, **options: Any) -> None:
    """Add a legend, if there is more than one series."""
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) > 1:
        legend = axes.legend(handles, labels, frameon=False, **options)
        for text in legend.get_texts():
            text.set_parse_math(False)


def printable_text(text: str) -> str:
    """Return a text from a file without characters that can't be displayed. Dollar signs don't start formulas."""
    return printable(text)


def shortened(name: str) -> str:
    """Return a name shortened to leave room for the plot."""
    shown = printable_text(name)
    if len(shown) <= _LONGEST_NAME:
        return shown
    kept = _LONGEST_NAME // 2
    return f"{shown[: kept - 1]}…{shown[-kept:]}"


def set_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are set; the SQL has the defaults of the others."""
    return {name: value for name, value in options.items() if value is not None}


def call_of(view: str, positional: Sequence[str], arguments: Mapping[str, Any]) -> str:
    """Return the call of a view with these parameters."""
    parts = [f"${name}" for name in positional] + [f'"{name}" := ${name}' for name in arguments]
    return f"{view}({', '.join(parts)})"


def fetch(warehouse: Warehouse, query: str, error_text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query. Raises `EtqError` with this text if there are none."""
    _, rows = warehouse.rows(query, **parameters)
    if not rows:
        raise EtqError(error_text)
    return rows


def resolved(warehouse: Warehouse, capture: str | Capture) -> Capture:
    """Return the capture of a selector or handle."""
    return warehouse.capture(capture if isinstance(capture, str) else capture.sha256)
