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

# Events decoded at a time: enough that numpy's cost per call vanishes, few enough that its arrays stay in cache.
SLICE: Final = 65536
# One core is left to the steps that follow.
THREADS: Final = max(1, min(4, (os.cpu_count() or 1) - 1))


def decoded_groups(runs: Tables, spans: Spans) -> Iterator[tuple[range, list[EventSlice]]]:
    """Ranges of runs of about `SLICE` events together, in order, each with its events.

    A run of more events than that makes a group of its own, of several slices.
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
    """Ranges of runs and of their events, counted through the dump."""
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
