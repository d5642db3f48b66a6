"""Views of traces, and whose time work of a device is: events, and expected numbers by hand.

If torch or the plug-in (torch-tb-profiler 0.4.3) differs, a test has its answer on the same trace, too.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from etq.errors import FormatError, QueryError
from etq.ingest.trace.ranks import rank_of
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Warehouse
from tests.command_line import run_etq
from tests.conftest import CAPTURES, shared_file
from tests.trace_builders import event, memory, two_steps
from tests.traces import Traces
from tests.warehouses import empty_warehouse

CATEGORIES = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
A100 = {"name": "NVIDIA A100", "totalGlobalMem": 1000, "computeMajor": 8, "computeMinor": 0, "numSms": 108}
TWO_DEVICES = [{"id": 0, **A100}, {"id": 1, **A100}]


PLAIN = [
    event("user_annotation", "ProfilerStep#1", 0, 100),
    event("cpu_op", "aten::mm", 0, 20, external=1),
    event("cuda_runtime", "cudaLaunchKernel", 5, 15, external=1, correlation=3),
    event("kernel", "ampere_sgemm_64x64_nn", 20, 90, 7, external=1, correlation=3, device=0),
]


@pytest.fixture(scope="module")
def stepped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traces]:
    """`two_steps`, not to be written to."""
    with empty_warehouse() as warehouse:
        taken = Traces(warehouse, tmp_path_factory.mktemp("traces"))
        taken.take(*two_steps())
        yield taken


# Of `two_steps`, by hand: the second step begins where the first ends and lasts until its kernel ends.
FIRST = {"Kernel": 40.0, "Runtime": 10.0, "CPU Exec": 20.0, "Other": 30.0}
SECOND = {"Kernel": 40.0, "Memcpy": 20.0, "Runtime": 16.0, "DataLoader": 8.0, "CPU Exec": 4.0, "Other": 32.0}


@pytest.mark.parametrize("is_older", [False, True])
def test_steps_of_both_layouts(traces: Traces, is_older: bool) -> None:
    traces.take(*two_steps(), is_older=is_older)
    assert traces.steps() == [FIRST, SECOND]
    rows = traces.ask("step_breakdown", unit="ns")
    assert [row[2] for row in rows] == [*CATEGORIES] * 2
    assert rows[8] == (1, 5, "Kernel", 40000.0, pytest.approx(100 * 40 / 120), "ns")


def test_without_steps_all_is_one(traces: Traces) -> None:
    traces.take(*[each for each in two_steps() if not each["name"].startswith("ProfilerStep")])
    assert traces.ask("step_breakdown", "DISTINCT step") == [(0,)]
    # From the first op, at 10, to the last kernel's end, at 220.
    assert sum(traces.steps()[0].values()) == 210


def test_steps_whose_kernels_were_not_all_recorded_are_left_out(traces: Traces) -> None:
    late = [event("user_annotation", "ProfilerStep#6", 200, 300), event("cpu_op", "aten::add", 210, 220)]
    traces.take(*two_steps(), *late)
    assert traces.ask("average_step", "steps")[0] == (2,)
    assert {row[1] for row in traces.ask("step_breakdown")} == {4, 5}


def test_a_step_begins_where_kernels_from_before_end(traces: Traces) -> None:
    early = event("kernel", "before", -20, 5, 7, device=0)
    later = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cuda_runtime", "cudaLaunchKernel", 10, 15, correlation=3),
        event("kernel", "k", 20, 30, 7, device=0, correlation=3),
    ]
    traces.take(early, *later)
    assert traces.steps() == [{"Kernel": 10.0, "Runtime": 5.0, "Other": 80.0}]


def test_time_counts_once_where_kernels_fill_the_steps(traces: Traces) -> None:
    """The plug-in starts over there: Kernel 120, Runtime 10, CPU Exec 10 and Other 100 of a step of 120."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("cpu_op", "aten::mm", 0, 20, external=1),
        event("cuda_runtime", "cudaLaunchKernel", 5, 15, external=1, correlation=3),
        event("kernel", "k", -10, 120, 7, external=1, correlation=3, device=0),
    )
    assert traces.steps() == [{"Kernel": 120.0}]


def test_operators(stepped: Traces) -> None:
    assert stepped.ask("operator_table") == [
        ("aten::addmm", None, 1, 40.0, 40.0, 10.0, 20.0, True, 100.0, 100.0, "us"),
        ("aten::relu", None, 1, 40.0, 40.0, 4.0, 10.0, False, 0.0, 0.0, "us"),
        ("aten::linear", None, 1, 0.0, 40.0, 10.0, 30.0, True, 0.0, 100.0, "us"),
    ]
    assert stepped.ask("operator_table", "name, shapes", by="shape")[1] == ("aten::relu", "[[8, 2]]")
    assert [row[0] for row in stepped.ask("operator_table", "name", steps="skip_first=1")] == ["aten::relu"]
    with pytest.raises(QueryError, match="by must be name or shape, not stack"):
        stepped.ask("operator_table", by="stack")


def test_an_op_is_eligible_where_any_call_is(traces: Traces) -> None:
    """The plug-in answers No for aten::t, as its first call contains no product."""
    traces.take(
        event("cpu_op", "aten::t", 0, 10), event("cpu_op", "aten::t", 20, 40), event("cpu_op", "aten::mm", 25, 30)
    )
    assert dict(traces.ask("operator_table", "name, tensor_cores_eligible")) == {"aten::t": True, "aten::mm": True}


@pytest.mark.long
def test_kernels(traces: Traces) -> None:
    traces.take(*two_steps(), event("kernel", "relu_kernel", 230, 240, 7, device=0))
    relu = (
        "relu_kernel", "elementwise", False, False, 2, 50.0, 25.0, 40.0, 10.0, pytest.approx(1.6), pytest.approx(64.0),
    )  # fmt: skip
    assert traces.ask("kernel_table") == [
        # The last one has no launch.
        (*relu, "us", 2, 20.0, 10.0),
        ("volta_h884gemm", "GEMM", True, True, 1, 40.0, 40.0, 40.0, 40.0, 0.5, 40.0, "us", 2, 20.0, 0.0),
    ]


@pytest.mark.long
def test_utilization_without_steps(traces: Traces) -> None:
    """From the end of what was launched before the first op, at 20, to that of the last kernel: 40 of 70 us."""
    launches = [(-20, -10, 20), (10, 30, 50), (60, 70, 90)]
    traces.take(
        event("cpu_op", "aten::mm", 0, 80),
        *(event("cuda_runtime", "cudaLaunchKernel", at, at + 2, correlation=end) for at, _, end in launches),
        *(event("kernel", "k", start, end, 7, device=0, correlation=end) for _, start, end in launches),
    )
    assert traces.ask("gpu_utilization", "utilization_percent") == [(pytest.approx(100 * 40 / 70),)]


def test_metrics_of_devices(stepped: Traces) -> None:
    rows = stepped.ask("gpu_metrics")
    # 220 microseconds are 22 buckets of 10.
    busy = [row for row in rows if row[1] == "utilization"]
    assert [row[2] for row in busy] == [10.0 * place for place in range(22)]
    assert [row[4] for row in busy] == [100.0 * (5 <= place < 9 or place >= 18) for place in range(22)]
    assert rows[22:] == [(0, "sm_efficiency", 50.0, 40.0, 50.0, "us"), (0, "sm_efficiency", 180.0, 40.0, 100.0, "us")]


ALLOCATIONS = [
    event("cpu_op", "aten::add", 0, 10), event("cpu_op", "aten::empty", 2, 8), memory(4, 64, 64),
    event("cpu_op", "aten::add", 20, 30), event("cpu_op", "aten::empty", 22, 28),
    memory(25, 128, 128, type=1, device=1), event("cpu_op", "aten::add_", 40, 50), memory(45, -16, 48),
    memory(46, 32, 32, type=12, device=0), memory(60, -8, 40), event("cpu_op", "aten::relu", 70, 90),
    event("cpu_op", "aten::add", 72, 80),
]  # fmt: skip


def test_memory(traces: Traces) -> None:
    """The plug-in counts two calls of aten::add, not the one in an op that allocates nothing, and no XPU."""
    traces.take(*ALLOCATIONS)
    assert traces.ask("trace_memory_stats") == [
        ("CPU", "aten::empty", 2, 1, 64, 64, 1, 64, 64), ("CPU", "aten::add", 3, 0, 0, 0, 1, 64, 64),
        ("CPU", "aten::add_", 1, 0, 0, -16, 0, 0, -16), ("GPU1", "aten::empty", 2, 1, 128, 128, 1, 128, 128),
        ("GPU1", "aten::add", 3, 0, 0, 0, 1, 128, 128), ("XPU0", "aten::add_", 1, 1, 32, 32, 1, 32, 32),
    ]  # fmt: skip
    assert traces.ask("memory_timeline") == [
        ("CPU", 4.0, 64, 64, 1024, 64, "us"),
        ("CPU", 45.0, -16, 48, 1024, 64, "us"),
        ("CPU", 60.0, -8, 40, 1024, 64, "us"),
        ("GPU1", 25.0, 128, 128, 1024, 128, "us"),
        ("XPU0", 46.0, 32, 32, 1024, 32, "us"),
    ]


def test_memory_of_an_op_that_calls_itself_counts_once(traces: Traces) -> None:
    traces.take(
        event("cpu_op", "a", 0, 100), memory(5, 64, 64), event("cpu_op", "b", 10, 90), memory(15, 16, 80),
        event("cpu_op", "a", 20, 80), memory(30, 8, 88), memory(40, -4, 84),
    )  # fmt: skip
    assert traces.ask("trace_memory_stats") == [
        ("CPU", "a", 2, 2, 72, 68, 3, 88, 84), ("CPU", "b", 1, 1, 16, 16, 2, 24, 20),
    ]  # fmt: skip


def test_modules(traces: Traces) -> None:
    """The plug-in has Linear_0 twice, with 2 calls, total 40 and self time 20, which are the sums of both modules."""
    traces.take(
        event("python_function", "nn.Module: Net_0", 0, 100), event("python_function", "nn.Module: Block_0", 10, 40),
        event("python_function", "forward", 12, 38), event("python_function", "nn.Module: Linear_0", 15, 35),
        event("cpu_op", "aten::linear", 20, 30, external=1),
        event("cuda_runtime", "cudaLaunchKernel", 22, 24, external=1, correlation=5),
        event("kernel", "k", 30, 37, 7, device=0, correlation=5),
        event("python_function", "nn.Module: Block_1", 50, 90), event("python_function", "nn.Module: Linear_0", 60, 80),
        event("cpu_op", "aten::linear", 65, 75, external=2), event("cpu_op", "aten::add", 82, 86, external=3),
    )  # fmt: skip
    # The trace has no steps.
    rows = traces.ask("module_tree")
    assert {row[11:] for row in rows} == {(None,) * 5}
    assert [row[:11] for row in rows] == [
        ("Net_0", "Net_0", 0, 1, 0, 100.0, 30.0, 7.0, 0.0, 7.0, "us"),
        ("Net_0/Block_0", "Block_0", 1, 1, 0, 30.0, 10.0, 7.0, 0.0, 7.0, "us"),
        ("Net_0/Block_0/Linear_0", "Linear_0", 2, 1, 1, 20.0, 10.0, 7.0, 7.0, 7.0, "us"),
        ("Net_0/Block_1", "Block_1", 1, 1, 1, 40.0, 16.0, 0.0, 0.0, 40.0, "us"),
        ("Net_0/Block_1/Linear_0", "Linear_0", 2, 1, 1, 20.0, 10.0, 0.0, 0.0, 20.0, "us"),
    ]


@pytest.mark.long
def test_stacks_are_without_the_lines_that_torch_leaves_out(traces: Traces) -> None:
    """As `_filter_stack_entry` of torch.autograd.profiler_util: lines of the same caller are one row."""
    backward = "torch/autograd/__init__.py(255): backward;torch/_tensor.py(566): backward;net.py(9): train;"
    made = "torch/autograd/__init__.py(91): _make_grads;" + backward
    older = "torch/tensor.py(200): backward;torch/_tensor.py(566): backward;net.py(9): train;"
    other = "torch/autograd/__init__.py(91): grad;torch/_tensor.py(566): backward;net.py(9): train;"
    traces.take(
        *(event("cpu_op", "aten::ones_like", 10 * at, 10 * at + 5, 1, **{"Call stack": stack})
          for at, stack in enumerate((backward, made, older, other, "net.py(9): train;", "net.py(9): train")))
    )  # fmt: skip
    assert sorted(traces.ask("key_averages", "stack, calls", by="stack", stack_depth=2)) == [
        ("net.py(9): train", 2),
        ("torch/_tensor.py(566): backward;net.py(9): train", 3),
        ("torch/autograd/__init__.py(91): grad;torch/_tensor.py(566): backward", 1),
    ]


@pytest.mark.long
def test_devices_that_a_trace_names(traces: Traces) -> None:
    traces.take(*PLAIN, deviceProperties=[{**A100, "id": 3}, {"name": None, "totalGlobalMem": 2**70}])
    assert traces.warehouse.rows("FROM trace_devices")[1] == [
        (1, 3, "NVIDIA A100", 1000, 8, 0, 108, True),
        (1, 1, None, None, None, None, None, True),
    ]
    assert traces.warehouse.rows("FROM findings")[1] == []


@pytest.mark.parametrize(("device", "used"), [(3, [3]), (1, [1]), (9, [3, 1]), (None, [3, 1])])
def test_devices_that_ran_work(traces: Traces, device: int | None, used: list[int]) -> None:
    """Work of a device that isn't listed may be of any listed device."""
    arguments = {} if device is None else {"device": device}
    traces.take(event("kernel", "gemm", 10, 20, 7, **arguments), deviceProperties=[{**A100, "id": 3}, {"id": 1}])
    assert [number for (number,) in traces.warehouse.rows("SELECT device FROM trace_devices WHERE is_used")[1]] == used


@pytest.mark.long
def test_malformed_devices_are_left_out(traces: Traces) -> None:
    malformed: list[Any] = [{}, "none", [1], [{"id": "x"}], None]
    for devices in malformed:
        traces.take(*PLAIN, deviceProperties=devices)
        assert traces.warehouse.rows("FROM trace_devices")[1] == []
        assert traces.warehouse.rows("SELECT rule FROM findings")[1] == [("devices left out",)]
        traces.warehouse.remove("t")


@pytest.mark.long
def test_other_captures_have_no_rows(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="t")
    for view in (
        "step_breakdown", "average_step", "gpu_utilization", "gpu_metrics", "operator_table", "kernel_table",
        "trace_memory_stats", "memory_timeline", "module_tree",
    ):  # fmt: skip
        assert warehouse.rows(f"FROM {view}('t')")[1] == [], view


def asked_of_ops(traces: Traces, **arguments: Any) -> dict[str, float]:
    return {name: time for name, time in traces.ask("operator_table", "name, device_self_time", **arguments) if time}


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_device_annotations_belong_to_no_op(traces: Traces) -> None:
    """They have rows as device events, and add no device time to an op."""
    kinds = ["cuda_event", "mtia_insight", "cuda_profiler_range", "gpu_user_annotation", "xpu_scope_profiler"]
    shown = [event(kind, kind, 10, 20, at, correlation=1, external=1, device=0) for at, kind in enumerate(kinds)]
    traces.take(event("cpu_op", "aten::mm", 0, 50), *shown)
    rows = traces.ask("key_averages", "name, is_device, self_cpu_time, self_device_time")
    assert sorted(rows) == sorted([("aten::mm", False, 50.0, None), *((kind, True, 0.0, 10.0) for kind in kinds)])


def at(address: int, moment: float, size: int) -> dict[str, Any]:
    found = memory(moment, size, 10_000)
    found["args"]["Addr"] = address
    return found


def step(number: int, *, is_kept: bool = True) -> list[dict[str, Any]]:
    """100 us of a training: a loss of 10 bytes is kept, a temporary of 30 is not, the first has a gradient of 500."""
    start = 100 * number
    events = [
        event("user_annotation", f"ProfilerStep#{number}", start, start + 100),
        event("cpu_op", "aten::mse_loss", start + 10, start + 20),
        event("cpu_op", "aten::mm", start + 30, start + 40),
        at(1, start + 35, 30),
        at(1, start + 60, -30),
    ]
    events += [at(100 + number, start + 15, 10)] if is_kept else []
    events += [event("cpu_op", "aten::zeros", start + 70, start + 80), at(7, start + 75, 500)] if number == 0 else []
    return events


LEAKS = "op, steps, growing_steps, is_leak, first_bytes, last_bytes, growth_bytes, growth_per_step_bytes, allocations"


@pytest.mark.long
def test_a_loss_that_is_kept(traces: Traces) -> None:
    traces.take(*(each for number in range(4) for each in step(number)))
    assert traces.ask("memory_leaks", LEAKS) == [
        ("aten::mse_loss", 4, 3, True, 10, 40, 30, 10.0, 4),
        ("aten::zeros", 4, 0, False, 500, 500, 0, 0.0, 1),
    ]
    assert traces.ask("held_memory", "step, device, op, allocations, held_bytes") == [
        (number, "CPU", op, allocations, held)
        for number in range(4)
        for op, allocations, held in (("aten::zeros", 1, 500), ("aten::mse_loss", number + 1, 10 * number + 10))
    ]


def test_a_step_without_growth_is_not_a_leak(traces: Traces) -> None:
    """The memory was released in between, and grows again."""
    released = [at(100, 150, -10), at(101, 250, -10)]
    traces.take(*(each for number in range(4) for each in step(number)), *released)
    rows = traces.ask("memory_leaks", LEAKS)
    assert rows[0] == ("aten::mse_loss", 4, 1, False, 10, 20, 10, 10 / 3, 2)


def test_the_moment_of_the_end_belongs_to_the_step(traces: Traces) -> None:
    """Memory allocated after the last step is held at no end; memory allocated at an end is held there and later."""
    steps = [event("user_annotation", f"ProfilerStep#{number}", 100 * number, 100 * number + 90) for number in (0, 1)]
    traces.take(*steps, at(1, 90, 8), at(2, 190.001, 16), at(3, 95, 32), at(3, 190, -32))
    assert traces.ask("held_memory", "step, op, allocations, held_bytes") == [(0, None, 1, 8), (1, None, 1, 8)]
    assert traces.ask("memory_leaks", LEAKS) == [(None, 2, 0, None, 8, 8, 0, 0.0, 1)]


@pytest.mark.long
def test_traces_without_steps(traces: Traces) -> None:
    """Without steps, the whole trace counts as one step that ends with its last op."""
    traces.take(event("cpu_op", "aten::mm", 0, 50), at(1, 10, 64), at(2, 20, 8), at(2, 30, -8))
    assert traces.ask("held_memory", "step, op, allocations, held_bytes") == [(0, "aten::mm", 1, 64)]
    assert traces.ask("memory_leaks", LEAKS) == [("aten::mm", 1, 0, None, 64, 64, 0, None, 1)]


OF_OPS = "SELECT k.name, k.self_device_time FROM key_averages($c) AS k WHERE starts_with(k.name, 'aten::') ORDER BY 1"


def launched(op: str, at: float, length: float, number: int, host: Any, device: Any) -> list[dict[str, Any]]:
    """An op of one kernel; `host` and `device` are the processes that the file names."""
    return [
        event("cpu_op", op, at, at + 8, external=number) | {"pid": host},
        event("cuda_runtime", "cudaLaunchKernel", at + 2, at + 6, external=number, correlation=number) | {"pid": host},
        event("kernel", f"kernel of {op}", at + 9, at + 9 + length, 7, external=number, correlation=number, device=0)
        | {"pid": device},
    ]


def ops(traces: Traces) -> dict[str, float]:
    return dict(traces.warehouse.rows(OF_OPS, c="t")[1])


@pytest.mark.long
def test_merged_ranks_are_as_their_files(warehouse: Warehouse) -> None:
    names = ("20_rank0", "20_rank1", "20_merged_ranks")
    for name in names:
        warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name=name)
    first, second, merged = (dict(warehouse.rows(OF_OPS, c=name)[1]) for name in names)
    assert merged == first | second == {"aten::mm": 20, "aten::conv2d": 22}


def merged(by: str) -> bytes:
    """The traces of two ranks in one file: by processes' names as SGLang does, or by an argument as TraceLens does."""
    events: list[dict[str, Any]] = []
    for rank in (0, 1):
        trace = json.loads(gzip.decompress((CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz").read_bytes()))
        for each in trace["traceEvents"]:
            own = {"pid": f"[TP0{rank}-EP00] {each['pid']}"} if by == "process" else {}
            events.append({**each, **own, "args": each["args"] | ({} if by == "process" else {"rank": rank})})
    return json.dumps({"traceEvents": events, "deviceProperties": trace["deviceProperties"]}).encode()


@pytest.mark.long
@pytest.mark.parametrize("by", ["process", "argument"])
def test_a_merged_trace_is_a_job(warehouse: Warehouse, by: str) -> None:
    """Views answer as on the traces of the ranks."""
    for rank in (0, 1):
        file = CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz"
        warehouse.ingest(file, labels={"job": "apart", "rank": str(rank)})
    captures = warehouse.ingest_ranks(merged(by), labels={"job": "merged"})
    names = [f"bytes.{name}" for name in (("TP00-EP00", "TP01-EP00") if by == "process" else ("rank0", "rank1"))]
    assert [capture.name for capture in captures] == names
    for view in ("rank_steps", "stragglers", "clock_offsets", "collective_waits"):
        shown = "* EXCLUDE (job, capture)" if view in ("rank_steps", "clock_offsets") else "* EXCLUDE (job)"
        query = f"SELECT {shown} FROM {view}($selector) ORDER BY ALL"
        apart, together = (warehouse.rows(query, selector=f"job={job}")[1] for job in ("apart", "merged"))
        assert apart and apart == together, view
    for name, other in (("rank0", names[0]), ("rank1", names[1])):
        for view in ("collectives", "kernel_table", "step_breakdown"):
            assert warehouse.rows(f"FROM {view}($c)", c=name)[1] == warehouse.rows(f"FROM {view}($c)", c=other)[1]


def test_processes_without_a_number_are_of_their_rank() -> None:
    """Of the profiler itself, of SGLang's merged traces."""
    assert {rank_of(f"[TP00-DP01] {process}") for process in ("5000", "0", "Spans", "GPU 0 Counters", "")} == {
        "[TP00-DP01] "
    }
    assert {rank_of(process) for process in ("5000", "Spans", "", "python")} == {""}


@pytest.mark.long
def test_commands_on_a_merged_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, db = tmp_path / "both.json", str(tmp_path / "lab.duckdb")
    file.write_bytes(merged("process"))
    assert "Note: several ranks: the trace has the events of 2 ranks" in run_etq("kernels", str(file)).stderr
    options = ("--job", "train", "--label-from", "{host}.json", "--captured-at", "2026-11-15")
    assert run_etq("ingest", str(file), *options, "--db", db).stderr.splitlines()[:2] == [
        "both.TP00-EP00: ingested",
        "both.TP01-EP00: ingested",
    ]
    found = run_etq("captures", "host=both,captured_at>=2026-11-15", "--columns", "name", "--db", db, "--format", "csv")
    assert len(found.stdout.splitlines()) == 3
    arguments = ("--columns", "rank,waited_for", "--format", "csv")
    stored, read = (run_etq("show", "stragglers", *of, *arguments) for of in (("--db", db), (str(file),)))
    # Two all-gathers, to which rank 0 comes last; broadcasts are no wait.
    assert stored.stdout == read.stdout == "rank,waited_for\n0,198.0\n1,0.0\n"
    other = run_etq("show", "stragglers", str(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz"))
    assert other.exit_code == 1 and "not a trace of several ranks" in other.stderr
    assert run_etq("ingest", str(file), "--name", "one", "--db", db).stderr.startswith("one: ingested")
    # Another file of the same name is another job; with many files, files and captures are counted apart.
    for number, name in enumerate(("x/both.json", "other.json")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(merged("process").replace(b'"ProfilerStep#5"', b'"%d"' % number))
    monkeypatch.setattr("etq.cli.files.LISTED", 2)
    ingested = run_etq("ingest", str(tmp_path), "--db", db).stderr
    assert ingested.endswith("3 files, 6 captures: 4 new, 2 known already\n")
    jobs = run_etq("sql", "SELECT value FROM labels WHERE key = 'job' AND value LIKE '%both'", "--db", db).stdout
    assert "x/both" in jobs


def test_what_is_no_merged_trace(warehouse: Warehouse) -> None:
    """A trace of one rank, one with an event of an unknown rank, and other files are read as they are."""
    of_one, unknown = (
        [{"ph": "X", "cat": "cpu_op", "pid": f"[TP0{rank}] 5", "ts": 1, "dur": 1} for rank in ranks]
        for ranks in ((0,), (0, 1))
    )
    unknown.append({"ph": "X", "pid": 5, "ts": 1, "dur": 1})
    for events in (of_one, unknown):
        assert warehouse.ingest_ranks(json.dumps({"traceEvents": events}).encode()) == []
    with open_ephemeral(json.dumps({"traceEvents": unknown}).encode())[0] as read:
        assert (
            "they can't be separated" in read.rows("SELECT detail FROM findings WHERE rule = 'several ranks'")[1][0][0]
        )
    assert warehouse.ingest_ranks(b"[1") == [] == warehouse.ingest_ranks(CAPTURES / "mlp/mlp_100runs.etdp")
    assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(0,)]


def test_ranks_are_known_however_they_are_packed(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(capture.is_new for capture in warehouse.ingest_ranks(merged("process")))
    packer = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", lambda level, **options: packer(9, **options))
    assert not any(capture.is_new for capture in warehouse.ingest_ranks(merged("process")))


def test_no_rank_is_stored_if_one_fails(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest = warehouse._ingested
    second = FormatError("bytes.TP01-EP00.json.gz", "at byte 1: damaged")
    monkeypatch.setattr(warehouse, "_ingested", lambda files, links: [*ingest(files[:1], links), second])
    with pytest.raises(FormatError, match="^bytes: rank 1: at byte 1: damaged$"):
        warehouse.ingest_ranks(merged("process"))
    assert warehouse.rows("SELECT count(*) FROM captures")[1] == [(0,)]


def test_hostile_ranks(warehouse: Warehouse) -> None:
    """A process with a name of 150,000 letters, too many ranks, and JSON to be repaired, as a number isn't finite."""
    events = [
        {"ph": "X", "cat": "cpu_op", "pid": pid, "ts": 1, "dur": 1} for pid in ("rank0_5", "rank1_5", "a" * 150_000)
    ]
    assert warehouse.ingest_ranks(json.dumps({"traceEvents": events}).encode()) == []
    many = [events[0] | {"pid": f"rank{rank}_5"} for rank in range(1025)]
    assert warehouse.ingest_ranks(json.dumps({"traceEvents": many}).encode()) == []
    broken = [*events[:2], events[0] | {"ts": float("nan")}]
    captures = warehouse.ingest_ranks(json.dumps({"traceEvents": broken}).encode())
    assert [capture.name for capture in captures] == ["bytes.rank0", "bytes.rank1"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["[TP00-DP0{}] {}", "rank{}/{}", "rank_{}_{}"])
@pytest.mark.parametrize("has_calls", [True, False])
def test_ids_are_of_a_rank(traces: Traces, name: str, has_calls: bool) -> None:
    """Ids repeat; without calls, external ids tell whose time a kernel is. A kernel without a call takes no other's."""
    events: list[dict[str, Any]] = []
    for rank, op in enumerate(("aten::mm", "aten::mul")):
        events += launched(op, 10 + rank, 5 + rank, 3, name.format(rank, 500 + rank), name.format(rank, 0))
    if has_calls:
        events += launched("aten::add", 50, 9, 4, name.format(0, 500), name.format(1, 0))
    else:
        events = [
            each | {"args": {key: value for key, value in each["args"].items() if key != "correlation"}}
            for each in events if each["cat"] != "cuda_runtime"
        ]  # fmt: skip
    traces.take(*events)
    assert ops(traces) == {"aten::mm": 5, "aten::mul": 6} | ({"aten::add": None} if has_calls else {})


def test_a_process_of_a_device_may_have_calls(traces: Traces) -> None:
    """Calls that wait, in the process of the device, don't launch what others launched."""
    waits = [event("mtia_runtime", "synchronize", at, at + 2, 3, correlation=900 + at) | {"pid": 0} for at in (5, 40)]
    traces.take(*launched("aten::mm", 10, 7, 1, 100, 0), *launched("aten::mul", 60, 4, 2, 100, 0), *waits)
    assert ops(traces) == {"aten::mm": 7, "aten::mul": 4}


def test_processes_that_launch_their_own(traces: Traces) -> None:
    """Events of a device that name the process that launched them; the call of the last one is missing."""
    first = [*launched("aten::mm", 10, 7, 1, 100, 100), *launched("aten::mm", 60, 7, 2, 100, 100)]
    second = [*launched("aten::mul", 11, 4, 1, 200, 200), *launched("aten::mul", 80, 4, 3, 200, 200)]
    lost = event("kernel", "lost", 70, 75, 7, correlation=3, device=0) | {"pid": 100}
    traces.take(*first, *second, lost)
    assert ops(traces) == {"aten::mm": 14, "aten::mul": 8}


def test_the_nearest_op_says_what_communicates(traces: Traces) -> None:
    """A collective's annotation around a concatenation and its own kernel; the names of kernels tell nothing."""
    traces.take(
        event("user_annotation", "nccl:all_gather", 0, 60),
        *launched("aten::cat", 10, 30, 1, 100, 0),
        event("cuda_runtime", "cudaLaunchKernel", 50, 54, correlation=2),
        event("kernel", "mystery", 60, 80, 8, correlation=2, device=0, stream=8),
    )
    assert traces.ask("device_breakdown", "compute, communication, exposed", unit="us") == [(30, 20, 20)]


def test_a_thread_that_polls_is_not_on_the_path(traces: Traces) -> None:
    """A watchdog asks until after the last op, the optimizer's."""
    polls = [event("cuda_runtime", "cudaEventQuery", at, at + 1, 2) for at in range(0, 200, 20)]
    traces.take(*launched("aten::mm", 10, 7, 1, 100, 0), event("cpu_op", "Optimizer.step#SGD.step", 30, 150), *polls)
    rows = traces.ask("critical_path", "thread, name, start, duration", unit="us")
    assert {thread for thread, *_ in rows if thread is not None} == {"1"}
    assert rows[-1][1] == "Optimizer.step#SGD.step"
    assert rows[-1][2] + rows[-1][3] == 150
    assert json.dumps(rows).count("cudaEventQuery") == 0


FRAMES = (
    "SELECT e.label, e.start_ticks // 1000, e.duration_ticks // 1000 FROM events AS e ORDER BY e.start_ticks, 3 DESC"
)


def test_an_open_frame_of_the_report(warehouse: Warehouse) -> None:
    """Its own time in two steps: 50 - 20 of the first call, which ends with its caller, and 10 of the second."""
    warehouse.ingest(shared_file("captures/reports/16_python_overrun.json"), name="t")
    rows = warehouse.rows(
        "SELECT t.calls, t.self_time, t.self_per_execute FROM time_tree('t') AS t WHERE t.name LIKE '%lock'"
    )
    assert rows[1] == [(2, 40, 20)]
    assert warehouse.rows("SELECT f.rule, f.detail FROM findings AS f")[1] == [
        ("open frames", "Python frames that last longer than their callers end with these: 1")
    ]


def test_open_frames(traces: Traces) -> None:
    """A frame in an open frame, open too; an open frame beside another; frames without ids, and of another thread."""
    frames = [
        (1, "main", 0, 300, 1, None), (1, "train", 10, 60, 2, 1), (1, "lock", 20, 300, 3, 2), (1, "wait", 30, 300, 4, 3),
        (1, "log", 50, 300, 5, 2), (1, "save", 100, 120, 6, 1), (1, "foreign", 110, 130, 7, 99),
        (2, "other", 15, 300, 8, 2), (3, "a", 0, 20, None, None), (3, "b", 10, 30, None, None),
    ]  # fmt: skip
    traces.take(
        *(
            event("python_function", name, start, end, thread) | {
                "args": {key: value for key, value in (("Python id", own), ("Python parent id", caller)) if value}
            }
            for thread, name, start, end, own, caller in frames
        )
    )  # fmt: skip
    found = {name: start + length for name, start, length in traces.warehouse.rows(FRAMES)[1]}
    assert found == {name: end for _, name, _, end, *_ in frames} | {"lock": 60, "wait": 60, "log": 60}


def test_lost_launches_are_of_a_rank(traces: Traces) -> None:
    """Of two launches of rank 0, the second has no kernel; rank 1 has kernels of both ids, and one without its call."""
    events: list[dict[str, Any]] = []
    for rank, op in enumerate(("aten::mm", "aten::mul")):
        for number in (3, 4):
            host, device = f"[TP0{rank}] {500 + rank}", f"[TP0{rank}] 0"
            events += launched(op, 50 * number + rank, 5 + rank, number, host, device)
    del events[5]
    alone = event("kernel", "early", 10, 15, 7, correlation=1, device=0) | {"pid": "[TP01] 0"}
    traces.take(*events, alone)
    found = traces.warehouse.rows("SELECT left(detail, 26) FROM findings WHERE rule = 'lost kernels'")[1]
    assert found == [("1 of 4 launches of kernels",)]
