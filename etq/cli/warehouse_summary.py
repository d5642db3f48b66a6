"""The screen of `etq FILE` for a warehouse: what is slower, how many captures it has, their labels, and the latest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from etq.analysis import causes
from etq.cli.lines import wrapped
from etq.errors import counted, printable
from etq.render.table import shown, with_short_commits
from etq.render.terminal import PAGE, TerminalStyle, width_of

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# The keys of labels that are listed first; and the most keys, and the most values of a key, that are listed.
_FIRST: Final = ("model", "device", "backend", "build")
_MOST_KEYS: Final = 8
_MOST_VALUES: Final = 6
_LABELS: Final = """
    SELECT
        l.key, count(DISTINCT l.value), list(DISTINCT l.value ORDER BY l.value)[:$most],
        arg_min(l.value, _version_key(l.value)), arg_max(l.value, _version_key(l.value))
    FROM labels AS l
    GROUP BY l.key
    ORDER BY coalesce(list_position($first::VARCHAR[], l.key), 99), l.key
    LIMIT $keys
"""
_TIMES: Final = "SELECT min(c.captured_at), max(c.captured_at) FROM captures AS c"
_LATEST: Final = """
    SELECT s.name, s.labels, s.captured_at FROM capture_summary AS s
    WHERE s.name = (SELECT m.name FROM _matching_captures('@latest') AS m)
"""


# How many causes are shown.
_MOST_CAUSES: Final = 10


def of_causes(warehouse: Warehouse, style: TerminalStyle) -> Iterator[str]:
    """Yield lines on what is slower, the most costly first, and on which series are judged."""
    series = causes.all_series(warehouse)
    if not series:
        return
    found = causes.causes_of(warehouse)
    yield ""
    yield style.styled(counted(len(found), "finding") if found else "No findings", "bold")
    for cause in found[:_MOST_CAUSES]:
        share = "" if cause["share_percent"] is None else f"{cause['share_percent']:.1f} %"
        yield f"  {share:>7}  {style.styled(printable(cause['title']), 'bold')}"
        yield from wrapped(printable(cause["detail"]), " " * 11, style)
    if len(found) > _MOST_CAUSES:
        yield f"  and {len(found) - _MOST_CAUSES:,} more"
    yield from wrapped(causes.judged(series, causes.compared_devices(warehouse)), "  ", style)


def of_warehouse(warehouse: Warehouse, style: TerminalStyle) -> Iterator[str]:
    """Yield lines about the captures of a warehouse: when they were recorded, their labels, and the latest."""
    facts = []
    [(first, last)] = warehouse.rows(_TIMES)[1]
    if first is not None:
        facts.append(("captured", shown(first) if first == last else f"{shown(first)} to {shown(last)}"))
    given = {"most": _MOST_VALUES, "first": list(_FIRST), "keys": _MOST_KEYS}
    for key, number, values, least, greatest in warehouse.rows(_LABELS, **given)[1]:
        text = ", ".join(values) if number <= _MOST_VALUES else f"{number:,} values, {least} to {greatest}"
        facts.append((key, text))
    facts += [("latest", f"{name}: {labels}" if labels else name) for name, labels, _ in warehouse.rows(_LATEST)[1]]
    widest = max((width_of(printable(key)) for key, _ in facts), default=0)
    room = (style.width or PAGE) - widest - 4
    if facts:
        yield ""
    for key, text in facts:
        line = with_short_commits(printable(text))
        yield f"  {printable(key):{widest}}  {line if width_of(line) <= room else line[: room - 3] + '...'}"
