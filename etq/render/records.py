"""Rows with long texts for people: the short values of a row in one line, followed by its long texts as
paragraphs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from etq.render.terminal import PAGE, TerminalStyle, wrap

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
                lines += wrap(
                    f"{name}: {text}",
                    width,
                    initial_indent=_INDENT,
                    subsequent_indent=_INDENT * 2,
                )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _heads(values: Sequence[tuple[str, Any, str]]) -> list[str]:
    """Return short values as people write them: numbers with their name, and the unit of the row after the first."""
    heads: list[str] = []
    for name, value, text in values:
        if name == "unit" and heads:
            heads[-1] += f" {text}"
        elif not isinstance(value, int | float):
            heads.append(text)
        elif name.endswith("_percent"):
            heads.append(f"{name.removesuffix('_percent').replace('_', ' ')} {value:.3g} %")
        else:
            number = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
            heads.append(f"{name.replace('_', ' ')} {number}")
    return heads
