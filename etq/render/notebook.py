"""Rows in a notebook, as an HTML table whose class has a style in notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from etq.render.table import number_texts, shown


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return rows as an HTML table. Numbers of a column have the same decimals; NULL is an empty cell."""
    by_column = list(zip(*rows, strict=True)) or [()] * len(columns)
    cells = [_cells(name, values) for name, values in zip(columns, by_column, strict=True)]
    head = "".join(f'<th style="text-align: left">{html.escape(shown(name))}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in zip(*cells, strict=True))
    below = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f'<table class="dataframe">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>{below}'


def _cells(name: str, values: Sequence[Any]) -> list[str]:
    is_number = {type(value) for value in values} <= {int, float, type(None)}
    texts = number_texts(values, name) if is_number else [shown(value) for value in values]
    side = "right" if is_number else "left"
    return [f'<td style="text-align: {side}">{html.escape(text)}</td>' for text in texts]
