"""Event blocks, their events, and the events' performance data, as objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.inspector import frames
from etq.inspector.frames import MetadataParser
from etq.inspector.scales import TimeScale

if TYPE_CHECKING:
    import duckdb
    import pandas

# Converts a time in ticks, given the event's name, to the unit to show.
TimeScaleConverter = Callable[[int | str, int | float], int | float]


class Statistics(NamedTuple):
    """Statistics of a list of values, as `inspector_events` has them; None for an empty list."""

    p10: float | None
    p50: float | None
    p90: float | None
    avg: float | None
    min: float | None
    max: float | None


def statistics_of(raw: Sequence[float | None]) -> Statistics:
    """Return the statistics of values, defined as in the views."""
    from etq.database.cursors import cursor

    query = "SELECT unnest(_list_statistics($1::DOUBLE[]))"
    return Statistics(*cursor(_calculator()).execute(query, [list(raw)]).fetchall()[0])


@cache
def _calculator() -> duckdb.DuckDBPyConnection:
    from etq.database.connection import in_memory

    return in_memory()


class PerfData:
    """The durations of an event in each run, and their statistics, in the unit of the event's block.

    raw  durations, one per run; None where the file's times are impossible
    """

    def __init__(self, raw: list[float]) -> None:
        self.raw = raw

    @classmethod
    def with_statistics(cls, raw: list[float], statistics: Statistics) -> PerfData:
        """Return durations with statistics that are already known."""
        made = cls(raw)
        made._known = (len(raw), statistics)
        return made

    @property
    def raw(self) -> list[float]:
        """The durations, one per run."""
        return self._raw

    @raw.setter
    def raw(self, raw: list[float]) -> None:
        self._raw = raw
        self._known: tuple[int, Statistics] | None = None

    @property
    def _statistics(self) -> Statistics:
        # If the user shortened or extended the list, the statistics are computed again.
        if self._known is None or self._known[0] != len(self._raw):
            self._known = (len(self._raw), statistics_of(self._raw))
        return self._known[1]

    @property
    def p10(self) -> float | None:
        """10th percentile, linearly interpolated."""
        return self._statistics.p10

    @property
    def p50(self) -> float | None:
        """50th percentile, linearly interpolated."""
        return self._statistics.p50

    @property
    def p90(self) -> float | None:
        """90th percentile, linearly interpolated."""
        return self._statistics.p90

    @property
    def avg(self) -> float | None:
        """Arithmetic mean."""
        return self._statistics.avg

    @property
    def min(self) -> float | None:
        """Smallest."""
        return self._statistics.min

    @property
    def max(self) -> float | None:
        """Largest."""
        return self._statistics.max

    def __eq__(self, other: object) -> bool:
        return self._raw == other._raw if isinstance(other, PerfData) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # objects that can change have no hash

    def __repr__(self) -> str:
        return f"PerfData(raw={self._raw!r})"


@dataclass
class Event:
    """An event of a block: an operator, a call, a step of the framework, with its times over the block's runs.

    name                       its name; the delegate's id for a delegate's event; empty if only values
                               were logged
    perf_data                  its durations; None if only values were logged
    op_types                   op types of the nodes of the model's graph that it belongs to
    delegate_debug_identifier  its id within the delegate, a number or a text; None if no delegate ran it
    debug_handles              debug handles of these nodes: one, or a list; None if it has none
    num_outputs                number of outputs of a delegate call; 1 for other events
    stack_traces               Python stack of each node, by the node's name
    module_hierarchy           modules that contain each node, outermost first, by the node's name: a mapping from the
                               module's key to its path and class
    is_delegated_op            whether a delegate ran it
    delegate_backend_name      the delegate's backend
    debug_data                 values logged in the first run that logged any: arrays, lists of arrays, numbers; None
                               where unknown, as without a debug buffer. Arrays may be views of the file: copy to change
    occurrence                 number of its occurrence in a run, from 0: a loop repeats events
    """

    name: str
    perf_data: PerfData | None = None
    op_types: list[str] = field(default_factory=list)
    delegate_debug_identifier: int | str | None = None
    debug_handles: int | Sequence[int] | None = None
    num_outputs: int = 1
    stack_traces: dict[str, str | None] = field(default_factory=dict)
    module_hierarchy: dict[str, Any] = field(default_factory=dict)
    is_delegated_op: bool | None = None
    delegate_backend_name: str | None = None
    _delegate_debug_metadatas: list[Any] = field(default_factory=list)
    debug_data: list[Any] = field(default_factory=list)
    _instruction_id: int | None = None
    _delegate_metadata_parser: MetadataParser | None = None
    _delegate_time_scale_converter: TimeScaleConverter | None = None
    _start_time: list[int] | None = None
    occurrence: int = field(default=0, kw_only=True)
    _shortens: bool = field(default=False, kw_only=True)
    # The unit of values that aren't times; None for times.
    _other_unit: str | None = field(default=None, kw_only=True)

    @cached_property
    def delegate_debug_metadatas(self) -> Any:
        """Return the parser's result for the delegate's metadata; without a parser, the metadata of each run."""
        return frames.parsed_metadata(
            self._delegate_debug_metadatas, self.is_delegated_op, self._delegate_metadata_parser
        )

    @property
    def raw_delegate_debug_metadatas(self) -> list[Any]:
        """Return the delegate's metadata: bytes for each run, or an empty text; an empty list if no run logged any."""
        return self._delegate_debug_metadatas

    @property
    def start_time(self) -> list[int] | None:
        """The clock at the start in each run, in ticks of the source time scale; None if only values were logged."""
        return self._start_time

    def to_dataframe(self, _units: str = "") -> pandas.DataFrame:
        """Return the event as a DataFrame of one row. Raises `EtqError` if pandas is missing."""
        return frames.frame_of(frames.columns_of([self._row()]), _units)

    def asdict(self, _units: str = "") -> dict[str, Any]:
        """Return the event as columns of one row; values that are or may be lists are wrapped in a list of one."""
        row = self._row()
        lists = {"raw", "op_types", "stack_traces", "module_hierarchy", "debug_data", "start_time"}
        shown = {name: [value] if name in lists else value for name, value in row.items() if name in frames.COLUMNS}
        return {name + _units if name in Statistics._fields else name: value for name, value in shown.items()}

    def _row(self) -> dict[str, Any]:
        perf_data = self.perf_data
        return {
            "event_name": self.name,
            "raw": None if perf_data is None else perf_data.raw,
            **{name: None if perf_data is None else getattr(perf_data, name) for name in Statistics._fields},
            "op_types": frames.shortened(self.op_types) if self._shortens else self.op_types,
            "delegate_debug_identifier": self.delegate_debug_identifier,
            "stack_traces": self.stack_traces,
            "module_hierarchy": self.module_hierarchy,
            "is_delegated_op": self.is_delegated_op,
            "delegate_backend_name": self.delegate_backend_name,
            "debug_data": self.debug_data,
            "start_time": self._start_time,
            frames.OTHER_UNIT: self._other_unit,
        }


class _Symbol:
    """An attribute of an event that is read with its symbols; afterwards, an attribute of the instance replaces it.

    of  the attribute of `Symbols`
    """

    def __init__(self, of: str) -> None:
        self.of = of

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, event: LoadedEvent, owner: type) -> Any:
        event.read()
        return vars(event)[self.name]


class LoadedEvent(Event):
    """An event whose symbols are read on first access, because times don't need nodes."""

    op_types = _Symbol("op_types")
    debug_handles = _Symbol("debug_handles")
    num_outputs = _Symbol("num_outputs")
    stack_traces = _Symbol("stack_traces")
    module_hierarchy = _Symbol("modules")
    delegate_backend_name = _Symbol("backend")

    def read_by(self, symbols: Callable[[], Any]) -> None:
        """Set the function that returns the symbols, with the attributes that `_SYMBOLS` names."""
        for name in _SYMBOLS:
            del vars(self)[name]
        self._symbols = symbols

    def read(self) -> None:
        """Read the symbols, and set the attributes that aren't set yet."""
        found = self._symbols()
        for name, each in _SYMBOLS.items():
            value = getattr(found, each.of)
            vars(self).setdefault(name, type(value)(value) if isinstance(value, (list, dict)) else value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in fields(Event))

    __hash__ = None  # type: ignore[assignment]  # as of every object that can change

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes including the symbols, because the function that reads the symbols can't be pickled."""
        return {name: getattr(self, name) for name in (*_SYMBOLS, *vars(self)) if name != "_symbols"}


_SYMBOLS: Final = {name: each for name, each in vars(LoadedEvent).items() if isinstance(each, _Symbol)}


@dataclass
class EventBlock:
    """The runs of one name that logged the same events in the same order.

    name                 the name that the runtime gave them: Default (loading), Execute, or one by the user
    events               their events, in order
    source_time_scale    unit of one tick
    target_time_scale    unit of the durations shown
    bundled_input_index  index of the bundled input that they ran; None if none is named
    run_output           outputs of the first run that logged any: arrays, lists of arrays, numbers
    reference_output     outputs that the record expects; None if it has none, if several are possible, or
                         if torch, which wrote them, is not installed
    """

    name: str
    events: list[Event] = field(default_factory=list)
    source_time_scale: TimeScale = TimeScale.NS
    target_time_scale: TimeScale = TimeScale.MS
    bundled_input_index: int | None = None
    run_output: list[Any] | None = None
    reference_output: list[Any] | None = None

    def to_dataframe(self, include_units: bool = False, include_delegate_debug_data: bool = False) -> pandas.DataFrame:
        """Return one row per event, as `Inspector.to_dataframe` does. Raises `EtqError` if pandas is missing."""
        columns = frames.columns_of([event._row() for event in self.events])
        columns = {"event_block_name": [self.name] * len(self.events), **columns}
        frame = frames.frame_of(columns, f" ({self.target_time_scale.value})" if include_units else "")
        if include_delegate_debug_data:
            return frames.with_metadata(frame, [event.delegate_debug_metadatas for event in self.events])
        return frame


class LoadedBlock(EventBlock):
    """A block whose reference output is read on first access, because reading it needs torch."""

    _reference: Callable[[], list[Any] | None] | None = None

    @property
    def reference_output(self) -> list[Any] | None:
        """The outputs that the record expects."""
        if self._reference is not None:
            self.reference_output = self._reference()
        return self._reference_output

    @reference_output.setter
    def reference_output(self, output: list[Any] | None) -> None:
        self._reference_output = output
        self._reference = None

    def read_by(self, reference: Callable[[], list[Any] | None]) -> None:
        """Set the function that reads the reference output."""
        self._reference = reference
