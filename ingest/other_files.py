"""Files that PyTorch writes and etq doesn't read: what they are, and what to give instead.

The forms are those of torch's sources: `torch/cuda/memory.py` and `torch/cuda/_memory_viz.py` (snapshots),
`torch/profiler/_memory_profiler.py` (memory timelines), `torch/csrc/profiler/standalone/execution_trace_observer.cpp`.
"""

from __future__ import annotations

import re
from typing import Any, Final

# How many bytes of a file are looked at.
HEAD: Final = 2**16

_TRACE: Final = "record profile_memory=True and give the profiler's trace"
_REFUSED: Final = f"etq never reads pickles, as reading one runs what its author put in it; {_TRACE}"
_SNAPSHOT_PAGE: Final = (
    f"this is the page of a memory snapshot (torch.cuda._memory_viz), whose data is a pickle within; {_REFUSED}"
)
# By how their text begins.
_FORMS: Final = (
    (
        re.compile(rb"\x80[\x02-\x05]"),
        f"this is a pickle, such as torch.cuda.memory writes as snapshots; {_REFUSED}",
    ),
    (
        re.compile(rb'\{\s*"segments"\s*:\s*\[|\{[^\[]*"device_traces"\s*:\s*\['),
        f"this is a memory snapshot of torch.cuda as JSON, which has no ops and no steps; {_TRACE}",
    ),
    (
        re.compile(rb'\{[^\[]*"schema"\s*:\s*"[\d.]+[^"]*"[^\[]*"nodes"\s*:\s*\['),
        "this is an execution trace (ExecutionTraceObserver), which has no times; give the profiler's trace",
    ),
    (
        re.compile(rb"\[\s*\[\s*(?:-?\d|\])"),
        f"this is a memory timeline (export_memory_timeline), which has no allocations of ops; {_TRACE}",
    ),
)
_IS_PAGE: Final = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html|script|head)\b", re.IGNORECASE | re.DOTALL)


def other_file(data: Any) -> str | None:
    """Return what a file of another kind is, and what to give instead; None if its bytes begin as none of these do."""
    head = bytes(data[:HEAD]).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if _IS_PAGE.match(head):
        if b"MemoryViz.js" in head or b"add_local_files" in head:
            return _SNAPSHOT_PAGE
        if b"GPU Memory Timeline" in head:
            return f"this is the page of a memory timeline (export_memory_timeline), which is an image; {_TRACE}"
        return "this is an HTML page, not a profiling file; give the file that the profiler wrote"
    return next((text for form, text in _FORMS if form.match(head)), None)
