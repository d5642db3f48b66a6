"""The report of two sides: the verdict, its findings, and where the sides differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from etq.analysis.comparison import VIEWS, Comparison
from etq.choices import given_options
from etq.report.columns import Table, table
from etq.report.kit import Grid, Section, grid, shown_of
from etq.report.page import Report
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The options of a comparison, as in `compare_ops`, and the annotation whose calls are the steps of traces.
OPTIONS: Final = ("unit", "quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch", "step_name")
# The most ops and captures on a page: the ops that explain most, and some captures of each side.
MOST_OPS: Final = 5000
MOST_CAPTURES: Final = 2000
NO_MODULES: Final = (
    "Without their ETRecords the captures don't show which modules ops belong to: etq link CAPTURE RECORD."
)
NO_MODULES_OF_TRACES: Final = "The traces have no modules: record them with with_stack=True."


Make = Callable[[Comparison], Section | None]


def difference_of(
    warehouse: Answers, base: str, new: str, options: Mapping[str, Any], names: tuple[str, str] | None = None
) -> Report:
    """Return the report of base and new. Raises `QueryError` if a side has no captures, or if the sides can't be
    compared.

    options  options by name, as in `OPTIONS`
    names    names of the sides on the page; by default their selectors
    """
    passed = {name: options.get(name) for name in OPTIONS}
    passed["allow_mismatch"] = bool(passed["allow_mismatch"])
    comparison = Comparison(warehouse, base, new, passed, passed.pop("step_name"))
    names = names or (base, new)
    with closing(comparison):
        made = [_verdict(comparison, names), *(make(comparison) for make in SECTIONS)]
    return Report("difference", f"{names[0]} → {names[1]}", [section for section in made if section is not None])


def _table(comparison: Comparison, part: str, most: int | None = None) -> Table:
    return table(*comparison.rows(part, limit=most))


def _grid(comparison: Comparison, part: str, title: str | None = None, most: int | None = None, **options: Any) -> Grid:
    rows = table(*comparison.rows(part, shown_of(VIEWS[part]), limit=most, **options))
    return grid(VIEWS[part], rows, title)


def _listed(part: str, title: str) -> Make:
    """Return a function that makes a section with a part of the comparison as a table."""

    def made(comparison: Comparison) -> Section | None:
        if part == "modules" and not comparison.has_modules():
            return None
        found = _grid(comparison, part, most=MOST_OPS, **(comparison.shared if part == "startup" else {}))
        cut = f"The {MOST_OPS:,} that explain most of the difference." if found.rows.length == MOST_OPS else None
        return Section(f"compared_{part}", title, note=cut, grids=[found]) if found.rows.length else None

    return made


def _verdict(comparison: Comparison, names: tuple[str, str]) -> Section:
    made = _grid(comparison, "captures", "What makes up the difference")
    tables = {"totals": _table(comparison, "captures"), "findings": _table(comparison, "findings")}
    # Verdicts on slow tails have no row of their own.
    tails = comparison.tail_lines()
    ops = dict(Counter(verdict for _, verdict in comparison.verdicts("ops", "op")))
    of_ops = comparison.op_tail_line()
    tails += [*([] if of_ops is None else [of_ops]), *comparison.once_lines()]
    facts = {"base": names[0], "new": names[1], "tails": tails, "options": _options_of(comparison), "ops": ops,
             "op_line": comparison.op_line(), "stated": words.STATED, "is_in_turns": comparison.is_in_turns(),
             "sample": comparison.sample}  # fmt: skip
    return Section("verdict", "Verdict", tables, facts, grids=[made] if made.rows.length > 1 else [])


def _options_of(comparison: Comparison) -> dict[str, Any]:
    options = {**comparison.options, "step_name": comparison.step_name}
    options.pop("unit", None)
    return given_options(options)


def _captures(comparison: Comparison) -> Section:
    """Return the section with the total of every capture of both sides, in the order in which they were measured."""
    columns, rows = comparison.rows("sides")
    side, captured_at, disturbed = columns.index("side"), columns.index("captured_at"), columns.index("is_disturbed")
    kept = []
    notes = []
    for name in ("base", "new"):
        mine = [row for row in rows if row[side] == name]
        step = -(-len(mine) // MOST_CAPTURES)
        # A selection of captures, evenly spaced in time, and all captures that the comparison leaves out.
        kept += [row for at, row in enumerate(mine) if at % step == 0 or row[disturbed]] if step > 1 else mine
        if step > 1:
            notes.append(f"Of {len(mine):,} captures of {name} the page has every {step}th, and all disturbed ones.")
    sample = comparison.sample
    is_timed = sample != "step" and all(row[captured_at] is not None for row in kept)
    if is_timed:
        kept.sort(key=lambda row: row[captured_at])
    facts = {
        "quantile": comparison.options["quantile"] or 0.25,
        "sample": sample,
        "is_of_traces": comparison.is_of_traces(),
        "order": "in the order in which they were measured" if is_timed else "those of base first",
    }
    tables = {"totals": _table(comparison, "captures")}
    listed = grid(VIEWS["sides"], table(columns, kept), name="captures")
    return Section("captures", f"{sample.capitalize()}s", tables, facts, " ".join(notes) or None, grids=[listed])


def _changes(comparison: Comparison) -> Section | None:
    ops = _table(comparison, "ops", MOST_LISTED)
    return Section("changes", "Largest changes", {"ops": ops}) if ops.length else None


# The number of ops that are drawn with a dot and an interval.
MOST_LISTED: Final = 25


def _icicle(comparison: Comparison) -> Section | None:
    tables = {"parts": _table(comparison, "parts", MOST_OPS), "totals": _table(comparison, "captures")}
    if not tables["parts"].length:
        return None
    note = None
    if comparison.has_modules():
        tables["modules"] = _table(comparison, "modules")
    else:
        note = NO_MODULES_OF_TRACES if comparison.is_of_traces() else NO_MODULES
    if tables["parts"].length == MOST_OPS:
        note = f"{note or ''} The page has the {MOST_OPS:,} largest parts.".strip()
    return Section("parts", "Where they differ", tables, note=note)


# The text after the verdict.
SECTIONS: Final[tuple[Make, ...]] = (
    _captures,
    _changes,
    _icicle,
    _listed("modules", "Modules"),
    _listed("ops", "Ops"),
    _listed("metrics", "Metrics"),
    _listed("startup", "Start-up"),
    _listed("memory", "Memory"),
)
