"""What ingest stores about the waits of threads, the gaps of devices and the recording: by hand."""

from __future__ import annotations

import etq
from tests.trace_builders import event, trace

LAUNCH = "cudaLaunchKernel"
BACKWARD = "autograd::engine::evaluate_function: MulBackward0"


def test_waits_and_gaps() -> None:
    """A thread waits for a kernel, which ends after 50 us of the 60; then a thread of the backward pass begins, 20 us after
    the first has ended its last call.
    """
    events = (
        event("cpu_op", "aten::mul", 0, 12),
        event("cuda_runtime", LAUNCH, 2, 10, correlation=1),
        event("kernel", "mul", 20, 50, 7, correlation=1, device=0),
        event("cuda_runtime", "cudaDeviceSynchronize", 15, 60, correlation=2),
        event("cuda_runtime", LAUNCH, 70, 80, correlation=3),
        event("kernel", "mul", 90, 95, 7, correlation=3, device=0),
        event("cpu_op", BACKWARD, 100, 110, 2),
        event("cuda_runtime", LAUNCH, 102, 104, 2, correlation=4),
        event("kernel", "mul", 120, 125, 7, correlation=4, device=0),
    )
    with etq.read(trace(*events)) as read:
        waits = read.rows("""
            SELECT w.event_index, t.thread, w.at_ticks, w.since_ticks, w.for_event, o.thread
            FROM host_waits AS w
            JOIN threads AS t USING (thread_index)
            LEFT JOIN threads AS o ON o.thread_index = w.for_thread
            ORDER BY w.at_ticks
        """)[1]
        assert waits == [(3, "1", 60_000, 50_000, 2, None), (6, "2", 100_000, 80_000, None, "1")]
        # The thread still waits when the first gap begins, so nothing could be launched ahead. Of the second gap, 16 of 25
        # us come after the launch.
        gaps = read.rows("""
            SELECT g.event_index, g.is_of_stream, g.start_ticks, g.host_ticks, g.awaited_index, g.host_cause, o.label,
                c.label, g.is_early
            FROM device_gaps AS g
            LEFT JOIN signatures AS o ON o.signature_index = g.host_signature
            LEFT JOIN signatures AS c ON c.signature_index = g.call_signature
            ORDER BY g.event_index
        """)[1]
        assert gaps == [
            (5, None, 50_000, 30_000, None, "synchronization", None, "cudaDeviceSynchronize", False),
            (8, None, 95_000, 9_000, None, None, None, None, False),
        ]
        recorded = read.rows("""
            SELECT r.start_ticks, r.end_ticks, r.path_start_ticks, r.path_end_ticks, t.thread
            FROM recordings AS r JOIN threads AS t ON t.thread_index = r.path_thread
        """)[1]
        assert recorded == [(0, 125_000, 0, 125_000, "2")]


def test_gaps_of_streams() -> None:
    """Two streams: what is a gap of one isn't one of the device while the other runs; the device's begins when both have
    ended.
    """
    events = [
        event("kernel", "a", 0, 50, 7, device=0, stream=7),
        event("kernel", "b", 10, 30, 8, device=0, stream=8),
        event("kernel", "c", 40, 45, 8, device=0, stream=8),
        event("kernel", "d", 60, 70, 8, device=0, stream=8),
    ]
    with etq.read(trace(event("cpu_op", "aten::mul", 0, 12), *events)) as read:
        query = "SELECT g.event_index, g.is_of_stream, g.start_ticks, g.host_ticks FROM device_gaps AS g ORDER BY ALL"
        found = read.rows(query)[1]
    assert found == [(3, True, 30_000, None), (4, False, 50_000, None), (4, True, 45_000, None)]


def test_threads_that_only_poll_record_nothing() -> None:
    """As NCCL's watchdog: the path ends with the op, whose thread it is; the recording ends with the poll."""
    polls = [event("cuda_runtime", "cudaEventQuery", at, at + 1, 9) for at in (5, 90)]
    with etq.read(trace(event("cpu_op", "aten::mul", 10, 30), *polls)) as read:
        query = "SELECT r.start_ticks, r.end_ticks, r.path_start_ticks, r.path_end_ticks FROM recordings AS r"
        assert read.rows(query)[1] == [(5_000, 91_000, 10_000, 30_000)]
