"""Reports about captures, as one HTML file that opens anywhere and needs no network.

    from etq import report
    report.write(warehouse, ["run"], "run.html")  # one capture
    report.write(warehouse, ["build=41", "build=42"], "difference.html")  # two sides, each of one capture or of many
    report.write_trends(warehouse, "model=mlp", "trends.html", over="build")  # one after the other

A kind of report is a module that queries the views and returns sections (`single`: one capture; `difference`: two
sides; `trends`: series of many; `home`: what is slower in a warehouse); `page` assembles them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etq.database.publishing import new_file
from etq.errors import EtqError

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture
    from etq.report.graph_extras import GraphExtras
    from etq.report.page import Report

__all__ = [
    "graph_json_of",
    "graph_node_data_of",
    "graph_page_of",
    "graphs_page_of",
    "home_page_of",
    "job_page_of",
    "page_of",
    "report_of",
    "trends_page_of",
    "trends_report_of",
    "write",
    "write_trends",
]


def page_of(
    warehouse: Answers,
    captures: Sequence[str | Capture],
    *,
    unit: str | None = None,
    names: tuple[str, str] | None = None,
    **options: Any,
) -> str:
    """Return a report as the text of an HTML page.

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
    from etq.report.page import assemble

    return assemble(report_of(warehouse, captures, unit=unit, names=names, **options))


def report_of(
    warehouse: Answers,
    captures: Sequence[str | Capture],
    *,
    unit: str | None = None,
    names: tuple[str, str] | None = None,
    **options: Any,
) -> Report:
    """Return the content of a report; arguments and errors are those of `page_of`."""
    from etq.report import difference, single

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


def graph_page_of(warehouse: Answers, capture: str | Capture, *, unit: str | None = None, **options: Any) -> str:
    """Return the graph of a capture's program, with times and costs, as the text of an HTML page.

    unit     as in `page_of`
    options  method (only its runs), runs (typical or all); gap, another capture whose logged values are assumed to be
             right; peak_flops and peak_bandwidth of the device per second, instead of the capture's metrics

    Raises `QueryError` for an unknown capture or unit; `EtqError` for a capture without a graph, for a gap without
    values, with the side that lacks them, and for an unknown option.
    """
    from etq.report import single
    from etq.report.page import assemble

    return assemble(single.graph_of(warehouse, capture, unit, _more(warehouse, options), **options))


def graph_json_of(warehouse: Answers, capture: str | Capture, *, unit: str | None = None, **options: Any) -> str:
    """Return the graph of `graph_page_of` as JSON: `overlays`, `groups`, `nodes`, `edges`, and facts about their
    capture.

    A node names its group, a group its parent, an edge its nodes, by `id`. Values are those of the views. A value is
    null if it is unknown or not finite. Options and errors are those of `graph_page_of`.
    """
    from etq.report import graph_files

    return graph_files.json_of(warehouse, capture, unit, _more(warehouse, options), options)


def graph_node_data_of(
    warehouse: Answers, capture: str | Capture, *, overlay: str = "time", unit: str | None = None, **options: Any
) -> str:
    """Return an overlay of the graph of `graph_page_of` as node data for Model Explorer, for nodes of the edge program
    by name.

    overlay  the value that colours nodes: a key of `overlays` in the graph's JSON

    Nodes whose value is unknown are left out. Other options and errors are those of `graph_page_of`. Also raises
    `EtqError` for an overlay that the graph doesn't have, and if several methods ran and `method` is missing.
    """
    from etq.report import graph_node_data

    return graph_node_data.node_data_of(warehouse, capture, unit, _more(warehouse, options), options, overlay)


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


def graphs_page_of(
    warehouse: Answers, base: str, new: str, *, names: tuple[str, str] | None = None, **options: str | None
) -> str:
    """Return two op graphs next to each other as the text of an HTML page, with counterparts marked.

    base, new  captures or records, as in `compare_graphs`
    names      what to call them; by default their selectors
    options    base_stage, new_stage, unit, reference and metric, as in `compare_graphs`

    Raises `QueryError` for unknown sides, stages, units and metrics; `EtqError` if no method is in both, and for an
    unknown option.
    """
    from etq.report import graph_pair
    from etq.report.page import assemble

    _check(options, graph_pair.OPTIONS)
    return assemble(graph_pair.pair_of(warehouse, base, new, names, **options))


def trends_page_of(warehouse: Answers, selector: str | None = None, **options: Any) -> str:
    """Return a report of series of captures as the text of an HTML page: totals, ops, and their change points.

    selector  which captures; None: all
    options   over (the label that orders captures), by (labels that separate series), unit, phase, min_effect, alpha,
              since, as in `regressions`

    Raises `QueryError` for an unknown capture, label or unit; `EtqError` for an unknown option.
    """
    from etq.report.page import assemble

    return assemble(trends_report_of(warehouse, selector, **options))


def trends_report_of(warehouse: Answers, selector: str | None = None, **options: Any) -> Report:
    """Return the content of a report of series; arguments and errors are those of `trends_page_of`."""
    from etq.report import trends

    _check(options, trends.OPTIONS)
    return trends.trends_of(warehouse, selector, options)


def job_page_of(warehouse: Answers, selector: str | None, *, name: str | None = None, unit: str | None = None) -> str:
    """Return a report of a job as the text of an HTML page: the ranks that others wait for, and the reasons.

    selector  the captures of its ranks, such as job=train; None: all of the warehouse
    name      the name that the page shows; by default the selector

    Raises `QueryError` for an unknown capture or unit.
    """
    from etq.report.page import assemble

    return assemble(job_report_of(warehouse, selector, name=name, unit=unit))


def job_report_of(
    warehouse: Answers, selector: str | None, *, name: str | None = None, unit: str | None = None
) -> Report:
    """Return the content of a report of a job; arguments and errors are those of `job_page_of`."""
    from etq.report import jobs

    return jobs.job_of(warehouse, selector, name or selector or "job", unit)


def home_page_of(warehouse: Answers, selector: str | None = None, *, name: str | None = None) -> str:
    """Return a report of a warehouse as the text of an HTML page: the series that are slower, and all series, as on the
    first page of `etq serve`.

    selector  which captures; None: all
    name      the warehouse's name on the page; by default its path

    Raises `QueryError` for an unknown capture or label.
    """
    from etq.report import home
    from etq.report.page import assemble

    return assemble(home.home_of(warehouse, selector, name or warehouse.path or "warehouse"))


def fleet_page_of(warehouse: Answers, selector: str | None = None, *, unit: str | None = None, **options: Any) -> str:
    """Return a report of a fleet as the text of an HTML page: each value of a label against all others.

    selector  which captures; None: all
    options   by (the label, by default device), quantile, phase, alpha, min_effect, allow_mismatch, as in `outliers`

    Raises `QueryError` for an unknown capture, label or unit, and for captures of several models; `EtqError` for an
    unknown option.
    """
    from etq.report.page import assemble

    return assemble(fleet_report_of(warehouse, selector, unit=unit, **options))


def fleet_report_of(
    warehouse: Answers, selector: str | None = None, *, unit: str | None = None, **options: Any
) -> Report:
    """Return the content of a report of a fleet; arguments and errors are those of `fleet_page_of`."""
    from etq.report import fleet

    _check(options, fleet.OPTIONS)
    return fleet.fleet_of(warehouse, selector, options, unit)


def write(
    warehouse: Answers,
    captures: Sequence[str | Capture],
    path: str | os.PathLike[str],
    *,
    unit: str | None = None,
    **options: Any,
) -> None:
    """Write a report to a file, which is replaced; arguments and errors are those of `page_of`."""
    _put(page_of(warehouse, captures, unit=unit, **options), path)


def write_trends(warehouse: Answers, selector: str | None, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a report of series to a file, which is replaced; arguments and errors are those of `trends_page_of`."""
    _put(trends_page_of(warehouse, selector, **options), path)


def _put(page: str, path: str | os.PathLike[str]) -> None:
    with new_file(os.fspath(path)) as written:
        Path(written).write_text(page, encoding="utf-8", newline="\n")


def _check(options: dict[str, Any], known: Sequence[str]) -> None:
    strange = sorted(set(options) - set(known))
    if strange:
        raise EtqError(f"this report takes no {strange[0]}; it takes {', '.join(known)}")
