"""The time in which torch.compile compiles, its parts, and what it compiles again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_etq
from tests.trace_builders import event, trace
from tests.traces import Traces

PARTS = ("dynamo", "aot_autograd", "inductor", "autotuning", "other", "graph_capture")
# What torch 2.13 writes of a function that is compiled for the first time, then for another size: each region twice, of
# dynamo_timed and of its log of events, whose numbers an annotation in it has.
REGIONS = (
    ("dynamo", "entire_frame_compile", "_compile.compile_inner (dynamo_timed)", 10, 60),
    ("dynamo", "bytecode_tracing", "bytecode_tracing (dynamo_timed)", 12, 20),
    ("other", "backend_compile", "OutputGraph.call_user_compiler (dynamo_timed)", 21, 50),
    ("inductor", "_recursive_pre_grad_passes", "_recursive_pre_grad_passes (dynamo_timed)", 22, 24),
    ("aot_autograd", "create_aot_dispatcher_function", "create_aot_dispatcher_function (dynamo_timed)", 25, 48),
    ("inductor", "inductor_compile", "compile_fx_inner (dynamo_timed)", 30, 46),
    ("inductor", "code_gen", "GraphLowering.compile_to_module (dynamo_timed)", 32, 45),
    ("autotuning", "mm_template_autotuning", "mm_template_autotuning (dynamo_timed)", 34, 39),
    ("dynamo", "build_guards", "build_guards (dynamo_timed)", 52, 58),
)


def compiled(at: float, number: int | None, thread: int = 1) -> list[dict[str, Any]]:
    """The compilation of function 0, the `number`-th; None: as torch 2.4 writes it."""
    found = []
    for _, phase, name, start, end in REGIONS:
        if number is None:
            found.append(event("user_annotation", name, at + start, at + end, thread))
            continue
        found.append(event("cpu_op", phase, at + start, at + end, thread))
        found.append(
            event("user_annotation", f"{phase}_data: fn_name=f, compile_id=0/{number}", at + start, at + start, thread)
        )
        found.append(event("cpu_op", name, at + start, at + end, thread))
    return found


def innermost(at: float) -> Counter[str]:
    """The time of each part of a compilation, microsecond by microsecond: of the last region that is open."""
    found: Counter[str] = Counter()
    for moment in range(200):
        names = [part for part, _, _, start, end in REGIONS if start <= moment < end]
        if names:
            found["dynamo" if names[-1] == "other" else names[-1]] += 1
    return found


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


@pytest.mark.parametrize("is_newer", [True, False])
def test_parts_of_compilation(traces: Traces, is_newer: bool) -> None:
    """Two steps compile a function; in the first, another thread compiles another function at the same time."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        *compiled(0, 0 if is_newer else None),
        event("cpu_op", "_compile.compile_inner (dynamo_timed)", 5, 61, 2),
        event("cpu_op", "Torch-Compiled Region: 0/0", 62, 70),
        event("user_annotation", "ProfilerStep#2", 100, 200),
        *compiled(100, 1 if is_newer else None),
        event("cpu_op", "Torch-Compiled Region: 0/1", 162, 170),
        event("cpu_op", "backend_compile", 180, 190),
        event("cpu_op", "Torch-Compiled Region: 0/1", 192, 195),
    )
    expected = innermost(0)
    of_parts = [expected[part] for part in PARTS]
    assert sum(of_parts) == 50 and expected["autotuning"] == 5 and expected["inductor"] == 2 + 16 - 5
    # The other thread's function is Dynamo's alone from 5 to 10 and 60 to 61, where nothing else runs.
    first = [of_parts[0] + 6, *of_parts[1:]]
    second = [*of_parts[:4], 10, 0]
    found = traces.ask("compilation", f"step, time, {', '.join(PARTS)}", unit="us")
    assert found == [(1, 56, *first), (2, 60, *second)]
    columns = "step, compile_id, recompilation, is_backward, time, dynamo, aot_autograd, inductor, autotuning, start"
    assert traces.ask("compilations", columns, unit="us") == [
        (1, None, None, False, 56, 56, 0, 0, 0, 5), (1, "0/0", 0, False, 50, *of_parts[:4], 10),
        (2, "0/1", 1, False, 50, *of_parts[:4], 110), (2, None, None, False, 10, 0, 0, 0, 0, 180),
    ]  # fmt: skip


def test_backward_passes_are_compiled_when_they_first_run(traces: Traces) -> None:
    """With the line around it and, where an annotation has one, the reason."""
    traces.take(
        event("python_function", "train.py(20): step", 0, 100),
        event("cpu_op", "entire_frame_compile", 1, 20),
        event("user_annotation", "entire_frame_compile_data: compile_id=3/2, recompile_reason=size of x, 16", 2, 2),
        event("cpu_op", "entire_backward_compile", 30, 60),
        event("user_annotation", "entire_backward_compile_data: fn_name=b, compile_id=3/2", 31, 31),
        event("cpu_op", "inductor_compile", 40, 55),
    )
    columns = "compile_id, recompilation, is_backward, time, aot_autograd, inductor, source, reason"
    line = "train.py(20): step"
    assert traces.ask("compilations", columns, unit="us") == [
        ("3/2", 2, False, 19, 0, 0, line, "size of x, 16"), ("3/2", 2, True, 30, 15, 15, line, None),
    ]  # fmt: skip


def test_captures_of_graphs(traces: Traces) -> None:
    """From the call that begins one to that which ends it, 10 to 40, and by torch's region; what compiles within is none."""
    traces.take(
        event("cpu_op", "aten::mm", 0, 100),
        event("cuda_runtime", "cudaStreamBeginCapture", 10, 12, correlation=1),
        event("cpu_op", "_compile.compile_inner (dynamo_timed)", 20, 25),
        event("cuda_runtime", "cudaStreamEndCapture", 38, 40, correlation=2),
        event("cpu_op", "CUDAGraphNode.record (dynamo_timed)", 50, 60),
        event("cuda_runtime", "cudaStreamBeginCapture", 90, 92, correlation=3),
    )
    assert traces.ask("compilation", "time, graph_capture", unit="us") == [(5, 25 + 10)]


def test_nothing_compiled(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100), event("cpu_op", "Torch-Compiled Region: 0/1", 10, 20)
    )
    assert traces.ask("compilation") == [] and traces.ask("compilations") == []


@pytest.mark.long
def test_the_first_screen_has_the_parts_and_recompilations(tmp_path: Path) -> None:
    path = tmp_path / "compiled.pt.trace.json"
    path.write_bytes(
        trace(
            event("cpu_op", "aten::mm", 0, 100),
            *compiled(0, 0),
            *compiled(100, 1),
            event("cpu_op", "aten::mm", 170, 200),
        )
    )
    text = run_etq(str(path)).stdout
    expected = innermost(0)
    shares = [
        f"{name} {2 * expected[part]} %"
        for name, part in (
            ("Inductor", "inductor"),
            ("AOTAutograd", "aot_autograd"),
            ("Dynamo", "dynamo"),
            ("autotuning", "autotuning"),
        )
    ]
    assert f"torch.compile compiles for 100 us of 200 us of the recording (50.0 %): {', '.join(shares)}\n" in text
    assert "  1 of 2 compilations are of functions compiled before: etq show compilations\n" in text
    assert "1 recompilation: etq show compilations" in run_etq("advice", str(path), "--format", "json").stdout
