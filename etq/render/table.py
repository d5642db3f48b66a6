"""Text tables for people: aligned columns of plain text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from datetime import date, datetime
from itertools import chain
from typing import Any, Final

from etq.errors import printable
from etq.render.kernel_names import cut, full_names, short_names
from etq.render.terminal import PLAIN, TerminalStyle, bar, width_of, wrap
from etq.verdicts import words

# Texts on a terminal are shortened to so many letters before a column is left out, those of the first and the foremost
# columns to more, but for a part of the terminal; and to fewer where no more columns can be left out.
_READABLE: Final = 16
_READABLE_LONG: Final = 30
_READABLE_LABELS: Final = 56
_PART_OF_LONG: Final = 0.4
_SHORTEST: Final = 8
_LONGEST_LIST: Final = 12
# A git commit's hash: its first digits are enough for git, too.
_COMMIT: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{32}\b")
# Significant digits of the largest number of a column on a terminal; of percentages.
_DIGITS: Final = 4
_DIGITS_OF_PERCENT: Final = 3
# Columns of probabilities and of gaps, whose sizes differ by powers of ten: each number has its own exponent.
_OF_ANY_SIZE: Final = ("p", "q", "gap")
# Whether tables on terminals have all their columns, several tables below each other if they don't fit: --wide.
wide: Final[ContextVar[bool]] = ContextVar("wide", default=False)
# How to see the columns that a terminal has no room for.
HINT: Final = "--wide shows all columns, --columns those that you name"
# Columns that a wide terminal shows with bars; only the first of these that a table has.
_SHARES: Final = ("share_percent", "self_cpu_percent")
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


def table(
    columns: Sequence[str],
    rows: Rows,
    style: TerminalStyle = PLAIN,
    hint: str = HINT,
    foremost: Sequence[str] = (),
) -> str:
    """Return the rows as aligned text.

    On a terminal, lines fit its width: names of kernels are folded, numbers of a column have the same decimals, texts
    are shortened, and columns that don't fit are left out, the `foremost` last, and named, with a hint at how to see
    them. Shares have bars if there is room, and verdicts are coloured if colours are on.
    """
    return "".join(table_parts(columns, [rows], style, hint, foremost))


def table_parts(
    columns: Sequence[str],
    parts: Iterable[Rows],
    style: TerminalStyle = PLAIN,
    hint: str = HINT,
    foremost: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the same for rows that come in parts: columns become wider if a later part needs it."""
    remaining = iter(parts if style.width is None or full_names.get() else _with_short_names(parts))
    first = next(remaining, [])
    if wide.get() and style.width is not None and len(_groups(columns, first, style)) > 1:
        yield "\n".join(_below_each_other(columns, chain([first], remaining), style))
        return
    kept = _fitting(columns, first, style, foremost)
    layout = _Layout([columns[at] for at in kept], _of(kept, first), style)
    yield layout.head()
    for rows in chain([first], remaining):
        yield layout.lines(_of(kept, rows))
    if first and (others := [title(name) for at, name in enumerate(columns) if at not in kept]):
        assert style.width is not None
        lines = wrap(f"Not shown: {', '.join(others)}; {hint}", style.width)
        yield "".join(style.styled(line, "dim") + "\n" for line in lines)


def _below_each_other(columns: Sequence[str], parts: Iterable[Rows], style: TerminalStyle) -> Iterator[str]:
    """Yield the rows of each part as tables with as many columns as fit; each has those that tell rows apart."""
    for rows in parts:
        for kept in _groups(columns, rows, style):
            shown = _of(kept, rows)
            layout = _Layout([columns[at] for at in kept], shown, style)
            yield layout.head() + layout.lines(shown)


def _groups(columns: Sequence[str], rows: Rows, style: TerminalStyle) -> list[list[int]]:
    """Return the positions of the columns of each table that fits; a column that is wider is not shortened."""
    widths, room = _Layout(columns, rows, style).widths, style.width or 0
    keys = 1  # how many of the first columns tell rows apart, as far as they leave room for others
    for number in (2, 3):
        if len({repr(row[:number]) for row in rows}) > len({repr(row[:keys]) for row in rows}):
            keys = number if sum(widths[:number]) <= 2 * room // 3 else keys
    groups = [[*range(keys)]]
    for at in range(keys, len(widths)):
        taken = sum(widths[index] + 2 for index in groups[-1])
        if len(groups[-1]) > keys and taken + widths[at] > room:
            groups.append([*range(keys)])
        groups[-1].append(at)
    return groups


def _with_short_names(parts: Iterable[Rows]) -> Iterator[Rows]:
    """Yield rows with names as people read them; in a column, no two names of a part become the same."""
    for rows in parts:
        columns = [
            [names.get(value, value) if isinstance(value, str) else value for value in values]
            if (names := _short(value for value in values if isinstance(value, str)))
            else values
            for values in zip(*rows, strict=True)
        ]
        yield list(zip(*columns, strict=True))


def _short(texts: Iterable[str]) -> dict[str, str]:
    """Return each text as people read it: names of kernels folded, of a git commit's hash the first digits."""
    names = short_names(texts)
    short = {text: with_short_commits(name) for text, name in names.items()}
    return short if len(set(short.values())) == len(short) else names


def with_short_commits(text: str) -> str:
    """Return a text with only the first digits of git commits' hashes."""
    return _COMMIT.sub(r"\1…", text)


def _fitting(columns: Sequence[str], rows: Rows, style: TerminalStyle, foremost: Sequence[str]) -> list[int]:
    """Return the positions of the columns to show: all, or on a terminal those that fit. The first column stays, and
    the unit, if the foremost don't have it. Those without a value go first, then those with the same value in all
    rows, and those on the right; a unit before one of the foremost goes with it. The foremost go last, when their
    texts, but for the very first, are as short as those of others, and the first number of them when no text can
    be shorter.
    """
    kept = list(range(len(columns)))
    if style.width is None or wide.get():
        return kept
    by_column = list(zip(*rows, strict=True)) or [()] * len(columns)

    def place(at: int) -> tuple[bool, bool, bool, int]:
        is_foremost = columns[at] in foremost
        is_empty = all(value is None for value in by_column[at])
        varies = len(rows) < 2 or len(set(map(repr, by_column[at]))) > 1
        return not is_empty, is_foremost, varies or is_foremost, -foremost.index(columns[at]) if is_foremost else -at

    numbers = [columns[at] for at in kept if _is_number(by_column[at])]
    number = next((name for name in foremost if name in numbers), None)
    for at in sorted(kept, key=place):
        long = foremost[:1] if columns[at] in foremost else foremost
        if at in kept and columns[at] == number and _Layout([columns[at] for at in kept], _of(kept, rows), style).fits:
            break
        if _Layout([columns[at] for at in kept], _of(kept, rows), style, long).fits:
            break
        if at in kept and at > 0 and (columns[at] != "unit" or "unit" in foremost):
            kept.remove(at)
            if _is_of_unit(columns[at], foremost):
                kept = [each for each in kept if columns[each] != "unit"]
    return kept


def _is_of_unit(column: str, foremost: Sequence[str]) -> bool:
    """Whether a column is the only one that a unit is of that is among the foremost: it follows the unit there."""
    return column in foremost[1:] and foremost[foremost.index(column) - 1] == "unit"


def _of(kept: Sequence[int], rows: Rows) -> Rows:
    """Return the rows with only these columns."""
    is_all = not rows or len(kept) == len(rows[0])
    return rows if is_all else [[row[at] for at in kept] for row in rows]


class _Layout:
    """The columns of a table: their widths, which of them are numbers, and which one is shown with bars."""

    def __init__(
        self, columns: Sequence[str], rows: Rows, style: TerminalStyle, long: Collection[str] | None = None
    ) -> None:
        """Lay columns out. `long` shortens no text so far that it is hard to read, and those of these columns less."""
        self._columns = [printable(name) for name in columns]
        self._heads = self._columns if style.width is None else [title(name) for name in columns]
        self._style = style
        by_column = list(zip(*rows, strict=True)) or [()] * len(columns)
        self._is_number = [bool(rows) and _is_number(values) for values in by_column]
        self._decimals = [
            None if style.width is None else _decimals(name, values)
            for name, values in zip(columns, by_column, strict=True)
        ]
        texts = self._texts(rows) or [[] for _ in columns]
        self.widths = [_widest([head, *cells]) for head, cells in zip(self._heads, texts, strict=True)]
        if style.width is not None and not wide.get():
            shortest = [
                _SHORTEST if long is None else _least(at, name, long, style.width) for at, name in enumerate(columns)
            ]
            least = [
                width if _is_fixed(values) else max(width_of(head), short)
                for width, values, head, short in zip(self.widths, by_column, self._heads, shortest, strict=True)
            ]
            _narrow(self.widths, least, style.width)
        share = next((self._columns.index(name) for name in _SHARES if name in self._columns and rows), None)
        self.fits = style.width is None or sum(self.widths) + 2 * (len(self.widths) - 1) <= style.width
        room = (style.width or 0) - sum(self.widths) - 2 * len(self.widths)
        self._bar_width = 0 if share is None else next((width for width in _BAR_WIDTHS if width <= room), 0)
        self._barred = share if self._bar_width else None

    def head(self) -> str:
        """Return the lines of the columns' names and of the rule below them."""
        names = [[head] for head in self._heads]
        rules = [["-" * width] for width in self.widths]
        return self._joined(names, [["bold"] * len(names)], [None]) + self._joined(
            rules, [["dim"] * len(rules)], [None]
        )

    def lines(self, rows: Rows) -> str:
        """Return a line for each row."""
        if not rows:
            return ""
        values = None if self._barred is None else [row[self._barred] for row in rows]
        styles = [_styles(self._columns, row) for row in rows] if self._style.has_colours else None
        if self._style.width is not None:  # a later part may have numbers that need more decimals
            found = [
                _decimals(name, values) for name, values in zip(self._columns, zip(*rows, strict=True), strict=True)
            ]
            self._decimals = [
                more if fewer is None or more is None else max(fewer, more)
                for fewer, more in zip(self._decimals, found, strict=True)
            ]
        texts = self._texts(rows)
        for index, cells in enumerate(texts):
            if (
                self._is_number[index] or self._style.width is None or wide.get()
            ):  # only texts on a terminal are shortened
                self.widths[index] = max(self.widths[index], _widest(cells))
        return self._joined(texts, styles, values)

    def _texts(self, rows: Rows) -> list[list[str]]:
        """Return the cells as text, column by column."""
        columns = zip(self._columns, zip(*rows, strict=True), self._decimals, strict=False)
        return [
            _texts_of_any_size(name, values)
            if name in _OF_ANY_SIZE and self._style.width is not None and _is_number(values)
            else _column_texts(values, decimals)
            for name, values, decimals in columns
        ]

    def _joined(
        self, texts: list[list[str]], styles: list[list[str | None]] | None, shares: Sequence[object] | None
    ) -> str:
        """Return lines of these texts, column by column, with styles and bars by row."""
        padded = []
        for index, cells in enumerate(texts):
            width, right = self.widths[index], self._is_number[index]
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


def title(column: str) -> str:
    """Return the head of a column on a terminal: with a sign for percent."""
    return re.sub(r"_?percent$", " %", printable(column)).strip()


def _decimals(column: str, values: Sequence[Any]) -> int | None:
    """Return how many decimals numbers of a column have: its largest has `_DIGITS` digits, and one below 10 has a
    decimal or more; None for other columns.
    """
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    if not sizes or not max(sizes) or not _is_number(values) or column in _OF_ANY_SIZE:
        return None
    if all(size.is_integer() for size in sizes):
        return 0
    digits = _DIGITS_OF_PERCENT if column.endswith("percent") or column == "share" else _DIGITS
    least = 1 if min(filter(None, sizes)) < 10 else 0
    return min(max(digits - 1 - math.floor(math.log10(max(sizes))), least), 12)


def number_texts(values: Sequence[float | None], unit: str) -> list[str]:
    """Return numbers as in a column of a terminal's table: with the same decimals; of percent, with fewer digits."""
    return _column_texts(values, _decimals(unit, values))


def _rounded(value: float | None, decimals: int) -> str:
    """Return a number with so many decimals; one that would be shown as zero, and isn't, as less than the smallest."""
    if value is None:
        return ""
    text = f"{value:.{decimals}f}"
    if value and not float(text):
        return f"{'<' if value > 0 else '>-'}{10.0**-decimals:.{decimals}f}"
    return text


def p_value(p: float) -> str:
    """Return a probability to three digits. Those below 1e-15 are rounding errors of 1 less a number, or 0."""
    return f"{p:.3g}" if p >= 1e-15 else "<1e-15"


def _texts_of_any_size(column: str, values: Sequence[Any]) -> list[str]:
    """Return numbers to three digits each; probabilities as in `p_value`."""
    as_text = "{:.3g}".format if column == "gap" else p_value
    return ["" if value is None else as_text(value) for value in values]


def _column_texts(values: Sequence[Any], decimals: int | None = None) -> list[str]:
    """The text of each value, as by `shown`; columns of numbers and of plain texts are converted as a whole."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        return ["" if value is None else str(value) for value in values]
    if decimals is not None and kinds <= {int, float}:
        return [_rounded(value, decimals) for value in values]
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


def _is_fixed(values: Sequence[Any]) -> bool:
    """Whether values would be wrong if they were shortened: numbers, times, and yes and no."""
    return {type(value) for value in values if value is not None} <= {int, float, datetime, date, bool}


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


def _least(at: int, column: str, long: Collection[str], room: int) -> int:
    """Return how many letters of a column can be read well; labels have their keys, which are needed to select."""
    if column in long and column == "labels":
        return _READABLE_LABELS
    is_long = at == 0 or column in long
    return max(min(_READABLE_LONG, int(_PART_OF_LONG * room)), _SHORTEST) if is_long else _READABLE


def _narrow(widths: list[int], least: Sequence[int], room: int) -> None:
    """Shorten the widest columns until the table fits, down to the least width of each."""
    while sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def fitted(cell: str, width: int, right: bool, style: TerminalStyle) -> str:
    """Return a cell of exactly that width: padded with blanks, or shortened."""
    if width_of(cell) > width:
        cell = cell[: width - 1]
        while width_of(cell) >= width:
            cell = cell[:-1]
        # What ends there may have been shortened before.
        cell = cell.removesuffix("…") + ("…" if style.has_blocks else "~")
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
