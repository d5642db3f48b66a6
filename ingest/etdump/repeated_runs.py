"""Decodes events of runs that repeat a first run: their bytes are equal except for times. Only the first run is
decoded, and the other runs are compared with it.

A loop that executes a method writes the same tables each time, at a constant distance in the file. So the first run of
such a stretch is decoded by the fields of its tables, and the others are compared with it as rows of a matrix of 32-bit
words. Two things may differ: times, and references to a vtable that all runs share, because a reference is relative to
its own position. Runs that differ in anything else are decoded normally; this is often the case for the very first run,
which has the vtables among its tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from etq.ingest.etdump.schema import EVENT, PROFILE_EVENT
from etq.ingest.etdump.slices import read_slice
from etq.ingest.events.event import EventSlice, Ticks
from etq.ingest.flatbuffers.reader import REFERENCE, SCALARS, Buffer, Mask, Positions, Spans, Tables, element_positions

# With fewer runs or events, decoding takes less time than the comparison. With more bytes, it would take too much
# memory; only runs with long texts have that many bytes.
FEWEST_RUNS: Final = 4
FEWEST_EVENTS: Final = 4096
MOST_BYTES: Final = 1 << 26
WORD: Final = np.dtype("<u4")

Words = npt.NDArray[np.uint32]


class _Layout(NamedTuple):
    """The bytes from which a run's events are decoded; positions count from the start of the file.

    begin, end  bounds of these bytes, without vtables that the runs share
    shared      positions of references to these vtables
    times       positions of each event's start_time and end_time
    """

    begin: int
    end: int
    shared: Positions
    times: tuple[Positions, Positions]


def stretches(spans: Spans, runs: range) -> Iterator[range]:
    """Yield ranges of consecutive runs with equally many events, whose event vectors are at a constant distance."""
    start, count = spans.start[runs.start : runs.stop], spans.count[runs.start : runs.stop]
    distance = np.diff(start)
    first = 0
    while first < len(runs):
        is_other = (distance[first:] != distance[first : first + 1]) | (count[first + 1 :] != count[first])
        end = first + 1 + int(is_other.argmax()) if is_other.any() else len(runs)
        yield range(runs.start + first, runs.start + end)
        first = end


def read_repeated(runs: Tables, spans: Spans, stretch: range, first: int) -> EventSlice | None:
    """Decode the events of a stretch of runs; event `first` of the dump is the first of them.

    Returns None for few events, if a run doesn't repeat the first one, and if an event has metadata or is no profile
    event. Raises `FormatError` as `read_slice` does.
    """
    if len(stretch) < FEWEST_RUNS:
        return None
    events = int(spans.count[stretch.start])
    if not events or len(stretch) * events < FEWEST_EVENTS:
        return None
    distance = int(spans.start[stretch.start + 1] - spans.start[stretch.start])
    layout = _layout(runs, spans, range(first, first + events), distance)
    words = None if layout is None else _words(runs.buffer, layout, distance, len(stretch))
    if layout is None or words is None or not _are_repeated(words, layout, distance):
        return None
    one = read_slice(runs, spans, first, first + events)
    if one.columns:
        return None
    start, end = (_times(words, _columns(layout, time)) for time in layout.times)
    return one._replace(codes=np.tile(one.codes, len(stretch)), start=start, elapsed=end - start)


def _layout(runs: Tables, spans: Spans, chosen: range, distance: int) -> _Layout | None:
    """Return the layout of one run's events; None if an event has metadata, has no times, or is no profile event."""
    events = runs.elements(spans, EVENT, chosen.start, chosen.stop)
    profile, owners = events.tables("profile_event", PROFILE_EVENT)
    times = profile.places("start_time")[0], profile.places("end_time")[0]
    if not len(owners) == len(times[0]) == len(times[1]) == len(events):
        return None
    texts = [profile.spans(name, 1) for name in ("name", "delegate_debug_id_str", "delegate_debug_metadata")]
    if texts[-1].total():
        return None
    vector = element_positions(spans, REFERENCE.itemsize, chosen.start, chosen.stop)
    bounds = [(vector, vector + REFERENCE.itemsize)]
    bounds += [(each.positions, each.ends) for each in (events, profile)]
    for text in texts:
        bounds.append((text.start[text.present] - REFERENCE.itemsize, (text.start + text.count)[text.present]))
    shared = []
    for tables in (events, profile):
        is_shared = _is_shared(tables, distance)
        shared.append(tables.positions[is_shared])
        start, end = tables.vtables
        bounds.append((start[~is_shared], end[~is_shared]))
    begin = min(int(each.min()) for each, _ in bounds if len(each))
    end_of_all = max(int(each.max()) for _, each in bounds if len(each))
    return _Layout(begin, end_of_all, np.concatenate(shared), times)


def _is_shared(tables: Tables, distance: int) -> Mask:
    """Whether the next run's copy of each table refers to the same vtable, not to a copy of it."""
    buffer = tables.buffer
    following = tables.positions + distance
    is_inside = (following >= buffer.start) & (following <= buffer.end - REFERENCE.itemsize)
    following = np.where(is_inside, following, tables.positions)
    reference = SCALARS["i32"]
    is_shared: Mask = buffer.gather(tables.positions, reference, "a vtable") != buffer.gather(
        following, reference, "a vtable"
    )
    return is_shared


def _words(buffer: Buffer, layout: _Layout, distance: int, runs: int) -> Words | None:
    """Return the words of the layout in each run [runs, words].

    None if runs overlap, are too large, are not aligned, or are not in the buffer.
    """
    if layout.end - layout.begin > abs(distance) or runs * abs(distance) > MOST_BYTES:
        return None
    begin = layout.begin - layout.begin % WORD.itemsize
    count = -(-(layout.end - begin) // WORD.itemsize)
    last = begin + (runs - 1) * distance
    if distance % WORD.itemsize or min(begin, last) < 0 or max(begin, last) + count * WORD.itemsize > len(buffer.bytes):
        return None
    if min(layout.begin, layout.begin + (runs - 1) * distance) < buffer.start:
        return None
    if max(layout.end, layout.end + (runs - 1) * distance) > buffer.end:
        return None
    if any(np.any(each % WORD.itemsize) for each in (layout.shared, *layout.times)):
        return None
    row = buffer.bytes[begin : begin + count * WORD.itemsize].view(WORD)
    return np.lib.stride_tricks.as_strided(row, (runs, count), (distance, WORD.itemsize), writeable=False)


def _columns(layout: _Layout, positions: Positions) -> Positions:
    """The columns of `_words` for these positions of the first run."""
    return positions // WORD.itemsize - layout.begin // WORD.itemsize


def _are_repeated(words: Words, layout: _Layout, distance: int) -> bool:
    """Whether all rows are equal, except for times and for references to shared vtables, and whether these references
    have the same targets.
    """
    is_free = np.zeros(words.shape[1], np.bool_)
    for time in layout.times:
        is_free[_columns(layout, time)] = is_free[_columns(layout, time) + 1] = True
    shared = _columns(layout, layout.shared)
    is_free[shared] = True
    if np.any((words != words[0]).any(axis=0) & ~is_free):
        return False
    back = words[:, shared].view(np.int32).astype(np.int64)
    return bool((back == back[0] + distance * np.arange(len(words))[:, None]).all())


def _times(words: Words, columns: Positions) -> Ticks:
    """The 64-bit numbers whose lower words are in these columns, run by run."""
    low, high = words[:, columns].astype(np.uint64), words[:, columns + 1].astype(np.uint64)
    return (low | high << np.uint64(32)).view(np.int64).ravel()
