"""The command about ops of ETDumps and of PyTorch's traces."""

from __future__ import annotations

from typing import Any, Final

import click

from etq.analysis.formats import TRACE
from etq.choices import OPS_BY
from etq.cli import main
from etq.cli.options import output_options, run_options, total_option, unit_option, warehouse_option
from etq.cli.showing import drop_methods, show_opened
from etq.cli.targets import file_options, open_target, pop_file_options
from etq.errors import EtqError
from etq.render.writers import Output

# The views for groupings of an ETDump's ops by their places in the model, which its record has.
_PLACES: Final = {"module": "module_totals", "source": "source_totals"}
# Groupings of a trace's ops.
CALLS_BY: Final = ("name", "shape", "stack", "module", "source", "family")
# Groupings whose rows are not ops, with their view and the word for their rows.
_NO_OPS: Final = {
    "source": ("trace_sources", "lines of the source"),
    "family": ("op_efficiency", "families of kernels"),
}


@main.command()
@click.argument("capture")
@click.option("--by", type=click.Choice(tuple(dict.fromkeys((*OPS_BY, *_PLACES, *CALLS_BY)))), help="Grouping of ops.")
@total_option
@click.option("--no-python-functions", is_flag=True, help="For a trace: leave out Python functions and modules.")
@unit_option(None)
@run_options
@warehouse_option
@file_options
@output_options
def ops(capture: str, by: str | None, no_python_functions: bool, db: str, output: Output, **options: Any) -> None:
    """Show where the time of an execute went, op by op. For a PyTorch trace, show torch's own table, in time per step.

    CAPTURE is a name, a hash prefix, @latest, a selector (key=value,...) or a file. For an ETDump, --by is family,
    label or instance; with its record op_type, shape, module or source, the line of the model's source. For a trace, it
    is name, shape, stack, module, source: the line of your code, or family: what ops compute, and how far they are from
    the peak of the device, as in roofline.

    \b
    etq ops run --by instance --unit us --db lab.duckdb
    etq ops worker.pt.trace.json.gz --sort-by self_cpu_time --limit 10
    """
    read_options = pop_file_options(options)
    with open_target(capture, db, read_options) as (warehouse, selector):
        is_trace = selector.format == TRACE
        known = CALLS_BY if is_trace else (*OPS_BY, *_PLACES)
        if by is not None and by not in known:
            raise EtqError(f"--by {by} is not for {'traces' if is_trace else 'ETDumps'}; use {', '.join(known)}")
        if no_python_functions and (not is_trace or by in _NO_OPS):
            what = f"{_NO_OPS[str(by)][1]} have" if is_trace else "an ETDump has"
            raise EtqError(f"{capture}: {what} no Python functions; leave out --no-python-functions")
        if not is_trace:
            view = _PLACES.get(by or "", "op_totals")
        elif by in _NO_OPS:
            drop_methods(options)
            view = _NO_OPS[by][0]
        else:
            view = "key_averages"
            options["include_python_functions"] = False if no_python_functions else None
        if view not in ("trace_sources", *_PLACES.values()):
            options["by"] = by
        show_opened(view, capture, (warehouse, selector), output, **options)
