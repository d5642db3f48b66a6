"""What SQL measured of a trace: the evidence of the rules about it, each query asked once. Times are in nanoseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import duckdb

from etq.advice.remedies import Traits
from etq.advice.words import counted, time

Row = TypeVar("Row")
# Temporary tables with rows that several rules are about, as long as rules are asked: each is made when one is, and may
# read those before it.
_GAPS: Final = "FROM _device_gaps({key}, '{prefix}launches', 'device')"
_PERIODS: Final = "FROM _gap_periods('{prefix}gaps') UNION ALL FROM _path_periods({key}, '{prefix}path')"
_SHARED: Final = {
    "launches": "FROM _launches({key})",
    "steps": "FROM _tool_steps({key})",
    "gaps": _GAPS,
    "recording": "FROM _recording_window({key})",
    "path": "FROM _path_spans({key}, '{prefix}launches', '{prefix}recording', true)",
    "periods": _PERIODS,
    "states": "FROM _host_states({key}, '{prefix}steps')",
    "peaks": "FROM _trace_peaks({key}, NULL, NULL, NULL)",
    "work": "FROM _device_work({key}, '{prefix}launches', NULL, NULL, false)",
    "parts": "FROM _host_parts({key}, '{prefix}states', '{prefix}steps', '{prefix}periods')",
}
_PREFIX: Final = "_advised_"
_OTHER_RANKS: Final = """
    SELECT 1 FROM labels AS w
    JOIN labels AS o ON o.key = w.key AND o.value = w.value AND o.capture_id <> w.capture_id
    WHERE w.capture_id = $key AND w.key = 'job'
    LIMIT 1
"""
# Times of the host in which it launches, by name of the op, or between ops.
LAUNCHING: Final = ("host", "step")


class Idle(NamedTuple):
    """Idle time of a device by what it is spent on, as in `idle_parts`; `did` is what the host does between steps."""

    device: int | None
    cause: str
    did: str | None
    label: str | None
    kind: str | None
    ticks: int
    parts: int
    longest: int
    at: int


class OnPath(NamedTuple):
    """Time on the critical path by what it is of, and what it is spent on."""

    name: str | None
    kind: str | None
    cause: str
    label: str | None
    family: str | None
    ticks: int
    parts: int
    longest: int
    at: int


class Use(NamedTuple):
    """How long a device ran anything, and kernels, in the `ticks` of steps; `span` is from first to last event."""

    device: int | None
    ticks: int
    busy: int
    kernels: int
    span: int


class Waits(NamedTuple):
    """The time that a rank waits in collectives for the rank that comes last, and that of the transfers."""

    is_own: bool
    rank: int
    last_rank: int
    calls: int
    waited: int
    transfer: int
    steps: int | None


class Steps(NamedTuple):
    """The time of the steps, as in `step_breakdown`; of those of other tools, or of the recording, if it has none."""

    ticks: int
    communication: int
    data_loading: int
    are_known: bool


class Lost(NamedTuple):
    """Launches without an event of a device."""

    launches: int
    lost: int
    call: str | None


class Setup(NamedTuple):
    """How a program uses its devices, as `_trace_setup` has it."""

    is_data_parallel: bool
    is_distributed: bool
    has_nccl: bool
    devices: int
    kernel_ticks: int | None
    units_known: bool | None
    uses_units: bool
    has_units: bool | None
    capability: float | None


class Evidence:
    """The evidence about one trace."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, capture_key: int) -> None:
        self._connection, self._key = connection, capture_key
        self._made: list[str] = []

    def rows(self, make: Callable[[Iterable[Any]], Row], query: str, **values: str) -> list[Row]:
        """Return the rows of a query about the trace of `$key`."""
        rows = self._connection.execute(query, {"key": self._key, **values}).fetchall()
        return [make(row) for row in rows]

    def shared(self, name: str) -> str:
        """Return a temporary table, of those that rules share; it is made with those before it that it reads."""
        if name not in self._made:
            query = _SHARED[name]
            for other in _SHARED:
                if f"'{{prefix}}{other}'" in query:
                    self.shared(other)
            rows = query.format(key=f"{self._key:d}", prefix=_PREFIX)
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_PREFIX}{name} AS {rows}")
            self._made.append(name)
        return _PREFIX + name

    def drop(self) -> None:
        """Drop what rules shared."""
        for name in self._made:
            with suppress(duckdb.Error):  # a transaction that failed drops it itself
                self._connection.execute(f"DROP TABLE IF EXISTS {_PREFIX}{name}")
        self._made.clear()

    @cached_property
    def has_work(self) -> bool:
        """Whether a device ran anything."""
        return bool(self.rows(tuple, "SELECT 1 FROM device_events AS d WHERE d.capture_id = $key LIMIT 1"))

    @cached_property
    def knows_times(self) -> bool:
        """Whether all times of devices' events are known."""
        query = "SELECT 1 FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'unknown times'"
        return not self.rows(tuple, query)

    @cached_property
    def traits(self) -> Traits:
        query = "SELECT is_training, is_compiled, has_workers, steps, step_ticks, ticks, start_ticks, replays, runtime"
        return self.rows(Traits._make, f"{query} FROM _trace_traits($key, '{self.shared('steps')}')")[0]

    @cached_property
    def idle(self) -> list[Idle]:
        return self.rows(
            Idle._make,
            f"""
            SELECT p.device, p.cause, p.did, p.label, p.kind, sum(p.ticks)::BIGINT, count(*),
                max(p.ticks), arg_max(p.start_ticks, (p.ticks, -p.start_ticks))
            FROM _idle_parts($key, '{self.shared("gaps")}', '{self.shared("parts")}') AS p
            GROUP BY p.device, p.cause, p.did, p.label, p.kind
            ORDER BY p.device, 6 DESC, p.cause, p.label
            """,
        )

    @cached_property
    def path(self) -> list[OnPath]:
        query = "SELECT name, name_kind, cause, label, kernel_family, ticks, parts, longest, at_ticks"
        tables = ", ".join(f"'{self.shared(name)}'" for name in ("path", "parts", "steps"))
        query += f" FROM _path_causes($key, {tables})"
        return self.rows(OnPath._make, f"{query} ORDER BY ticks DESC, name, cause, label, at_ticks")

    @cached_property
    def use(self) -> list[Use]:
        tables = f"'{self.shared('launches')}', '{self.shared('steps')}'"
        columns = "device, ticks, busy_ticks, kernel_ticks, span_ticks"
        return self.rows(Use._make, f"SELECT {columns} FROM _device_use($key, {tables}) ORDER BY device")

    @cached_property
    def waits(self) -> list[Waits]:
        # To plan the search takes longer than to ask whether there are other ranks' traces.
        if not self.rows(tuple, _OTHER_RANKS):
            return []
        query = "SELECT is_own, rank, last_rank, calls, waited_ticks, transfer_ticks, steps_ticks"
        return self.rows(
            Waits._make, f"{query} FROM _waits_for_ranks($key) ORDER BY waited_ticks DESC, rank, last_rank"
        )

    @cached_property
    def steps(self) -> Steps | None:
        """The steps that count; None if there are none."""
        rows = self.rows(
            tuple,
            """
            SELECT sum(s.end_ticks - s.start_ticks)::BIGINT, sum(s.communication_ticks)::BIGINT,
                sum(s.data_loader_ticks)::BIGINT, bool_or(_is_step_run(r.name))
            FROM trace_steps AS s
            JOIN runs AS r USING (capture_id, run_index)
            WHERE s.capture_id = $key AND s.start_ticks IS NOT NULL
            """,
        )
        steps = Steps(*rows[0])
        if not steps.are_known and (steps.communication or steps.data_loading):
            columns = "ticks, communication_ticks, data_loader_ticks, has_steps"
            tables = f"'{self.shared('launches')}', '{self.shared('steps')}'"
            steps = self.rows(Steps._make, f"SELECT {columns} FROM _tool_step_times($key, {tables})")[0]
        return steps if steps.ticks else None

    @cached_property
    def lost(self) -> Lost:
        if not self.rows(tuple, "SELECT 1 FROM findings WHERE capture_id = $key AND rule = 'lost kernels'"):
            return Lost(0, 0, None)
        return self.rows(Lost._make, "SELECT launches, lost, call FROM _lost_launches($key)")[0]

    @property
    def has_kernels(self) -> bool:
        """Whether less than a twentieth of the launches lack an event; else too much of the time is missing."""
        return self.lost.lost <= 0 or 20 * self.lost.lost < self.lost.launches

    @cached_property
    def setup(self) -> Setup:
        columns = (
            "is_data_parallel, is_distributed, has_nccl, devices, kernel_ticks, units_known, uses_units, has_units, "
            "capability"
        )
        return self.rows(Setup._make, f"SELECT {columns} FROM _trace_setup($key, '{self.shared('launches')}')")[0]

    @cached_property
    def eligible_ticks(self) -> int:
        """The time of kernels of ops that could use tensor cores; 0 where kernels do, or the device has none."""
        if not self.setup.has_units or self.setup.uses_units:
            return 0
        query = "SELECT _sum_where(c.kernel_self_ticks, c.is_lowest_eligible) FROM _operator_calls($key) AS c"
        [(ticks,)] = self.rows(tuple, query)
        return ticks or 0

    @cached_property
    def memory(self) -> list[tuple[int, int, int]]:
        """Of devices: the number, the most bytes in use, and all bytes."""
        return self.rows(tuple, "SELECT device, bytes, memory_bytes FROM _used_memory($key) ORDER BY device")

    @cached_property
    def compiled(self) -> tuple[int | None, int | None, bool | None]:
        """The time in which torch.compile compiled, within the steps that count; their time; whether there are any, or
        one stands for the recording.
        """
        compiling = "SELECT 1 FROM signatures AS s WHERE s.capture_id = $key AND _is_compilation(s.label) LIMIT 1"
        if not self.rows(tuple, compiling):
            return None, None, None
        query = """
            SELECT sum(c.ticks)::BIGINT, sum(s.end_ticks - s.start_ticks)::BIGINT, bool_or(_is_step_run(r.name))
            FROM (FROM trace_steps AS i WHERE i.capture_id = $key AND i.start_ticks IS NOT NULL) AS s
            JOIN runs AS r USING (capture_id, run_index)
            LEFT JOIN _compiled_ticks($key) AS c USING (run_index)
        """
        [(ticks, whole, has_steps)] = self.rows(tuple, query)
        return ticks, whole if has_steps else self.traits.ticks, has_steps

    @cached_property
    def first_call(self) -> tuple[int, int]:
        """The start and end of the first call of a runtime or driver in the trace; an empty time if there is none."""
        query = """
            SELECT min(e.start_ticks), arg_min(e.start_ticks + e.elapsed_ticks, e.start_ticks)
            FROM signatures AS s
            JOIN event_ticks AS e USING (capture_id, signature_index)
            WHERE s.capture_id = $key AND s.activity = 'call'
        """
        [(start, end)] = self.rows(tuple, query)
        return (0, 0) if start is None else (start, end)

    def places(self, parts: Sequence[Idle | OnPath]) -> str:
        """Return how many parts there are, with the length and start of the longest."""
        longest = max(parts, key=lambda part: part.longest)
        start = time((longest.at - self.traits.start_ticks) / 1e3, "us")
        number = counted(sum(part.parts for part in parts), "part")
        return f"{number}, the longest {time(longest.longest / 1e3, 'us')} from {start}"

    def told_rank(self) -> tuple[str, str | None]:
        """Return what collectives of the trace's rank take time for: rank, with the number of the one that takes more
        than half of the waiting, if one does; transfer; or unknown, where other ranks' traces are missing.
        """
        own = [each for each in self.waits if each.is_own]
        waited: Counter[int] = Counter()
        for each in own:
            if each.last_rank != each.rank:
                waited[each.last_rank] += each.waited
        if not own:
            return "unknown", None
        if sum(waited.values()) < sum(each.transfer for each in own):
            return "transfer", None
        last, ticks = min(waited.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        return "rank", str(last) if 2 * ticks > sum(waited.values()) else None
