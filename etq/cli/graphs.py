"""The commands about op graphs: one drawn with its times, two compared."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from etq import catalog
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, peak_options, query_limits, run_options, unit_option, warehouse_option
from etq.cli.pages import check_page, file_name_of, open_option, write_page
from etq.cli.showing import check_runs, note_excluded_runs
from etq.cli.targets import (
    check_path,
    file_options,
    is_file,
    is_record,
    looks_like_path,
    open_file_or_warehouse,
    open_record,
    open_target,
    pop_file_options,
    report_record_findings,
)
from etq.errors import EtqError, printable
from etq.render.selection import Selection, selection
from etq.render.writers import file_of, refuse_existing, write, write_text
from etq.report.overlays import METRICS, OVERLAYS

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse


@main.command()
@click.argument("capture")
@click.option(
    "--format",
    "format",
    type=click.Choice(("dot", "json", "model-explorer")),
    help="Print the graph as DOT for Graphviz, as JSON, or its values for Model Explorer.",
)
@click.option("--dot", is_flag=True, help="The same as --format dot.")
@click.option(
    "--html",
    metavar="FILE",
    help="Write the graph as an HTML page to explore to that file; - is stdout.  [default: NAME_graph.html]",
)
@click.option("-o", "--output", metavar="FILE", help="With --format: write to that file instead of stdout (-).")
@click.option("--force", is_flag=True, help="Overwrite an existing file, other than an earlier page of the same graph.")
@open_option
@click.option(
    "--overlay",
    type=click.Choice([overlay.key for overlay in OVERLAYS]),
    help="With model-explorer: the values, and what they colour.  [default: time]",
)
@click.option("--gap", metavar="BASE", help="Show how far values are from those of this capture, assumed to be right.")
@peak_options
@run_options("typical")
@query_limits
@warehouse_option
@unit_option(None)
@file_options
def graph(
    capture: str,
    format: str | None,
    dot: bool,
    html: str | None,
    output: str | None,
    force: bool,
    opens: bool,
    overlay: str | None,
    db: str,
    **options: Any,
) -> None:
    """Draw the op graph of a program; of a capture, with times. A capture needs a linked record.

    An ETRecord or a program (.pte) alone is drawn without times; a program has its instructions. Without a form, a page
    is written.

    The page shows ops in modules, which open by a click, coloured by time, calls, FLOPs, bytes, backend, data type or
    op type; with a program also by planned memory, with the device's peaks by the time above the roofline, and
    with --gap by the numeric gap to another capture, in each metric. It needs no network. The report of a capture (etq
    report) has the same graph. --format json has all values, for other programs, --format dot the graph for
    Graphviz, and --format model-explorer one overlay as node data for the edge program in Model Explorer.

    \b
    etq graph net.pte --open
    etq graph run.etdp --etrecord net.etrecord
    etq graph run --html run_graph.html --db lab.duckdb
    etq graph run --gap reference --peak-flops 20G --html run_graph.html --db lab.duckdb
    etq graph run --format model-explorer --overlay snr --gap reference -o snr.json --db lab.duckdb
    etq graph run --format json --db lab.duckdb | jq '.nodes[] | select(.calls > 0) | .name'
    etq graph run --format dot --db lab.duckdb | dot -Tsvg > run.svg
    """
    form = format or ("dot" if dot else None)
    if (form is not None and html is not None) or (dot and format is not None):
        raise click.UsageError("the graph has one form: give either --html FILE or --dot, or --format")
    if form is None and output is not None:
        raise click.UsageError("-o only applies to --format; --html has a file of its own")
    if force and form is not None and output is None:
        raise click.UsageError("--force only applies to a page and -o FILE")
    if opens and form is not None:
        raise click.UsageError("--open only applies to a page")
    drawing = {} if overlay is None else {"overlay": overlay}
    if overlay is not None and form != "model-explorer":
        raise click.UsageError("--overlay only applies to --format model-explorer")
    if form is None:
        if html is not None:
            check_page(html, force=force, opens=opens)
        with _drawing(capture, db, options, "--html") as (warehouse, selector, chosen):
            from etq.report import graph_page_of

            page_path = html or f"{file_name_of(selector.name)}_graph.html"
            check_page(page_path, force=force, opens=opens)
            page = graph_page_of(warehouse, selector, **chosen)
            write_page(page, page_path, f"the graph of {printable(selector.name)}", force=force, opens=opens)
        return
    path = file_of(output, force)
    if form == "dot":
        for name in ("gap", "peak_flops", "peak_bandwidth"):
            if options.pop(name) is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} does not apply to --format dot")
        _write_dot(capture, db, path, force, options)
        return
    _write_drawing(capture, db, form, path, force, options, drawing)


def _write_dot(capture: str, db: str, path: str | None, force: bool, options: dict[str, Any]) -> None:
    from etq.render.dot import dot_of

    if is_file(capture, db) and _is_unrun(capture):
        raise click.UsageError("--format dot is of a capture; json is also of an ETRecord or a program alone")
    with open_target(capture, db, pop_file_options(options)) as (warehouse, selector):
        check_runs(warehouse, selector, options)
        text = dot_of(warehouse, selector, options)
        write_text(text, path, force=force, is_printable=True)
        note_excluded_runs(warehouse, selector, "node_totals", options)


def _write_drawing(
    capture: str, db: str, form: str, path: str | None, force: bool, options: dict[str, Any], drawing: dict[str, Any]
) -> None:
    """Write the graph as JSON or node data."""
    from etq.report import graph_json_of, graph_node_data_of

    text_of = {"json": graph_json_of, "model-explorer": graph_node_data_of}[form]
    with _drawing(capture, db, options, f"--format {form}") as (warehouse, selector, chosen):
        text = text_of(warehouse, selector, **chosen, **drawing)
        write_text(text, path, force=force, is_printable=True)
        note_excluded_runs(warehouse, selector, "node_totals", options)
    if path is not None:
        say(f"{path}: the graph of {selector.name}")


@contextmanager
def _drawing(
    capture: str, db: str, options: dict[str, Any], form: str
) -> Iterator[tuple[Warehouse, Capture, dict[str, Any]]]:
    """Provide the warehouse, the capture in it whose graph is drawn, and the options that are given for it."""
    from etq.report.graph_extras import GraphExtras
    from etq.report.single import OPTIONS

    known = (*OPTIONS, "unit", *(option.name for option in dataclasses.fields(GraphExtras)))
    if options["gap"] is not None and is_file(capture, db):
        raise click.UsageError("--gap needs two captures of a warehouse: ingest the file")
    read_options = pop_file_options(options)
    with ExitStack() as stack:
        if is_file(capture, db) and _is_unrun(capture):
            from etq.warehouse.unrun import open_unrun

            warehouse, selector = open_unrun(capture)
            stack.enter_context(warehouse)
        else:
            warehouse, selector = stack.enter_context(open_target(capture, db, read_options))
        chosen = {name: value for name, value in options.items() if value is not None}
        for name in chosen:
            if name not in known:
                raise click.UsageError(f"--{name.replace('_', '-')} does not apply to {form}")
        yield warehouse, selector, chosen


def _is_unrun(file: str) -> bool:
    """Whether a file is an ETRecord or a program, of which there is a graph without a run."""
    from etq.ingest.recognition import PROGRAM, RECORD, kind_of

    return kind_of(file) in (RECORD, PROGRAM)


@main.command("graphs")
@click.argument("base")
@click.argument("new")
@click.option("--all", "everything", is_flag=True, help="Show nodes that are the same, too.")
@click.option(
    "--base-stage", metavar="STAGE", help="Stage of BASE: exported, edge, delegated or another of the record."
)
@click.option("--new-stage", metavar="STAGE", help="Stage of NEW.  [default: delegated]")
@click.option(
    "--html", metavar="FILE", help="Write both graphs next to each other as an HTML page to explore; - is stdout."
)
@click.option("--reference", metavar="CAPTURE", help="Capture whose values are assumed to be right.  [default: BASE]")
@click.option(
    "--metric", type=click.Choice(METRICS, case_sensitive=False), help="Measure of gaps between values.  [default: mse]"
)
@unit_option(None)
@warehouse_option
@output_options
def graphs(
    base: str,
    new: str,
    everything: bool,
    html: str | None,
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Compare two op graphs node by node. They belong to two records, or to one at two stages of its lowering.

    BASE and NEW are captures (a name, a hash prefix, a selector), whose nodes have times, records, or files of records.
    If both are the same, the exported graph is compared with the delegated one. Of captures with values (etq gap),
    --format json and the page have numeric gaps: of both to --reference, or of NEW to BASE; tables have them with
    --reference or --metric. The page of --html shows both graphs: they move and zoom together, counterparts are marked,
    and ops without one are listed.

    \b
    etq graphs run_41 run_42 --db lab.duckdb
    etq graphs portable.etrecord delegated.etrecord --all --format json
    etq graphs net net --base-stage edge --html net.html --db lab.duckdb
    etq graphs portable xnnpack --reference net-reference --metric snr --html gaps.html --db lab.duckdb
    """
    if html is not None and (everything or format is not None or output is not None):
        raise click.UsageError("--html is a form of its own: it goes without --all, --format and -o")
    if html is not None and selection.get() != Selection():
        raise click.UsageError(
            "--limit, --sort-by and --columns only apply to tables; --html shows both graphs as a whole"
        )
    page_path = None if html is None else file_of(html, force)
    refuse_existing(output, force)
    chosen = {name: value for name, value in options.items() if value is not None}
    given = "".join(f", {name} := ${name}" for name in chosen)
    shown = catalog.named("compare_graphs")
    where = "" if everything else " WHERE change <> 'same'"
    with _sides(base, new, db) as (warehouse, base_name, new_name):
        if html is not None:
            from etq.report import graphs_page_of

            page = graphs_page_of(warehouse, base_name, new_name, **chosen)
            write_text(page, page_path, force=force)
            if page_path is not None:
                say(f"{page_path}: the graphs of {base} and {new}")
            return
        query = f"FROM compare_graphs($base, $new{given}){where}"
        has_rows = write(
            warehouse,
            query,
            format,
            output,
            force=force,
            view=shown,
            base=base_name,
            new=new_name,
            **chosen,
        )
    if not has_rows:
        say("Note: all nodes are the same; --all shows them")


@contextmanager
def _sides(base: str, new: str, db: str) -> Iterator[tuple[Warehouse, str, str]]:
    """Provide the warehouse and both sides in it; files of records are put into one in memory."""
    are_files = [is_record(side) for side in (base, new)]
    for side, is_one in zip((base, new), are_files, strict=True):
        if any(are_files) and looks_like_path(side) and not os.path.exists(side):
            raise EtqError(f"{side}: no such file")
        check_path(side, db)
        if not is_one and is_file(side, db):
            raise EtqError(f"{side}: not an ETRecord; name two ETRecords, or two captures of a warehouse")
    if any(are_files) and not all(are_files):
        raise EtqError(f"{base} and {new}: one is a file and the other is not; name two files, or ingest the file")
    with open_file_or_warehouse(base, db, open_record) as (warehouse, record):
        if record is None:
            yield warehouse, base, new
            return
        other = warehouse.ingest_record(new)
        if other.is_new:
            report_record_findings(warehouse, other)
        yield warehouse, record.name, other.name
