"""Explains why a view has no rows for a capture, and names a view that applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.delegates import UNALIGNED, are_unaligned, unknown_times
from etq.analysis.formats import TRACE
from etq.cli.commands import name_of
from etq.cli.messages import say

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# The groupings of `key_averages`: the column, its content, and the profiler option that records it.
_DIVIDED: Final = {
    "shape": ("shapes", "shapes of inputs", "record_shapes=True"),
    "stack": ("stack", "call stacks", "with_stack=True and experimental_config=_ExperimentalConfig(verbose=True)"),
    "module": ("module", "modules", "with_stack=True"),
}


def note_no_rows(warehouse: Warehouse, view: str, capture: str, selector: Capture, options: Mapping[str, Any]) -> None:
    """Print why a view has no rows for a capture."""
    say(f"Note: {_reason(warehouse, view, capture, selector, options)}")


def note_unaligned(warehouse: Warehouse, capture: str, selector: Capture) -> None:
    """Print a note if delegates' events fit none of the program's graphs for them."""
    if are_unaligned(warehouse, selector):
        say(f"Note: {UNALIGNED.format(capture)}")


def note_undivided(warehouse: Warehouse, call: str, by: str, capture: str, parameters: Mapping[str, Any]) -> None:
    """Print a note if no row of this call of `key_averages` has a value in the column by which it divides ops."""
    column, what, option = _DIVIDED[by]
    if not warehouse.rows(f"SELECT 1 FROM {call} AS k WHERE k.{column} <> '[]' LIMIT 1", **parameters)[1]:
        say(f"Note: {capture} has no {what} to group ops by: record it with {option}")


def note_unknown_times(warehouse: Warehouse, call: str, parameters: Mapping[str, Any]) -> None:
    """Print why modules have no time, if some have none; `call` is that of `module_totals`."""
    called = """
        SELECT 1 FROM signatures AS s
        WHERE s.capture_id = _capture_id($capture) AND s.kind = 'delegate_call' LIMIT 1
    """
    if warehouse.rows(called, capture=parameters["capture"])[1]:
        reason = unknown_times(warehouse.rows(f"SELECT m.depth, m.total FROM {call} AS m", **parameters)[1])
        if reason is not None:
            say(f"Note: {reason}")


def _reason(warehouse: Warehouse, name: str, capture: str, selector: Capture, options: Mapping[str, Any]) -> str:
    view, format = catalog.named(name), selector.format
    kind = TRACE if format == TRACE else "dump"
    is_for_others = view.needs != () and view.needs[0] != kind
    if is_for_others and view.otherwise is not None:
        other = name_of(view.otherwise)
        shown = name if name_of(name) == other else name_of(name)
        return f"{shown} has no rows for {capture}, of format {format}; use {other}"
    left_out = _left_out(warehouse, capture, selector, options.get("steps"))
    if left_out is not None:
        return left_out
    if is_for_others:
        return f"{name_of(name)} is for PyTorch traces, and {capture} is of format {format}"
    if "device_events" in view.needs and not _has_device_events(warehouse, selector):
        query = "SELECT 1 FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'lost kernels'"
        is_lost = bool(warehouse.rows(query, key=selector.capture_id)[1])
        why = "the profiler lost the events of its launches" if is_lost else "it was recorded without a device"
        return f"{capture} has no device events: {why}"
    texts = dict(view.empty)
    text = texts.get(options.get("by")) or texts.get(None) or "{view} has no rows for {capture}"
    return text.format(view=name_of(name), capture=capture)


def _left_out(warehouse: Warehouse, capture: str, selector: Capture, steps: str | None) -> str | None:
    """Return a note if the option `steps` leaves out all runs."""
    if steps is None:
        return None
    query = """SELECT count(*), count(*) FILTER (WHERE _is_recorded(r.iteration, r.phase, $steps, NULL))
        FROM runs AS r WHERE r.capture_id = _any_capture_id($capture)"""
    [(runs, left)] = warehouse.rows(query, capture=selector, steps=steps)[1]
    return f"no run of {capture} is left: {steps} leaves out all {runs}" if left == 0 else None


def _has_device_events(warehouse: Warehouse, selector: Capture) -> bool:
    query = "SELECT 1 FROM device_events AS d WHERE d.capture_id = _any_capture_id($capture) LIMIT 1"
    return bool(warehouse.rows(query, capture=selector)[1])
