"""A flame chart in text: rows of a tree, each with a bar within its parent's bar."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final, NamedTuple

from etq.errors import printable
from etq.render.display import display
from etq.render.kernel_names import short_names
from etq.render.table import Below, aligned, number_texts
from etq.render.terminal import TerminalStyle, bar

# Width without a terminal.
WIDTH: Final = 100
_SHORTEST_NAME: Final = 16
_SHORTEST_BAR: Final = 10
_LONGEST_BAR: Final = 60
# Columns that are left out on a narrow terminal. Each row then has name, time and share.
_STYLES: Final = {
    "total": ("bold",),
    "method": ("bold",),
    "run": ("bold",),
    "module": ("bold",),
    "rest": ("dim",),
    "smaller": ("dim",),
}
_BAR_STYLES: Final = {"rest": "yellow", "module": "blue", "method": "blue", "run": "blue", "total": "blue"}


class Row(NamedTuple):
    """A row: a node of `time_tree`, or several small nodes together. `time` (None if unknown) and `self_time` are shown
    as numbers. The bar has the length `length`, and begins at the distance `start` from the beginning of the first row.
    `share` is the time in percent of the first row's time, None if that is 0.
    """

    depth: int
    name: str
    kind: str
    self_time: float
    time: float | None
    length: float
    share: float | None
    start: float


def _share(share: float | None) -> str:
    if share is None:
        return ""
    return f"{share} %" if isinstance(share, Below) else f"{share:.1f} %"


def flame(rows: Sequence[Row], heading: str, unit: str, style: TerminalStyle) -> str:
    """Return the rows as text, with a heading for times, as wide as the terminal, or `WIDTH` without one."""
    room = style.width or shutil.get_terminal_size((WIDTH, 24)).columns
    is_whole = style.width is None or display().has_full_names
    short = {} if is_whole else short_names(row.name for row in rows)
    names = [printable(short.get(row.name, row.name)) for row in rows]
    longest = max(2 * row.depth + len(name) for row, name in zip(rows, names, strict=True))
    times = number_texts([*(row.time for row in rows), *(row.self_time or None for row in rows)], unit)
    columns = {
        f"{heading} {unit}": times[: len(rows)],
        "share": [_share(row.share) for row in rows],
        f"self {unit}": times[len(rows) :],
    }
    name_width = max(len("name"), longest)
    widths = {title: max(len(title), *(len(cell) for cell in cells)) for title, cells in columns.items()}

    def left() -> int:
        return room - name_width - sum(width + 2 for width in widths.values()) - 2

    self_column = f"self {unit}"
    if left() < _SHORTEST_BAR:
        # Bars are more useful than the ends of long names, so names are shortened first.
        name_width = max(min(name_width, _SHORTEST_NAME), name_width + left() - _SHORTEST_BAR)
    if left() < _SHORTEST_BAR:
        del widths[self_column]
        name_width = min(longest, max(_SHORTEST_NAME, name_width + left() - _SHORTEST_BAR))
    bar_width = min(left(), _LONGEST_BAR) if left() >= _SHORTEST_BAR else 0
    if not bar_width:
        name_width = max(min(longest, name_width + left() + 2), len("name"))
    head = ["name".ljust(name_width), *(title.rjust(width) for title, width in widths.items())]
    lines = [style.styled("  ".join(head), "bold")]
    whole = rows[0].length
    # The indentation is limited, because its sum grows with the square of the depth.
    indented = [" " * min(2 * row.depth, name_width + 1) + name for row, name in zip(rows, names, strict=True)]
    for at, (row, cell) in enumerate(zip(rows, aligned(indented, name_width, False, style), strict=True)):
        cells = [columns[title][at].rjust(width) for title, width in widths.items()]
        name = style.styled(cell, *_STYLES.get(row.kind, ()))
        drawn = bar(row.start / whole, row.length / whole, bar_width, style) if bar_width and whole > 0 else ""
        lines.append("  ".join([name, *cells, style.styled(drawn, _BAR_STYLES.get(row.kind, "cyan"))]).rstrip())
    return "\n".join(lines) + "\n"
