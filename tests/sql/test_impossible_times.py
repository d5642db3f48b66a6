"""Times that can't be, as profilers write them by mistake, and small files with properties that people reported: by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import shared_file
from tests.trace_builders import event, trace
from tests.traces import Traces
from tests.warehouses import empty_warehouse

CUT, UNKNOWN = "impossible times", "unknown times"
# Microseconds since 1970.
NOW = 1_700_000_000_000_000
# Kernels (name, start, end), their calls if they share some, the time of each, findings.
SHOWN: dict[str, tuple[list[tuple[str, float, float]], tuple[int, ...], dict[str, float], list[str]]] = {
    "a stream goes on": ([("a", 0, 3_400_000), ("b", 12, 92)], (), {"a": 12, "b": 80}, [CUT]),
    "several run over": (
        [("a", 0, 3_400_000), ("b", 10, 3_400_010), ("c", 20, 30)], (), {"a": 10, "b": 10, "c": 10}, [CUT],
    ),
    "two later": ([("a", 0, 50), ("b", 20, 60), ("c", 30, 40)], (), {"a": 20, "b": 10, "c": 10}, [CUT]),
    "started early": ([("a", 0, 100), ("b", 40, 120)], (), {"a": 100, "b": 80}, []),
    "rounded": ([("a", 0, 101), ("b", 40, 99.5)], (), {"a": 101, "b": 59.5}, []),
    "branches of a graph": ([("a", 0, 100), ("b", 20, 30), ("c", 100, 110)], (1, 1, 2), {"a": 100, "b": 10, "c": 10}, []),
    "a graph goes on": ([("a", 0, 500), ("b", 20, 30), ("c", 100, 110)], (1, 1, 2), {"a": 100, "b": 10, "c": 10}, [CUT]),
    "the last": ([("a", 0, 10), ("b", 20, 3_400_000)], (), {"a": 10, "b": 3_399_980}, []),
}  # fmt: skip


def launched(number: int, at: float, *kernels: dict[str, Any]) -> list[dict[str, Any]]:
    """An op, its call, and kernels of the call."""
    return [
        event("cpu_op", "aten::mm", at, at + 3),
        event("cuda_runtime", "cudaLaunchKernel", at + 1, at + 2, correlation=number),
        *kernels,
    ]


def kernel(name: str, start: float, end: float, number: int, stream: int = 7) -> dict[str, Any]:
    return event("kernel", name, start, end, stream, device=0, stream=stream, correlation=number)


def findings(traces: Traces) -> list[str]:
    rows = traces.warehouse.rows("SELECT rule FROM findings WHERE rule LIKE '% times' ORDER BY rule")[1]
    return [rule for (rule,) in rows]


def times(traces: Traces) -> dict[str, float | None]:
    rows = traces.warehouse.rows("SELECT name, duration_ticks FROM events WHERE length(name) = 1")[1]
    return {name: None if ticks is None else ticks / 1000 for name, ticks in rows}


@pytest.mark.parametrize("case", SHOWN)
def test_work_ends_in_the_order_of_its_stream(case: str, traces: Traces) -> None:
    kernels, given, expected, rules = SHOWN[case]
    numbers = given or range(1, len(kernels) + 1)
    calls = [each for number in sorted({*numbers}) for each in launched(number, 5 * number - 1_000)]
    traces.take(*calls, *(kernel(*each, number) for each, number in zip(kernels, numbers, strict=True)))
    assert times(traces) == expected
    assert findings(traces) == rules


def test_streams_run_side_by_side(traces: Traces) -> None:
    traces.take(*launched(1, -20), *launched(2, -10), kernel("a", 0, 100, 1), kernel("b", 20, 30, 2, stream=8))
    assert times(traces) == {"a": 100, "b": 10}
    assert not findings(traces)


def test_times_that_are_not_known_count_nowhere(traces: Traces) -> None:
    """A kernel's time is unknown as it is before its call, though the trace lasts longer than it is away from 0."""
    written = [*launched(1, 100, kernel("a", 110, 120, 1)), *launched(2, 5_000, kernel("b", 0, 0, 2))]
    traces.take(*written)
    assert times(traces) == {"a": 10, "b": None}
    assert findings(traces) == [UNKNOWN]
    assert [idle for (idle,) in traces.ask("device_idle", "duration")] == []


def test_a_kernel_at_the_beginning_has_a_time(traces: Traces) -> None:
    traces.take(event("kernel", "a", 0, 0, 7, device=0, stream=7), event("kernel", "b", 10, 30, 7, device=0, stream=7))
    assert times(traces) == {"a": 0, "b": 20}
    assert not findings(traces)


@pytest.mark.parametrize(("start", "length", "rule"), [(0, 5, UNKNOWN), (0, 1e6, UNKNOWN), (NOW, 1.8e16, CUT)])
def test_a_time_that_is_unknown(start: float, length: float, rule: str, traces: Traces) -> None:
    """The event counts as one of its launch: no kernel is lost."""
    written = [
        *launched(1, NOW, kernel("a", NOW + 5, NOW + 15, 1)),
        *launched(2, NOW, kernel("b", start, start + length, 2)),
    ]
    traces.take(*written)
    assert times(traces) == {"a": 10, "b": None}
    assert findings(traces) == [rule]
    assert traces.warehouse.rows("SELECT rule FROM findings WHERE rule = 'lost kernels'")[1] == []
    assert traces.ask("kernel_table", "kernel, calls, total", unit="us") == [("a", 1, 10)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "calls", "total", "rules"),
    [
        ("10m_overflow_min", {"Cijk_gemm": (1, 80), "add_kernel": (1, 12)}, 92, [CUT]),
        ("14_ts0", {"gemm": (3, 10)}, 30, [UNKNOWN]),
        ("15_kernel_ts0", {"gemm": (2, 10)}, 20, [UNKNOWN]),
        ("26_pdl", {"gemm": (4, 13)}, 52, []),
    ],
)
def test_reported_traces(
    name: str, calls: dict[str, tuple[int, float]], total: float, rules: list[str], traces: Traces
) -> None:
    traces.warehouse.ingest(shared_file(f"captures/reports/{name}.json"), name="t")
    found = traces.ask("kernel_table", "kernel, calls, per_call", unit="us")
    assert {kernel: (count, mean) for kernel, count, mean in found} == calls
    assert sum(count * mean for _, count, mean in found) == total
    assert findings(traces) == rules
    # Nothing between the first and the last kernel of a trace of 100 us is longer.
    assert all(idle < 200 for (idle,) in traces.ask("device_idle", "duration", unit="us"))
    advice = [rule for (rule,) in traces.ask("advice", "rule")]
    assert UNKNOWN not in rules or not {"device idle", "gpu utilization"} & {*advice}
    # Each call of the op that has a time takes 8 us in these, and its kernel 10.
    means = [
        row[1:]
        for row in traces.ask("key_averages", "name, cpu_time_avg, device_time_avg", unit="us")
        if row[0] == "aten::mm"
    ]
    assert UNKNOWN not in rules or means == [(8, 10)]


def test_ops_whose_times_are_all_impossible_have_none(traces: Traces) -> None:
    """The second call of `some` takes 4 us; its other one, and that of `none`, end before they begin."""
    calls = [("ok", 0, 6), ("none", 20, -5), ("some", 40, -4), ("some", 50, 54)]
    content = trace(*(event("cpu_op", f"aten::{name}", start, end) for name, start, end in calls))
    traces.warehouse.ingest(content, name="t")
    columns = "name, self_cpu_time, cpu_time_total, self_cpu_percent, torch_self_cpu_time, torch_cpu_time_total"
    assert traces.ask("key_averages", columns, unit="us") == [
        ("aten::ok", 6, 6, 60, 6, 6), ("aten::some", 4, 4, 40, 4, 4), ("aten::none", None, None, None, None, None),
    ]  # fmt: skip


# A file, a question, and the right answer.
RIGHT: list[tuple[str, str, list[Any]]] = [
    # All kernels of collectives have the correlation id 0.
    (
        "11_corr0_nccl.json",
        "SELECT name, self_device_time FROM key_averages() WHERE name IN ('(no op)', 'aten::mm') ORDER BY name",
        [("(no op)", 56), ("aten::mm", 40)],
    ),
    # Modes of dispatch record an op twice.
    ("12_dispatchmode.json", "SELECT calls, flops FROM op_efficiency() WHERE op = 'aten::mm'", [(5, 2 * 2048**3)]),
    # Annotations that overlap frames of Python, without being within them.
    ("25_overlap_annotations.json", "SELECT count(DISTINCT step) FROM step_breakdown()", [(3,)]),
    (
        "25_overlap_annotations.json",
        "SELECT DISTINCT cpu_time_avg FROM key_averages() WHERE name = 'forward' AND calls > 0",
        [(39,)],
    ),
    # The profiler copies annotations to the device.
    ("27_gpu_annotation.json", "SELECT sum(total) FROM kernel_table()", [(40,)]),
    ("28_gpu_steps.json", "SELECT count(DISTINCT step) FROM step_breakdown()", [(2,)]),
    # Memory is released that was allocated before the recording.
    ("32_memory.json", "SELECT max(peak_bytes) FROM memory_timeline()", [(7168,)]),
    # Cycles, microseconds and counts in one dump: no share of the time, no sum over units.
    (
        "E2_qnn.etdp",
        "SELECT op, per_execute, unit, share_percent FROM op_totals() WHERE kind = 'delegate' AND unit = 'cycles' ORDER BY 1",
        [
            ("Accelerator (execute) time", 3_000_000, "cycles", None),
            ("aten_convolution_default:OpId_22", 2_000_000, "cycles", None),
            ("aten_relu_default:OpId_24", 900_000, "cycles", None),
        ],
    ),
    # A counter of 32 bits passes zero within an execute of 90 ticks.
    ("E6_wrap32.etdp", "SELECT DISTINCT execute FROM framework_tax()", [(0.09,)]),
]


@pytest.fixture(scope="module")
def reports() -> Iterator[Warehouse]:
    with empty_warehouse() as warehouse:
        warehouse.ingest_many([shared_file(f"captures/reports/{name}") for name in {name: 0 for name, *_ in RIGHT}])
        yield warehouse


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "query", "expected"), RIGHT, ids=[f"{name}-{at}" for at, (name, *_) in enumerate(RIGHT)]
)
def test_a_report(reports: Warehouse, name: str, query: str, expected: list[Any]) -> None:
    assert reports.rows(query.replace("()", f"('{name.split('.', maxsplit=1)[0]}')"))[1] == expected
