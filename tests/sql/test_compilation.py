"""The time in which torch.compile compiles."""

from __future__ import annotations

from tests.trace_builders import event
from tests.traces import Traces


def test_compilation_counts_each_moment_once(traces: Traces) -> None:
    """Two steps of 100 us: in the first 10 to 60, with regions in it, and 70 to 80; the second only runs what it compiled."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cpu_op", "entire_frame_compile", 10, 60),
        event("cpu_op", "_compile.compile_inner (dynamo_timed)", 12, 55),
        event("cpu_op", "build_guards (dynamo_timed)", 20, 30),
        event("python_function", "torch/_dynamo/convert_frame.py(1094): _compile", 70, 80),
        event("user_annotation", "ProfilerStep#2", 100, 200),
        event("cpu_op", "TorchDynamo Cache Lookup", 110, 120),
        event("cpu_op", "Torch-Compiled Region: 0/1", 120, 190),
    )
    columns = "step, time, share_percent, parts, step_time"
    assert traces.ask("compilation", columns, unit="us") == [(1, 60, 60, 2, 100), (2, 0, 0, 0, 100)]


def test_nothing_compiled(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100), event("cpu_op", "Torch-Compiled Region: 0/1", 10, 20)
    )
    assert traces.ask("compilation") == []
