"""The runs of a dump in groups of whole runs, with their events decoded ahead on other threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from etq.ingest.etdump.slices import read_slice
from etq.ingest.events.event import EventSlice
from etq.ingest.flatbuffers.reader import Positions, Spans, Tables

# How many events are decoded at a time: enough to make numpy's cost per call negligible, few enough for the cache.
SLICE: Final = 65536
# One core is left for the steps that follow.
THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))


def decoded_groups(runs: Tables, spans: Spans) -> Iterator[tuple[range, list[EventSlice]]]:
    """Yield groups of consecutive runs, of about `SLICE` events each, in order: the range of runs and their events.

    A run of more than `SLICE` events is a group of its own, with several slices.
    """
    groups = list(_groups(spans.count))
    if len(groups) == 1:
        yield groups[0][0], _read_slices(runs, spans, groups[0][1])
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(THREADS) as pool:
        ahead: deque[tuple[range, Future[list[EventSlice]]]] = deque()
        try:
            for group, events in groups:
                ahead.append((group, pool.submit(_read_slices, runs, spans, events)))
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


def _read_slices(runs: Tables, spans: Spans, events: range) -> list[EventSlice]:
    begins = range(events.start, events.stop, SLICE) or [events.start]
    return [read_slice(runs, spans, begin, min(begin + SLICE, events.stop)) for begin in begins]
