"""What is stored of a trace's memory, against a search through all events for each allocation."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest

import etq
from tests.trace_builders import event, memory, trace

CPU, DEVICE, OTHER = 0, 1, 9


class Span(NamedTuple):
    """An event of a thread: its start and end, and the place of the event that contains it."""

    thread: int
    start: int
    end: int
    parent: int | None


def nested(random: Random) -> list[Span]:
    """Properly nested events of two threads, those that contain others first."""
    spans: list[Span] = []

    def fill(thread: int, begin: int, until: int, parent: int | None, depth: int) -> None:
        at = begin
        while depth < 4 and (start := at + random.randrange(4)) < until:
            end = min(until, start + random.randrange(1, 12))
            spans.append(Span(thread, start, end, parent))
            fill(thread, start, end, len(spans) - 1, depth + 1)
            at = end

    for thread in (1, 2):
        fill(thread, 10 * thread, 80, None, 0)
    return spans


def sums(spans: list[Span], allocations: list[tuple[int, int, int, int]], kind: int) -> list[tuple[int, int]]:
    """The bytes within each event, and those without the bytes within the events directly within it."""
    total = [
        sum(size for _, at, size, type in allocations if type == kind and span.start <= at <= span.end)
        for span in spans
    ]
    own = [*total]
    for span, size in zip(spans, total, strict=True):
        if span.parent is not None:
            own[span.parent] -= size
    return [*zip(total, own, strict=True)]


@pytest.mark.parametrize("seed", range(8))
def test_memory_belongs_to_calls_and_events(seed: int) -> None:
    random = Random(seed)
    spans = nested(random)
    allocations = [
        (random.randrange(1, 3), random.randrange(100), random.choice((-64, 8, 2**40)), random.choice((CPU, DEVICE, OTHER)))
        for _ in range(40)
    ]  # fmt: skip
    # Kernels last while nothing happens on the host: memory then is outside of all events.
    written: list[dict[str, Any]] = [
        event("cpu_op", f"op{place}", span.start, span.end, span.thread) for place, span in enumerate(spans)
    ]
    written.append(event("kernel", "gemm", 0, 100, 7, device=0))
    written += [memory(at, size, 0, thread=thread, type=type) for thread, at, size, type in allocations]
    with etq.open() as warehouse:
        warehouse.ingest(trace(*written), name="run")
        connection = warehouse.connection
        query = "SELECT counts_as, call_index, is_outside FROM trace_memory ORDER BY event_index"
        for (thread, at, _, type), found in zip(allocations, connection.execute(query).fetchall(), strict=True):
            around = [
                (span.start, -span.end, place)
                for place, span in enumerate(spans)
                if span.thread == thread and span.start <= at < span.end
            ]
            is_outside = not any(span.start <= at <= span.end for span in spans)
            counts_as = {CPU: "cpu", DEVICE: "device"}.get(type)
            assert found == (counts_as, max(around)[2] if around else None, is_outside)
        expected = {
            place: (*cpu, *device)
            for place, (cpu, device) in enumerate(
                zip(sums(spans, allocations, CPU), sums(spans, allocations, DEVICE), strict=True)
            )
            if any((*cpu, *device))
        }
        query = "SELECT event_index, cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes FROM event_memory"
        assert {row[0]: row[1:] for row in connection.execute(query).fetchall()} == expected
