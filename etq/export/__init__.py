"""Captures in the formats of other tools: each a module with one function, which gives a file's text part by part.

chrome          Trace Event Format, for Perfetto, chrome://tracing and all that reads PyTorch's traces
speedscope      speedscope's own format: a profile for each run and track
hud             records of PyTorch's benchmark database
model-explorer  node data for Model Explorer: times over the graph of the model
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from etq.errors import EtqError, QueryError, WarehouseError, message_of

if TYPE_CHECKING:
    from etq.warehouse import Capture, Warehouse

# What chooses among runs: parameters of the views that are asked.
SCHEDULE: Final = ("skip_first", "wait", "warmup", "active", "repeat", "skip_first_wait", "phase")
# The formats, and what may be said of each.
OPTIONS: Final = {
    "chrome": ("runs", *SCHEDULE),
    "speedscope": ("runs", *SCHEDULE),
    "hud": ("by", *SCHEDULE),
    "model-explorer": ("method", "graph", "unit", *SCHEDULE),
}
FORMATS: Final = tuple(OPTIONS)
# The objects of the SQL that they ask.
NEEDS: Final = {
    "chrome": (
        *("timeline", "event_ops", "labels", "_chosen_runs", "threads", "trace_events", "op_arguments"),
        *("device_events", "trace_memory", "trace_devices"),
    ),
    "speedscope": ("timeline", "event_ops"),
    "hud": ("_benchmark_metrics", "op_totals", "labels", "delegates"),
    "model-explorer": ("_graph_times", "labels"),
}
GZIP: Final = ".gz"

Writer = Callable[["Warehouse", "Capture", dict[str, Any]], Iterator[str]]


def parts(warehouse: Warehouse, capture: str | Capture, to: str, **options: Any) -> Iterator[str]:
    """The text of a capture's file, part by part. Options and errors are those of `Warehouse.export`."""
    if to not in OPTIONS:
        raise QueryError(f"no format {to!r} to export to; known are {', '.join(FORMATS)}")
    given = {name: value for name, value in options.items() if value is not None}
    if unknown := sorted(set(given) - set(OPTIONS[to])):
        raise QueryError(f"{to} takes no {unknown[0]}; what it takes is {', '.join(OPTIONS[to])}")
    import duckdb

    found = warehouse.capture(capture) if isinstance(capture, str) else capture
    try:
        yield from _writer(to, found.format)(warehouse, found, given)
    except duckdb.Error as error:
        raise QueryError(message_of(error)) from error


def _writer(to: str, format: str) -> Writer:
    """The function of a format; what isn't asked for is not imported."""
    if to == "chrome" and format == "torch_trace":
        from etq.export.torch_trace import torch_trace

        return torch_trace
    if to == "chrome":
        from etq.export.chrome import chrome

        return chrome
    if to == "speedscope":
        from etq.export.speedscope import speedscope

        return speedscope
    if to == "hud":
        from etq.export.hud import hud

        return hud
    from etq.export.model_explorer import model_explorer

    return model_explorer


def to_file(text: Iterator[str], path: str | None) -> None:
    """Write text to a file, which is there once it is whole, or to standard output."""
    if path is None:
        for part in text:
            sys.stdout.write(part)
        return
    import secrets

    # What is no file, as a pipe or /dev/null, must stay what it is; so must a link.
    is_device = os.path.exists(path) and not Path(path).is_file()
    target = Path(path) if is_device else Path(os.path.realpath(path))
    fresh = target if is_device else target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        with _opened(fresh, path.endswith(GZIP)) as file:
            for part in text:
                file.write(part)
        if not is_device:
            fresh.replace(target)
    except OSError as error:
        raise WarehouseError(f"{path}: can't be written: {(error.strerror or str(error)).lower()}") from error
    finally:
        if not is_device:
            with suppress(OSError):
                fresh.unlink()


def _opened(path: Path, is_packed: bool) -> IO[str]:
    if is_packed:
        import gzip

        # Without the time and the name: the same capture gives the same bytes.
        return gzip.open(path, "wt", encoding="utf-8", newline="\n", compresslevel=6)
    return path.open("w", encoding="utf-8", newline="\n")


def refuse_existing(path: str | None, force: bool) -> None:
    """Raise `EtqError` where a file is there and `force` is not set."""
    if path is not None and os.path.exists(path) and not force:
        raise EtqError(f"{path}: exists; overwrite it with --force")
