"""Groups the runs of a dump, whose events are decoded ahead on other threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from etq.ingest.etdump.repeated_runs import read_repeated, stretches
from etq.ingest.etdump.slices import read_slice
from etq.ingest.events.event import EventSlice
from etq.ingest.flatbuffers.reader import Positions, Spans, Tables

# The number of events that are decoded at a time: enough to make numpy's cost per call negligible, few enough for the
# processor's cache.
SLICE: Final = 65536
# One core is left for the steps that follow.
THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))


def decoded_groups(runs: Tables, spans: Spans) -> Iterator[tuple[range, list[EventSlice]]]:
    """Yield groups of consecutive runs with about `SLICE` events each, in order. A group is the range of its runs, and
    their events.

    A run of more than `SLICE` events is a group of its own, with several slices.
    """
    groups = list(_groups(spans.count))
    if len(groups) == 1:
        yield groups[0][0], _read_slices(runs, spans, *groups[0])
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(THREADS) as pool:
        ahead: deque[tuple[range, Future[list[EventSlice]]]] = deque()
        try:
            for group, events in groups:
                ahead.append((group, pool.submit(_read_slices, runs, spans, group, events)))
                if len(ahead) > THREADS:
                    done, future = ahead.popleft()
                    yield done, future.result()
            for done, future in ahead:
                yield done, future.result()
        finally:
            for _, future in ahead:
                future.cancel()


def _groups(counts: Positions) -> Iterator[tuple[range, range]]:
    """Yield ranges of runs and of their events; events are numbered through the whole dump."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        begin = int(ends[first] - counts[first])
        last = max(int(np.searchsorted(ends, begin + SLICE, side="right")), first + 1)
        yield range(first, last), range(begin, int(ends[last - 1]))
        first = last


def _read_slices(runs: Tables, spans: Spans, group: range, events: range) -> list[EventSlice]:
    slices: list[EventSlice] = []
    begin = first = events.start
    for stretch in stretches(spans, group):
        count = int(spans.count[stretch.start])
        end = first + count * len(stretch)
        # The first run may differ, because the vtables are among its tables.
        for skipped in (0, 1):
            start = first + skipped * count
            if (repeated := read_repeated(runs, spans, stretch[skipped:], start)) is not None:
                slices += [*_decoded(runs, spans, begin, start), repeated]
                begin = end
                break
        first = end
    slices += _decoded(runs, spans, begin, events.stop)
    return slices or [read_slice(runs, spans, events.start, events.stop)]


def _decoded(runs: Tables, spans: Spans, begin: int, end: int) -> list[EventSlice]:
    """Decode events [begin, end) by the fields of their tables."""
    return [read_slice(runs, spans, first, min(first + SLICE, end)) for first in range(begin, end, SLICE)]
