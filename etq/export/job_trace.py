"""Writes the PyTorch Profiler traces of several ranks of a job as one trace, on one clock.

Processes get distinct names, ids and devices get distinct numbers. Times are on the clock that `clock_offsets` aligns.
A trace whose clock isn't aligned by a collective is placed by its time of recording, or, without that, unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from etq.export.rows import about
from etq.export.torch_trace import MOST_IDS, Place, base_of, device_properties, document, events
from etq.version import VERSION

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture


def job_trace(warehouse: Answers, captures: Sequence[Capture], options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the trace; options are those of `torch_trace`."""
    known = {capture.capture_id: about(warehouse, capture) for capture in captures}
    ordered = sorted(captures, key=lambda capture: _order(known[capture.capture_id]))
    base, shifts = _shifts(warehouse, ordered)
    places: list[Place] = []
    properties: list[dict[str, Any]] = []
    numbers, first_id, taken = count(1), 0, set[int]()
    for capture, shift in zip(ordered, shifts, strict=True):
        most, devices, processes = _contents(warehouse, capture)
        renamed = {device: _free(device, taken) for device in devices}
        title = _title(capture, known, ordered).replace("]", ")")
        # In the form that the reader of merged traces recognises.
        named = {name: (next(numbers), f"[{title}] {text}") for name, text in processes}
        places.append(Place(shift, first_id, {old: new for old, new in renamed.items() if old != new}, named))
        first_id += most + 1
        stated = {each["id"]: each for each in device_properties(warehouse, capture)}
        properties += [stated[old] | {"id": new} for old, new in renamed.items() if old in stated]
    head: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ms"}
    head["otherData"] = {"made_by": f"etq {VERSION}", "captures": [known[each.capture_id] for each in ordered]}
    head |= {"deviceProperties": properties} if properties else {}
    head |= {"baseTimeNanoseconds": base} if base else {}
    parts = (
        part
        for capture, place in zip(ordered, places, strict=True)
        for part in events(warehouse, capture, options, place)
    )  # fmt: skip
    yield from document(head, parts)


def _rank(known: dict[str, Any]) -> int | None:
    rank = known.get("labels", {}).get("rank", "")
    return int(rank) if rank.isdecimal() else None


def _order(known: dict[str, Any]) -> tuple[bool, int, str]:
    rank = _rank(known)
    return rank is None, rank or 0, known["capture"]


def _title(capture: Capture, known: dict[int, dict[str, Any]], captures: Sequence[Capture]) -> str:
    """Return the name of a capture's processes: from its rank, if no other capture has that rank."""
    ranks = [_rank(known[capture.capture_id]) for capture in captures]
    rank = _rank(known[capture.capture_id])
    if rank is None:
        return capture.name
    return f"rank {rank}" if ranks.count(rank) == 1 else f"rank {rank}, {capture.name}"


def _free(device: int, taken: set[int]) -> int:
    """Take the number of a device, or, if that is taken, the next free number."""
    number = next(number for number in count(device) if number not in taken)
    taken.add(number)
    return number


def _shifts(warehouse: Answers, captures: Sequence[Capture]) -> tuple[int, list[int]]:
    """Return the origin of times in nanoseconds since 1970 (0 if unknown), and the shift of each capture's times."""
    rows = warehouse.rows(_OFFSETS, captures=[capture.capture_id for capture in captures])[1]
    offsets = {key: (job, offset) for key, job, offset in rows}
    bases = {capture.capture_id: base_of(warehouse, capture) for capture in captures}
    # The aligned clock of a job has the origin of its first rank's clock.
    begins: dict[str, int] = {}
    for capture in captures:
        if capture.capture_id in offsets:
            job, offset = offsets[capture.capture_id]
            begins.setdefault(job, bases[capture.capture_id] + offset)
    absolute = []
    for capture in captures:
        job, offset = offsets.get(capture.capture_id, (None, 0))
        absolute.append(bases[capture.capture_id] if job is None else begins[job] - offset)
    # Kineto's base is in whole microseconds.
    base = bases[captures[0].capture_id] // 1000 * 1000
    return base, [each - base for each in absolute]


# The collectives of traces, as a beginning of queries.
NUMBERED: Final = """
    WITH ranks AS MATERIALIZED (
        SELECT c.capture_id, j.value AS job FROM (SELECT unnest($captures::INTEGER[]) AS capture_id) AS c
        LEFT JOIN labels AS j ON j.capture_id = c.capture_id AND j.key = 'job'
    ),
    numbered AS MATERIALIZED (FROM _numbered_collectives('ranks'))
"""
_OFFSETS: Final = f"""
    {NUMBERED}
    SELECT o.capture_id, o.job, o.shift_ticks FROM _clock_offsets('numbered') AS o
"""


def _contents(warehouse: Answers, capture: Capture) -> tuple[int, list[int], list[tuple[str, str]]]:
    """Return the largest id of a capture, the devices that it used, and its processes with their kinds."""
    parameters = {"id": capture.capture_id}
    [(most,)] = warehouse.rows(_MOST, **parameters)[1]
    devices = [device for (device,) in warehouse.rows(_DEVICES, **parameters)[1]]
    return most, devices, warehouse.rows(_PROCESSES, **parameters)[1]


_MOST: Final = f"""
    SELECT coalesce(max(id), 0) FROM (
        SELECT unnest([e.external_id, e.correlation_id, e.sequence_number]) AS id
        FROM trace_events AS e WHERE e.capture_id = $id
    ) WHERE id < {MOST_IDS}
"""
_DEVICES: Final = """
    SELECT DISTINCT d.device FROM device_events AS d WHERE d.capture_id = $id AND d.device >= 0
    UNION
    SELECT DISTINCT m.device FROM trace_memory AS m WHERE m.capture_id = $id AND m.device >= 0
    ORDER BY ALL
"""
_PROCESSES: Final = """
    SELECT
        t.process,
        coalesce(
            CASE WHEN count(*) OVER (PARTITION BY min(d.device)) = 1 THEN 'GPU ' || min(d.device) END,
            CASE WHEN try_cast(t.process AS BIGINT) IS NULL THEN t.process END,
            concat_ws(' ', coalesce(any_value(t.process_name), 'process'), t.process)
        )
    FROM threads AS t
    LEFT JOIN (
        SELECT DISTINCT e.thread_index, d.device
        FROM device_events AS d
        JOIN trace_events AS e
            ON e.capture_id = d.capture_id AND e.run_index = d.run_index AND e.event_index = d.event_index
        WHERE d.capture_id = $id AND d.device IS NOT NULL
    ) AS d ON d.thread_index = t.thread_index
    WHERE t.capture_id = $id
    GROUP BY t.process
    ORDER BY min(t.thread_index)
"""
