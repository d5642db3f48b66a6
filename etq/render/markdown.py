"""Markdown: tables and lines in which names of files can't become links, images, HTML or mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

from etq.errors import printable
from etq.render.display import display
from etq.render.table import Rows, shown

# Characters that may be part of links, images, HTML, entities, mentions, references to issues, code, emphasis,
# formulas, addresses or emoji. Escaping is not enough: sites search the displayed text for mentions and references;
# only text in code stays unchanged.
_ACTIVE: Final = re.compile(
    r"[\[\]<>&@#`*$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|~.*~|://|www\.|:[\w+-]+:|\bGH-\d|^[ +-]+\s|^\d+[.)]\s",
    re.IGNORECASE | re.DOTALL,
)
_BACKTICKS: Final = re.compile(r"`+")


def inline(text: str) -> str:
    """Return a text for a line of Markdown, unchanged or as code."""
    text = printable(text)
    return _code(text) if _ACTIVE.search(text) else text.replace("\\", "\\\\")


def _code(text: str) -> str:
    fence = "`" * (1 + max((len(each) for each in _BACKTICKS.findall(text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def cell(value: Any) -> str:
    """Return a value for a cell of a table. A vertical bar would end the cell, even in code."""
    text = shown(value)
    if isinstance(value, int | float):
        return text
    if _ACTIVE.search(text):
        # A backslash before a bar would escape the bar, so it is doubled; two backslashes are then displayed.
        return re.sub(r"(\\*)\|", lambda match: 2 * match[1] + "\\|", _code(text))
    return text.replace("\\", "\\\\").replace("|", "\\|")


def markdown(columns: Sequence[str], rows: Rows) -> str:
    """Return a table in Markdown, without columns that have no value, unless `wide` is set."""
    return "".join(markdown_parts(columns, [rows]))


def markdown_parts(columns: Sequence[str], parts: Iterable[Rows]) -> Iterator[str]:
    """Yield the table of `markdown` for rows that come in parts. If there are several parts, all columns are kept."""
    remaining = iter(parts)
    first, second = next(remaining, []), next(remaining, None)
    if first and second is None and not display().is_wide:
        by_column = list(zip(*first, strict=True))
        filled = [at for at, values in enumerate(by_column) if any(value not in (None, "") for value in values)]
        columns, first = [columns[at] for at in filled], [[row[at] for at in filled] for row in first]
    yield _line(columns) + "|" + " --- |" * len(columns) + "\n"
    for rows in chain([first], [] if second is None else [second], remaining):
        yield "".join(map(_line, rows))


def _line(values: Iterable[Any]) -> str:
    return "| " + " | ".join(map(cell, values)) + " |\n"
