"""Steps of traces: what is per step, and the forward pass, backward pass and optimizer; by hand, with known truth, by torch's links."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, shared_file
from tests.pass_traces import ENGINE, Training
from tests.trace_builders import event, trace
from tests.traces import Traces

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::add>"


def report(warehouse: Warehouse, name: str) -> None:
    warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name="t")


def asked(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    return warehouse.rows(query)[1]


@pytest.mark.long
def test_kernels_before_the_steps_are_named_beside_them(warehouse: Warehouse) -> None:
    """Three kernels of 90 us before two steps, each with one of 40 us."""
    report(warehouse, "34_warmup_kernels")
    for view in ("kernel_table", "kernel_families", "work_totals"):
        query = f"SELECT total, per_step, outside_steps, steps FROM {view}('t', unit := 'us')"
        assert asked(warehouse, query) == [(350, 40, 270, 2)], view
    query = "SELECT op, per_step, outside_steps FROM op_efficiency('t', unit := 'us') ORDER BY ALL"
    assert asked(warehouse, query) == [("aten::mm", 40, 0), (None, 0, 270)]
    query = """
        SELECT name, self_device_per_step, device_outside_steps FROM key_averages('t', unit := 'us')
        WHERE self_device_time > 0 ORDER BY name
    """
    assert asked(warehouse, query) == [("(no op)", 0, 270), ("Cijk_gemm", 40, 270), ("aten::mm", 40, 0)]


@pytest.mark.long
def test_all_views_count_the_same_steps(warehouse: Warehouse) -> None:
    """The last step launched 10 kernels, the one before 13: all of them were recorded."""
    report(warehouse, "33_last_step")
    for query in (
        "SELECT DISTINCT steps FROM kernel_table('t')",
        "SELECT DISTINCT steps FROM average_step('t')",
        "SELECT DISTINCT steps FROM key_averages('t')",
        "SELECT count(*) FROM wide_steps('t')",
        "SELECT count(DISTINCT step) FROM step_breakdown('t')",
        "SELECT count(DISTINCT step) FROM device_breakdown('t', by := 'step')",
        "SELECT count(DISTINCT step) FROM tensor_core_use('t', by := 'step')",
        "SELECT count(DISTINCT run_index) FROM step_times",
    ):
        assert asked(warehouse, query) == [(4,)], query
    assert asked(warehouse, "SELECT per_step FROM kernel_table('t', unit := 'us')") == [(107.5,)]


def test_calls_without_their_kernels_are_in_no_mean(warehouse: Warehouse) -> None:
    """The kernels of the first two of four calls are missing, of 50 us each."""
    report(warehouse, "18_first_dropped")
    query = "SELECT calls, device_time_avg, self_device_per_step, steps FROM key_averages('t', unit := 'us')"
    assert asked(warehouse, f"{query} WHERE name = 'aten::mm'") == [(4, 50, 50, 2)]
    assert asked(warehouse, "SELECT step FROM wide_steps('t')") == [(2,), (3,)]
    assert asked(warehouse, "SELECT left(detail, 38) FROM findings WHERE rule = 'lost kernels'") == [
        ("2 of 4 launches of kernels have no eve",)
    ]
    assert asked(warehouse, "SELECT left(detail, 33) FROM findings WHERE rule = 'steps left out'") == [
        ("steps 0, 1 are not counted: a fif",)
    ]
    assert asked(warehouse, "SELECT rule, severity FROM advice('t')") == [("lost kernels", "high")]


@pytest.mark.long
def test_a_trace_without_any_of_its_kernels(warehouse: Warehouse) -> None:
    report(warehouse, "17_no_kernels")
    query = "SELECT device_time_avg, steps FROM key_averages('t') WHERE name = 'aten::mm'"
    assert asked(warehouse, query) == [(None, 1)]
    assert asked(warehouse, "SELECT rule FROM advice('t')") == [("lost kernels",)]


def test_a_step_lasts_as_long_as_what_is_per_step(warehouse: Warehouse) -> None:
    """A launch of another thread that ends after its step, one between a nested step and the end of the one around it,
    and work that only an external id gives to a step.
    """
    steps = [("ProfilerStep#0", 0, 100), ("ProfilerStep#1", 200, 300), ("ProfilerStep#2", 210, 240)]
    made = [event("user_annotation", name, start, end) for name, start, end in steps]
    made += [
        event("cpu_op", "aten::add", 400, 410, 2, external=9),
        event("user_annotation", "ProfilerStep#3", 390, 420),
    ]
    for number, (at, start, end) in enumerate([(95, 110, 160), (220, 240, 250), (260, 310, 350)], 1):
        made.append(event("cuda_runtime", "cudaLaunchKernel", at, at + 10, 2, correlation=number))
        made.append(event("kernel", KERNEL, start, end, 7, correlation=number, device=0))
    made.append(event("kernel", KERNEL, 430, 480, 7, correlation=4, external=9, device=0))
    warehouse.ingest(json.dumps({"traceEvents": made}).encode(), name="t")
    assert asked(warehouse, "SELECT per_step * steps FROM kernel_table('t', unit := 'us')") == [(50 + 10 + 40 + 50,)]
    query = "SELECT step, total, kernel FROM wide_steps('t', unit := 'us') ORDER BY step"
    assert asked(warehouse, query) == [(0, 160, 50), (1, 150, 50), (2, 0, 0), (3, 90, 50)]


TIMES = (
    "forward_calls, backward_calls, forward_host_time, backward_host_time, forward_device_time, backward_device_time"
)


def numbered(name: str, start: float, end: float, number: int, thread: int = 1, forward: int = 0) -> dict[str, Any]:
    return event("cpu_op", name, start, end, thread, **{"Sequence number": number, "Fwd thread id": forward})


def check(warehouse: Warehouse, training: Training) -> None:
    warehouse.ingest(trace(*training.events), name="t")
    rows = warehouse.rows("SELECT step, pass, host_time, device_time FROM passes('t', by := 'step')")[1]
    found = {(step, name): [host, device] for step, name, host, device in rows}
    assert found == {at: row[:2] for at, row in training.passes.items()}
    for by, key, truth in (("op", "op, backward", training.ops), ("module", "module_path", training.modules)):
        rows = warehouse.rows(f"SELECT {TIMES}, {key} FROM backward_times('t', by := $by)", by=by)[1]
        of_rows = {row[6:] if by == "op" else row[6]: list(row[:6]) for row in rows}
        assert {at: [*row] for at, row in of_rows.items()} == dict(truth), by
    sums = warehouse.rows("SELECT pass, host_time, device_time, host_percent FROM passes('t')")[1]
    for name, host, device, _ in sums:
        of_steps = [row for (_, each), row in training.passes.items() if each == name]
        assert host == sum(row[0] for row in of_steps)
        assert device == sum(row[1] for row in of_steps)
    assert sum(row[3] for row in sums) == pytest.approx(100)


@pytest.mark.long
def test_known_truth(warehouse: Warehouse) -> None:
    check(warehouse, Training(7))


def test_a_step_of_several_threads_is_one(traces: Traces) -> None:
    """Its time counts once, on the host and by category; it lasts from the first start to the last end."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 10),
        event("user_annotation", "ProfilerStep#1", 0, 12, 2),
        numbered("aten::mm", 1, 6, 3, thread=2),
        numbered(f"{ENGINE}MmBackward0", 7, 9, 3, forward=1),
    )
    found = traces.ask("passes", "pass, host_time, device_time", by="step")
    passes = {"forward": 5, "backward": 2, "optimizer": 0, "data_loading": 0, "other": 5}
    # Without device events there is no device time.
    assert found == [(name, time, None) for name, time in passes.items()]
    assert traces.ask("wide_steps", "step, total, cpu_exec, other") == [(1, 12, 7, 5)]
    rows = traces.ask("step_breakdown", "step, category, time")
    assert len(rows) == 8 and {row for row in rows if row[2]} == {(1, "CPU Exec", 7), (1, "Other", 5)}
    assert traces.ask("average_step", "time")[0] == (12,)


def test_steps_that_overlap_have_all_their_time(traces: Traces) -> None:
    """Time that two steps share counts for each of them, so that the rows of each step add up to it."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "ProfilerStep#2", 60, 160, 2),
        event("cpu_op", "aten::mm", 50, 90),
        event("cuda_runtime", "cudaDeviceSynchronize", 120, 170),
    )
    columns = "step, total, runtime, cpu_exec, other"
    assert traces.ask("wide_steps", columns) == [(1, 100, 0, 40, 60), (2, 100, 40, 30, 30)]


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        # The clock is set back by 300 us after the first of three steps of 100 us; then by 50 us within the second.
        ([(0, 100, 1), (-200, -100, 1), (-100, 0, 1)], None),
        ([(0, 100, 1), (50, 150, 1), (150, 250, 1)], "1 of 3 steps begins before the step before has ended in the same thread, by up to 50 us"),
        ([(0, 100, 1), (50, 150, 1), (90, 200, 1)], "2 of 3 steps begin before the step before has ended in the same thread, by up to 60 us"),
        # One in the other, equal ones, in two threads, by rounding.
        ([(0, 100, 1), (50, 90, 1), (100, 200, 1)], None),
        ([(0, 100, 1), (0, 100, 1), (100, 200, 1)], None),
        ([(0, 100, 1), (50, 150, 2), (100, 200, 1)], None),
        ([(0, 100, 1), (99, 200, 1)], None),
    ],
)  # fmt: skip
def test_steps_of_a_thread_that_cross(traces: Traces, steps: list[tuple[int, int, int]], found: str | None) -> None:
    traces.take(
        *(event("user_annotation", f"ProfilerStep#{at}", 500 + start, 500 + end, thread) for at, (start, end, thread) in enumerate(steps)),
        event("cpu_op", "aten::mm", 510, 520),
    )  # fmt: skip
    rows = asked(
        traces.warehouse, "SELECT split_part(detail, ',', 1) || ',' || split_part(detail, ',', 2) FROM findings"
    )
    assert rows == ([] if found is None else [(found,)])


@pytest.mark.long
def test_slow_steps(traces: Traces) -> None:
    """By hand: all but two of the steps after the first take 100 us, so that slow ones take more than 110 us."""
    for lengths, slow in (
        ([300, *[100] * 10, 109, 111], [1, 13]),
        ([100, *[100] * 10, 110, 40], []),
        ([300, 100, 100], []),
        ([300, 100, 100, 100], [1]),
    ):
        starts = [sum(lengths[:place]) for place in range(len(lengths))]
        traces.take(
            *(
                event("user_annotation", f"ProfilerStep#{number}", start, start + length)
                for number, (start, length) in enumerate(zip(starts, lengths, strict=True), 1)
            ),
            event("cpu_op", "aten::mm", 1, 2),
        )
        rows = traces.ask("wide_steps", "step, total, is_slow")
        assert [row[1] for row in rows] == lengths
        assert [row[0] for row in rows if row[2]] == slow
        traces.warehouse.remove("t")


def test_a_slash_in_the_name_of_a_module(traces: Traces) -> None:
    """A slash in a module's name does not separate modules: no module `in` gets the backward pass of `in/out`."""
    traces.take(
        event("python_function", "nn.Module: Net_0", 0, 30, **{"Python id": 1}),
        event("python_function", "nn.Module: in/out_0", 2, 20, **{"Python id": 2, "Python parent id": 1}),
        numbered("aten::mm", 5, 9, 3),
        numbered("MmBackward0", 40, 47, 3, thread=2, forward=1),
    )
    columns = "module_path, forward_calls, backward_calls, forward_host_time, backward_host_time"
    assert traces.ask("backward_times", columns) == [("Net_0", 1, 1, 30, 7), ("Net_0/in/out_0", 1, 1, 18, 7)]


def test_sums_of_device_times_beyond_64_bits_are_null(traces: Traces) -> None:
    """Three kernels of 4 * 10**18 ns each, launched in the backward pass."""
    events = [numbered("aten::mm", 0, 30, 3), numbered("MmBackward0", 40, 70, 3, thread=2, forward=1)]
    for number in range(3):
        ids = {"correlation": 5 + number}
        events.append(event("cuda_runtime", "cudaLaunchKernel", 40 + 9 * number, 45 + 9 * number, 2, **ids))
        events.append(event("kernel", "gemm", 90, 4 * 10**15, 7 + number, device=0, stream=number, **ids))
    traces.take(*events)
    assert traces.ask("backward_times", "forward_device_time, backward_device_time", by="op") == [(0, None)]


def test_passes_by_hand(traces: Traces) -> None:
    """Threads at once: each moment counts for the first of the passes that any thread is in."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100),
        numbered("aten::mm", 10, 40, 3),
        numbered(f"{ENGINE}MmBackward0", 30, 60, 3, thread=2, forward=1),
        event("cuda_runtime", "cudaLaunchKernel", 45, 50, 2, correlation=5),
        event("kernel", "gemm", 90, 130, 7, correlation=5, device=0),
        event("user_annotation", "Optimizer.step#Adam.step", 50, 80),
        # A range of the optimizer on the device takes none of the time on the host.
        event("gpu_user_annotation", "Optimizer.step#Adam.step", 80, 99, 7, device=0),
        event("cpu_op", "aten::item", 85, 90),
        event("user_annotation", "ProfilerStep#2", 100, 150),
        event("cuda_runtime", "cudaLaunchKernel", 110, 112, correlation=6),
        event("kernel", "gemm", 140, 141, 7, correlation=6, device=0),
    )
    columns = "step, pass, host_time, device_time, device_events, host_percent, device_percent"
    assert traces.ask("passes", columns, by="step") == [
        (1, "forward", 20, 0, 0, 20, 0), (1, "backward", 30, 40, 1, 30, 100), (1, "optimizer", 20, 0, 0, 20, 0),
        (1, "data_loading", 0, 0, 0, 0, 0), (1, "other", 30, 0, 0, 30, 0), (2, "forward", 0, 0, 0, 0, 0),
        (2, "backward", 0, 0, 0, 0, 0), (2, "optimizer", 0, 0, 0, 0, 0), (2, "data_loading", 0, 0, 0, 0, 0),
        (2, "other", 50, 1, 1, 100, 100),
    ]  # fmt: skip
    assert traces.ask("backward_times", f"op, backward, {TIMES}", by="op") == [
        ("aten::mm", "MmBackward0", 1, 1, 30, 30, 0, 40)
    ]
    stored = (
        "SELECT event_index, pass, backward_index, forward_index FROM trace_events WHERE pass IS NOT NULL ORDER BY 1"
    )
    assert traces.warehouse.rows(stored)[1] == [
        (1, "forward", None, None), (2, "backward", 2, 1), (5, "optimizer", None, None)
    ]  # fmt: skip
    assert traces.warehouse.rows("SELECT event_index, pass, backward_index FROM device_events ORDER BY 1")[1] == [
        (4, "backward", 2), (6, None, None), (10, None, None)
    ]  # fmt: skip
    with pytest.raises(QueryError, match="by must be trace or step, not op"):
        traces.ask("passes", by="op")
    with pytest.raises(QueryError, match="by must be module or op, not x"):
        traces.ask("backward_times", by="x")


def test_numbers_count_per_thread(traces: Traces) -> None:
    """A number is linked in the thread that most numbers belong to, even if another thread has it later."""
    traces.take(
        numbered("aten::mul", 0, 5, 1), numbered("aten::add", 10, 15, 2), numbered("aten::view", 16, 17, 3),
        numbered("aten::sum", 20, 25, 3), numbered("aten::exp", 26, 27, 2, thread=3),
        numbered("SumBackward0", 30, 35, 3, thread=2, forward=1),
        numbered("AddBackward0", 40, 45, 2, thread=2, forward=1),
        numbered("MulBackward0", 50, 55, 1, thread=2, forward=1),
        numbered("CppNode<Exp>", 60, 65, 2, thread=2, forward=4),
        # No op of the trace has this number.
        numbered("CosBackward0", 70, 75, 9, thread=2, forward=1),
    )  # fmt: skip
    assert set(traces.ask("backward_times", "op, backward", by="op")) == {
        ("aten::sum", "SumBackward0"), ("aten::add", "AddBackward0"), ("aten::mul", "MulBackward0"),
        ("aten::exp", "CppNode<Exp>"), (None, "CosBackward0"),
    }  # fmt: skip


def test_older_traces(traces: Traces) -> None:
    """Without sequence numbers, autograd's functions are known by name; all other ops belong to the forward pass."""
    traces.take(
        event("cpu_op", "aten::mm", 0, 10), event("cpu_op", "MmBackward", 20, 50, 2),
        event("cpu_op", "aten::mm", 25, 40, 2), event("cpu_op", "torch::autograd::AccumulateGrad", 50, 60, 2),
        event("cpu_op", "aten::cudnn_batch_norm_backward", 70, 75), is_older=True,
    )  # fmt: skip
    assert traces.ask("passes", "step, pass, host_time", by="step")[:2] == [(0, "forward", 15), (0, "backward", 40)]
    assert traces.ask("backward_times", "op, backward, backward_host_time", by="op") == [
        (None, "MmBackward", 30),
        (None, "torch::autograd::AccumulateGrad", 10),
    ]


def test_threads_that_run_the_same_ops(traces: Traces) -> None:
    """Numbers of threads and ids of threads have the same order, whichever thread is first or last. A call whose op the
    trace lacks belongs to none.
    """
    traces.take(
        numbered("aten::exp", 0, 1, 1, thread=12), numbered("aten::mul", 2, 5, 2, thread=12),
        numbered("aten::sin", 1, 2, 1, thread=11), numbered("aten::add", 2, 8, 2, thread=11),
        numbered("aten::sub", 3, 10, 2, thread=13), numbered("MulBackward0", 20, 21, 2, thread=9, forward=6),
        numbered("AddBackward0", 22, 24, 2, thread=9, forward=5),
        numbered("SubBackward0", 25, 30, 2, thread=9, forward=7),
        numbered("ExpBackward0", 31, 32, 1, thread=9, forward=6),
        numbered("SinBackward0", 33, 34, 1, thread=9, forward=5),
        # The thread began after the op.
        numbered("CosBackward0", 35, 36, 1, thread=9, forward=7),
    )  # fmt: skip
    assert set(traces.ask("backward_times", "op, backward, forward_calls, forward_host_time", by="op")) == {
        ("aten::mul", "MulBackward0", 1, 3), ("aten::add", "AddBackward0", 1, 6), ("aten::sub", "SubBackward0", 1, 7),
        ("aten::exp", "ExpBackward0", 1, 1), ("aten::sin", "SinBackward0", 1, 1), (None, "CosBackward0", 0, 0),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["torch/steps_7", "torch_threads/replicas"])
def test_ops_are_linked_as_torch_links_them(warehouse: Warehouse, name: str) -> None:
    """torch draws an arrow from each op of the forward pass to its function in the backward pass."""
    path = CAPTURES / f"{name}.pt.trace.json.gz"
    entries = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    slices = [each for each in entries if each.get("ph") == "X" and "Sequence number" in each.get("args", {})]
    arrows: dict[Any, dict[str, dict[str, Any]]] = {}
    for each in entries:
        if each.get("cat") == "fwdbwd":
            # Among the ops that begin there, the innermost one with a number.
            ops = [op for op in slices if (op["tid"], op["ts"]) == (each["tid"], each["ts"])]
            arrows.setdefault(each["id"], {})[each["ph"]] = min(ops, key=lambda op: op["dur"])
    assert arrows
    calls: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for arrow in arrows.values():
        link = arrow["s"]["name"], arrow["f"]["name"].removeprefix(ENGINE)
        calls[link] += 1
        times[link] += round(1000 * arrow["s"]["dur"])
    warehouse.ingest(path, name="t")
    columns = "op, backward, backward_calls, forward_calls, forward_host_time"
    rows = warehouse.rows(f"SELECT {columns} FROM backward_times('t', by := 'op', unit := 'ns') WHERE op NOT NULL")[1]
    assert {row[:2]: row[2] for row in rows} == calls == {row[:2]: row[3] for row in rows}
    assert {row[:2]: row[4] for row in rows} == times
