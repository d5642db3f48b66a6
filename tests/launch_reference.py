"""Launches and queues of streams by plain Python over a trace's JSON, as `kernel_launches` and `queue_lengths` document them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.pairs.json_traces import Slice
from tests.trace_reference import launches, slices


def launched(events: list[dict[str, Any]]) -> list[tuple[Slice, Slice]]:
    return [(each, call) for each, call in launches(slices(events)).items() if call is not None]


def launch_rows(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The rows of `kernel_launches`, in nanoseconds."""
    pairs = launched(events)
    of_call = Counter(call for _, call in pairs)
    return Counter(
        (
            *each.stream, each.name, call.name, next((above.name for above in call.above() if above.is_op), None),
            of_call[call], call.length, max(each.start - call.end, 0), each.start - call.start,
            each.length, each.length * of_call[call] < call.length,
        )
        for each, call in pairs
    )  # fmt: skip


def queues(events: list[dict[str, Any]]) -> dict[tuple[Any, Any], list[tuple[int, int]]]:
    """Length after each change and time to the next one, by stream, in nanoseconds."""
    changes: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for each, call in launched(events):
        changes[each.stream] += [(min(call.start, each.start), -1), (each.start, 1)]
    found: dict[tuple[Any, Any], list[tuple[int, int]]] = {}
    for stream, held in changes.items():
        length, found[stream] = 0, []
        ordered = sorted(held)
        for number, (at, change) in enumerate(ordered):
            length -= change
            until = ordered[number + 1][0] if number + 1 < len(ordered) else at
            found[stream].append((length, until - at))
    return found
