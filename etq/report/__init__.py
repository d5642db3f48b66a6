"""Reports about captures, as one HTML file that opens anywhere and needs no network.

    from etq import report
    report.write(warehouse, "run", "run.html")  # one capture
    report.write(warehouse, ["build=41", "build=42"], "difference.html")  # two sides, each of one capture or of many
    report.trends_of(warehouse, "model=mlp", over="build").write("trends.html")  # one after the other

A kind of report is a module that queries the views and returns sections (`single`: one capture; `difference`: two
sides; `trends`: series of many; `jobs`, `fleet`; `home`: what is slower in a warehouse). `page` makes the page of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from etq.errors import ArgumentTypeError, EtqError

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture
    from etq.report.graph_extras import GraphExtras
    from etq.report.page import Report

__all__ = ["graph_json_of", "graph_node_data_of", "graph_of", "graphs_of", "report_of", "trends_of", "write"]


def report_of(
    warehouse: Answers,
    captures: str | Capture | Sequence[str | Capture],
    *,
    unit: str | None = None,
    names: tuple[str, str] | None = None,
    **options: Any,
) -> Report:
    """Return a report. Its `page()` is the text of an HTML page, and `write(path)` writes this to a file.

    captures  the subject: one capture, by name, hash prefix or selector; or two sides to compare, base and new, each of
              which may be a selector of several captures
    unit      unit of times: ns, us, ms, s, cycles; us by default (cycles where ticks are cycles)
    names     for two sides, the names that the page shows; by default their selectors
    options   of one capture: method (only its runs), runs (typical or all);
              of two sides: quantile, phase, history, alpha, min_effect, allow_mismatch, as in `compare_ops`;
              step_name, the annotation whose calls are the steps of traces

    Raises `QueryError` for an unknown capture or unit, and for sides that can't be compared; `EtqError` for no
    capture or more than two, and for an option that this kind of report doesn't take.
    """
    from etq.database.handles import Capture
    from etq.report import difference, single

    captures = [captures] if isinstance(captures, str | Capture) else captures
    if not isinstance(captures, list | tuple):
        raise ArgumentTypeError(f"a report is of a capture, or of a list of two, not of {captures!r}")
    if len(captures) == 2:
        _check(options, difference.OPTIONS)
        base, new = (side if isinstance(side, str) else side.sha256 for side in captures)
        shown = [side if isinstance(side, str) else side.name for side in captures]
        passed = {"unit": unit, **options}
        return difference.difference_of(warehouse, base, new, passed, names or (shown[0], shown[1]))
    if len(captures) != 1:
        raise EtqError(f"a report needs one capture or two sides, not {len(captures)}; use trends for many captures")
    _check(options, single.OPTIONS)
    return single.report_of(warehouse, captures[0], unit, **options)


def write(
    warehouse: Answers,
    captures: str | Capture | Sequence[str | Capture],
    path: str | os.PathLike[str],
    *,
    unit: str | None = None,
    **options: Any,
) -> None:
    """Write a report to a file, which is replaced; arguments and errors are those of `report_of`."""
    report_of(warehouse, captures, unit=unit, **options).write(path)


def trends_of(warehouse: Answers, selector: str | None = None, **options: Any) -> Report:
    """Return a report of series of captures: totals, ops, and their change points.

    selector  which captures; None: all
    options   over (the label that orders captures), by (labels that separate series), unit, phase, min_effect, alpha,
              since, as in `regressions`

    Raises `QueryError` for an unknown capture, label or unit; `EtqError` for an unknown option.
    """
    from etq.report import trends

    _check(options, trends.OPTIONS)
    return trends.trends_of(warehouse, selector, options)


def graph_of(warehouse: Answers, capture: str | Capture, *, unit: str | None = None, **options: Any) -> Report:
    """Return the graph of a capture's program, with times and costs.

    unit     as in `report_of`
    options  method (only its runs), runs (typical or all); gap, another capture whose logged values are assumed to be
             right; peak_flops and peak_bandwidth of the device per second, instead of the capture's metrics

    Raises `QueryError` for an unknown capture or unit; `EtqError` for a capture without a graph, for a gap without
    values, with the side that lacks them, and for an unknown option.
    """
    from etq.report import single

    return single.graph_of(warehouse, capture, unit, _more(warehouse, options), **options)


def graph_json_of(warehouse: Answers, capture: str | Capture, *, unit: str | None = None, **options: Any) -> str:
    """Return the graph of `graph_of` as JSON: `overlays`, `groups`, `nodes`, `edges`, and facts about their capture.

    A node names its group, a group its parent, an edge its nodes, by `id`. Values are those of the views. A value is
    null if it is unknown or not finite. Options and errors are those of `graph_of`.
    """
    from etq.report import graph_files

    return graph_files.json_of(warehouse, capture, unit, _more(warehouse, options), options)


def graph_node_data_of(
    warehouse: Answers, capture: str | Capture, *, overlay: str = "time", unit: str | None = None, **options: Any
) -> str:
    """Return an overlay of the graph of `graph_of` as node data for Model Explorer, for nodes of the edge program by
    name.

    overlay  the value that colours nodes: a key of `overlays` in the graph's JSON

    Nodes whose value is unknown are left out. Other options and errors are those of `graph_of`. Also raises
    `EtqError` for an overlay that the graph doesn't have, and if several methods ran and `method` is missing.
    """
    from etq.report import graph_node_data

    return graph_node_data.node_data_of(warehouse, capture, unit, _more(warehouse, options), options, overlay)


def graphs_of(
    warehouse: Answers, base: str, new: str, *, names: tuple[str, str] | None = None, **options: str | None
) -> Report:
    """Return two op graphs next to each other, with counterparts marked.

    base, new  captures or records, as in `compare_graphs`
    names      what to call them; by default their selectors
    options    base_stage, new_stage, unit, reference and metric, as in `compare_graphs`

    Raises `QueryError` for unknown sides, stages, units and metrics; `EtqError` if no method is in both, and for an
    unknown option.
    """
    from etq.report import graph_pair

    _check(options, graph_pair.OPTIONS)
    return graph_pair.pair_of(warehouse, base, new, names, **options)


def _more(warehouse: Answers, options: dict[str, Any]) -> GraphExtras:
    """Remove the options that only graphs have from the others, and return them."""
    from etq.report import single
    from etq.report.graph_extras import GraphExtras

    known = [each.name for each in fields(GraphExtras)]
    _check(options, (*single.OPTIONS, *known))
    found = {name: options.pop(name) for name in known if name in options}
    if found.get("gap") is not None:
        found["gap"] = warehouse.capture(found["gap"]).sha256
    return GraphExtras(**found)


def _check(options: dict[str, Any], known: Sequence[str]) -> None:
    strange = sorted(set(options) - set(known))
    if strange:
        raise EtqError(f"this report takes no {strange[0]}; it takes {', '.join(known)}")
