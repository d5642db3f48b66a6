"""Building blocks of a page: a section is declared as tables of views, with columns from the catalogue, below a
drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from etq import catalog
from etq.report.columns import Table

if TYPE_CHECKING:
    from etq.report.target import Target


@dataclass(frozen=True)
class Section:
    """One part of a page, as data. A drawing, if it has one, is registered in the page's script under `kind`.

    kind     its name, and the name of its drawing
    title    its heading, without names from files
    tables   the tables for the drawing, by name
    facts    single values for the drawing, by name
    note     limits of the content, such as a maximum, a sample or an estimate
    missing  the reason if there is nothing to show, and what would be needed
    grids    tables that are shown below the drawing
    """

    kind: str
    title: str
    tables: dict[str, Table] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    note: str | None = None
    missing: str | None = None
    grids: Sequence[Grid] = ()

    def as_data(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "title": self.title,
            "tables": {name: each.as_data() for name, each in self.tables.items()},
            "facts": self.facts,
            "note": self.note,
            "missing": self.missing,
            "grids": [each.as_data() for each in self.grids],
        }


Make = Callable[["Target"], Section | None]


@dataclass(frozen=True)
class Column:
    """A column of a grid: its name, heading and meaning; `kind` says how its values are written."""

    name: str
    title: str
    meaning: str | None
    kind: str
    is_foremost: bool


@dataclass(frozen=True)
class Grid:
    """A table that people read: rows with the columns of the view's line `Shown:`.

    title   heading above it
    text    sentence above it
    sort    names of columns; the rows are sorted by the first of these that they have
    foot    a last row, of the same columns
    """

    name: str
    rows: Table
    columns: Sequence[Column]
    title: str | None = None
    text: str | None = None
    sort: Sequence[str] = ()
    foot: Table | None = None

    def as_data(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name not in ("rows", "foot", "columns")}
        foot = None if self.foot is None else self.foot.as_data()
        return {**own, "rows": self.rows.as_data(), "foot": foot, "columns": [asdict(each) for each in self.columns]}


@dataclass(frozen=True)
class Rows:
    """The declaration of a grid: the view, SQL within its call (`given`) and after it (`rest`), and the most rows
    (`most`). Other fields are those of `Grid`; the default name is that of the view.
    """

    view: str
    title: str | None = None
    text: str | None = None
    given: str = ""
    rest: str = ""
    most: int | None = None
    sort: str = ""
    name: str | None = None

    def of(self, target: Target) -> Grid | None:
        """Return the grid of a capture, None without rows."""
        shown = shown_of(self.view)
        if self.most is None:
            rows = target.view(self.view, shown, self.given, self.rest)
        else:
            rows = target.view(
                self.view, f"{shown}, count(*) OVER () AS all_rows", self.given, f"{self.rest} LIMIT {self.most:d}"
            )
        if not rows.length:
            return None
        text = self.text
        if self.most is not None:
            rows, all_rows = _without_last(rows)
            if rows.length < all_rows:
                text = f"{text or ''} The page has {rows.length:,} of {all_rows:,} rows.".strip()
        made = grid(self.view, rows, self.title, self.sort, self.name)
        return replace(made, text=text)


def shown_of(view: str) -> str:
    """Return the columns of a view that people see, for a SELECT, with all digits, because a page rounds numbers
    itself.
    """
    return ", ".join(each.expression for each in catalog.named(view).shown) or "*"


def added_of(view: str) -> str:
    """Return the expressions that people see in a view besides its columns, for a SELECT, each after a comma."""
    known = catalog.named(view)
    names = {each.name for each in known.columns}
    return "".join(f", {each.expression}" for each in known.shown if each.name not in names)


def _without_last(rows: Table) -> tuple[Table, int]:
    """Return the rows without their last column, and its first value."""
    return Table(rows.names[:-1], rows.columns[:-1], rows.length), rows.columns[-1][0]


def grid(
    view: str,
    rows: Table,
    title: str | None = None,
    sort: str = "",
    name: str | None = None,
    others: Sequence[str] = (),
    *,
    kinds: Mapping[str, str] = MappingProxyType({}),
    is_own: bool = False,
) -> Grid:
    """Return a grid of a view's rows, with the columns that the view shows, then `others`; if `is_own`, with all
    columns of the query. `kinds` has the kinds of numbers that aren't in the view's line `Shown:`.

    If times per execute or step are unknown, sums over all executes or steps are shown.
    """
    known = catalog.named(view)
    texts = {each.name: each.text for each in known.columns}
    sources = {each.name: each.expression.partition(" AS ")[0] for each in known.shown}
    declared = {each.name: each.kind for each in known.shown} | dict.fromkeys(known.other_times, "time")
    hidden = known.sums if any(any(_values(rows, name)) for name in ("executes", "steps")) else ()
    shown = [] if is_own else [each for each in sources if each in rows.names and each not in hidden]
    shown = shown or [each for each in rows.names if is_own or each in texts]
    names = [*shown, *(each for each in others if each not in shown)]
    columns = [
        Column(
            *(each, _title(each), texts.get(each) or texts.get(sources.get(each, ""))),
            declared.get(each) or kinds.get(each) or _kind(each, rows),
            each in known.foremost or each in sort.split(),
        )
        for each in names
        if each != "high_percent" or "low_percent" not in names
    ]
    return Grid(name or view, rows, columns, title, sort=sort.split())


def _values(rows: Table, name: str) -> Any:
    """Return the values of a column of numbers; no values if the column is missing."""
    return rows.columns[rows.names.index(name)] if name in rows.names else ()


def _title(name: str) -> str:
    if name == "low_percent":
        return "interval"
    return name.removesuffix("_percent").removesuffix("_id").removesuffix("_index").replace("_", " ")


def _kind(name: str, rows: Table) -> str:
    """Return the kind of a column without a declared kind, from its values."""
    if name == "unit":
        return "unit"
    values = rows.columns[rows.names.index(name)]
    known = {type(value) for value in values} - {type(None)} if isinstance(values, list) else {str}
    return "text" if not known or str in known else "flag" if known == {bool} else "number"


def declared(
    kind: str,
    title: str,
    *grids: Rows,
    when: Callable[[Target], bool] = lambda target: True,
    missing: str | None = None,
) -> Make:
    """Return a function that makes a section of grids. It returns None if the first grid has no rows.

    when     whether a capture can have it
    missing  the reason if the first grid has no rows, and what would be needed; the section then only has this text
    """

    def made(target: Target) -> Section | None:
        if not when(target):
            return None
        if (first := grids[0].of(target)) is None:
            return None if missing is None else Section(kind, title, missing=missing)
        others = (rows.of(target) for rows in grids[1:])
        return Section(kind, title, grids=[first, *(each for each in others if each is not None)])

    return made
