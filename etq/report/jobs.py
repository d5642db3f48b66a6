"""The report of a job: the ranks that others wait for, and the reasons; steps, collectives and clocks by rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from etq.advice.collecting import COLUMNS, rows
from etq.advice.evidence import scale_of
from etq.advice.job_evidence import Rank, foremost
from etq.advice.jobs import Judged, judged
from etq.errors import counted
from etq.report.columns import Table, ask, table
from etq.report.kit import Grid, Section, grid, shown_of
from etq.report.page import Report

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The most rows of a table: the first ones.
_MOST: Final = 500
# The most ranks that are drawn.
_MOST_RANKS: Final = 16
# The views of each section, each with its table's title and its arguments other than the selector and the unit.
_SECTIONS: Final[Mapping[tuple[str, str], Mapping[str, tuple[str | None, str]]]] = {
    ("waits", "Who waits for whom"): {"rank_waits": (None, ""), "stragglers": ("By rank", "")},
    ("path", "Critical path from rank to rank"): {"job_critical_path": (None, "")},
    ("collectives", "Collectives"): {
        "collective_waits": ("Waits apart from transfers, and what links carry", ""),
    },
    ("ops", "What a rank spends more on than others"): {
        "rank_ops": ("Kernels and ops", ""),
        "rank_ops parts": ("Parts of a step", ", \"by\" := 'part'"),
    },
    ("rank_steps", "Steps"): {"rank_steps": (None, "")},
    ("clocks", "Clocks"): {"clock_offsets": (None, "")},
}

# The most steps that are drawn in time, which are those with the longest waits; and the number of cells of equal length
# into which a step is divided.
_MOST_STEPS: Final = 4
_CELLS: Final = 200
_LANES: Final = f"""
    SELECT l.step, l.rank, l.kind, l.first_cell, l.end_cell, _in_unit(l.first, t.scale) AS first,
        _in_unit(l.ticks, t.scale) AS time, _in_unit(l.span, t.scale) AS span, _in_unit(l.waited, t.scale) AS waited,
        l.steps, t.unit
    FROM _rank_lanes($selector, $ranks::BIGINT[], {_MOST_STEPS}, {_CELLS}) AS l
    CROSS JOIN (
        SELECT any_value(k.unit) AS unit, any_value(k.scale) AS scale FROM _job_ranks($selector, $unit) AS k
    ) AS t
"""

# How long each rank waits for each other rank. Only the ranks that wait longest, or are waited for longest, are
# included; `number` counts all ranks that wait or are waited for.
_PAIRS: Final = f"""
    WITH pairs AS MATERIALIZED (
        SELECT p.rank, p.last_rank, sum(p.waited) AS waited, p.unit
        FROM rank_waits($selector, unit := $unit) AS p
        GROUP BY p.rank, p.last_rank, p.unit
    ),
    ranks AS MATERIALIZED (
        SELECT r.rank, count(*) OVER () AS number
        FROM (SELECT p.rank, p.waited FROM pairs AS p UNION ALL SELECT p.last_rank, p.waited FROM pairs AS p) AS r
        GROUP BY r.rank
        ORDER BY max(r.waited) DESC, r.rank
        LIMIT {_MOST_RANKS}
    )
    SELECT p.rank, p.last_rank, p.waited, p.unit, r.number
    FROM pairs AS p
    JOIN ranks AS r ON r.rank = p.rank
    WHERE p.last_rank IN (SELECT o.rank FROM ranks AS o)
    ORDER BY p.waited DESC, p.rank, p.last_rank
"""


def job_of(warehouse: Answers, selector: str | None, name: str, unit: str | None = None) -> Report:
    """Return the report of the job that a selector chooses; None: of the warehouse's only job.

    Raises `QueryError` for an unknown selector or unit.
    """
    if selector is not None and not warehouse.rows("FROM _matching_captures($selector)", selector=selector)[1]:
        warehouse.capture(selector)  # which raises the error
    with warehouse.locked() as connection:
        found = judged(connection, None if selector is None else warehouse.expanded(selector))
    sections = [_overview(found, unit or "us")]
    if (lanes := _lanes(warehouse, selector, unit, found)) is not None:
        sections.append(lanes)
    if found.findings:
        advice = table(COLUMNS, rows(found.findings, scale_of("ns", unit)))
        sections.append(Section("advice", "Advice", {"advice": advice}))
    for (kind, title), views in _SECTIONS.items():
        grids = [
            made
            for view, (of_table, given) in views.items()
            if (made := _grid(warehouse, view, selector, unit, of_table, given)) is not None
        ]
        if grids:
            tables = {"pairs": ask(warehouse, _PAIRS, selector=selector, unit=unit)} if kind == "waits" else {}
            sections.append(Section(kind, title, tables, grids=grids))
    return Report("job", name, sections)


def _overview(found: Judged, unit: str) -> Section:
    """The first sentence about the job, and the time of each rank in a step: computation, waits, transfers, and the
    rest.
    """
    scale = scale_of("ns", unit)
    names = ("rank", "step", "computation", "waited", "transfer", "exposed", "waited_for", "unit")

    def times(rank: Rank) -> list[float | None]:
        measured = (rank.step, rank.computation, rank.waited, rank.transfer, rank.exposed, rank.waited_for)
        return [None if ticks is None else scale.of(ticks) for ticks in measured]

    ranks = table(names, [[rank.rank, *times(rank), unit] for rank in foremost(found.by_rank, _MOST_RANKS)])
    of_job = found.of_job
    facts = {
        "sentence": found.sentence,
        "ranks": None if of_job is None else of_job.ranks,
        "world_size": None if of_job is None else of_job.world_size,
        "missing": None if of_job is None else of_job.missing_ranks,
        "steps": None if of_job is None else of_job.steps,
        "waited_percent": None if of_job is None else of_job.waited_percent,
        "exposed_percent": None if of_job is None else of_job.exposed_percent,
    }
    return Section("job", "Overview", {"ranks": ranks}, facts)


def _lanes(warehouse: Answers, selector: str | None, unit: str | None, found: Judged) -> Section | None:
    """Lanes of the ranks in time, for the steps in which they wait longest; None if their clocks are unknown."""
    ranks = [rank.rank for rank in foremost(found.by_rank, _MOST_RANKS)]
    lanes = ask(warehouse, _LANES, selector=selector, unit=unit, ranks=ranks)
    if not lanes.length:
        return None
    drawn, steps = len({*lanes.list("step")}), lanes.list("steps")[0]
    notes = []
    if drawn < steps:
        notes.append(f"{drawn} of {counted(steps, 'step')} are drawn, those in which ranks wait longest.")
    if len(ranks) < len(found.by_rank):
        notes.append(
            f"{len(ranks)} of {len(found.by_rank)} ranks are drawn: those that wait or are waited for longest."
        )
    if missing := sorted({*ranks} - {*lanes.list("rank")}):
        notes.append(f"The clocks of ranks {', '.join(map(str, missing))} aren't known.")
    return Section("lanes", "Ranks in time", {"lanes": lanes}, {"cells": _CELLS}, " ".join(notes) or None)


def _grid(
    warehouse: Answers, view: str, selector: str | None, unit: str | None, title: str | None, given: str
) -> Grid | None:
    """The first rows of a view about the job; None without rows."""
    name, _, _ = view.partition(" ")
    query = f"""
        SELECT {shown_of(name)}, count(*) OVER () AS all_rows FROM {name}($selector, unit := $unit{given}) LIMIT {_MOST}
    """
    found = ask(warehouse, query, selector=selector, unit=unit)
    if not found.length:
        return None
    all_rows = found.columns[-1][0]
    kept = Table(found.names[:-1], found.columns[:-1], found.length)
    made = grid(name, kept, title, name=view.replace(" ", "_"))
    return made if all_rows <= found.length else replace(made, text=f"The page has {_MOST} of {all_rows:,} rows.")
