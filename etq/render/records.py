"""Rows with long texts for people: the short values of a row in one line, followed by its long texts as
paragraphs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from etq.render.terminal import PAGE, TerminalStyle, wrap
from etq.render.times import range_text
from etq.verdicts.words import number_text

_INDENT: Final = "    "


def paragraphs(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    cells: Sequence[Sequence[str]],
    long: Collection[str],
    style: TerminalStyle,
) -> str:
    """Return the rows as text: a line of the short columns, and a paragraph for each column in `long`.

    `cells` has the text of each value.
    """
    parts = []
    for row, texts in zip(rows, cells, strict=True):
        heads = _heads([short for short in zip(columns, row, texts, strict=True) if short[2] and short[0] not in long])
        width = style.width or PAGE
        lines = [style.styled(line, "bold") for line in wrap("  ".join(heads), width)]
        for name, text in zip(columns, texts, strict=True):
            if text and name in long:
                lines += wrap(f"{name}: {text}", width, initial_indent=_INDENT, subsequent_indent=_INDENT * 2)
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _heads(values: Sequence[tuple[str, Any, str]]) -> list[str]:
    """Return short values as text. Numbers have their name, the first time has the row's unit, and a share has its
    whole.
    """
    heads: list[str] = []
    time: tuple[int, str, float] | None = None
    for name, value, text in values:
        label = name.removesuffix("_percent").replace("_", " ")
        if name == "unit":
            if time is not None:
                heads[time[0]] = f"{time[1]} {range_text([time[2]], text)}"
        elif name.endswith("_of") and heads:
            heads[-1] += f" of {text}"
        elif isinstance(value, bool):
            heads.append(f"{label}: {text}")
        elif not isinstance(value, int | float):
            heads.append(text)
        elif name.endswith("_percent"):
            heads.append(f"{label} {number_text(value, 3)} %")
        else:
            if isinstance(value, float):  # counts are whole numbers
                time = time or (len(heads), label, value)
            heads.append(f"{label} {number_text(value)}")
    return heads
