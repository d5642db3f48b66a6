"""Which op a device's time belongs to: small traces, with numbers by hand.

If torch or the plug-in (torch-tb-profiler 0.4.3) differs, a test has its answer on the same trace, too.
"""

from __future__ import annotations

from typing import Any

from tests.trace_builders import event
from tests.traces import Traces


def asked_of_ops(traces: Traces, **arguments: Any) -> dict[str, float]:
    return {name: time for name, time in traces.ask("operator_table", "name, device_self_time", **arguments) if time}


def test_device_time_is_of_the_op_around_the_launch(traces: Traces) -> None:
    """The plug-in uses ids only: the kernel belongs to aten::to, whose id is the correlation's, the copy to no op."""
    traces.take(
        event("cpu_op", "aten::to", 0, 10, external=31),
        event("cpu_op", "aten::mm", 20, 40, external=32),
        event("cuda_runtime", "cudaLaunchKernel", 25, 30, external=31, correlation=31),
        event("kernel", "gemm", 50, 90, 7, device=0, external=31, correlation=31),
        event("cpu_op", "aten::copy_", 50, 70, external=33),
        event("cuda_runtime", "cudaMemcpyAsync", 55, 60, external=0, correlation=40),
        event("gpu_memcpy", "Memcpy DtoH", 95, 100, 7, device=0, external=0, correlation=40),
        is_older=True,
    )
    assert asked_of_ops(traces) == {"aten::mm": 40.0, "aten::copy_": 5.0}


def test_an_op_that_calls_its_own_name_keeps_what_it_launches(traces: Traces) -> None:
    """The plug-in has only the 10 of the inner op."""
    traces.take(
        event("cpu_op", "aten::mm", 0, 50, external=1),
        event("cpu_op", "aten::mm", 5, 25, external=2),
        event("cuda_runtime", "cudaLaunchKernel", 10, 15, external=2, correlation=1),
        event("kernel", "k", 40, 50, 7, device=0, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 30, 35, external=1, correlation=2),
        event("kernel", "k", 60, 65, 7, device=0, correlation=2),
        is_older=True,
    )
    assert asked_of_ops(traces) == {"aten::mm": 15.0}
    # The op has two children, so torch's table counts two calls.
    columns = "name, calls, self_device_time, device_time_total, torch_device_time_total"
    assert traces.ask("key_averages", columns)[0] == ("aten::mm", 2, 15.0, 15.0, 25.0)


def test_merged_ops_have_all_that_they_launched(traces: Traces) -> None:
    """Where torch's table merges two ops into one call, the inner op's device time is its self time."""
    traces.take(
        event("cpu_op", "aten::mm", 0, 50, external=1),
        event("cpu_op", "aten::mm", 5, 25, external=2),
        event("cuda_runtime", "cudaLaunchKernel", 10, 15, external=2, correlation=1),
        event("kernel", "k", 40, 50, 7, device=0, external=2, correlation=1),
    )
    columns = "name, calls, self_device_time, device_time_total"
    assert traces.ask("key_averages", columns)[0] == ("aten::mm", 1, 10.0, 10.0)


def test_what_no_op_launched_is_a_row(traces: Traces) -> None:
    """A launch directly in a step belongs to the step. One outside of all ops, or not recorded, belongs to no op."""
    traces.take(
        event("cuda_runtime", "cudaLaunchKernel", 0, 2, external=9, correlation=1),
        event("kernel", "alone", 3, 10, 7, device=0, external=9, correlation=1),
        event("user_annotation", "ProfilerStep#1", 10, 50),
        event("cuda_runtime", "cudaLaunchKernel", 15, 20, correlation=2),
        event("kernel", "of_step", 30, 50, 7, device=0, correlation=2),
        event("cpu_op", "aten::mm", 25, 30, external=9),
        event("kernel", "of_id", 60, 63, 7, device=0, external=9, correlation=77),
        event("kernel", "of_nothing", 70, 71, 7, device=0, external=9, correlation=9),
    )
    rows = traces.ask("key_averages", "name, calls, self_device_time, device_time_total, is_device")
    times = {name: (calls, own, total) for name, calls, own, total, is_device in rows if not is_device and total}
    assert times == {"(no op)": (0, 8.0, 8.0), "ProfilerStep*": (1, 20.0, 23.0), "aten::mm": (1, 3.0, 3.0)}
    assert sum(own for _, own, _ in times.values()) == sum(own for *_, own, _, is_device in rows if is_device) == 31


def test_waits_and_annotations_do_not_count_as_device_time(traces: Traces) -> None:
    """Torch adds the wait of 8 to aten::item, and the annotation's 30 to `region`, which already has the copy's 5."""
    traces.take(
        event("user_annotation", "region", 0, 40, external=1),
        event("cpu_op", "aten::item", 5, 35, external=2),
        event("cuda_runtime", "cudaMemcpyAsync", 10, 15, external=2, correlation=1),
        event("gpu_memcpy", "Memcpy DtoH", 20, 25, 7, device=0, external=2, correlation=1),
        event("cuda_runtime", "cudaStreamSynchronize", 18, 30, external=2, correlation=2),
        event("cuda_sync", "Stream Sync", 20, 28, 7, device=0, external=2, correlation=2),
        event("gpu_user_annotation", "region", 10, 40, 7, external=1),
    )
    rows = traces.ask("key_averages", "name, self_device_time, device_time_total, is_device")
    assert [row[:3] for row in rows if row[2] and not row[3]] == [("aten::item", 5.0, 5.0), ("region", 0.0, 5.0)]


def test_a_kernel_of_communication_is_one_that_it_launched(traces: Traces) -> None:
    """The plug-in uses ids only: it takes the first kernel, which aten::mm launched, for communication."""
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cpu_op", "nccl:all_reduce", 0, 20, external=1),
        event("cuda_runtime", "cudaLaunchKernel", 5, 10, external=3, correlation=8),
        event("cpu_op", "aten::mm", 20, 30, external=2),
        event("cuda_runtime", "cudaLaunchKernel", 22, 25, external=1, correlation=9),
        event("kernel", "gemm", 40, 60, 7, device=0, external=1, correlation=9),
        event("kernel", "a_ring", 70, 77, 7, device=0, external=3, correlation=8),
    ]
    traces.take(*events, is_older=True)
    [step] = traces.steps()
    # In a trace with kernels, communication on the host is not counted.
    assert (step["Kernel"], step["Communication"]) == (20.0, 7.0)


def test_a_device_is_in_the_step_of_its_launch(traces: Traces) -> None:
    """Correlation ids repeat: a later kernel belongs to the later launch, one before both launches to the first."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cuda_runtime", "cudaLaunchKernel", 10, 20, correlation=1),
        event("user_annotation", "ProfilerStep#2", 100, 200),
        event("cuda_runtime", "cudaLaunchKernel", 110, 120, correlation=1),
        event("kernel", "early", 5, 8, 7, device=0, correlation=1),
        event("kernel", "of_one", 105, 108, 7, device=0, correlation=1),
        event("kernel", "of_two", 210, 215, 7, device=0, correlation=1),
    )
    runs = "SELECT label, run_index FROM events WHERE category = 'kernel' ORDER BY event_index"
    assert traces.warehouse.rows(runs)[1] == [("early", 0), ("of_one", 0), ("of_two", 1)]
    assert traces.ask("kernel_table", "kernel", steps="skip_first=1") == [("of_two",)]
    [(time,)] = traces.warehouse.rows(
        "SELECT self_device_time FROM key_averages('t', steps := 'skip_first=1') WHERE name = 'ProfilerStep*'"
    )[1]
    assert time == 5


def test_a_thread_is_one_however_it_is_written(traces: Traces) -> None:
    written = [
        event("cpu_op", "aten::mm", 0, 50, external=1),
        event("cuda_runtime", "cudaLaunchKernel", 10, 15, correlation=1) | {"tid": "1", "pid": "100"},
        event("kernel", "k", 40, 50, 7, device=0, correlation=1),
    ]
    traces.take(*written)
    assert asked_of_ops(traces) == {"aten::mm": 10.0}


def test_device_annotations_belong_to_no_op(traces: Traces) -> None:
    """They have rows as device events, and add no device time to an op."""
    kinds = ["cuda_event", "mtia_insight", "cuda_profiler_range", "gpu_user_annotation", "xpu_scope_profiler"]
    shown = [event(kind, kind, 10, 20, at, correlation=1, external=1, device=0) for at, kind in enumerate(kinds)]
    traces.take(event("cpu_op", "aten::mm", 0, 50), *shown)
    rows = traces.ask("key_averages", "name, is_device, self_cpu_time, self_device_time")
    assert sorted(rows) == sorted([("aten::mm", False, 50.0, None), *((kind, True, 0.0, 10.0) for kind in kinds)])
