"""The section of a report with the program's graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from etq.analysis.clocks import Clocks
from etq.report import delegates
from etq.report.columns import Table
from etq.report.graph import EXPORTED, RECORD, WITHOUT_RUNS, graph_tables
from etq.report.graph_extras import NOTHING_MORE, GraphExtras
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
    if not tables:
        return Section("graph", "Graph", missing=missing)
    steps, about_zeros = _steps(target, tables["nodes"])
    facts = {"overlays": [asdict(overlay) for overlay in OVERLAYS], "steps": steps}
    note = " ".join(filter(None, (note_of(target), about_zeros))) or None
    return Section("graph", "Graph", tables, facts, note=note)


def _steps(target: Target, nodes: Table) -> tuple[dict[str, float], str]:
    """Return the steps of the clocks by which ops have a time of 0, in the unit of the times, and a note on these
    clocks.
    """
    times, calls, backends = nodes.list("per_execute"), nodes.list("calls"), nodes.list("backend")
    zeros = [at for at, (time, number) in enumerate(zip(times, calls, strict=True)) if time == 0 and number]
    if not zeros:
        return {}, ""
    unit = next(filter(None, nodes.list("unit")))
    clocks = Clocks(target.warehouse, target.capture)
    ops_clocks = {"host" if backends[at] is None else "delegate" for at in zeros}
    steps = {clock: step for clock, step in clocks.steps(unit).items() if clock in ops_clocks}
    notes = (clocks.note(clock, unit) for clock in steps)
    return steps, " ".join(f"{note[:1].upper()}{note[1:]}." for note in notes)


def note_of(target: Target) -> str | None:
    """Return why ops have no times, if there is no run or the record lacks the program that ran, or a note about
    delegates' graphs.
    """
    if target.format == WITHOUT_RUNS:
        return UNRUN_NOTE
    [(*_, stage)] = target.rows(RECORD)[1]
    return EXPORTED_NOTE if stage == EXPORTED else delegates.note_of(target)


def without_graph(target: Target) -> str:
    """Return why a capture has no graph."""
    if target.is_trace:
        return "a PyTorch trace has no graph"
    if not target.has_record:
        return without_record(target, "the graph of its program")
    target.rows("FROM _capture($capture, NULL)", capture=target.capture)  # an error if its events were pruned
    return "None of the ETRecord's edge graphs is of a method that is known to have run."
