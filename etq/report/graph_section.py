"""The section of a report with the program's graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from etq.report import delegates
from etq.report.graph import EXPORTED, RECORD, WITHOUT_RUNS, graph_tables
from etq.report.graph_extras import NOTHING_MORE, GraphExtras, rows_of
from etq.report.kit import Section
from etq.report.overlays import OVERLAYS
from etq.report.target import Target, without_record

EXPORTED_NOTE: Final = (
    "The ETRecord has no edge program, so this is the graph of the exported program, whose ops have no times."
)
UNRUN_NOTE: Final = "This is the graph without a run, so ops have no times: etq graph CAPTURE --etrecord FILE has them."


def graph(target: Target, more: GraphExtras = NOTHING_MORE) -> Section:
    """Return the section with the program's graph: ops in their modules, with times and costs."""
    tables = graph_tables(target, more) if target.record is not None and not target.is_trace else {}
    missing = None if tables else without_graph(target)
    facts = {"overlays": [asdict(overlay) for overlay in OVERLAYS]} if tables else {}
    return Section("graph", "Graph", tables, facts, note=note_of(target) if tables else None, missing=missing)


def note_of(target: Target) -> str | None:
    """Return why ops have no times, if there is no run or the record lacks the program that ran, or a note about
    delegates' graphs.
    """
    if target.format == WITHOUT_RUNS:
        return UNRUN_NOTE
    [(_, stage)] = rows_of(target, RECORD)[1]
    return EXPORTED_NOTE if stage == EXPORTED else delegates.note_of(target)


def without_graph(target: Target) -> str:
    """Return why a capture has no graph."""
    if target.is_trace:
        return "a PyTorch trace has no graph"
    if not target.has_record:
        return without_record(target, "the graph of its program")
    return "None of the ETRecord's edge graphs is of a method that is known to have run."
