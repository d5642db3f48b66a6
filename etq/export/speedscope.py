"""A capture in speedscope's own format (https://www.speedscope.app/file-format-schema.json): evented profiles.

A run is a profile. Events of a delegate are nested in its call; events that overlap others of the run (another thread,
a stream of a device, values that are not times) are in a separate profile after it. Times are nanoseconds from the
run's start; cycles are written without a unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.errors import QueryError
from etq.export.rows import LANES, blocks, encoded, unit_of, whole
from etq.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.database.handles import Answers, Capture

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
UNITS: Final = {"ns": "nanoseconds", "cycles": "none"}
_COLUMNS: Final = ("run_index", "event_index", "signature_index", "track", "kind", "parent_run_index", "parent_index")


def speedscope(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """The text of the file. Raises `QueryError` if no event has a time."""
    unit = unit_of(warehouse, capture)
    query = f"""
        SELECT t.run_index, t.event_index, t.signature_index, t.track, t.kind, t.parent_run_index, t.parent_index,
            t.start, t.start + t.duration AS stop
        FROM timeline($capture, unit := $unit{catalog.more_arguments(options)}) AS t
        WHERE t.duration IS NOT NULL
        ORDER BY t.run_index, t.start, t.depth, t.event_index
    """
    name = encoded(capture.name)
    yield f'{{"$schema":"{SCHEMA}","exporter":"etq {VERSION}","name":{name},"profiles":[\n'
    frames = ",\n".join(_frames(warehouse, capture))
    profiles = _Profiles(_runs(warehouse, capture), UNITS[unit])
    for rows in blocks(warehouse, query, {"capture": capture.sha256, "unit": unit, **options}):
        yield from profiles.of(rows)
    yield from profiles.end_of_run()
    if not profiles.count:
        raise QueryError(f"{capture.name}: no event of the selected runs has a time")
    yield f'\n],"activeProfileIndex":{profiles.first},"shared":{{"frames":[\n{frames}\n]}}}}\n'


@dataclass
class _Profile:
    """Nested events: the text written so far, and the open events, each as (key, signature, end)."""

    name: str
    events: list[str] = field(default_factory=list)
    open: list[tuple[tuple[int, int], int, int]] = field(default_factory=list)
    end: int = 0

    def takes(self, start: int, stop: int, parent: tuple[int, int] | None) -> bool:
        """Whether an event fits within its parent, or at the top level if its parent is in another profile."""
        # A parent of zero length is still open at its end.
        while self.open and self.open[-1][2] <= start and self.open[-1][0] != parent:
            self._close_one()
        if not self.open:
            return True
        key, _, end = self.open[-1]
        return key == parent and stop <= end

    def cut(self, stop: int) -> int:
        """Return the end of an event, clipped to its parent's end; only the last overflow profile clips."""
        return min(stop, self.open[-1][2]) if self.open else stop

    def add(self, key: tuple[int, int], signature: int, start: int, stop: int) -> None:
        self.events.append(f'{{"type":"O","frame":{signature},"at":{start}}}')
        self.open.append((key, signature, stop))
        self.end = max(self.end, stop)

    def close(self) -> None:
        """End all open events."""
        while self.open:
            self._close_one()

    def _close_one(self) -> None:
        _, signature, stop = self.open.pop()
        self.events.append(f'{{"type":"C","frame":{signature},"at":{stop}}}')


class _Profiles:
    """The profiles of a file, from rows in the order of runs."""

    def __init__(self, runs: dict[int, str], unit: str) -> None:
        self._runs = runs
        self._unit = unit
        self._run: int | None = None
        self._profiles: dict[tuple[str, int], _Profile] = {}
        self.count = 0
        # The profile to display first: the first one with the most events, because profiles of loading have few.
        self.first = 0
        self._most = 0

    def of(self, rows: pa.RecordBatch) -> Iterator[str]:
        columns = rows.to_pydict()
        start, stop = whole(rows, "start"), whole(rows, "stop")
        for at, (run, event, signature, track, kind, parent_run, parent) in enumerate(
            zip(*(columns[name] for name in _COLUMNS), strict=True)
        ):
            if run != self._run:
                yield from self.end_of_run()
                self._run = run
            parent_key = None if parent is None else (parent_run, parent)
            # Within its call, if the event fits.
            profile = self._profile("host" if kind == "delegate" else track, start[at], stop[at], parent_key)
            if profile is None:
                profile = self._overflow_profile(track, start[at], stop[at], parent_key)
            profile.add((run, event), signature, start[at], profile.cut(stop[at]))

    def _profile(self, track: str, start: int, stop: int, parent: tuple[int, int] | None) -> _Profile | None:
        """Return the track's own profile if the event fits, else None."""
        profile = self._profiles.get((track, 0))
        if profile is None:
            profile = self._profiles[track, 0] = _Profile(self._named(track, 0))
        return profile if profile.takes(start, stop, parent) else None

    def _overflow_profile(self, track: str, start: int, stop: int, parent: tuple[int, int] | None) -> _Profile:
        """Return a profile for an event that doesn't fit the track's own: a profile with room, a new one, or the last,
        which clips.
        """
        number = 1
        while (profile := self._profiles.get((track, number))) is not None:
            if profile.takes(start, stop, parent) or number == LANES:
                return profile
            number += 1
        profile = self._profiles[track, number] = _Profile(self._named(track, number))
        return profile

    def _named(self, track: str, number: int) -> str:
        assert self._run is not None
        name = self._runs[self._run]
        if track != "host" or number:
            name += f", {track}"
        return name + (f" ({number}{', cut short' if number == LANES else ''})" if number > 1 else "")

    def end_of_run(self) -> Iterator[str]:
        """Yield the text of the run's profiles."""
        for profile in self._profiles.values():
            profile.close()
            head = f'{{"type":"evented","name":{encoded(profile.name)},"unit":"{self._unit}","startValue":0,'
            separator = ",\n" if self.count else ""
            yield f'{separator}{head}"endValue":{profile.end},"events":[\n' + ",\n".join(profile.events) + "]}"
            if len(profile.events) > self._most:
                self.first, self._most = self.count, len(profile.events)
            self.count += 1
        self._profiles = {}


def _runs(warehouse: Answers, capture: Capture) -> dict[int, str]:
    query = "SELECT r.run_index, r.name, r.iteration, r.method FROM runs AS r WHERE r.capture_id = $id"
    rows = warehouse.rows(query, id=capture.capture_id)[1]
    return {
        index: f"{name} #{iteration}" + (f" ({method})" if method is not None else "")
        for index, name, iteration, method in rows
    }


def _frames(warehouse: Answers, capture: Capture) -> Iterator[str]:
    """Yield a frame per signature, in their order, with the line of the model's source if a record has it."""
    query = """
        SELECT s.signature_index, s.label, s.family, s.kind, o.module_path, o.source_file, o.source_line
        FROM signatures AS s
        LEFT JOIN event_ops($capture) AS o ON o.signature_index = s.signature_index
        WHERE s.capture_id = $id
        ORDER BY s.signature_index
    """
    rows = warehouse.rows(query, capture=capture.sha256, id=capture.capture_id)[1]
    for place, (index, label, family, kind, module, file, line) in enumerate(rows):
        assert index == place, "signatures are numbered from 0"
        name = family if kind == "kernel" else label
        # All operator calls have the runtime's source; their kernels have the model's.
        is_placed = module and kind != "operator_call"
        frame: dict[str, Any] = {"name": f"{name} [{module}]" if is_placed else name}
        if file is not None:
            frame |= {"file": file} | ({} if line is None else {"line": line})
        yield encoded(frame)
