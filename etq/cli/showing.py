"""Commands that print a view of a capture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etq import catalog
from etq.analysis.advice import VIEW as ADVICE
from etq.analysis.advice import advised
from etq.analysis.formats import TRACE, stored_rows
from etq.analysis.runs import check_method, has_one_method, left_out
from etq.cli.below_clock import BelowClock
from etq.cli.messages import say
from etq.cli.no_rows import note_no_rows, note_unaligned, note_undivided, note_unknown_times
from etq.cli.targets import FileOptions, command_about, open_target, use_named_view
from etq.errors import EtqError
from etq.render.selection import selection
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse


def check_phase(warehouse: Warehouse, capture: Capture, phase: str | None) -> bool:
    """Return whether a run has the phase, if one is asked for; if none has, print a note. Raise `EtqError` for a file
    without phases, which only traces of servers have.
    """
    if phase is None:
        return True
    query = "SELECT DISTINCT r.phase FROM runs AS r WHERE r.capture_id = _capture_id($capture) AND r.phase NOT NULL"
    phases = {known for (known,) in warehouse.rows(query, capture=capture)[1]}
    if not phases and warehouse.path is None:
        raise EtqError(
            "of files, only traces of vLLM and SGLang have phases; ingest the file and set the phases of its runs with "
            "etq label --phase"
        )
    if phase not in phases:
        known = f"known are {', '.join(sorted(phases))}" if phases else "set phases of runs with etq label --phase"
        say(f"Note: no run of {capture.name} is of phase {phase}; {known}")
    return phase in phases


def note_excluded_runs(warehouse: Warehouse, capture: Capture, view: str, options: Mapping[str, Any]) -> None:
    """Print how many runs a view leaves out as not typical, and how they would change the result."""
    takes_typical = options.get("runs") != "all" and _defaults(view).get("runs") == "'typical'"
    others = left_out(warehouse, capture, options) if takes_typical else None
    if others is not None:
        slow = f"; ops that take longer in slow runs: {command_about('show', 'slow_runs')}" if others.slower else ""
        say(f"Note: {others.text}. --runs all counts every run{slow}")


def _attach_baseline(warehouse: Warehouse, baseline: str, capture: str, read_options: FileOptions) -> str:
    """Load a baseline file into the warehouse in memory that has the capture; return its name there."""
    if warehouse.path is not None:
        raise EtqError(f"{baseline} is a file and {capture} is not; ingest the baseline, too")
    return warehouse.attach_second(baseline, time_scale=read_options.time_scale).sha256


def show_view(
    view: str,
    capture: str,
    db: str,
    output: Output,
    read_options: FileOptions,
    **options: Any,
) -> None:
    """Open a capture and print a view of it, see `show_opened` for the other parameters."""
    with open_target(capture, db, read_options) as (warehouse, selector):
        baseline = options.get("baseline")
        if baseline is not None and Path(baseline).is_file():
            options["baseline"] = _attach_baseline(warehouse, baseline, capture, read_options)
        show_opened(view, capture, (warehouse, selector), output, **options)


def show_opened(
    view: str,
    capture: str,
    target: tuple[Warehouse, Capture],
    output: Output,
    *,
    total: bool = False,
    **options: Any,
) -> None:
    """Print a view of a capture in an open warehouse; `total`: whether people see sums, see `seen_of`."""
    warehouse, selector = target
    has_phase = check_runs(warehouse, selector, options)
    chosen = {name: value for name, value in options.items() if value is not None}
    parameters, call = {"capture": selector, **chosen}, f"{view}($capture{catalog.more_arguments(chosen)})"
    stored = stored_rows(warehouse, view, parameters)
    if stored is not None:
        call, parameters = stored, {"capture": selector}
    if view == ADVICE:
        query, parameters = advised(warehouse, selector, options, is_alone=warehouse.path is None)
        call = f"({query})"
    seen = catalog.named(view)
    use_named_view(
        warehouse, [capture], [*(column.name for column in seen.columns), *(column.name for column in seen.shown)]
    )
    if output.is_to_read and selection.get().columns is None:
        seen = seen_of(warehouse, selector, seen, total)
    below = BelowClock(warehouse, selector, seen, call, parameters)
    marked = below.marked if "executes" in {column.name for column in seen.columns} else None
    has_rows = write(warehouse, f"FROM {call}", output, view=seen, needs_rows=True, marked=marked, **parameters)
    if not has_rows and has_phase:
        note_no_rows(warehouse, view, capture, selector, options)
    elif view == "delegate_graph":
        note_unaligned(warehouse, capture, selector)
    elif view == "module_totals":
        note_unknown_times(warehouse, call, parameters)
    elif view == "key_averages" and options.get("by") not in (None, "name"):
        note_undivided(warehouse, call, options["by"], capture, parameters)
    elif selector.format == TRACE and view in ("step_breakdown", "average_step", "compilation"):
        _note_no_steps(warehouse, selector)
    elif view == "device_idle_causes" and options.get("by") in (None, "device"):
        command = command_about("show", "idle_parts")
        say(f"Note: each gap is counted under the cause of its longer part. The parts, as in advice: {command}")
    if has_rows:
        below.note(options.get("unit"))
    note_excluded_runs(warehouse, selector, view, options)


def _defaults(view: str) -> dict[str, str | None]:
    return {parameter.name: parameter.default for parameter in catalog.named(view).parameters}


def drop_methods(options: dict[str, Any]) -> None:
    """Remove the options that select runs by method or typicality, for views of traces. Raise `EtqError` if a method is
    asked for.
    """
    if options.pop("method", None) is not None:
        raise EtqError("traces have no methods; leave out --method")
    options.pop("runs", None)


def check_runs(warehouse: Warehouse, capture: Capture, options: Mapping[str, Any]) -> bool:
    """Return whether a run has the phase, as `check_phase` does. Raise `EtqError` for an unknown method, too."""
    check_method(warehouse, capture, options.get("method"))
    return check_phase(warehouse, capture, options.get("phase"))


def seen_of(warehouse: Warehouse, capture: Capture, view: catalog.SqlObject, total: bool) -> catalog.SqlObject:
    """Return a view with the columns that people see of a capture: without sums, unless `total` is set or the table is
    sorted by one; without the method, if there is only one. For a trace without steps, sums are shown and columns about
    steps are not.
    """
    hidden = {name for name in view.sums if not total and name != selection.get().sort_by}
    if "steps" in view.sums and not has_steps(warehouse, capture):
        hidden = {column.name for column in view.shown if "step" in column.name}
    if "method" in _defaults(view.name) and has_one_method(warehouse, capture):
        hidden.add("method")
    return view.without(hidden)


def _note_no_steps(warehouse: Warehouse, trace: Capture) -> None:
    """Print that what is shown as a step is the whole recording, if a trace has no steps."""
    if not has_steps(warehouse, trace):
        say("Note: the trace has no steps: the whole recording counts as one")


def has_steps(warehouse: Warehouse, capture: Capture) -> bool:
    """Whether a capture is a trace with steps."""
    query = "SELECT _step_count($key, NULL, NULL) IS NOT NULL"
    return bool(warehouse.rows(query, key=capture.capture_id)[1][0][0])
