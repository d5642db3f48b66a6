"""The step that each event of a trace belongs to, against plain Python."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from etq.ingest.trace.reader import read_torch_trace
from tests.sampling import examples
from tests.trace_builders import event

MOMENTS = st.integers(0, 30)


@examples(100)
@given(st.lists(st.tuples(MOMENTS, MOMENTS), max_size=12), st.lists(st.tuples(MOMENTS, MOMENTS), max_size=8))
def test_the_step_of_an_event(steps: list[tuple[int, int]], launches: list[tuple[int, int]]) -> None:
    """It is the last step to begin, of those that contain the event, or the launch of an event of a device; else none."""
    # Equal starts are in the order of the file.
    spans = sorted(((start, start + length) for start, length in steps), key=lambda each: each[0])
    made = [event("user_annotation", f"ProfilerStep#{place}", *each) for place, each in enumerate(spans)]
    for number, (at, delay) in enumerate(launches, 1):
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=number))
        made.append(event("kernel", "gemm", at + delay, at + delay + 5, 7, correlation=number, device=0, stream=7))
    runs = {}
    for name, rows in read_torch_trace(json.dumps({"traceEvents": made}).encode(), "made"):
        if name == "trace_events":
            runs.update({row["event_index"]: row["run_index"] for row in rows.to_pylist()})
    for number, (at, _) in enumerate(launches):
        around = [place for place, (start, end) in enumerate(spans) if start <= at <= end]
        place = len(spans) + 2 * number
        assert runs[place] == runs[place + 1] == max(around, default=len(spans))
