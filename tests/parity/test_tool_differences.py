"""What docs/compatibility.md says of the old parser, torch, the TensorBoard plug-in and HolisticTraceAnalysis: each line
that names a difference has a test here or elsewhere.

The other tool's answer on the same trace is beside etq's: of torch 2.13, torch-tb-profiler 0.4.3 and HolisticTraceAnalysis
0.5.0 (with `include_last_profiler_step`, where not told).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.docs.pages import lines_are_tested
from tests.parity.oracle import read
from tests.trace_builders import event
from tests.traces import Traces

Events = list[dict[str, Any]]


def launched(
    name: str, start: float, end: float, number: int, at: float, call: str = "cudaLaunchKernel", stream: int = 7
) -> Events:
    """A kernel and its call, which takes 2 us."""
    return [
        event("cuda_runtime", call, at, at + 2, correlation=number),
        event("kernel", name, start, end, stream, device=0, stream=stream, correlation=number),
    ]


def step(number: int, start: float, end: float) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", start, end)


def unlaunched(start: float, end: float) -> dict[str, Any]:
    return event("kernel", "unlaunched", start, end, 7, device=0, stream=7, correlation=99)


TWO_STEPS = [
    step(1, 0, 200), event("cpu_op", "aten::mm", 2, 18), *launched("first", 20, 40, 1, 5), unlaunched(100, 110),
    *launched("second", 150, 170, 2, 120), step(2, 200, 400), *launched("third", 250, 270, 3, 220),
]  # fmt: skip
# An op in an op of its name. The calls that launched the kernels are not recorded.
SAME_NAME = [
    event("cpu_op", "aten::copy_", 0, 20, external=1), event("cpu_op", "aten::copy_", 3, 10, external=2),
    event("kernel", "inner", 30, 33, 7, device=0, external=2, correlation=11),
    event("kernel", "outer", 40, 45, 7, device=0, external=1, correlation=12),
]  # fmt: skip
SAME_NAME_LAUNCHED = [
    *SAME_NAME, event("cuda_runtime", "cudaLaunchKernel", 4, 6, external=2, correlation=11),
    event("cuda_runtime", "cudaLaunchKernel", 12, 14, external=1, correlation=12),
]  # fmt: skip
# An op and what `backward()` runs for it, with their stacks.
OF_FORWARD: dict[str, Any] = {"Sequence number": 1, "Call stack": "net.py(3): forward;net.py(9): main;"}
OF_BACKWARD: dict[str, Any] = {"Sequence number": 1, "Call stack": "torch/_tensor.py(566): backward;net.py(9): main;"}
BACKWARD = [
    event("cpu_op", "aten::mm", 10, 20, **OF_FORWARD),
    event("cpu_op", "MmBackward0", 40, 80, **OF_BACKWARD, **{"Fwd thread id": 1}),
]
# Shares of 33 and 10 of 43 us, and of 17, 33 and 10 of 60.
SHARES = [
    *launched("first", 20, 40, 1, 5), *launched("second", 50, 63, 2, 12),
    event("cuda_runtime", "cudaMemcpyAsync", 40, 42, correlation=3),
    event("gpu_memcpy", "Memcpy DtoD", 70, 80, 7, device=0, stream=7, correlation=3),
]  # fmt: skip
FRACTIONS = [
    event("cpu_op", "aten::mm", 2, 18), *launched("first", 20.4, 40.6, 1, 5), *launched("second", 50.25, 60.75, 2, 12)
]  # fmt: skip
# An op of the host and a kernel have a name.
ONE_NAME = [
    step(1, 0, 200), event("cpu_op", "aten::mm", 2.4, 18.6), *launched("aten::mm", 120, 130, 1, 5), step(2, 200, 400),
    event("cpu_op", "aten::mm", 210, 220), *launched("k", 250, 260, 2, 212),
]  # fmt: skip
# Of HolisticTraceAnalysis's eleven names of launches, and of others: all launch a kernel, 18 us later.
CALLS = (
    "cudaLaunchKernel", "runFunction - job_prep_and_submit_for_execution", "hipLaunchKernel", "cudaGraphLaunch",
    "hipModuleLaunchKernel", "urEnqueueKernelLaunch",
)  # fmt: skip


class Case(NamedTuple):
    """A trace's events, a question about the trace `t`, etq's rows, and what the other tool answers instead."""

    events: Events
    query: str
    expected: list[tuple[Any, ...]]
    theirs: str


PROF_RESULT = {
    "In a block with several": "parity/test_prof_result.py: test_the_longest_execute_is_each_iterations_own",
    "Each block has the names": "parity/test_prof_result.py: test_a_block_has_its_own_allocators_names",
    "An execute that took no time": "parity/test_prof_result.py: test_the_old_parsers_answers",
    "A file whose iterations": "parity/test_prof_result.py: test_the_old_parsers_answers",
    "A file is refused if it is cut off": "parity/test_prof_result.py: test_files_that_the_old_parser_takes_and_that_are_refused",
}
TORCH: dict[str, str | Case] = {
    "torch adds up all calls": "sql/test_thread_times.py: "
    "test_children_that_overlap_leave_their_parent_no_less_than_nothing",
    "If the only child of an op": Case(
        SAME_NAME,
        "SELECT calls, self_cpu_time, self_device_time FROM key_averages('t') WHERE name = 'aten::copy_'",
        [(1, 20, 8)],
        "1 call, whose kernels are those of the inner op: 3 us",
    ),
    "Waits of a device": "sql/test_trace_views.py: test_waits_and_annotations_do_not_count_as_device_time",
    "Work that no op launched": "sql/test_trace_views.py: test_what_no_op_launched_is_a_row",
}
LACKING: dict[str, str | Case] = {
    "flops": "test_a_file_has_no_flops",
    "a mark of calls that ended": "test_a_file_has_no_mark_of_a_call_that_ended_in_another_thread",
    "the end of the recording as": Case(
        [
            event("Trace", "PyTorch Profiler (0)", 0, 330, 0),
            event("user_annotation", "open", 212, 743),
            event("cpu_op", "aten::add", 279, 309),
        ],
        "SELECT name, self_cpu_time, cpu_time_total FROM key_averages('t')",
        [("open", 501, 531), ("aten::add", 30, 30)],
        "the annotation ends at 330",
    ),
    "by stack": Case(
        BACKWARD,
        "SELECT name, stack FROM key_averages('t', \"by\" := 'stack') WHERE name = 'MmBackward0'",
        [("MmBackward0", "torch/_tensor.py(566): backward;net.py(9): main")],
        "net.py(3): forward;net.py(9): main",
    ),
    "with `capture_overload_names`": Case(
        [event("cpu_op", "aten::add_.Tensor", 0, 5), event("cpu_op", "aten::add_.Scalar", 6, 8)],
        "SELECT name, calls FROM key_averages('t')",
        [("aten::add_.Tensor", 1), ("aten::add_.Scalar", 1)],
        "aten::add_, 2 calls",
    ),
    "with `acc_events`": Case(
        [step(2, 0, 9), event("cpu_op", "aten::add", 1, 4)],
        "SELECT calls FROM key_averages('t') WHERE name = 'aten::add'",
        [(1,)],
        "2 calls, if another cycle with a call was recorded before",
    ),
}
TENSORBOARD: dict[str, str | Case] = {
    "knows only categories": "parity/test_tensorboard.py: test_steps_that_the_plug_in_counts_otherwise",
    "attributes a kernel": "sql/test_trace_views.py: test_device_time_is_of_the_op_around_the_launch",
    "loses the kernels": Case(
        SAME_NAME_LAUNCHED,
        "SELECT name, calls, device_self_time, device_total_time, host_total_time FROM operator_table('t')",
        [("aten::copy_", 1, 8, 8, 20)],
        "1 call, 3 us on the device",
    ),
    "counts a step": "parity/test_tensorboard.py: test_steps_that_the_plug_in_counts_otherwise",
    "counts time twice": "sql/test_trace_views.py: test_time_counts_once_where_kernels_fill_the_steps",
    "adds up the calls": "sql/test_thread_times.py: test_an_op_within_itself_has_one_row_and_its_time_once",
    "decides by an op's": "sql/test_trace_views.py: test_an_op_is_eligible_where_any_call_is",
    "knows kernels with": "sql/test_kernels.py: test_the_share_of_tensor_cores_is_of_all_kernels",
    "repeats a module's": "sql/test_trace_views.py: test_modules",
    "omits calls in ops": "sql/test_trace_views.py: test_memory",
    "compares the CPU's": "sql/test_advice_of_traces.py: test_full_memory_is_that_of_devices",
    "fails on a trace": "unit/test_torch_trace.py: test_a_trace_read_in_blocks_is_the_same",
}
HTA: dict[str, str | Case] = {
    "in traces of several steps": Case(
        TWO_STEPS,
        "SELECT next_event, duration FROM device_idle('t', \"by\" := 'stream') ORDER BY start",
        [("unlaunched", 60), ("second", 40), ("third", 80)],
        "190 us of idle time: 110 between first and second",
    ),
    "gaps are negative": "parity/test_hta.py: test_a_gap_is_not_negative",
    "`consecutive_kernel_delay`": "sql/test_device_idle.py: test_limits",
    "knows launches": Case(
        [
            each
            for at, call in enumerate(CALLS)
            for each in launched("k", 100 * at + 20, 100 * at + 30, at + 1, 100 * at, call)
        ],
        "SELECT call, launch_delay FROM kernel_launches('t') ORDER BY start",
        [(call, 18) for call in CALLS],
        "of these, the statistics have the first two, the queues the first three",
    ),
    "takes events named": "parity/test_hta.py: test_a_kernel_is_one_by_its_category",
    "counters of several": "sql/test_kernel_counters.py: test_ranges_of_two_devices_are_in_no_order",
    "fails if a launch": "sql/test_kernel_counters.py: test_counters_of_two_kernels",
    "shares of types": Case(
        SHARES,
        "SELECT t.share_percent, b.idle_percent, b.non_compute_percent FROM work_types('t') AS t, device_breakdown('t') AS b",
        [(100 * 33 / 43, 100 * 17 / 60, 100 * 10 / 60), (100 * 10 / 43, 100 * 17 / 60, 100 * 10 / 60)],
        "76.7 and 23.3; 28.33; 16.67",
    ),
    "a queue gets": "parity/test_hta.py: test_a_queue_is_not_shorter_than_empty",
    "on the critical path": "parity/test_hta.py: test_a_kernel_that_was_launched_late_waited_for_its_launch",
    "the critical path needs": "parity/test_hta.py: test_calls_wait_also_if_that_is_not_recorded",
    "the thread of the forward": "sql/test_critical_path.py: test_paths_that_are_known",
    "shortens fractional": Case(
        FRACTIONS,
        "SELECT event, duration, launch_delay FROM kernel_launches('t')",
        [("first", 20.2, 13.4), ("second", 10.5, 36.25)],
        "19 and 14, 9 and 37",
    ),
    "the last step is left out": Case(
        TWO_STEPS,
        "SELECT event, total FROM work_totals('t') ORDER BY event",
        [("first", 20), ("second", 20), ("third", 20), ("unlaunched", 10)],
        "first and second, by default",
    ),
}
TRACE_DIFF: dict[str, str | Case] = {
    "rounds starts up": Case(
        FRACTIONS,
        "SELECT name, base_time FROM trace_diff('t', 't') WHERE is_device ORDER BY 1",
        [("first", 20.2), ("second", 10.5)],
        "19 and 9",
    ),
    "takes the first step": Case(
        ONE_NAME,
        "SELECT name, base_calls FROM trace_diff('t', 't') WHERE name IN ('k', 'cudaLaunchKernel') ORDER BY 1",
        [("cudaLaunchKernel", 2), ("k", 1)],
        "1 and 0",
    ),
    "leaves out work of stream 0": Case(
        [step(1, 0, 200), *launched("of_0", 20, 40, 1, 5, stream=0), *launched("of_7", 50, 60, 2, 8)],
        "SELECT name, base_calls, base_time FROM trace_diff('t', 't') WHERE is_device ORDER BY 1",
        [("of_0", 1, 20), ("of_7", 1, 10)],
        "only of_7",
    ),
    "adds events of the host": Case(
        ONE_NAME,
        "SELECT is_device, base_calls, base_time FROM trace_diff('t', 't') WHERE name = 'aten::mm' ORDER BY 1",
        [(False, 2, 26.2), (True, 1, 10)],
        "of both steps, 3 calls of 35 us",
    ),
    "has a row for each": "parity/test_trace_diff.py: test_steps_and_other_captures",
}
SECTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("## prof_result.bin", "with these exceptions:", PROF_RESULT),
    ("## torch.profiler: key_averages()", "Deliberate differences:", TORCH),
    ("## torch.profiler: key_averages()", "A trace file lacks some of what torch has in memory:", LACKING),
    ("## TensorBoard plug-in", "except for these differences:", TENSORBOARD),
    ("### Differences from HolisticTraceAnalysis", "except for these differences:", HTA),
    ("### Differences of trace_diff", "except for the following:", TRACE_DIFF),
]
CASES = {
    beginning: each for *_, lines in SECTIONS for beginning, each in lines.items() if isinstance(each, Case)
}  # fmt: skip


@pytest.mark.parametrize(("heading", "before", "tested"), SECTIONS)
def test_each_line_has_a_test(heading: str, before: str, tested: dict[str, Any]) -> None:
    names = {line: "test_answers" if isinstance(each, Case) else each for line, each in tested.items()}
    lines_are_tested(heading, before, names, __file__)


@pytest.fixture
def traces(warehouse: Warehouse, tmp_path: Path) -> Traces:
    return Traces(warehouse, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("line", CASES)
def test_answers(traces: Traces, line: str) -> None:
    events, query, expected, _ = CASES[line]
    traces.take(*events)
    rows = traces.warehouse.rows(query)[1]
    assert rows == [tuple(pytest.approx(each) if isinstance(each, float) else each for each in row) for row in expected]


def test_a_file_has_no_flops(warehouse: Warehouse) -> None:
    folder = CAPTURES / "torch"
    in_memory = {row["key"]: row["flops"] for row in read(folder / "conv_infer.key_averages.json.gz")["by_name"]}
    assert sum(flops > 0 for flops in in_memory.values()) == 2
    path = folder / "conv_infer.pt.trace.json.gz"
    assert not any("flops" in json.dumps(each).lower() for each in read(path)["traceEvents"])
    warehouse.ingest(path, name="t")
    rows = warehouse.rows("SELECT k.name, k.flops FROM key_averages('t') AS k")[1]
    assert {name for name, _ in rows} == {*in_memory} and {flops for _, flops in rows} == {None}


def test_a_file_has_no_mark_of_a_call_that_ended_in_another_thread(warehouse: Warehouse) -> None:
    """For torch, a collective of gloo has no self time, as it ended in another thread."""
    path = CAPTURES / "torch_gloo" / "rank0.pt.trace.json.gz"
    calls = [each for each in read(path)["traceEvents"] if each["name"] == "gloo:all_reduce"]
    marks = {key for each in calls for key in (*each, *each["args"])}
    assert marks == {
        *("ph", "cat", "name", "pid", "tid", "ts", "dur", "args"),
        *(
            "External id",
            "Record function id",
            "Ev Idx",
            "Concrete Inputs",
            "Input type",
            "Input Strides",
            "Input Dims",
        ),
    }
    warehouse.ingest(path, name="t")
    query = (
        "SELECT k.self_cpu_time, k.torch_self_cpu_time FROM key_averages('t', unit := 'us') AS k WHERE k.name = $name"
    )
    total = pytest.approx(sum(each["dur"] for each in calls))
    assert warehouse.rows(query, name="gloo:all_reduce")[1] == [(total, total)]
