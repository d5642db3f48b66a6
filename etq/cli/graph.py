"""The command that draws one op graph with its times, or two next to each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import as_output, peak_options, query_limits, run_options, unit_option, warehouse_option
from etq.cli.pages import check_page, file_name_of, open_option, write_page
from etq.cli.showing import check_runs, note_excluded_runs
from etq.cli.targets import file_options, is_file, is_unrun, open_graphs, open_target, pop_file_options
from etq.errors import printable
from etq.render.writers import Output, file_of, write_text
from etq.report.overlays import METRICS, OVERLAYS

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# Options of two graphs.
_OF_TWO = ("base_stage", "new_stage", "metric")


@main.command()
@click.argument("capture")
@click.argument("other", metavar="[NEW]", required=False)
@click.option(
    "--format",
    "format",
    type=click.Choice(("dot", "json", "model-explorer")),
    help="Instead of a page: the graph as DOT for Graphviz, as JSON, or its values for Model Explorer.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to that file; - is stdout.  [default: of the page NAME_graph.html, with --format stdout]",
)
@click.option("--force", is_flag=True, help="Overwrite any existing file, not only an earlier page of the same graph.")
@open_option
@click.option(
    "--overlay",
    type=click.Choice([overlay.key for overlay in OVERLAYS]),
    help="With model-explorer: the values, and what they colour.  [default: time]",
)
@click.option(
    "--gap",
    metavar="BASE",
    help="Show how far values are from those of this capture, assumed to be right.  [default with NEW: CAPTURE]",
)
@click.option("--base-stage", metavar="STAGE", help="With NEW: stage of CAPTURE: exported, edge, delegated or another.")
@click.option("--new-stage", metavar="STAGE", help="Stage of NEW.  [default: delegated]")
@click.option(
    "--metric",
    type=click.Choice(METRICS, case_sensitive=False),
    help="With NEW: measure of gaps between values.  [default: mse]",
)
@peak_options
@run_options
@query_limits
@warehouse_option
@unit_option(None)
@file_options
@as_output
def graph(
    capture: str,
    other: str | None,
    output: Output,
    opens: bool,
    overlay: str | None,
    db: str,
    **options: Any,
) -> None:
    """Draw the op graph of a program or capture, or of two. A capture has times, and needs a linked record.

    An ETRecord or a program (.pte) alone is drawn without times; the graph of a program has its instructions. Without
    --format, an HTML page to explore is written.

    The page shows ops within their modules; a click opens a module. Ops are coloured by time, calls, FLOPs, bytes,
    backend, data type or op type. More colours need more input: planned memory needs a program, the time above the
    roofline needs the device's peaks, and the numeric gap to another capture needs --gap. The page needs no network.
    The report of a capture (etq report) has the same graph. --format json has all values, for other programs; --format
    dot has the graph for Graphviz; --format model-explorer has one overlay as node data for the edge program in Model
    Explorer.

    With NEW, the page shows both graphs: they move and zoom together, counterparts are marked, and ops without one are
    listed. CAPTURE and NEW are captures, records, or two files of records; of one record, the exported graph is next
    to the delegated one. Captures with values are coloured by their gaps to --gap. etq show compare_graphs lists the
    nodes.

    \b
    etq graph net.pte --open
    etq graph run.etdp --etrecord net.etrecord
    etq graph run -o run_graph.html --db lab.duckdb
    etq graph run_41 run_42 --open --db lab.duckdb
    etq graph net.etrecord net.etrecord --base-stage edge -o net.html
    etq graph run --gap reference --peak-flops 20G -o run_graph.html --db lab.duckdb
    etq graph run --format model-explorer --overlay snr --gap reference -o snr.json --db lab.duckdb
    etq graph run --format json --db lab.duckdb | jq '.nodes[] | select(.calls > 0) | .name'
    etq graph run --format dot --db lab.duckdb | dot -Tsvg > run.svg
    """
    if other is not None:
        _draw_both(
            capture, other, db, output, opens=opens, options=options | {"format": output.format, "overlay": overlay}
        )
        return
    for name in _OF_TWO:
        if options.pop(name) is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} needs a second graph: etq graph BASE NEW")
    _check_form(output, opens=opens, overlay=overlay)
    if output.format is None:
        check_page(output.path, force=output.force, opens=opens)
        with _drawing(capture, db, options, "a page") as (warehouse, selector, chosen):
            from etq.report import graph_of

            page_path = output.path or f"{file_name_of(selector.name)}_graph.html"
            check_page(page_path, force=output.force, opens=opens)
            drawn = graph_of(warehouse, selector, **chosen)
            write_page(drawn, page_path, f"the graph of {printable(selector.name)}", force=output.force, opens=opens)
        return
    output = output._replace(path=file_of(output.path, output.force))
    if output.format == "dot":
        for name in ("gap", "peak_flops", "peak_bandwidth"):
            if options.pop(name) is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} does not apply to --format dot")
        _write_dot(capture, db, output, options)
        return
    _write_drawing(capture, db, output, options, {} if overlay is None else {"overlay": overlay})


def _check_form(output: Output, *, opens: bool, overlay: str | None) -> None:
    """Raise `click.UsageError` for options that don't go together."""
    format, path, force = output
    if force and format is not None and path is None:
        raise click.UsageError("--force only applies to a page and -o FILE")
    if opens and format is not None:
        raise click.UsageError("--open only applies to a page")
    if overlay is not None and format != "model-explorer":
        raise click.UsageError("--overlay only applies to --format model-explorer")


def _draw_both(base: str, new: str, db: str, output: Output, *, opens: bool, options: dict[str, Any]) -> None:
    """Write the page of two graphs."""
    from etq.report import graphs_of

    chosen = {name: options.pop(name) for name in (*_OF_TWO, "unit")}
    chosen["reference"] = options.pop("gap")
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(
                f"--{name.replace('_', '-')} applies to one graph; etq show compare_graphs lists the nodes of two"
            )
    check_page(output.path, force=output.force, opens=opens)
    with open_graphs(base, new, db) as (warehouse, *sides):
        path = output.path or f"{file_name_of('_'.join(sides))}_graph.html"
        check_page(path, force=output.force, opens=opens)
        drawn = graphs_of(warehouse, *sides, **{name: value for name, value in chosen.items() if value is not None})
        write_page(
            drawn, path, f"the graphs of {printable(base)} and {printable(new)}", force=output.force, opens=opens
        )


def _write_dot(capture: str, db: str, output: Output, options: dict[str, Any]) -> None:
    from etq.render.dot import dot_of

    if is_file(capture, db) and is_unrun(capture):
        raise click.UsageError("--format dot needs a capture; json also takes an ETRecord or a program alone")
    with open_target(capture, db, pop_file_options(options)) as (warehouse, selector):
        check_runs(warehouse, selector, options)
        text = dot_of(warehouse, selector, options)
        write_text(text, output, is_printable=True)
        note_excluded_runs(warehouse, selector, "node_totals", options)


def _write_drawing(capture: str, db: str, output: Output, options: dict[str, Any], drawing: dict[str, Any]) -> None:
    """Write the graph as JSON or node data."""
    from etq.report import graph_json_of, graph_node_data_of

    text_of = {"json": graph_json_of, "model-explorer": graph_node_data_of}[output.form]
    with _drawing(capture, db, options, f"--format {output.form}") as (warehouse, selector, chosen):
        text = text_of(warehouse, selector, **chosen, **drawing)
        write_text(text, output, is_printable=True)
        note_excluded_runs(warehouse, selector, "node_totals", options)
    if output.path is not None:
        say(f"{output.path}: the graph of {selector.name}")


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
        if is_file(capture, db) and is_unrun(capture):
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
