"""Views of traces: events, and expected numbers by hand.

If the plug-in (torch-tb-profiler 0.4.3) differs, a test has its answer on the same trace, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
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


def test_average_step(stepped: Traces) -> None:
    rows = stepped.ask("average_step", "category, steps, time, share_percent")
    assert rows[:3] == [
        ("Step", 2, 110.0, 100.0),
        ("Kernel", 2, 40.0, pytest.approx(100 * 40 / 110)),
        ("Memcpy", 2, 10.0, pytest.approx(100 * 10 / 110)),
    ]
    assert [row[0] for row in rows[1:]] == [*CATEGORIES]
    assert stepped.ask("average_step", "category, steps, time", steps="skip_first=1")[0] == ("Step", 1, 120.0)


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


def test_ops_that_only_call_another_of_their_name_are_one_call(traces: Traces) -> None:
    traces.take(
        event("cpu_op", "aten::mm", 0, 30, external=1),
        event("python_function", "helper", 1, 29),
        event("cpu_op", "aten::mm", 5, 25, external=2),
        event("cuda_runtime", "cudaLaunchKernel", 10, 15, external=2, correlation=1),
        event("kernel", "k", 40, 50, 7, device=0, correlation=1),
        event("cpu_op", "Optimizer.zero_grad", 40, 50),
    )
    columns = "name, calls, device_self_time, host_self_time, host_total_time"
    assert traces.ask("operator_table", columns) == [("aten::mm", 1, 10.0, 25.0, 30.0)]


def test_an_op_is_eligible_where_any_call_is(traces: Traces) -> None:
    """The plug-in answers No for aten::t, as its first call contains no product."""
    traces.take(
        event("cpu_op", "aten::t", 0, 10), event("cpu_op", "aten::t", 20, 40), event("cpu_op", "aten::mm", 25, 30)
    )
    assert dict(traces.ask("operator_table", "name, tensor_cores_eligible")) == {"aten::t": True, "aten::mm": True}


def test_kernels(traces: Traces) -> None:
    traces.take(*two_steps(), event("kernel", "relu_kernel", 230, 240, 7, device=0))
    relu = (
        "relu_kernel",
        "elementwise",
        False,
        False,
        2,
        50.0,
        25.0,
        40.0,
        10.0,
        pytest.approx(1.6),
        pytest.approx(64.0),
    )
    assert traces.ask("kernel_table") == [
        # The last one has no launch.
        (*relu, "us", 2, 20.0, 10.0),
        ("volta_h884gemm", "GEMM", True, True, 1, 40.0, 40.0, 40.0, 40.0, 0.5, 40.0, "us", 2, 20.0, 0.0),
    ]


def test_utilization(stepped: Traces) -> None:
    assert stepped.ask("gpu_utilization") == [
        (0, 2, pytest.approx(100 * 80 / 220), pytest.approx(100 * 60 / 220), pytest.approx(60.0), 50.0)
    ]


def test_metrics_of_devices(stepped: Traces) -> None:
    rows = stepped.ask("gpu_metrics")
    # 220 microseconds are 22 buckets of 10.
    busy = [row for row in rows if row[1] == "utilization"]
    assert [row[2] for row in busy] == [10.0 * place for place in range(22)]
    assert [row[4] for row in busy] == [100.0 * (5 <= place < 9 or place >= 18) for place in range(22)]
    assert rows[22:] == [(0, "sm_efficiency", 50.0, 40.0, 50.0, "us"), (0, "sm_efficiency", 180.0, 40.0, 100.0, "us")]


ALLOCATIONS = [
    event("cpu_op", "aten::add", 0, 10),
    event("cpu_op", "aten::empty", 2, 8),
    memory(4, 64, 64),
    event("cpu_op", "aten::add", 20, 30),
    event("cpu_op", "aten::empty", 22, 28),
    memory(25, 128, 128, type=1, device=1),
    event("cpu_op", "aten::add_", 40, 50),
    memory(45, -16, 48),
    memory(46, 32, 32, type=12, device=0),
    memory(60, -8, 40),
    event("cpu_op", "aten::relu", 70, 90),
    event("cpu_op", "aten::add", 72, 80),
]


def test_memory(traces: Traces) -> None:
    """The plug-in counts two calls of aten::add, not the one in an op that allocates nothing, and no XPU."""
    traces.take(*ALLOCATIONS)
    assert traces.ask("trace_memory_stats") == [
        ("CPU", "aten::empty", 2, 1, 64, 64, 1, 64, 64),
        ("CPU", "aten::add", 3, 0, 0, 0, 1, 64, 64),
        ("CPU", "aten::add_", 1, 0, 0, -16, 0, 0, -16),
        ("GPU1", "aten::empty", 2, 1, 128, 128, 1, 128, 128),
        ("GPU1", "aten::add", 3, 0, 0, 0, 1, 128, 128),
        ("XPU0", "aten::add_", 1, 1, 32, 32, 1, 32, 32),
    ]
    assert traces.ask("memory_timeline") == [
        ("CPU", 4.0, 64, 64, 1024, 64, "us"),
        ("CPU", 45.0, -16, 48, 1024, 64, "us"),
        ("CPU", 60.0, -8, 40, 1024, 64, "us"),
        ("GPU1", 25.0, 128, 128, 1024, 128, "us"),
        ("XPU0", 46.0, 32, 32, 1024, 32, "us"),
    ]


def test_modules(traces: Traces) -> None:
    """The plug-in has Linear_0 twice, with 2 calls, total 40 and self time 20, which are the sums of both modules."""
    traces.take(
        event("python_function", "nn.Module: Net_0", 0, 100),
        event("python_function", "nn.Module: Block_0", 10, 40),
        event("python_function", "forward", 12, 38),
        event("python_function", "nn.Module: Linear_0", 15, 35),
        event("cpu_op", "aten::linear", 20, 30, external=1),
        event("cuda_runtime", "cudaLaunchKernel", 22, 24, external=1, correlation=5),
        event("kernel", "k", 30, 37, 7, device=0, correlation=5),
        event("python_function", "nn.Module: Block_1", 50, 90),
        event("python_function", "nn.Module: Linear_0", 60, 80),
        event("cpu_op", "aten::linear", 65, 75, external=2),
        event("cpu_op", "aten::add", 82, 86, external=3),
    )
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


def test_devices_that_a_trace_names(traces: Traces) -> None:
    traces.take(*PLAIN, deviceProperties=[{**A100, "id": 3}, {"name": None, "totalGlobalMem": 2**70}])
    assert traces.warehouse.rows("FROM trace_devices")[1] == [
        (1, 3, "NVIDIA A100", 1000, 8, 0, 108),
        (1, 1, None, None, None, None, None),
    ]
    assert traces.warehouse.rows("FROM findings")[1] == []


def test_malformed_devices_are_left_out(traces: Traces) -> None:
    for devices in ({}, "none", [1], [{"id": "x"}], None):
        traces.take(*PLAIN, deviceProperties=devices)
        assert traces.warehouse.rows("FROM trace_devices")[1] == []
        assert traces.warehouse.rows("SELECT rule FROM findings")[1] == [("devices left out",)]
        traces.warehouse.remove("t")


def test_other_captures_have_no_rows(warehouse: Warehouse) -> None:
    warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="t")
    for view in (
        "step_breakdown", "average_step", "gpu_utilization", "gpu_metrics", "operator_table", "kernel_table",
        "trace_memory_stats", "memory_timeline", "module_tree", "trace_recommendations",
    ):  # fmt: skip
        assert warehouse.rows(f"FROM {view}('t')")[1] == [], view
