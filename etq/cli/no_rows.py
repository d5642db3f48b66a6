"""Explains why a view has no rows for a capture, and names a view that applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from etq.analysis.delegates import UNALIGNED, are_unaligned, unknown_times
from etq.errors import EtqError, QueryError, printable

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# For each view, the command that answers the same question for the other kind of captures.
_OF_TRACES: Final = {
    "execute_breakdown": "etq steps",
    "framework_tax": 'etq sql "FROM operator_table(CAPTURE)"',
    "delegate_totals": "etq kernels",
    "delegate_coverage": "etq kernels",
    "delegate_graph": "etq kernels",
    "module_totals": 'etq sql "FROM module_tree(CAPTURE)"',
    "source_totals": "etq ops --by stack",
    "roofline": 'etq sql "FROM gpu_utilization(CAPTURE)"',
    "flops": 'etq sql "FROM gpu_utilization(CAPTURE)"',
}
_OF_ETDUMPS: Final = {
    "step_breakdown": "etq breakdown",
    "wide_steps": "etq breakdown",
    "passes": "etq breakdown",
    "critical_ops": "etq breakdown",
    "critical_path": "etq breakdown",
    "backward_times": "etq modules",
    "kernel_table": "etq ops",
    "kernel_families": "etq ops",
    "fusable_chains": "etq ops",
    "annotation_kernels": "etq ops",
    "tensor_core_use": "etq roofline",
    "device_idle": "etq tax",
    "device_idle_causes": "etq tax",
    "peak_memory": "etq memory",
    "memory_leaks": "etq memory",
}
# What people typed, where a command has another name than its view.
_COMMANDS: Final = {"delegate_graph": "etq delegate-ops"}
# What a trace lacks if the view has no rows: of views of devices, and of what an option of the profiler records.
_OF_DEVICES: Final = {
    "kernel_table": "no kernels",
    "kernel_families": "no device events",
    "fusable_chains": "no kernels of torch's own that follow each other and that torch.compile would fuse",
    "tensor_core_use": "no kernels of computation",
    "device_idle": "no gaps between device events",
    "device_idle_causes": "no gaps between device events",
    "launch_totals": "no device events whose launch was recorded",
    "annotation_kernels": "no device events",
    "copies": "no copies and fills",
    "copy_totals": "no copies and fills",
    "kernel_sequences": "no calls of ops that launched so many kernels, copies and fills",
    "queue_summary": "no device events whose launch was recorded",
    "device_breakdown": "no device events in its steps",
}
_OF_ANY: Final = {
    "slow_runs": "no run of {capture} took longer than typical runs",
    "logged_values": "{capture} has no logged values",
    "memory_totals": "{capture} has no allocations; for the memory that a program plans: etq program",
    "advice": "no rule of advice applies to {capture}",
    "delegate_totals": "{capture} called no delegate; for its kernels: etq ops",
    "delegate_graph": "{capture} ran no delegate whose graphs etq reads: those of XNNPACK and Vulkan",
}
_OF_OPTIONS: Final = {
    "collectives": "no collectives, on devices or of gloo",
    "peak_memory": "no allocations: record them with profile_memory=True",
    "memory_leaks": "no allocations that a step holds at its end: record them with profile_memory=True",
    "kernel_counters": "no counters of CUPTI: record them with profiler_metrics of experimental_config",
    "backward_times": "no modules, or no backward pass: record modules with with_stack=True, or use --by op",
}


@contextmanager
def naming_other_view(warehouse: Warehouse, view: str, selector: Capture) -> Iterator[None]:
    """If a view for ETDumps fails for a PyTorch trace, name the view that applies to traces."""
    try:
        yield
    except QueryError:
        if view not in _OF_TRACES or selector.format != "torch_trace":
            raise
        raise EtqError(not_of_traces(view)) from None


def not_of_traces(view: str) -> str:
    """Return that a view or command does not apply to PyTorch traces, and which one does."""
    return (
        f"{_COMMANDS.get(view, view)} is for ETDumps, and this is a PyTorch trace; for that there is {_OF_TRACES[view]}"
    )


def needs_devices(view: str) -> bool:
    """Whether a view is about the devices of traces: `note_no_rows` then reads `device_events`."""
    return view in _OF_DEVICES


def note_no_rows(warehouse: Warehouse, view: str, capture: str, selector: Capture, options: Mapping[str, Any]) -> None:
    """Print why a view has no rows for a capture."""
    click.echo(printable(f"Note: {_reason(warehouse, view, capture, selector, options)}"), err=True)


def note_unaligned(warehouse: Warehouse, capture: str, selector: Capture) -> None:
    """Print a note if delegates' events fit none of the graphs that the program has for them."""
    if are_unaligned(warehouse, selector):
        click.echo(printable(f"Note: {UNALIGNED.format(capture)}"), err=True)


def note_unknown_times(warehouse: Warehouse, call: str, parameters: Mapping[str, Any]) -> None:
    """Print why modules have no time, if some have none; `call` is that of `module_totals`."""
    called = """
        SELECT 1 FROM signatures AS s
        WHERE s.capture_id = _capture_id($capture) AND s.kind = 'delegate_call' LIMIT 1
    """
    if warehouse.rows(called, capture=parameters["capture"])[1]:
        reason = unknown_times(warehouse.rows(f"SELECT m.depth, m.total FROM {call} AS m", **parameters)[1])
        if reason is not None:
            click.echo(f"Note: {reason}", err=True)


def note_below_clock(warehouse: Warehouse, selector: Capture, unit: str | None) -> None:
    """Print a note if events within delegates take less than their clock can show."""
    query = """
        SELECT b.events, b.step, b.unit
        FROM _delegates_below_clock(_capture_id($capture), (SELECT c.unit FROM _capture($capture, $unit) AS c)) AS b
    """
    for events, step, shown in warehouse.rows(query, capture=selector, unit=unit)[1]:
        what = "1 event of a delegate takes" if events == 1 else f"{events} events of delegates take"
        shortest = "it shows" if step is None else f"its step of {step:g} {shown}"
        click.echo(f"Note: below the clock's resolution: {what} less time on average than {shortest}", err=True)


def _reason(warehouse: Warehouse, view: str, capture: str, selector: Capture, options: Mapping[str, Any]) -> str:
    format = selector.format
    is_trace = format == "torch_trace"
    others = (_OF_TRACES if is_trace else _OF_ETDUMPS).get(view)
    if others is not None:
        return f"{view} has no rows for {capture}, which is of format {format}; for that there is {others}"
    left_out = _left_out(warehouse, capture, selector, options.get("steps"))
    if left_out is not None:
        return left_out
    if is_trace:
        return _lack_of_trace(warehouse, view, capture, selector, options)
    if view in _OF_DEVICES or view in _OF_OPTIONS:
        return f"{view} is for PyTorch traces, and {capture} is of format {format}"
    return _OF_ANY.get(view, "{view} has no rows for {capture}").format(view=view, capture=capture)


def _left_out(warehouse: Warehouse, capture: str, selector: Capture, steps: str | None) -> str | None:
    """Return that `steps` leaves out all runs, if so."""
    if steps is None:
        return None
    # A file that is not stored has the tables of the view alone, among them `runs` if the view takes steps.
    query = """SELECT count(*), count(*) FILTER (WHERE _is_recorded(r.iteration, r.phase, $steps, NULL))
        FROM runs AS r WHERE r.capture_id = _any_capture_id($capture)"""
    [(runs, left)] = warehouse.rows(query, capture=selector, steps=steps)[1]
    return f"no run of {capture} is left: {steps} leaves out all {runs}" if left == 0 else None


def _lack_of_trace(warehouse: Warehouse, view: str, capture: str, selector: Capture, options: Mapping[str, Any]) -> str:
    query = "SELECT count(*) FROM device_events AS d WHERE d.capture_id = _any_capture_id($capture)"
    if view in _OF_DEVICES and warehouse.rows(query, capture=selector)[1] == [(0,)]:
        return f"{capture} has no device events: it was recorded without a device"
    if view == "backward_times" and options.get("by") == "op":
        return f"{capture} has no backward pass"
    lack = (_OF_DEVICES | _OF_OPTIONS).get(view)
    if lack is not None:
        return f"{capture} has {lack}"
    return _OF_ANY.get(view, "{view} has no rows for {capture}").format(view=view, capture=capture)
