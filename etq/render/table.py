"""Text tables for people: aligned columns of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Final

from etq.errors import printable
from etq.render.kernel_names import cut, full_names, short_names
from etq.render.terminal import PLAIN, TerminalStyle, bar, width_of
from etq.verdicts import words

_SHORTEST_TEXT: Final = 12
_LONGEST_LIST: Final = 12
# Narrower terminals show the columns that fit; in others, lines that are too long go on in the next one.
_WIDE: Final = 80
# Columns that a wide terminal shows with bars; only the first of these that a table has.
_SHARES: Final = ("share_percent", "self_cpu_percent", "share")
_REST: Final = ("(framework)", "(unattributed)", "(delegate layout)")
_BAR_WIDTHS: Final = (24, 16, 10)
VERDICT_STYLES: Final = {
    **dict.fromkeys((*words.ARE_WORSE, words.UNSTABLE), "red"),
    **dict.fromkeys((words.FASTER, words.BETTER), "green"),
    **dict.fromkeys((words.POSSIBLY + words.SLOWER, words.POSSIBLY + words.FASTER), "yellow"),
    **dict.fromkeys((words.TOO_FEW, words.CANT_JUDGE, words.CONDITIONS_DIFFER, words.DIFFERS), "yellow"),
}
_STYLES: Final = {
    "verdict": VERDICT_STYLES,
    "severity": {"high": "red", "medium": "yellow"},
}

Rows = Sequence[Sequence[Any]]


def table(columns: Sequence[str], rows: Rows, style: TerminalStyle = PLAIN) -> str:
    """Return the rows as aligned text. On a terminal, names of kernels are folded, texts are shortened to make lines
    fit if possible, shares have bars if there is room, and verdicts are coloured if colours are on.
    """
    return "".join(table_parts(columns, [rows], style))


def table_parts(columns: Sequence[str], parts: Iterable[Rows], style: TerminalStyle = PLAIN) -> Iterator[str]:
    """Yield the same for rows that come in parts: columns become wider if a later part needs it."""
    remaining = iter(parts if style.width is None or full_names.get() else _with_short_names(parts))
    first = next(remaining, [])
    kept = _fitting(columns, first, style)
    layout = _Layout([columns[at] for at in kept], _of(kept, first), style)
    yield layout.head()
    for rows in chain([first], remaining):
        yield layout.lines(_of(kept, rows))
    if others := [printable(name) for at, name in enumerate(columns) if at not in kept]:
        assert style.width is not None
        text = f"Not shown: {', '.join(others)}; in a wider terminal, and with --format csv or json"
        yield "".join(style.styled(line, "dim") + "\n" for line in textwrap.wrap(text, style.width))


def _with_short_names(parts: Iterable[Rows]) -> Iterator[Rows]:
    """Yield rows with names as people read them; in a column, no two names of a part become the same."""
    for rows in parts:
        columns = [
            [names.get(value, value) if isinstance(value, str) else value for value in values]
            if (names := short_names(value for value in values if isinstance(value, str)))
            else values
            for values in zip(*rows, strict=True)
        ]
        yield list(zip(*columns, strict=True))


def _fitting(columns: Sequence[str], rows: Rows, style: TerminalStyle) -> list[int]:
    """Return the positions of the columns to show: all; on a narrow terminal those that fit, from the left,
    and the unit.
    """
    kept = list(range(len(columns)))
    if style.width is None or style.width >= _WIDE:
        return kept
    while len(kept) > 1 and not _Layout([columns[at] for at in kept], _of(kept, rows), style).fits:
        del kept[-2 if len(kept) > 2 and columns[kept[-1]] == "unit" else -1]
    return kept


def _of(kept: Sequence[int], rows: Rows) -> Rows:
    """Return the rows with only these columns."""
    is_all = not rows or len(kept) == len(rows[0])
    return rows if is_all else [[row[at] for at in kept] for row in rows]


class _Layout:
    """The columns of a table: their widths, which of them are numbers, and which one is shown with bars."""

    def __init__(self, columns: Sequence[str], rows: Rows, style: TerminalStyle) -> None:
        self._columns = [printable(name) for name in columns]
        self._style = style
        self._is_number = [_is_number(values) for values in zip(*rows, strict=True)] or [False] * len(columns)
        texts = _texts(rows) or [[] for _ in columns]
        self._widths = [_widest([name, *cells]) for name, cells in zip(self._columns, texts, strict=True)]
        if style.width is not None:
            _narrow(self._widths, self._is_number, self._columns, style.width)
        share = next((self._columns.index(name) for name in _SHARES if name in self._columns and rows), None)
        self.fits = style.width is None or sum(self._widths) + 2 * (len(self._widths) - 1) <= style.width
        room = (style.width or 0) - sum(self._widths) - 2 * len(self._widths)
        self._bar_width = 0 if share is None else next((width for width in _BAR_WIDTHS if width <= room), 0)
        self._barred = share if self._bar_width else None

    def head(self) -> str:
        """Return the lines of the columns' names and of the rule below them."""
        names = [[name] for name in self._columns]
        rules = [["-" * width] for width in self._widths]
        return self._joined(names, [["bold"] * len(names)], [None]) + self._joined(
            rules, [["dim"] * len(rules)], [None]
        )

    def lines(self, rows: Rows) -> str:
        """Return a line for each row."""
        if not rows:
            return ""
        values = None if self._barred is None else [row[self._barred] for row in rows]
        styles = [_styles(self._columns, row) for row in rows] if self._style.has_colours else None
        texts = _texts(rows)
        for index, cells in enumerate(texts):
            if self._is_number[index] or self._style.width is None:  # only texts on a terminal are shortened
                self._widths[index] = max(self._widths[index], _widest(cells))
        return self._joined(texts, styles, values)

    def _joined(
        self, texts: list[list[str]], styles: list[list[str | None]] | None, shares: Sequence[object] | None
    ) -> str:
        """Return lines of these texts, column by column, with styles and bars by row."""
        padded = []
        for index, cells in enumerate(texts):
            width, right = self._widths[index], self._is_number[index]
            column = _padded(cells, width, right, self._style)
            if styles is not None:
                column = [_styled(cell, self._style, row[index]) for cell, row in zip(column, styles, strict=True)]
            padded.append(column)
            if shares is not None and index == self._barred:
                padded.append([self._bar(value) for value in shares])
        return "".join("  ".join(line).rstrip() + "\n" for line in zip(*padded, strict=True))

    def _bar(self, share: object) -> str:
        filled = bar(0, share / 100, self._bar_width, self._style) if isinstance(share, int | float) else ""
        return self._style.styled(filled, "cyan") + " " * (self._bar_width - len(filled))


def _texts(rows: Rows) -> list[list[str]]:
    """Return the cells as text, column by column."""
    return [_column_texts(values) for values in zip(*rows, strict=True)]


def _column_texts(values: Sequence[Any]) -> list[str]:
    """The text of each value, as by `shown`; columns of numbers and of plain texts are converted as a whole."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        return ["" if value is None else str(value) for value in values]
    if kinds == {float}:
        return ["" if value is None else f"{value:.6g}" if -1e6 < value < 1e6 else f"{value:.0f}" for value in values]
    if kinds == {str}:
        texts = [value or "" for value in values]
        if _is_plain("".join(texts)):
            return texts
    return list(map(shown, values))


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _widest(cells: list[str]) -> int:
    return max(map(len if "".join(cells).isascii() else width_of, cells))


def _padded(cells: list[str], width: int, right: bool, style: TerminalStyle) -> list[str]:
    """Return the cells of a column, all of exactly that width."""
    if "".join(cells).isascii():
        if max(map(len, cells)) > width and not right:
            shown = cut(cells, width, "…" if style.has_blocks else "~")
            cells = [shown[cell] for cell in cells]
        if max(map(len, cells)) <= width:
            return [cell.rjust(width) for cell in cells] if right else [cell.ljust(width) for cell in cells]
    return [fitted(cell, width, right, style) for cell in cells]


def _is_number(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values))
    return kinds <= {int, float, type(None)}


def _styles(columns: Sequence[str], row: Sequence[Any]) -> list[str | None]:
    """Return the style of each cell of a row: verdicts are coloured, and time that belongs to no op is dim."""
    styles = [_STYLES.get(name, {}).get(str(value)) for name, value in zip(columns, row, strict=True)]
    if row and row[0] in _REST:
        styles[0] = "dim"
    return styles


def _styled(padded: str, style: TerminalStyle, name: str | None) -> str:
    """Return a cell whose text has this style; the blanks around the text have no style."""
    text = padded.strip(" ")
    return padded.replace(text, style.styled(text, name), 1) if text and name else padded


def _narrow(widths: list[int], is_number: list[bool], columns: Sequence[str], room: int) -> None:
    """Shorten the widest text columns until the table fits, down to a width that is still readable."""
    texts = [index for index, number in enumerate(is_number) if not number]
    while texts and sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(texts, key=lambda index: widths[index])
        if widths[widest] <= max(_SHORTEST_TEXT, len(columns[widest])):
            return
        widths[widest] -= 1


def fitted(cell: str, width: int, right: bool, style: TerminalStyle) -> str:
    """Return a cell of exactly that width: padded with blanks, or shortened."""
    if width_of(cell) > width:
        cell = cell[: width - 1]
        while width_of(cell) >= width:
            cell = cell[:-1]
        cell += "…" if style.has_blocks else "~"
    blanks = " " * (width - width_of(cell))
    return blanks + cell if right else cell + blanks


def shown(value: Any) -> str:  # noqa: PLR0911 - a case a line
    """A value for people: numbers to 6 digits, the first values of a long list, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, list):
        rest = [] if len(value) <= _LONGEST_LIST else [f"... {len(value) - _LONGEST_LIST + 2} more"]
        return "[" + ", ".join([*map(shown, value[: _LONGEST_LIST - 2] if rest else value), *rest]) + "]"
    text = str(value)
    return text if _is_plain(text) else printable(text)
