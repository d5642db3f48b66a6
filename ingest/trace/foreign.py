"""Recognises traces that have the form of PyTorch's profiler, but are from another tool. The error names the tool, and
the file to give instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from etq.errors import FormatError, counted
from etq.ingest.trace.classes import rules
from etq.ingest.trace.columns import TraceColumns, spelled
from etq.ingest.trace.scanner import Trace

_GIVE: Final = "give the profiler's own file, as prof.export_chrome_trace of torch.profiler writes it"
# A mark of etq's own export of other captures.
_MADE_BY: Final = re.compile(rb'"made_by"\s*:\s*"etq ')


class _Tool(NamedTuple):
    """A tool, recognised by a pattern in a category, in the name of a process, or in the name of an event."""

    what: str
    category: str | None = None
    process: str | None = None
    name: str | None = None

    def has(self, category: str, process: str, name: str) -> bool:
        return any(
            pattern is not None and re.search(pattern, text) is not None
            for pattern, text in ((self.category, category), (self.process, process), (self.name, name))
        )


_TOOLS: Final = (
    _Tool(
        "a list of events by EventList.export_chrome_trace (prof.events(), torch.autograd.profiler), which has no "
        "categories and does not tell kernels from ops",
        process=r"^(CPU|CUDA|XPU|PrivateUse1) functions",
    ),
    _Tool("a trace of XLA (JAX, torch_xla, TensorFlow)", process=r"^/(device|host):|XLA|TPU"),
    _Tool("a trace of VizTracer", category=r"^FEE", process=r"(?i)viztracer"),
    _Tool(
        "a trace of Chrome or Node.js (DevTools)",
        category=r"devtools|\bv8\b|\bblink\b|toplevel|^__metadata$|loading|node\.",
    ),
    _Tool(
        "a trace converted from Nsight Systems",
        category=r"^(cuda|nvtx|osrt|cublas|cudnn)(_|$)",
        process=r"(?i)nsys|nsight",
    ),
    _Tool("a trace of rocprof", process=r"^(CPU )?(HIP|HSA) (API|copy)|^GPU\d* *(HIP|$)|^COPY"),
    _Tool(
        "a trace of counters of Arm's FVP (Ethos-U)",
        process=r"^(NPU|DMA|Ethos)",
        name=r"^(npu|axi|mac|wd)_|_(cycles|beats|active)$",
    ),
)


def check_is_torchs(trace: Trace, columns: TraceColumns, of_tracks: Collection[str], path: str) -> None:
    """Raise `FormatError` for a trace of another tool.

    In such a trace, no event has a category of PyTorch's profiler or of `of_tracks`, and nothing else in the file is
    from the profiler.
    """
    written = (trace.schemaVersion, trace.deviceProperties, trace.distributedInfo, trace.baseTimeNanoseconds)
    if not len(columns.key) or any(map(len, map(bytes, written))) or _MADE_BY.search(bytes(trace.otherData)):
        return
    known = rules()
    categories = {category for category, _ in columns.keys.kinds}
    # If no slice has a category or a process, the trace was written by hand, not by a tool.
    if categories == {""} and {process for process, _ in columns.threads} == {None}:
        return
    if any(each and (each in of_tracks or known.of_category(each) is not None) for each in categories):
        return
    found = [*_described(columns)]
    what = next((tool.what for tool in _TOOLS for each in found if tool.has(*each)), None)
    category, process, name = found[0]
    if what is None:
        of = " ".join(
            part for part in (f"category {category}" * bool(category), f"process {process}" * bool(process)) if part
        )
        what = f"a trace of another tool, whose first event is {name[:60]!r}" + (f" of {of[:100]}" if of else "")
    raise FormatError(
        path,
        f"not a PyTorch trace: this is {what}; none of {counted(len(columns.key), 'event')} has a category of the "
        f"profiler, such as cpu_op; {_GIVE}",
    )


def _described(columns: TraceColumns) -> Iterator[tuple[str, str, str]]:
    """Yield the category, process and name of each kind of event. The process is given by its name, or by its id if it
    has none.
    """
    kinds, threads = [*columns.keys.kinds], [*columns.keys.threads]
    for kind, thread in zip(columns.keys.kind, columns.keys.thread, strict=True):
        category, name = kinds[kind] if kind >= 0 else ("", "")
        process = spelled(threads[thread][0])
        yield category, columns.process_names.get(process, process), name
