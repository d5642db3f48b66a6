"""What devices do and why they are idle: planted, by hand, by plain Python, and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.gap_reference import gaps
from tests.launch_traces import ALL_REDUCE, FEW, LOADER, OF_HTA, SHAPES, Machine, hta, planted, recorded
from tests.pairs.json_traces import nanoseconds
from tests.sampling import thinned
from tests.trace_corpus import SHAPES as PROGRAMS
from tests.trace_corpus import Style

# The others have events of a stream that overlap.
SERIAL = [name for name in SHAPES if name not in ("hostile", "differing")]
GAPS = """
    SELECT g.device, g.stream, g.start, g.duration, g.cause, g.host_op, g.call, g.host_time, g.hta_cause
    FROM device_idle($c, unit := 'ns', "by" := $by) AS g
"""


# Annotations that count: steps of the profiler and of vLLM, and communication.
STEPS = ("ProfilerStep#", "execute_", "nccl:all")


def recorded_from(events: list[dict[str, Any]]) -> int:
    """The start of the first event that counts, in nanoseconds."""
    named = ("user_annotation", "gpu_user_annotation")
    counted = [
        each for each in events
        if each.get("ph") == "X" and (each["cat"] not in named or each["name"].startswith(STEPS))
    ]  # fmt: skip
    return min(nanoseconds(each["ts"]) for each in counted)


def check(warehouse: Warehouse, capture: str, events: list[dict[str, Any]]) -> int:
    """Compare the gaps of both kinds with plain Python's, and return how many there are."""
    begin = recorded_from(events) if any(each.get("ph") == "X" for each in events) else 0
    counted = 0
    for by in ("device", "stream"):
        found = warehouse.rows(GAPS, c=capture, by=by)[1]
        expected = [(row[0], row[1], row[2] - begin, *row[3:]) for row in gaps(events, by)]
        assert Counter(found) == Counter(expected)
        assert [row[3] for row in found] == sorted((row[3] for row in expected), reverse=True)
        counted += len(found)
    return counted


def test_planted_causes(launch_traces: Warehouse) -> None:
    """Each gap of stream 7 has the cause with which it was planted."""
    rows = launch_traces.rows("""
        SELECT g.start, g.start + g.duration, g.cause, g.host_op, g.step, g.next_event, g.waited_for
        FROM device_idle('planted', "by" := 'stream') AS g
        WHERE g.stream = 7
        ORDER BY g.start
    """)[1]
    assert [(row[0] + 1000, row[1] + 1000, *row[2:4]) for row in rows] == planted().gaps
    # The last event has no launch, which would tell its step.
    assert [row[4] for row in rows] == [3] * 4 + [4] * 5 + [None]
    by_cause = {row[5]: row[6] for row in rows if row[6] is not None}
    assert [*by_cause] == ["needs_copy", "needs_gradients"]
    assert by_cause["needs_copy"] == "Memcpy DtoD (Device -> Device)"


def test_recorded_waits(launch_traces: Warehouse) -> None:
    """Gaps whose next event waited, by the trace's records, for another stream; others don't, whatever ends before."""
    rows = launch_traces.rows("""
        SELECT g.start + 1000, g.start + g.duration + 1000, g.cause, g.host_op, g.waited_for
        FROM device_idle('recorded', "by" := 'stream') AS g
        WHERE g.stream = 7
        ORDER BY g.start
    """)[1]
    assert [row[:4] for row in rows] == recorded().gaps
    assert [row[4] for row in rows] == ["side", None, ALL_REDUCE, None, "short"]


@pytest.mark.long
def test_causes_add_up(launch_traces: Warehouse) -> None:
    """By hand, of stream 7 of the planted trace."""
    rows = launch_traces.rows("""
        SELECT c.cause, c.gaps, c.total, c.max, c.host_time, c.host_op
        FROM device_idle_causes('planted', "by" := 'stream') AS c
        WHERE c.stream = 7
    """)[1]
    assert rows == [
        ("launch", 1, 5000.0, 5000.0, 4995.0, "ProfilerStep*"),
        ("communication", 2, 951.0 + 389, 951.0, 387.0, "nccl:barrier"),
        ("dependency", 1, 1112.0, 1112.0, 0.0, None), ("unknown_wait", 1, 700.0, 700.0, 0.0, None),
        ("host", 1, 507.0, 507.0, 505.0, "aten::slow"), ("data_loading", 1, 499.0, 499.0, 497.0, LOADER),
        ("synchronization", 1, 92.0, 92.0, 90.0, "aten::item"), ("unknown", 1, 90.0, 90.0, None, None),
        ("launch_delay", 1, 1.0, 1.0, 0.0, None),
    ]  # fmt: skip
    # Of the device's time, as the share that it was idle, and the shares of the advice.
    shares = """
        SELECT sum(c.share_percent), any_value(d.idle_percent),
            (SELECT sum(i.share_percent) FROM device_idle($c) AS i WHERE i.device IS NOT DISTINCT FROM c.device)
        FROM device_idle_causes($c) AS c JOIN device_breakdown($c) AS d USING (device) GROUP BY c.device
    """
    for name in ("training", "rank 0"):
        [[of_causes, idle, of_gaps]] = launch_traces.rows(shares, c=name)[1]
        assert 0 < of_causes == pytest.approx(idle) and of_gaps == pytest.approx(of_causes)


@pytest.mark.long
def test_limits(launch_traces: Warehouse) -> None:
    """If a gap after another stream's event is longer than the limit, its cause is unknown."""
    query = "SELECT g.cause FROM device_idle('planted', \"by\" := 'stream', launch_delay_us := 2) AS g "
    assert launch_traces.rows(query + "WHERE g.next_event = 'needs_copy'")[1] == [("unknown_wait",)]
    hta = "SELECT g.hta_cause FROM device_idle('planted', kernel_wait_us := $us) AS g WHERE g.next_event = 'stuck'"
    assert [launch_traces.rows(hta, us=limit)[1] for limit in (700, 701)] == [[("other",)], [("kernel_wait",)]]


@pytest.mark.parametrize("name", thinned([*SERIAL, *PROGRAMS], ("planted", "training")))
def test_by_plain_python(launch_traces: Warehouse, name: str) -> None:
    """Of programs, several processes, threads and devices, graphs, launches that were not recorded."""
    made = SHAPES[name]().events if name in SHAPES else json.loads(PROGRAMS[name](Style())[0])["traceEvents"]
    assert check(launch_traces, name, made)


@pytest.mark.parametrize("name", thinned(OF_HTA, ("planted", "rank 0")))
def test_equals_hta(launch_traces: Warehouse, name: str) -> None:
    """Idle time of each stream by HTA's causes, and of the device. HTA leaves out events without a recorded launch."""
    expected: dict[tuple[Any, Any], float] = defaultdict(float)
    for row in hta(name)["idle"]:
        if row["idle_time"]:
            expected[row["stream"], row["idle_category"]] = row["idle_time"]
    found = launch_traces.rows(
        """
        SELECT g.stream, g.hta_cause, sum(g.duration)
        FROM device_idle($c, "by" := 'stream') AS g
        WHERE g.next_event <> 'unlaunched'
        GROUP BY ALL
        """,
        c=name,
    )[1]
    assert {(stream, cause): time for stream, cause, time in found} == dict(expected)
    idle = launch_traces.rows(
        "SELECT sum(g.duration) FROM device_idle($c) AS g WHERE g.next_event <> 'unlaunched'", c=name
    )[1]
    assert idle == [(hta(name)["temporal"][0]["idle_time(us)"],)]


def test_the_kept_trace_is_this() -> None:
    kept = CAPTURES / "torch_gpu" / "rank0.pt.trace.json.gz"
    assert gzip.decompress(kept.read_bytes()) == SHAPES["rank 0"]().trace()


@pytest.mark.long
def test_no_gaps(launch_traces: Warehouse) -> None:
    """A trace without device events, and a file of another format, have none."""
    for name in ("steps_7", "mlp"):
        assert launch_traces.rows("FROM device_idle($c)", c=name)[1] == []
        assert launch_traces.rows("FROM device_idle_causes($c)", c=name)[1] == []
    with pytest.raises(QueryError, match="by must be device or stream, not rank"):
        launch_traces.rows("FROM device_idle('planted', \"by\" := 'rank')")


@pytest.mark.parametrize(("host", "cause"), [(49, "unknown_wait"), (50, "not_recorded")])
def test_the_host_is_the_cause_from_half_of_a_gap_on(warehouse: Warehouse, host: int, cause: str) -> None:
    """The call returns so many us after the first kernel has ended, the second kernel begins 100 us after that."""
    made = Machine()
    _, made.now = made.launch("one", 100)
    made.now += host - 4
    made.launch("two", 10, takes=4, delay=104 - host)
    warehouse.ingest(made.trace(), name="t")
    query = "SELECT g.cause, g.duration, g.host_time FROM device_idle('t') AS g"
    assert warehouse.rows(query)[1] == [(cause, 100, host)]


def test_loading_within_communication_is_loading(warehouse: Warehouse) -> None:
    made = Machine()
    _, made.now = made.launch("one", 100)
    with made.frame("nccl:barrier", "user_annotation"), made.frame(LOADER, "user_annotation"):
        made.now += 300
    made.launch("two", 10)
    warehouse.ingest(made.trace(), name="t")
    assert warehouse.rows("SELECT g.cause FROM device_idle('t') AS g")[1] == [("data_loading",)]


@pytest.mark.long
def test_threads_that_launch_nothing_do_not_count(warehouse: Warehouse) -> None:
    """A thread that loads data ahead, or waits for the device, does not delay another thread's launches."""
    made = Machine()
    _, end = made.launch("one", 100)
    made.write("user_annotation", LOADER, made.now, made.now + 900, 2)
    made.write("cuda_runtime", "cudaEventSynchronize", made.now, made.now + 900, 3, correlation=5)
    made.now = end + 400
    with made.frame("aten::mm"):
        made.launch("two", 10)
    warehouse.ingest(made.trace(), name="t")
    assert warehouse.rows("SELECT g.cause FROM device_idle('t') AS g")[1] == [("not_recorded",)]


# HolisticTraceAnalysis's names of overlapping types, by etq's names.
OF_HTA_TYPES = {
    "COMPUTATION overlapping COMMUNICATION": "computation and communication",
    "COMPUTATION overlapping MEMORY": "computation and memory",
    "COMMUNICATION overlapping MEMORY": "communication and memory",
    "COMPUTATION overlapping COMMUNICATION overlapping MEMORY": "computation, communication and memory",
}
BREAKDOWN = """
    SELECT b.device, b.total, b.idle, b.compute, b.non_compute, b.communication, b.overlapped, b.exposed, b.overlap_percent
    FROM device_breakdown($c, unit := 'ns') AS b
"""


@pytest.mark.parametrize("name", thinned(OF_HTA, FEW))
def test_breakdown_equals_hta(launch_traces: Warehouse, name: str) -> None:
    """HTA leaves out the planted event whose launch was not recorded, and all events after it."""
    [row] = launch_traces.rows(BREAKDOWN.replace("'ns'", "'us'"), c=name)[1]
    answers = hta(name)
    [temporal] = answers["temporal"]
    if name != "planted":
        times = ("kernel_time(us)", "idle_time(us)", "compute_time(us)", "non_compute_time(us)")
        assert [*row[1:5]] == [temporal[time] for time in times]
        percents = "SELECT b.idle_percent, b.compute_percent, b.non_compute_percent FROM device_breakdown($c) AS b"
        expected = [temporal[f"{part}_time_pctg"] for part in ("idle", "compute", "non_compute")]
        assert [*launch_traces.rows(percents, c=name)[1][0]] == pytest.approx(expected, abs=0.00501)
        types = launch_traces.rows("SELECT t.types, t.total, t.share_percent FROM work_types($c) AS t", c=name)[1]
        assert {each[0]: each[1] for each in types} == {
            OF_HTA_TYPES.get(each["kernel_type"], each["kernel_type"].lower()): each["sum"]
            for each in answers["kernel_types"]
            if each["sum"]
        }
        kernels = "SELECT w.type, w.event, w.total, w.max, w.min, w.per_call, w.stddev FROM work_totals($c) AS w"
        assert {each[:2]: [*each[2:]] for each in launch_traces.rows(kernels, c=name)[1]} == {
            (each["kernel_type"].lower(), each["name"]): pytest.approx(
                [each[f"{column} (us)"] for column in ("sum", "max", "min", "mean")] + [each["stddev"]], rel=1e-9
            )
            for each in answers["kernels"]
        }
    assert row[8] == pytest.approx(answers["overlap"][0]["comp_comm_overlap_pctg"], abs=0.00501)


def test_steps_by_hand(warehouse: Warehouse) -> None:
    """Two steps: in the first, communication is hidden except for 10 us; the second only waits for communication."""
    made = Machine()
    with made.frame("ProfilerStep#1", "user_annotation"):
        made.now = 1010
        made.run("k", 1020, 1060, 7, correlation=0)
        made.run(ALL_REDUCE, 1030, 1070, 24, correlation=0)
        made.now = 1099
    made.now = 1100
    with made.frame("ProfilerStep#2", "user_annotation"):
        made.run(ALL_REDUCE, 1110, 1150, 24, correlation=0)
        made.run("Memset (Device)", 1140, 1160, 7, kind="gpu_memset", correlation=0)
        made.now = 1199
    warehouse.ingest(made.trace(), name="t")
    query = """
        SELECT b.step, b.total, b.idle, b.compute, b.non_compute, b.communication, b.exposed
        FROM device_breakdown('t', "by" := 'step') AS b
    """
    assert warehouse.rows(query)[1] == [(1, 100, 50, 40, 10, 40, 10), (2, 100, 50, 0, 50, 40, 40)]
    with pytest.raises(QueryError, match="by must be device or step, not rank"):
        warehouse.rows("FROM device_breakdown('t', \"by\" := 'rank')")
