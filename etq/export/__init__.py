"""Captures in the formats of other tools. Each format is a module with a function that yields a file's text in
parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from etq.database.publishing import new_file
from etq.errors import ArgumentTypeError, QueryError, message_of

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

Writer = Callable[["Answers", "Capture", dict[str, Any]], Iterator[str]]
GZIP: Final = ".gz"
# The parameters of views that select runs.
SCHEDULE: Final = ("steps", "phase")


class ExportFormat(NamedTuple):
    """A format. Its module in this package, and the function in it, have the format's name with _ for -."""

    text: str  # one line of description
    options: tuple[str, ...] = ()
    selects_runs: bool = True  # whether it takes the options of `SCHEDULE`


FORMATS: Final = {
    "chrome": ExportFormat(
        "trace for https://ui.perfetto.dev and chrome://tracing; of a PyTorch trace, that trace again",
        ("runs", "counters"),
    ),
    "speedscope": ExportFormat("profile for https://www.speedscope.app: flame charts, one a run", ("runs",)),
    "hud": ExportFormat(
        "records of PyTorch's benchmark database: latency, loading and metrics, labels as their names", ("by",)
    ),
    "model-explorer": ExportFormat(
        "node data for Model Explorer: times over the model's graph; needs a linked record", ("method", "graph", "unit")
    ),
    "replay": ExportFormat(
        "Python script that measures one op of a PyTorch trace, with torch alone", ("op", "shapes"), selects_runs=False
    ),
}


def parts(warehouse: Answers, capture: str | Capture | Sequence[Capture], to: str, **options: Any) -> Iterator[str]:
    """Yield the text of a capture's file in parts, or of several captures of traces as one Chrome trace. Options and
    errors are those of `Warehouse.export`.
    """
    if to not in FORMATS:
        raise QueryError(f"no format {to!r} to export to; known are {', '.join(FORMATS)}")
    options = {name: value for name, value in options.items() if value is not None}
    known = (*FORMATS[to].options, *(SCHEDULE if FORMATS[to].selects_runs else ()))
    if unknown := sorted(set(options) - set(known)):
        raise QueryError(f"{to} takes no {unknown[0]}; it takes {', '.join(known)}")
    import duckdb

    targets = captures_of(warehouse, capture, to) if isinstance(capture, str) else _listed(capture)
    target = targets[0]
    if target.format != "torch_trace" and options.pop("counters", False):
        raise QueryError(f"{target.name} is not a PyTorch trace: only traces have counters; leave out counters")
    if len(targets) > 1:
        _check_traces(targets, to)
    if "runs" in options:
        _check_runs(warehouse, targets, options["runs"])
    try:
        if "phase" in options:  # views check the phase only if there are rows
            warehouse.rows("SELECT _known_phase($phase)", phase=options["phase"])
        if len(targets) > 1:
            from etq.export.job_trace import job_trace

            yield from job_trace(warehouse, targets, options)
        else:
            yield from _writer(to, target.format)(warehouse, target, options)
    except duckdb.Error as error:
        raise QueryError(message_of(error)) from error


def _check_runs(warehouse: Answers, captures: Sequence[Capture], runs: object) -> None:
    """Raise `ArgumentTypeError` for another value than a list of runs, `QueryError` for a run that no capture has."""
    if not isinstance(runs, list | tuple) or not all(isinstance(run, int) for run in runs):
        raise ArgumentTypeError(f"runs is a list of run_index, not {runs!r}")
    query = "SELECT DISTINCT r.run_index FROM runs AS r WHERE r.capture_id IN (SELECT unnest($keys)) ORDER BY ALL"
    known = [run for (run,) in warehouse.rows(query, keys=[capture.capture_id for capture in captures])[1]]
    if unknown := sorted(set(runs).difference(known)):
        there = f"the runs are {min(known)} to {max(known)}" if known else "there are no runs"
        raise QueryError(f"no run has the run_index {unknown[0]}; {there}")


def captures_of(warehouse: Answers, selector: str, to: str) -> list[Capture]:
    """Return the captures to write: for chrome, all traces that a selector of labels matches; else one capture."""
    if to == "chrome":
        from etq.database.handles import Capture

        rows = warehouse.rows(_SELECTED, selector=selector)[1]
        if len(rows) > 1 and all(row[3] == "torch_trace" for row in rows):
            return [Capture(*row) for row in rows]
    return [warehouse.capture(selector)]


_SELECTED: Final = """
    SELECT c.capture_id, c.name, c.sha256, c.format FROM captures AS c
    WHERE _is_selector($selector)
        AND c.capture_id IN (SELECT m.capture_id FROM _matching_captures($selector) AS m)
    ORDER BY c.capture_id
"""


def _listed(captures: Capture | Sequence[Capture]) -> list[Capture]:
    return [*captures] if isinstance(captures, Sequence) else [captures]


def _check_traces(captures: Sequence[Capture], to: str) -> None:
    """Raise `QueryError` for captures that can't be written to one file."""
    if to != "chrome":
        raise QueryError(f"{to} takes one capture, not {len(captures)}; only chrome takes the traces of a job's ranks")
    for capture in captures:
        if capture.format != "torch_trace":
            raise QueryError(f"{capture.name} is not a PyTorch trace; only traces can share a file; select them alone")


def _writer(to: str, format: str) -> Writer:
    """Return the function of a format; captures of PyTorch traces have their own,
    which writes events as they were read.
    """
    name = "torch_trace" if (to, format) == ("chrome", "torch_trace") else to.replace("-", "_")
    writer: Writer = getattr(import_module(f"etq.export.{name}"), name)
    return writer


def to_file(text: Iterator[str], path: str | None, *, overwrite: bool = True) -> None:
    """Write text to standard output, or to a file, which appears when it is complete.

    Raises `EtqError` if it can't be written, or if it exists and `overwrite` is false.
    """
    if path is None:
        for part in text:
            sys.stdout.write(part)
        return
    with new_file(path, overwrite=overwrite) as written, _opened(Path(written), path.endswith(GZIP)) as file:
        for part in text:
            file.write(part)


def _opened(path: Path, is_packed: bool) -> IO[str]:
    if is_packed:
        import gzip

        # Time and name are left out of the gzip header, so the same capture gives the same bytes.
        return gzip.open(path, "wt", encoding="utf-8", newline="\n", compresslevel=6)
    return path.open("w", encoding="utf-8", newline="\n")
