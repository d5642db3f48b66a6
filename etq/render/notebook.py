"""Results in a notebook: relations and captures as HTML tables.

`etq.open` registers the formatters with IPython if it shows HTML: DuckDB's own table has ten rows, all digits of
numbers, and NULL as a word. A formatter that the user has registered before is kept.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from typing import Any, Final

import duckdb

from etq.database.handles import Capture, Handle, Program, Record
from etq.errors import message_of
from etq.render.table import shown, table
from etq.warehouse.result import Result

ROWS: Final = 60


def register() -> None:
    """Make the running IPython display relations by `bundle_of`, if it shows HTML."""
    shell = sys.modules["IPython"].get_ipython()
    if shell is None or "text/html" not in shell.display_formatter.active_types:
        return
    html_formatter = shell.display_formatter.formatters["text/html"]
    for kind in (Capture, Record, Program):
        html_formatter.for_type(kind, described)
    formatter = shell.display_formatter.mimebundle_formatter
    show = formatter.type_printers.get(duckdb.DuckDBPyRelation)
    if show is None:
        show = bundle_of
        formatter.for_type(duckdb.DuckDBPyRelation, show)
    formatter.for_type(Result, lambda result: show(result.relation))


def bundle_of(relation: duckdb.DuckDBPyRelation) -> dict[str, str]:
    """Return a relation's first `ROWS` rows as HTML and as text, from one execution.
    An error in the data becomes one line.
    """
    try:
        rows = relation.limit(ROWS + 1).fetchall()
    except duckdb.Error as error:
        text = f"Error: {message_of(error)}"
        return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}
    note = f"the first {ROWS} rows; .fetchall(), .df() and .to_arrow_table() have all" if len(rows) > ROWS else ""
    rows = rows[:ROWS]
    text = table(relation.columns, rows) + (f"{note}\n" if note else "")
    return {"text/plain": text.rstrip("\n"), "text/html": table_of(relation.columns, rows, note)}


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """Return rows as an HTML table, with names escaped and NULL as an empty cell.
    Its class is one that notebooks style.
    """
    head = "".join(f'<th style="text-align: left">{html.escape(shown(name))}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>\n" for row in rows)
    below = f"<p><small>{html.escape(note)}</small></p>" if note else ""
    return f'<table class="dataframe">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>{below}'


def _cell(value: Any) -> str:
    side = "right" if isinstance(value, int | float) and not isinstance(value, bool) else "left"
    return f'<td style="text-align: {side}">{html.escape(shown(value))}</td>'


def described(handle: Handle) -> str:
    """Return an HTML table of the properties of a capture, record or program, one row each."""
    left = 'style="text-align: left"'
    rows = (
        f"<tr><th {left}>{name}</th><td {left}>{html.escape(shown(value))}</td></tr>\n"
        for name, value in handle.described().items()
    )
    return f'<table class="dataframe">\n{"".join(rows)}</table>'
