"""Explains why a view has no rows for a capture, and names a view that applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from etq.errors import EtqError, QueryError, printable

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# For each view, the command that answers the same question for the other kind of captures.
_OF_TRACES: Final = {
    "memory_totals": 'etq sql "FROM memory_timeline(CAPTURE)"',
    "execute_breakdown": "etq steps",
    "framework_tax": 'etq sql "FROM operator_table(CAPTURE)"',
    "delegate_totals": "etq kernels",
    "module_totals": 'etq sql "FROM module_tree(CAPTURE)"',
    "source_totals": "etq ops --by stack",
    "advice": 'etq sql "FROM trace_recommendations(CAPTURE)"',
    "roofline": 'etq sql "FROM gpu_utilization(CAPTURE)"',
}
_OF_ETDUMPS: Final = {"step_breakdown": "etq breakdown", "kernel_table": "etq ops"}


@contextmanager
def naming_other_view(warehouse: Warehouse, view: str, selector: str) -> Iterator[None]:
    """If an error is raised because a PyTorch trace has no record, name the view that applies to traces."""
    try:
        yield
    except QueryError as error:
        query = "SELECT c.format FROM captures AS c WHERE c.capture_id = _any_capture_id($capture)"
        if " has no record, " not in str(error) or view not in _OF_TRACES:
            raise
        if warehouse.rows(query, capture=selector)[1] != [("torch_trace",)]:
            raise
        raise EtqError(
            f"{view} is for ETDumps, and this is a PyTorch trace; for that there is {_OF_TRACES[view]}"
        ) from None


def note_no_rows(warehouse: Warehouse, view: str, capture: str, selector: str, options: Mapping[str, Any]) -> None:
    """Print why a view has no rows for a capture."""
    query = """
        SELECT c.format, (SELECT count(*) FROM runs AS r WHERE r.capture_id = c.capture_id)
        FROM captures AS c WHERE c.capture_id = _any_capture_id($capture)
    """
    [(format, runs)] = warehouse.rows(query, capture=selector)[1]
    steps = options.get("steps")
    has_left = "SELECT count(*) FROM runs AS r WHERE r.capture_id = _any_capture_id($capture)"
    has_left += " AND _is_recorded(r.iteration, r.phase, $steps, NULL)"
    others = (_OF_TRACES if format == "torch_trace" else _OF_ETDUMPS).get(view)
    if others is not None:
        text = f"{view} has no rows for {capture}, which is of format {format}; for that there is {others}"
    elif steps is not None and warehouse.rows(has_left, capture=selector, steps=steps)[1] == [(0,)]:
        text = f"no run of {capture} is left: {steps} leaves out all {runs}"
    elif view == "slow_runs" and format != "torch_trace":
        text = f"no run of {capture} took longer than typical runs"
    else:
        text = f"{view} has no rows for {capture}, which is of format {format}"
    click.echo(printable(f"Note: {text}"), err=True)
