"""Named views, in the table `named_views`: a selector, an order and columns that are saved under a name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from etq.errors import ArgumentError, printable

if TYPE_CHECKING:
    import duckdb

# The most characters of a name, and of a selector or column; and the most columns.
LONGEST_NAME: Final = 80
LONGEST_TEXT: Final = 2000
MOST_COLUMNS: Final = 100
# Words that selectors may contain in place of names of views.
_WORDS: Final = ("latest", "previous")
_NOT_IN_NAMES: Final = re.compile(r"[\s=<>,|\"@!&']")
# A selector that begins with the name of a view; more parts may follow.
_NAMED: Final = re.compile(r"@([^,]+)(?=,|$)")


class NamedView(NamedTuple):
    """A named view: the columns of `named_views`, without the time when it was saved."""

    name: str
    selector: str
    sort_by: str | None = None
    shown: tuple[str, ...] | None = None


def find(connection: duckdb.DuckDBPyConnection, selector: str) -> NamedView | None:
    """Return the saved view whose name begins a selector, as @pixels,build=7; None for other selectors."""
    name = _NAMED.match(selector)
    if name is None or name[1] in _WORDS:
        return None
    query = "SELECT v.name, v.selector, v.sort_by, v.shown FROM named_views AS v WHERE v.name = ?"
    rows = connection.execute(query, [name[1]]).fetchall()
    return next((NamedView(saved, text, sort_by, shown and tuple(shown)) for saved, text, sort_by, shown in rows), None)


def expanded(connection: duckdb.DuckDBPyConnection, selector: str) -> str:
    """Return a selector in which the name of a view is replaced by the view's selector."""
    view = find(connection, selector)
    return selector if view is None else view.selector + selector[len(view.name) + 1 :]


def save(connection: duckdb.DuckDBPyConnection, view: NamedView) -> None:
    """Save a view, replacing a view of the same name. Raises `ArgumentError` for a view that can't be opened."""
    _check(view)
    connection.execute("DELETE FROM named_views WHERE name = ?", [view.name])
    saved_at = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    shown = None if view.shown is None else [*view.shown]
    connection.execute(
        "INSERT INTO named_views (name, selector, sort_by, shown, saved_at) VALUES (?, ?, ?, ?, ?)",
        [view.name, view.selector, view.sort_by, shown, saved_at],
    )


def remove(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Remove a view. Raises `ArgumentError` for an unknown name."""
    if not connection.execute("DELETE FROM named_views WHERE name = ? RETURNING name", [name]).fetchall():
        raise ArgumentError(f"no view has the name {printable(name)}; etq db view lists them")


def _check(view: NamedView) -> None:
    """Raise `ArgumentError` for a view that can't be opened by its name, or whose parts can't be displayed."""
    if not 0 < len(view.name) <= LONGEST_NAME:
        raise ArgumentError(f"the name of a view has 1 to {LONGEST_NAME} characters; shorten it, or write one")
    if view.name in _WORDS:
        raise ArgumentError(f"@{view.name} is a word of selectors; choose another name for the view")
    if bad := _NOT_IN_NAMES.search(view.name):
        raise ArgumentError(f"the name of a view can't have {bad[0]!r}, which selectors can't contain; leave it out")
    if not view.selector.strip():
        raise ArgumentError("a view has no captures; give it a selector such as model=mlp,device=pixel8")
    if len(view.shown or ()) > MOST_COLUMNS:
        raise ArgumentError(f"a view has up to {MOST_COLUMNS} columns; leave some out")
    for text in (view.name, view.selector, view.sort_by or "", *(view.shown or ())):
        if printable(text) != text:
            raise ArgumentError(f"{printable(text)}: has a character that can't be displayed; leave it out")
        if len(text) > LONGEST_TEXT:
            raise ArgumentError(f"{text[:20]}…: a text of a view has up to {LONGEST_TEXT:,} characters; shorten it")
