"""Converts traces in Perfetto's format (`.pftrace`), which torch's profiler can also export, to the JSON that the
reader takes.

Perfetto's trace processor reads them: the package `perfetto` brings or downloads it.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

import msgspec

from etq.errors import FormatError

# The variable that names the trace processor's program; if it is set, nothing is downloaded.
VARIABLE: Final = "ETQ_TRACE_PROCESSOR"
_INSTEAD: Final = "or give the JSON that export_chrome_trace writes (.pt.trace.json, .json.gz)"
_SLICES: Final = """
    SELECT s.ts AS ts, s.dur AS dur, s.name AS name, s.category AS category, s.arg_set_id AS arg_set,
        coalesce(p.pid, q.pid) AS pid, h.tid AS tid, coalesce(p.name, q.name) AS process,
        coalesce(h.name, t.name) AS thread
    FROM slice AS s
    JOIN track AS t ON t.id = s.track_id
    LEFT JOIN thread_track AS u ON u.id = t.id
    LEFT JOIN thread AS h ON h.utid = u.utid
    LEFT JOIN process AS p ON p.upid = h.upid
    LEFT JOIN process_track AS v ON v.id = t.id
    LEFT JOIN process AS q ON q.upid = v.upid
    ORDER BY s.ts, s.dur DESC, s.id
"""
_ARGUMENTS: Final = """
    SELECT arg_set_id AS arg_set, json_group_object(key, coalesce(string_value, int_value, real_value)) AS json
    FROM args WHERE key GLOB 'debug.*' GROUP BY arg_set_id
"""
_STREAM: Final = re.compile(r"stream (\d+)\s*")
_CALL: Final = re.compile(r"(cuda|cu|hip)[A-Z]")
_OF_INPUTS: Final = {"Input Dims", "Input Strides"}
_INDEX: Final = re.compile(r"\[(\d+)\]")


def json_of(data: Any, path: str) -> bytes:
    """Return the JSON of a trace in Perfetto's format, packed or not.

    Raises `FormatError` if the trace processor is missing, or can't read the file.
    """
    with _processor(bytes(data), path) as query:
        arguments = {row.arg_set: _arguments(msgspec.json.decode(row.json)) for row in query(_ARGUMENTS)}
        events, names = [], {}
        for row in query(_SLICES):
            pid, tid = row.pid, row.thread if row.tid is None else row.tid
            names["process_name", pid, None] = row.process
            names["thread_name", pid, tid] = row.thread
            events.append(_event(row, pid, tid, arguments.get(row.arg_set, {})))
    if not events:
        raise FormatError(path, f"a trace of Protocol Buffers without slices; {_INSTEAD.removeprefix('or ')}")
    named = [
        {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
        for (what, pid, tid), name in names.items()
        if name is not None
    ]
    return msgspec.json.encode({"traceEvents": [*named, *events]})


def _event(row: Any, pid: int | None, tid: int | str | None, args: dict[str, Any]) -> dict[str, Any]:
    stream = _STREAM.fullmatch(row.thread or "")
    if stream is not None:
        args = {"stream": int(stream[1]), **args}
    event = {"ph": "X", "name": row.name or "", "cat": row.category or _category(row.name or "", args)}
    event |= {"pid": pid, "tid": tid, "ts": _microseconds(row.ts), "args": args}
    return event if row.dur < 0 else event | {"dur": _microseconds(row.dur)}


def _category(name: str, args: Mapping[str, Any]) -> str:
    """Return an event's category, derived from its name and arguments: torch doesn't write categories in this
    format.
    """
    if "stream" in args or "device" in args:
        of_name = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name[:6], "kernel")
        return "cuda_sync" if "cuda_sync_kind" in args else of_name
    if name.startswith("ProfilerStep#"):
        return "user_annotation"
    return "cuda_runtime" if _CALL.match(name) else "cpu_op"


def _microseconds(nanoseconds: int) -> msgspec.Raw:
    return msgspec.Raw(b"%d.%03d" % divmod(nanoseconds, 1000))


def _arguments(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event's arguments. The format has the elements of lists one by one, with their places in the key.

    Empty lists aren't written. So the shapes of inputs are known only if all inputs have dimensions.
    """
    args: dict[str, Any] = {}
    for written_key, value in written.items():
        # The trace processor writes brackets and points in names as underscores.
        key, *_ = _INDEX.split(written_key.removeprefix("debug.").replace("est_ ", "est. "), maxsplit=1)
        places = [int(place) for place in _INDEX.findall(written_key)]
        if not places:
            args[key] = value
            continue
        values = args.setdefault(key, [])
        for place in places[:-1]:
            _grow(values, place, list)
            values = values[place]
        _grow(values, places[-1], lambda: None)
        values[places[-1]] = value
    for key in _OF_INPUTS & args.keys():
        if len(args[key]) != len(args.get("Input type", ())):
            del args[key]
    return args


def _grow(values: list[Any], place: int, empty: Any) -> None:
    values += [empty() for _ in range(place + 1 - len(values))]


@contextmanager
def _processor(data: bytes, path: str) -> Iterator[Any]:
    """Provide a function that runs a query on a trace in Perfetto's trace processor."""
    what = "this is a trace of Protocol Buffers, as Perfetto (.pftrace, .perfetto-trace) and XPlane"
    advice = f"name the program in {VARIABLE}, {_INSTEAD}"
    try:
        from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    except ImportError:
        raise FormatError(path, f"{what}: install its reader, pip install 'etq[perfetto]', {_INSTEAD}") from None
    try:
        config = TraceProcessorConfig(bin_path=os.environ.get(VARIABLE) or None)
        with redirect_stdout(sys.stderr):  # it prints that it downloads the program
            opened = TraceProcessor(trace=io.BytesIO(data), config=config)
        with opened as processor:
            yield processor.query
    except FormatError:
        raise
    except subprocess.CalledProcessError:
        raise FormatError(path, f"{what}; Perfetto's trace processor can't be downloaded: {advice}") from None
    except Exception as error:  # the package raises this even if its program ends
        reason = (str(error).splitlines() or [repr(error)])[0][:200]
        raise FormatError(path, f"{what}; Perfetto's trace processor failed: {reason}; {advice}") from error
