"""Single events, blocks and their statistics: against plain Python and numpy over the dump's events."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from tests.pairs.asking import Asked, Sides, keyed, of_all, pair
from tests.pairs.dumps import Timed

QUANTILES: Final = (0.0, 0.25, 0.5, 0.99, 1.0)


@pair("events", "events of the file, read by the slow reader")
def events(asked: Asked) -> Sides:
    found = asked.rows("""
        SELECT e.run_index, e.event_index, e.kind, e.label, e.family, e.block_index, e.slot, e.occurrence,
            e.instruction_id, e.parent_index, e.execute_index, e.start_ticks, e.duration_ticks, e.value_unit, e.clock
        FROM events AS e JOIN captures AS c ON c.capture_id = e.capture_id WHERE c.name = $name
        ORDER BY e.run_index, e.event_index""", name=asked.name)  # fmt: skip
    places = {id(event): place for place, events in asked.dump.values().items() for event in events}
    return found, [
        (
            *(event.run, event.place, event.kind, event.label, event.family, *places[id(event)]),
            event.raw.instruction_id if event.raw.instruction_id != -1 else None,
            event.parent and event.parent.place,
            event.execute and event.execute.place,
            *(event.raw.start_time, event.duration, "ticks", "host"),
        )
        for event in asked.dump.all_events
    ]


@pair("event_times", "blocks, iterations, starts, durations and own times of events, in plain Python")
def event_times(asked: Asked) -> Sides:
    columns = "run_index, event_index, block_index, block, iteration, event_name, start, total, self_time"
    dump = asked.dump
    return asked.keyed("event_times", columns, 2, unit="ns"), {
        (event.run, event.place): [
            *(dump.blocks[event.run], dump.runs[event.run].name, dump.iterations[event.run]), *_times(asked, event)
        ]
        for event in dump.all_events
    }  # fmt: skip


def _times(asked: Asked, event: Timed) -> list[Any]:
    first = min(each.start for each in asked.dump.events[event.run])
    return [event.label, float(event.start - first), event.duration, None if event.duration is None else event.own]


@pair("event_times", "own times of a run add up to the time of its outermost events")
def event_times_add_up(asked: Asked) -> Sides:
    query = "SELECT run_index, sum(self_time) FROM event_times($name, unit := 'ns') GROUP BY ALL"
    found: dict[int, float] = dict(asked.rows(query, name=asked.name))
    return found, {
        run: float(sum(event.ticks for event in events if event.parent is None))
        for run, events in enumerate(asked.dump.events) if events
    }  # fmt: skip


@pair("event_blocks", "runs of one name and one list of distinct events, in plain Python")
def event_blocks(asked: Asked) -> Sides:
    found = asked.keyed("event_blocks", "block_index, name, runs, first_run, last_run, events", 1)
    dump = asked.dump
    expected: dict[Any, list[Any]] = {}
    for number, (run, block) in enumerate(zip(dump.runs, dump.blocks, strict=True)):
        row = expected.setdefault((block,), [run.name, 0, number, number, len(dump.slots[number])])
        row[1] += 1
        row[3] = number
    return found, expected


@pair("inspector_events", "durations by slot and occurrence, and numpy's statistics of them")
def inspector_events(asked: Asked) -> Sides:
    columns = "block_index, slot, occurrence, event_name, raw, p10, p50, p90, avg, min, max, start_ticks"
    rows = [row for row in asked.view("inspector_events", columns, unit="ns") if row[4] is not None]
    expected: dict[Any, list[Any]] = {}
    for place, found in asked.dump.values().items():
        durations = [event.duration for event in found]
        starts = [event.raw.start_time for event in found]
        expected[place] = [found[0].label, durations, *_statistics(durations), starts]
    return keyed(rows, 3), expected


@pair("all_inspector_events", "the rows of inspector_events")
def all_inspector_events(asked: Asked) -> Sides:
    return of_all(asked, "inspector_events", "block_index, slot, occurrence", "* EXCLUDE (raw, start_ticks)")


def _statistics(durations: list[int | None]) -> list[float | None]:
    known = np.array([each for each in durations if each is not None], float)
    if not len(known):
        return [None] * 6
    return [*np.percentile(known, [10, 50, 90]), known.mean(), known.min(), known.max()]


@pair("percentiles", "numpy's quantiles of the raw durations")
def percentiles(asked: Asked) -> Sides:
    columns = "block_index, slot, occurrence, quantile, runs, value"
    found = asked.keyed("percentiles", columns, 4, unit="ns", quantiles=list(QUANTILES))
    expected: dict[Any, list[Any]] = {}
    for place, events in asked.dump.values().items():
        known = [event.duration for event in events if event.duration is not None]
        for quantile in QUANTILES:
            expected[*place, quantile] = [len(known), float(np.quantile(known, quantile)) if known else None]
    return found, expected


@pair("event_histogram", "counts between edges by hand, of the durations within Tukey's far fence and beyond")
def event_histogram(asked: Asked) -> Sides:
    bins = 7
    columns = "block_index, slot, occurrence, bin, low, high, runs, is_beyond"
    found = asked.keyed("event_histogram", columns, 4, unit="ns", bins=bins)
    expected: dict[Any, list[Any]] = {}
    for place, events in asked.dump.values().items():
        known = sorted(event.duration for event in events if event.duration is not None)
        if not known:
            continue
        first, third = np.quantile(known, [0.25, 0.75])
        fence = third + 3 * (third - first)
        within = [each for each in known if each <= fence]
        width = (within[-1] - known[0]) / bins
        counts = Counter(min(int((each - known[0]) / width), bins - 1) if width else 0 for each in within)
        for bin, runs in counts.items():
            low = known[0] + bin * width
            expected[*place, bin] = [low, known[0] + (bin + 1) * width, runs, False]
        if beyond := known[len(within) :]:
            expected[*place, bins] = [float(beyond[0]), float(beyond[-1]), len(beyond), True]
    return found, expected


@pair("timeline", "starts from the run's first event, durations and depths, in plain Python")
def timeline(asked: Asked) -> Sides:
    columns = "run_index, event_index, kind, event_name, depth, parent_index, start, duration, is_estimated, logged"
    found = asked.keyed("timeline", columns, 2, unit="ns")
    return found, {
        (event.run, event.place): [
            *(event.kind, event.label, _depth(event), event.parent and event.parent.place, _times(asked, event)[1]),
            *(event.duration, False, event.duration),
        ]
        for event in asked.dump.all_events
    }


def _depth(event: Timed) -> int:
    return 0 if event.parent is None else 1 + _depth(event.parent)


@pair("memory_totals", "allocations of the file by the allocator's name, in plain Python")
def memory_totals(asked: Asked) -> Sides:
    columns = "allocator, runs, allocations, total_bytes, largest_bytes, largest_run_bytes"
    found = asked.keyed("memory_totals", columns, 1)
    sizes: dict[str, dict[int, list[int]]] = {}
    for number, run in enumerate(asked.dump.runs):
        for name in run.allocators:
            sizes.setdefault(name, {})[number] = []
    for number, name, size in asked.dump.allocations():
        sizes[name][number].append(size)
    expected: dict[Any, list[Any]] = {}
    for name, by_run in sizes.items():
        everything = [size for each in by_run.values() for size in each]
        largest_run = max((sum(each) for each in by_run.values() if each), default=None)
        expected[name,] = [*(len(by_run), len(everything), sum(everything), max(everything, default=None), largest_run)]
    return found, expected
