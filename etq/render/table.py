"""Text tables for people: aligned columns of plain text."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain, zip_longest
from typing import Any, Final

from etq.errors import printable
from etq.render.display import display
from etq.render.kernel_names import cut, short_names
from etq.render.terminal import PAGE, PLAIN, TerminalStyle, bar, width_of, wrap
from etq.verdicts import words
from etq.verdicts.words import number_text

# The most letters of texts in the first column and in other columns. Texts are shortened to `_READABLE` before columns
# are left out, and to `_SHORTEST` if no more columns can be left out. The first column has only a part of the line.
_WHOLE: Final = sys.maxsize, sys.maxsize
_READABLE: Final = 30, 18
_SHORTEST: Final = 16, 8
_PART_OF_FIRST: Final = 0.4
# Texts with more letters and words than the first numbers are wrapped, to at most the last number of lines, before they
# are shortened.
_LONG: Final = 40
_WORDS: Final = 4
_LINES: Final = 8
# Matches the places at which the name of a column may be wrapped.
_PIECE: Final = re.compile(r"[^_ ]+_*|_+")
_LONGEST_LIST: Final = 12
# Matches the hash of a git commit. git also accepts its first digits.
_COMMIT: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
# Significant digits of the largest number of a column, and of percentages.
_DIGITS: Final = 4
_DIGITS_OF_PERCENT: Final = 3
# Columns of probabilities and of gaps. Their sizes differ by powers of ten, so each number has an exponent of its own.
_OF_ANY_SIZE: Final = ("p", "q", "gap")
# A hint on how to see the columns that don't fit.
HINT: Final = "--wide shows all columns, --columns those that you name"
# Columns that a wide terminal shows with bars; a table has bars for the first of these.
_SHARES: Final = ("share_percent", "self_cpu_percent")
_REST: Final = ("(framework)", "(unattributed)", "(delegate layout)", "(delegate unaccounted)")
_BAR_WIDTHS: Final = (24, 16, 10)
VERDICT_STYLES: Final = {
    **dict.fromkeys((*words.ARE_WORSE, words.UNSTABLE), "red"),
    **dict.fromkeys((words.FASTER, words.BETTER), "green"),
    **dict.fromkeys((words.POSSIBLY + words.SLOWER, words.POSSIBLY + words.FASTER), "yellow"),
    **dict.fromkeys((words.TOO_FEW, words.CANT_JUDGE, words.CONDITIONS_DIFFER, words.DIFFERS), "yellow"),
}
_STYLES: Final = {"verdict": VERDICT_STYLES, "severity": {"high": "red", "medium": "yellow"}}

Rows = Sequence[Sequence[Any]]


class Below(float):
    """A time of 0 from a clock with coarse steps: it is shown as less than `bound`."""

    bound: float

    def __new__(cls, bound: float) -> Below:
        made = super().__new__(cls, 0.0)
        made.bound = bound
        return made

    def __str__(self) -> str:
        exponent = math.floor(math.log10(self.bound)) - 1 if self.bound > 0 else 0
        # Rounded up to two digits.
        return f"<{number_text(math.ceil(round(self.bound / 10.0**exponent, 6)) * 10.0**exponent, 2)}"


def table(
    columns: Sequence[str], rows: Rows, style: TerminalStyle = PLAIN, hint: str = HINT, foremost: Collection[str] = ()
) -> str:
    """Return the rows as aligned text, in lines that fit the terminal; without a terminal, `PAGE`.

    Numbers of a column have the same decimals, and names of kernels are folded. A line above the table has values that
    are the same in all rows, and names columns without values. If the rest doesn't fit, headings and texts of several
    words are wrapped, and texts are shortened (different texts stay different). Then columns are left out from the
    right, except those that distinguish rows. A line below names the missing columns, with a hint on how to see them.
    The first column, the unit and the `foremost` columns are never left out; those that don't fit follow in a second
    table.

    If `wide` is set, nothing is shortened or left out. On a terminal, shares have bars if there is room, and verdicts
    are coloured if colours are on.
    """
    return "".join(table_parts(columns, [rows], style, hint, foremost))


def table_parts(
    columns: Sequence[str],
    parts: Iterable[Rows],
    style: TerminalStyle = PLAIN,
    hint: str = HINT,
    foremost: Collection[str] = (),
    share: str = "",
) -> Iterator[str]:
    """Yield the text of `table` for rows that come in parts. Columns become wider if a later part needs more room.
    Values that are the same in all rows are only recognised if there is a single part. `share` has the wholes of
    shares.
    """
    remaining = iter(parts if display().has_full_names else map(_with_short_names, parts))
    first, second = next(remaining, []), next(remaining, None)
    common, has_unit = "", "unit" in columns and len({row[columns.index("unit")] for row in first}) == 1
    if second is not None:
        remaining = chain([second], remaining)
    elif not display().is_wide:
        columns, first, common = _without_common(columns, first)
    yield note("; ".join(filter(None, (common, share if first and _SHARES[0] in columns else ""))), style)
    layout = _Layout(columns, first, style, foremost, has_unit)
    kept = [*range(len(columns))] if display().is_wide else layout.fitting()
    groups = layout.groups(kept)
    layouts = [layout]
    if groups != [[*range(len(columns))]]:
        names = [[columns[at] for at in group] for group in groups]
        layouts = [
            _Layout(those, _of(group, first), style, foremost, has_unit)
            for those, group in zip(names, groups, strict=True)
        ]
    for number, rows in enumerate(chain([first], remaining)):
        for group, part in zip(groups, layouts, strict=True):
            yield ("" if number and len(groups) == 1 else part.head()) + part.lines(_of(group, rows))
    if left_out := [title(name) for at, name in enumerate(columns) if at not in kept]:
        yield note(f"Not shown: {', '.join(left_out)}; {hint}", style)


def fits(columns: Sequence[str], rows: Rows, style: TerminalStyle) -> bool:
    """Whether a table of all columns fits without shortening texts."""
    return _Layout(columns, rows, style).is_whole()


def note(text: str, style: TerminalStyle) -> str:
    lines = wrap(text, style.width or PAGE, break_on_hyphens=False)
    return "".join(style.styled(line, "dim") + "\n" for line in lines)


def _without_common(columns: Sequence[str], rows: Rows) -> tuple[Sequence[str], Rows, str]:
    """Return the columns and rows without the columns that are the same in all rows, and a text about the latter. For a
    single row, only the unit and empty columns are removed. Rows that don't differ at all stay unchanged.
    """
    by_column = list(zip(*rows, strict=True))
    empty = [at for at, values in enumerate(by_column) if all(value is None or value == "" for value in values)]
    has_one = len(rows) == 1
    same = [
        at
        for at, values in enumerate(by_column)
        if at not in empty and _are_same(values) and (not has_one or columns[at] == "unit")
    ]
    kept = [at for at in range(len(columns)) if at not in empty and at not in same]
    if not rows or not kept or len(kept) == len(columns):
        return columns, rows, ""
    named = [at for at in same if columns[at]]
    values = [f"{title(columns[at])} = {_column_texts(by_column[at][:1], columns[at])[0]}" for at in named]
    texts = [f"In all rows: {', '.join(values)}"] if values else []
    texts += [f"{'no' if values else 'No'} value: {', '.join(title(columns[at]) for at in empty)}"] if empty else []
    return [columns[at] for at in kept], _of(kept, rows), "; ".join(texts)


def _are_same(values: Sequence[Any]) -> bool:
    return all(type(value) is type(values[0]) and value == values[0] for value in values)


def _with_short_names(rows: Rows) -> Rows:
    """Return rows with names in their shown form; within a column, different names stay different."""
    columns = [
        [names.get(value, value) if isinstance(value, str) else value for value in values]
        if (names := _short(value for value in values if isinstance(value, str)))
        else values
        for values in zip(*rows, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _short(texts: Iterable[str]) -> dict[str, str]:
    """Return the shown form of each text: names of kernels folded, hashes of git commits cut to 12 digits."""
    names = short_names(texts)
    short = {text: with_short_commits(name) for text, name in names.items()}
    return short if len(set(short.values())) == len(short) else names


def with_short_commits(text: str) -> str:
    """Return a text with only the first 12 digits of git commits' hashes."""
    return _COMMIT.sub(r"\1…", text)


def _of(kept: Sequence[int], rows: Rows) -> Rows:
    """Return the rows with only these columns."""
    is_all = not rows or len(kept) == len(rows[0])
    return rows if is_all else [[row[at] for at in kept] for row in rows]


class _Layout:
    """The columns of a table: their texts and widths, and which of them are numbers or have bars."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Rows,
        style: TerminalStyle,
        foremost: Collection[str] = (),
        has_unit: bool = False,
    ) -> None:
        self._columns, self._style, self._foremost, self._has_unit = columns, style, foremost, has_unit
        self._heads = [title(name) for name in columns]
        self._by_column = list(zip(*rows, strict=True)) or [()] * len(columns)
        self._is_number = [bool(rows) and _is_number(values) for values in self._by_column]
        self._decimals = [self._decimals_of(*column) for column in zip(columns, self._by_column, strict=True)]
        self._texts = self._texts_of(rows)
        self._is_prose = [_is_prose(cells) for cells in self._texts]
        self._room = math.inf if display().is_wide and style.width is None else style.width or PAGE
        self._widest = [_widest([head, *cells]) for head, cells in zip(self._heads, self._texts, strict=True)]
        self._widths = self._widest
        # Names of columns are wrapped before texts are shortened.
        for letters in (_WHOLE, _READABLE, _SHORTEST) if not display().is_wide else ():
            self._widths = _narrowed(self._widths, self._least(letters), self._room)
        share = next((columns.index(name) for name in _SHARES if name in columns and rows), None)
        room = (style.width or 0) - sum(self._widths) - 2 * len(self._widths)
        self._bar_width = 0 if share is None else next((width for width in _BAR_WIDTHS if width <= room), 0)
        self._barred = share if self._bar_width else None

    def _least(self, letters: tuple[int, int] = _READABLE) -> list[int]:
        """Return the width that each column needs if texts are shortened to these numbers of letters."""
        first, other = letters
        if letters != _WHOLE:
            first = max(min(first, int(_PART_OF_FIRST * self._room)), other)
        least = []
        for at, cells in enumerate(self._texts):
            cell = _widest(["", *cells])
            shortest = first if at == 0 or self._is_prose[at] else other
            needed = cell if _is_fixed(self._by_column[at]) else min(cell, shortest)
            least.append(max([needed, *map(width_of, _PIECE.findall(self._heads[at]))]))
        return least

    def _fits(self, kept: Collection[int], widths: Sequence[int]) -> bool:
        return sum(widths[at] + 2 for at in kept) - 2 <= self._room

    def is_whole(self) -> bool:
        """Whether all columns fit without shortening texts."""
        return self._fits(range(len(self._columns)), self._widest)

    def fitting(self) -> list[int]:
        """Return the positions of the columns to show. Columns are left out from the right until the others fit. The
        first, the unit, the foremost, and those that distinguish rows are never left out.
        """
        kept, least = [*range(len(self._columns))], self._least()
        for at in kept[:0:-1]:
            if self._fits(kept, least):
                break
            others = [other for other in kept if other != at]
            stays = self._columns[at] in ("unit", *self._foremost)
            if not stays and self._count(others) == self._count(kept):
                kept = others
        return kept

    def _count(self, kept: Collection[int]) -> int:
        """Return the number of different rows in these columns."""
        return len(set(zip(*(self._texts[at] for at in kept), strict=True)))

    def groups(self, kept: Sequence[int]) -> list[list[int]]:
        """Divide the columns among tables that fit: return the positions of each table's columns. Each table has the
        columns that distinguish rows.
        """
        widths = self._widths if display().is_wide else self._least(_SHORTEST)
        if self._fits(kept, widths):
            return [[*kept]]
        keys = 1  # how many of the first columns distinguish rows, as far as other columns still fit beside them
        for number in (2, 3):
            if self._count(kept[:number]) > self._count(kept[:keys]):
                keys = number if sum(widths[at] for at in kept[:number]) <= 2 * self._room // 3 else keys
        groups = [[*kept[:keys]]]
        for at in kept[keys:]:
            if len(groups[-1]) > keys and not self._fits([*groups[-1], at], widths):
                groups.append([*kept[:keys]])
            groups[-1].append(at)
        return groups

    def head(self) -> str:
        """Return the lines with the names of columns, and the rule below them."""
        heads = [_wrapped_head(head, width) for head, width in zip(self._heads, self._widths, strict=True)]
        tallest = max(map(len, heads))
        names = [[""] * (tallest - len(lines)) + lines for lines in heads]
        rules = [["-" * width] for width in self._widths]
        return self._joined(names, [["bold"] * len(names)] * tallest, [None] * tallest) + self._joined(
            rules, [["dim"] * len(rules)], [None]
        )

    def lines(self, rows: Rows) -> str:
        """Return the lines of these rows. Numbers of a later part may need more room or decimals."""
        if not rows:
            return ""
        by_column = zip(self._columns, zip(*rows, strict=True), self._decimals, strict=True)
        self._decimals = [_more(decimals, self._decimals_of(name, values)) for name, values, decimals in by_column]
        texts = self._texts_of(rows)
        for at, cells in enumerate(texts):
            if self._is_number[at] or display().is_wide:
                self._widths[at] = max(self._widths[at], _widest(cells))
        shares = [None if self._barred is None else row[self._barred] for row in rows]
        styles = [_styles(self._columns, row) for row in rows] if self._style.has_colours else None
        wrapped = [at for at, cells in enumerate(texts) if self._is_prose[at] and _widest(cells) > self._widths[at]]
        if not wrapped:
            return self._joined(texts, styles, shares)
        for at in wrapped:
            texts[at] = shortened(texts[at], (_LINES - 1) * self._widths[at], self._style)
        lines = []
        for number, cells in enumerate(zip(*texts, strict=True)):
            parts = [wrap(cell, self._widths[at]) if at in wrapped else [cell] for at, cell in enumerate(cells)]
            column_lines = list(zip(*zip_longest(*parts, fillvalue=""), strict=True))
            rest = [None] * (len(column_lines[0]) - 1)
            lines.append(
                self._joined(column_lines, styles and [styles[number]] * (1 + len(rest)), [shares[number], *rest])
            )
        return "".join(lines)

    def _decimals_of(self, column: str, values: Sequence[Any]) -> int | None:
        """Return the decimals for the numbers of a column. If numbers don't have a common unit, their sizes may differ
        widely.
        """
        return _decimals(column, values) if self._has_unit or column.endswith("percent") else None

    def _texts_of(self, rows: Rows) -> list[Sequence[str]]:
        """Return the cells as text, column by column."""
        by_column = zip(self._columns, zip(*rows, strict=True), self._decimals, strict=False)
        texts: list[Sequence[str]] = [_column_texts(values, name, decimals) for name, values, decimals in by_column]
        return texts or [[] for _ in self._columns]

    def _joined(
        self, texts: Sequence[Sequence[str]], styles: Sequence[Sequence[str | None]] | None, shares: Sequence[object]
    ) -> str:
        """Return lines of these texts, column by column, with styles and bars by row."""
        padded = []
        for index, cells in enumerate(texts):
            column = aligned(cells, self._widths[index], self._is_number[index], self._style)
            if styles is not None:
                column = [_styled(cell, self._style, row[index]) for cell, row in zip(column, styles, strict=True)]
            padded.append(column)
            if index == self._barred:
                padded.append([self._bar(value) for value in shares])
        return "".join("  ".join(line).rstrip() + "\n" for line in zip(*padded, strict=True))

    def _bar(self, share: object) -> str:
        filled = bar(0, share / 100, self._bar_width, self._style) if isinstance(share, int | float) else ""
        return self._style.styled(filled, "cyan") + " " * (self._bar_width - len(filled))


def title(column: str) -> str:
    """Return the heading of a column, with a sign for percent."""
    return re.sub(r"_?percent$", " %", printable(column)).strip()


def _wrapped_head(head: str, width: int) -> list[str]:
    """Return the lines of a column's name, wrapped at blanks and after underscores."""
    lines = [""]
    for piece in re.findall(r"[^_ ]+_*|_+| +", head):
        if len(lines[-1] + piece) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines if line.strip()] or [""]


def _is_prose(cells: Sequence[str]) -> bool:
    """Whether a column's texts have several words, so that they can be wrapped. Names of kernels can't be wrapped."""
    text = max(cells, key=len, default="")
    return len(text) > _LONG and text.count(" ") >= max(_WORDS - 1, len(text) // _LONG) and width_of(text) == len(text)


def _more(decimals: int | None, others: int | None) -> int | None:
    return decimals if others is None or decimals is None else max(decimals, others)


def _decimals(column: str, values: Sequence[Any]) -> int | None:
    """Return the decimals for the numbers of a column; None for other columns. The largest number gets `_DIGITS`
    digits; if it is below 10, it gets at least one decimal. Decimals that are 0 in all rows are dropped.
    """
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    if not sizes or not max(sizes) or not _is_number(values) or column in _OF_ANY_SIZE:
        return None
    if all(size.is_integer() for size in sizes):
        return 0
    digits = _DIGITS_OF_PERCENT if column.endswith("percent") or column == "share" else _DIGITS
    least = 1 if min(filter(None, sizes)) < 10 else 0
    decimals = min(max(digits - 1 - math.floor(math.log10(max(sizes))), least), 12)
    needed = 0
    for size in sizes:
        text = f"{size:.{decimals}f}"
        if size and not float(text):
            return decimals
        needed = max(needed, len(text.rstrip("0").partition(".")[2]))
        if needed == decimals:
            break
    return needed


def number_texts(values: Sequence[float | None], unit: str) -> list[str]:
    """Return numbers as text, as in a column of a table: with the same decimals, and with fewer digits for percent."""
    return _column_texts(values, "", _decimals(unit, values))


def _rounded(value: float | None, decimals: int) -> str:
    """Return a number with these decimals. If a number other than 0 would be shown as 0, it is shown as less than the
    smallest one.
    """
    if value is None:
        return ""
    text = f"{value:.{decimals}f}"
    if value and not float(text):
        return f"{'<' if value > 0 else '>-'}{10.0**-decimals:.{decimals}f}"
    return text


def p_value(p: float) -> str:
    """Return a probability to three digits. Values below 1e-15 are 0, or rounding errors of subtractions from 1."""
    return number_text(p, 3) if p >= 1e-15 else "<1e-15"


def _column_texts(values: Sequence[Any], column: str, decimals: int | None = None) -> list[str]:
    """The text of each value, as `shown` returns it. Columns of numbers or plain texts are converted as a whole."""
    kinds = set(map(type, values)) - {type(None)}
    if Below in kinds:
        others = _column_texts([None if isinstance(value, Below) else value for value in values], column, decimals)
        return [str(value) if isinstance(value, Below) else text for value, text in zip(values, others, strict=True)]
    if column in _OF_ANY_SIZE and kinds <= {int, float}:
        as_text = p_value if column != "gap" else lambda value: number_text(value, 3)
        return ["" if value is None else as_text(value) for value in values]
    if kinds == {int}:
        return ["" if value is None else str(value) for value in values]
    if decimals is not None and kinds <= {int, float}:
        return [_rounded(value, decimals) for value in values]
    if kinds == {str}:
        texts = [value or "" for value in values]
        if _is_plain("".join(texts)):
            return texts
    return list(map(shown, values))


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _widest(cells: Sequence[str]) -> int:
    return max(map(len if "".join(cells).isascii() else width_of, cells))


def aligned(cells: Sequence[str], width: int, right: bool, style: TerminalStyle) -> list[str]:
    """Return the cells of a column, all of exactly that width."""
    if not right:
        cells = shortened(cells, width, style)
    if "".join(cells).isascii():
        return [cell.rjust(width) for cell in cells] if right else [cell.ljust(width) for cell in cells]
    blanks = [" " * (width - width_of(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]


def shortened(cells: Sequence[str], width: int, style: TerminalStyle) -> Sequence[str]:
    """Return texts of at most a width, cut in the middle; different texts stay different."""
    if not cells or _widest(cells) <= width:
        return cells
    has_wide = any(width_of(cell) > len(cell) for cell in cells)
    found = cut(cells, width // 2 if has_wide else width, "…" if style.has_blocks else "~")
    return [found[cell] for cell in cells]


def _is_number(values: Sequence[Any]) -> bool:
    kinds = set(map(type, values))
    return kinds <= {int, float, Below, type(None)}


def _is_fixed(values: Sequence[Any]) -> bool:
    """Whether shortening would make values wrong, as for numbers, times, and yes and no."""
    return {type(value) for value in values if value is not None} <= {int, float, Below, datetime, date, bool}


def _styles(columns: Sequence[str], row: Sequence[Any]) -> list[str | None]:
    """Return the style of each cell of a row. Verdicts are coloured; time that belongs to no op is dim."""
    styles = [_STYLES.get(name, {}).get(str(value)) for name, value in zip(columns, row, strict=True)]
    if row and row[0] in _REST:
        styles[0] = "dim"
    return styles


def _styled(padded: str, style: TerminalStyle, name: str | None) -> str:
    """Return a cell whose text has this style; blanks around the text have no style."""
    text = padded.strip(" ")
    return padded.replace(text, style.styled(text, name), 1) if text and name else padded


def _narrowed(widths: Sequence[int], least: Sequence[int], room: float) -> list[int]:
    """Return widths that fit. The widest columns become narrower, each at most down to its minimum."""
    widths = [*widths]
    while sum(widths) + 2 * (len(widths) - 1) > room:
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
    return widths


def shown(value: Any) -> str:  # noqa: PLR0911 - a case a line
    """Return a value for people: a number as in `number_text`, only the first values of a long list, an empty text for
    NULL.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds")
    if isinstance(value, list):
        rest = [] if len(value) <= _LONGEST_LIST else [f"... {len(value) - _LONGEST_LIST + 2} more"]
        return "[" + ", ".join([*map(shown, value[: _LONGEST_LIST - 2] if rest else value), *rest]) + "]"
    text = str(value)
    return text if _is_plain(text) else printable(text)
