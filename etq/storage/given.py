"""Checks that files given with a profiling file, such as its ETRecord, are of the stated kind."""

from __future__ import annotations

from typing import Final

from etq.errors import FormatError
from etq.ingest.recognition import KINDS, PROGRAM, RECORD, kind_of_bytes
from etq.storage.sources import Source

_TRACE: Final = "torch_trace"
# By the stated kind: advice on what to give, and the kinds that files may be recognised as.
_MEANT: Final = {
    "a graph capture": ("the trace that torch's profiler wrote while the graphs were captured", {_TRACE}),
    "an ETRecord": ("the .etrecord of the program", {RECORD}),
    "a program": ("the .pte that was run", {PROGRAM}),
    "a debug buffer": ("the file of values that the runtime wrote with the ETDump", set[str]()),
    # A device's log may contain both.
    "a file of metrics": ("a log of the runner, or JSON", {"etdump"}),
}


def check_given(source: Source, meant: str) -> None:
    """Raise `FormatError` if a file certainly isn't of the stated kind `meant`, a key of `_MEANT`."""
    advice, fitting = _MEANT[meant]
    kind = kind_of_bytes(source.content)
    if kind in KINDS and kind not in fitting:
        raise FormatError(source.uri, f"this is {KINDS[kind]}, not {meant}; give {advice}")


def check_takes(source: Source, **given: object) -> None:
    """Raise `FormatError` if a trace is given files that belong to an ETDump; `given` has the files by kind."""
    names = [name.replace("_", " ") for name, each in given.items() if each is not None]
    if names and kind_of_bytes(source.content) == _TRACE:
        raise FormatError(source.uri, f"a trace in JSON has no {' or '.join(names)}: leave it out, or give an ETDump")


def check_captures(source: Source, captures: tuple[Source, ...]) -> None:
    """Raise `FormatError` if the trace itself is given as a trace in which graphs were captured."""
    for capture in captures:
        if len(capture.content) == len(source.content) and capture.sha256 == source.sha256:
            what = "is the trace itself; give the trace that was recorded while its graphs were captured"
            raise FormatError(capture.uri, what)
