"""Evidence for the rules about a trace, measured by SQL; each query runs once. Times are in nanoseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import duckdb

from etq.advice.contract import LONG, is_slowed
from etq.advice.remedies import Traits
from etq.advice.shared import Jobs, Waits
from etq.advice.words import time
from etq.errors import WarehouseError
from etq.selectors import JOB

Row = TypeVar("Row")
# What the host does in a call, by its purpose.
CALLS: Final = {
    "allocation": "allocates memory",
    "free": "frees memory",
    "pinned_memory": "allocates, releases or registers pinned memory",
    "module_load": "loads kernels",
    "graph_instantiation": "captures or instantiates graphs",
    "creation": "creates streams, events or contexts",
    "launch": "is in a launch that takes long to return",
    "copy": "is in a copy that takes long to return",
}
# Causes on the critical path whose time is summed over all ops.
TOGETHER: Final = (*CALLS, "data_loading", "compilation")
# A collective is short if it takes at most this many ticks, which is about the time for starting one.
SHORT: Final = 50_000
# The subject of a part `p` of the critical path: the thing to which its time is added. For data loading, compilation
# and calls of known purpose, it is the cause, across all ops. For other calls, and for copies from and to the host, it
# is their name. All time between the ops of steps has one subject. Other parts have their own name. It is NULL for
# parts without a name and unknown waits.
_SUBJECT: Final = f"""
    CASE
        WHEN p.cause IN ({", ".join(f"'{cause}'" for cause in TOGETHER)}) THEN p.cause
        WHEN p.cause = 'call' OR p.cause = 'device' AND regexp_matches(p.label, 'HtoD|DtoH') THEN p.label
        WHEN p.cause NOT IN ('between_steps', 'not_recorded', 'unknown')
            THEN CASE WHEN p.name_kind = 'step' THEN 'step' ELSE p.name END
    END
"""
# Temporary tables with rows that several rules need. Each table is made on first use, and may read the tables before
# it.
_GAPS: Final = "FROM _device_gaps({key}, '{prefix}launches', 'device')"
_PERIODS: Final = "FROM _gap_periods('{prefix}gaps') UNION ALL FROM _path_periods({key}, '{prefix}path')"
# The times of claims: idle time by `device` and `cause`, or the critical path by `subject`.
_TIMES: Final = """
    SELECT 'idle' AS side, g.device, p.cause, NULL::VARCHAR AS subject, p.at_ticks AS start_ticks,
        p.at_ticks + p.ticks AS end_ticks
    FROM '{prefix}parts' AS p
    JOIN '{prefix}gaps' AS g ON g.next_index = p.period
    UNION ALL
    SELECT 'idle', i.device, i.cause, NULL, i.start_ticks, i.start_ticks + i.ticks
    FROM '{prefix}idle' AS i
    JOIN '{prefix}gaps' AS g ON g.next_index = i.gap AND i.start_ticks = g.start_ticks + g.host_ticks
    WHERE i.cause = 'launch'
    UNION ALL
    SELECT 'path', NULL, NULL, p.subject, p.start_ticks, p.start_ticks + p.ticks
    FROM '{prefix}pieces' AS p
    WHERE p.subject IS NOT NULL AND p.cause NOT IN ('device', 'wait', 'unknown')
"""
# Copies and fills, by their labels.
COPIES: Final = re.compile("Mem(cpy|set)")
# Long first calls of ops, of launches of a kernel and of loaders. They are five times as long as the median of the
# later calls of the same name.
_FIRSTS: Final = """
    WITH calls AS (
        SELECT s.family, NULL AS kernel, e.start_ticks, e.elapsed_ticks AS ticks
        FROM signatures AS s
        JOIN event_ticks AS e USING (capture_id, signature_index)
        WHERE s.capture_id = {key} AND NOT s.on_device AND e.elapsed_ticks > 0
            AND (s.activity = 'op' OR s.purpose = 'data_loading')
        UNION ALL
        SELECT DISTINCT s.family, w.label, w.call_start_ticks, w.call_ticks
        FROM '{prefix}launches' AS w
        JOIN signatures AS s ON s.capture_id = {key} AND s.signature_index = w.call_signature
        WHERE w.launched = 1 AND w.call_ticks > 0
    ),
    numbered AS (
        SELECT c.*, row_number() OVER (PARTITION BY c.family, c.kernel ORDER BY c.start_ticks, c.ticks DESC) AS number
        FROM calls AS c
        WHERE (c.family, c.kernel) IS NOT NULL
    )
    SELECT n.family || coalesce(' of ' || n.kernel, '') AS family, min(n.start_ticks) AS start_ticks,
        min(n.start_ticks) + arg_min(n.ticks, n.number) AS end_ticks,
        median(n.ticks) FILTER (n.number > 1) AS later_ticks, count(*) - 1 AS later
    FROM numbered AS n
    GROUP BY n.family, n.kernel
    HAVING count(*) > 1 AND end_ticks - min(n.start_ticks) >= greatest(5 * later_ticks, 100_000)
"""
_SHARED: Final = {
    "launches": "FROM _launches({key})",
    "steps": "FROM tool_steps AS t WHERE t.capture_id = {key}",
    "gaps": _GAPS,
    "recording": "FROM _path_window({key}, '{prefix}launches', NULL, NULL)",
    "path": "FROM _path_spans({key}, '{prefix}launches', '{prefix}recording', true)",
    "names": "FROM _host_names({key})",
    "peaks": "FROM _trace_peaks({key}, NULL, NULL, NULL)",
    "counted": "FROM _counted_launches({key}, '{prefix}launches')",
    "work": "FROM _device_work({key}, '{prefix}counted', NULL, NULL, false)",
    "rated": "FROM _rated_work({key}, '{prefix}work', '{prefix}peaks', false)",
    "parts": f"SELECT p.period, p.thread_index, p.start_ticks, p.end_ticks FROM ({_PERIODS}) AS p",
    "pieces": f"SELECT p.*, {_SUBJECT} AS subject"
    " FROM _path_causes({key}, '{prefix}names', '{prefix}path', '{prefix}parts', '{prefix}steps') AS p",
    "idle": "FROM _idle_parts({key}, '{prefix}names', '{prefix}gaps')",
    "times": _TIMES,
    "firsts": _FIRSTS,
}
_PREFIX: Final = "_advised_"
_PARTS: Final = "_parts_of_host"
_JOB: Final = f"""
    SELECT w.value FROM labels AS w
    JOIN labels AS r ON r.capture_id = w.capture_id AND r.key = 'rank'
    JOIN labels AS o ON o.key = w.key AND o.value = w.value AND o.capture_id <> w.capture_id
    WHERE w.capture_id = $key AND w.key = '{JOB}'
    LIMIT 1
"""
# Causes. `LAUNCHING`: the host launches, in ops, between ops, or in functions within ops. `WAITING`: launched kernels
# wait for something that isn't recorded.
LAUNCHING: Final = ("host", "step", "op_function")
WAITING: Final = ("earlier_work", "unknown_wait")
# Causes of the time from the return of a launch to the start of the launched work.
STARTING: Final = ("launch_delay", "latency")
# Causes that are waits for devices, or that follow such a wait, after which nothing is recorded about the host.
SYNCHRONIZING: Final = ("synchronization", "after_synchronization")
# Causes that say what the host does.
OF_HOST: Final = (*TOGETHER, *LAUNCHING, "cpu_op", "function", "call", "first_call")
# Causes of idle time that form one claim, each mapped to the claim's first cause.
_TOGETHER: Final = {cause: causes[0] for causes in (LAUNCHING, WAITING, STARTING, SYNCHRONIZING) for cause in causes}
# The subject of a claim: a device and a cause of its idle time, or a subject of the critical path.
Subject = tuple[int | None, str | None, str | None]


def _cases() -> str:
    """Return cases of SQL that map causes of one claim to its first cause."""
    return " ".join(f"WHEN '{cause}' THEN '{first}'" for cause, first in _TOGETHER.items())


class Idle(NamedTuple):
    """Idle time of a device by cause, as in the view `idle_parts`. `did` says what the host does, for time between
    steps.
    """

    device: int | None
    cause: str
    did: str | None
    label: str | None
    kind: str | None
    ticks: int


class Gaps(NamedTuple):
    """The gaps of a device that contain time of a cause: their number, the most time of that cause in one gap, the
    start of this gap, and the sum of the cause's times that are long.
    """

    device: int | None
    cause: str
    gaps: int
    longest: int
    at: int
    in_long: int


class OnPath(NamedTuple):
    """Time on the critical path by name and cause. `subject` is the thing that a claim is about. `longest` is the time
    of the longest part, and `at` the start of that part.
    """

    name: str | None
    kind: str | None
    cause: str
    label: str | None
    family: str | None
    subject: str | None
    ticks: int
    longest: int
    at: int


class First(NamedTuple):
    """The part of a time that is in first calls, if these take much longer than later calls. Also the name with most of
    that part, the time of its first call, and the median and the number of its later calls.
    """

    ticks: int
    name: str
    first: int
    later: float
    calls: int


class Intervals(NamedTuple):
    """The intervals of a subject on the critical path: their number, the time and the start of the longest, and the
    time in long intervals.
    """

    number: int
    longest: int
    at: int
    in_long: int


class Use(NamedTuple):
    """How long a device ran any work (`busy`), and how long it ran kernels, within the `ticks` of steps.

    `span` is the time from its first to its last event.
    """

    device: int | None
    ticks: int
    busy: int
    kernels: int
    span: int


class Device(NamedTuple):
    """A device that ran work."""

    name: str | None
    major: int | None
    is_amd: bool


class Unfused(NamedTuple):
    """Kernels of unfused attention (product, softmax, product) that one op launched."""

    op: str | None
    ticks: int
    kernels: int
    softmax: int


class SmallCollectives(NamedTuple):
    """The collectives of devices: the number and time of those that take at most `SHORT`, and the number and time of
    all.
    """

    number: int
    ticks: int
    all: int
    all_ticks: int


class Steps(NamedTuple):
    """The time of the steps, as in the view `step_breakdown`. Without profiler steps, it is the time of other tools'
    steps, or of the recording.
    """

    ticks: int
    communication: int
    data_loading: int
    are_known: bool


class LoaderCalls(NamedTuple):
    """The number of the steps' calls of DataLoaders, their time, that of the middle half of the calls, and the time and
    start of the longest call. Between the last call of an epoch and the first call of the next one, few ops run: less
    than half of the mean. `turns` is the number of such pairs of calls, and `turning` the time of these calls and of
    the first and the last call.
    """

    calls: int = 0
    ticks: int = 0
    middle: int = 0
    longest: int = 0
    at: int = 0
    turns: int = 0
    turning: int = 0

    @property
    def may_start_again(self) -> bool:
        """Whether the loader may start again in each epoch: half of the time is in first and last calls of epochs. An
        epoch has more than two calls; where most calls follow each other directly, a step takes several batches.
        """
        return self.turns >= 2 and 2 * self.turns < self.calls and 2 * self.turning >= self.ticks

    @property
    def are_at_ends(self) -> bool:
        """Whether the loader rather starts and ends than loads: half of the time is what the first and last calls take
        longer than those in the middle.
        """
        return self.calls >= 8 and 2 * (self.ticks - 2 * self.middle) >= self.ticks


class Lost(NamedTuple):
    """Launches without an event of a device."""

    launches: int
    lost: int
    call: str | None


class Setup(NamedTuple):
    """How a program uses its devices: columns of the private view `_trace_setup`."""

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
    """The evidence about one trace; `jobs` keeps the evidence about a job for its other ranks."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, capture_key: int, jobs: Jobs | None = None) -> None:
        self._connection, self._key = connection, capture_key
        self.jobs = Jobs() if jobs is None else jobs
        self._made: list[str] = []

    def rows(self, make: Callable[[Iterable[Any]], Row], query: str, **values: Any) -> list[Row]:
        """Return the rows of a query about the trace, whose key is `$key` in the query."""
        key = {"key": self._key} if "$key" in query else {}
        rows = self._connection.execute(query, {**key, **values}).fetchall()
        return [make(row) for row in rows]

    def shared(self, name: str) -> str:
        """Return the name of a temporary table that rules share. On first use, the table and those that it reads are
        made.
        """
        if name not in self._made:
            query = _SHARED[name]
            for other in _SHARED:
                if f"'{{prefix}}{other}'" in query:
                    self.shared(other)
            rows = query.format(key=f"{self._key:d}", prefix=_PREFIX)
            if name == "parts":
                self._connection.register(_PARTS, self._parts_of_host(rows))
                rows = f"FROM {_PARTS}"
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_PREFIX}{name} AS {rows}")
            if name == "parts":
                self._connection.unregister(_PARTS)
            self._made.append(name)
        return _PREFIX + name

    def _parts_of_host(self, periods: str) -> Any:
        """Return what the host did in the periods of a query, as an Arrow table."""
        from etq.ingest.trace.stored import parts_of

        def read(query: str) -> Any:
            key = {"key": self._key} if "$key" in query else {}
            return self._connection.sql(query, params=key).to_arrow_table()

        try:
            return parts_of(read, read(periods))
        except ValueError as error:
            [(name,)] = self._connection.execute(
                "SELECT c.name FROM captures AS c WHERE c.capture_id = ?", [self._key]
            ).fetchall()
            raise WarehouseError(
                f"the stored events of {name} are damaged: {error}; etq db check finds what else is wrong"
            ) from error

    def drop(self) -> None:
        """Drop the temporary tables that rules share."""
        for name in self._made:
            with suppress(duckdb.Error):  # a failed transaction drops it by itself
                self._connection.execute(f"DROP TABLE IF EXISTS {_PREFIX}{name}")
        self._made.clear()

    @cached_property
    def rated(self) -> str | None:
        """A temporary table of the ops with their costs and least times, as `_rated_work`; None if no device ran
        anything, peaks are unknown, or sizes aren't written. These conditions are checked first, because planning the
        query takes long.
        """
        known = "coalesce(p.bandwidth, p.any_flops) IS NOT NULL"
        peaks = f"SELECT 1 FROM {self.shared('peaks')} AS p WHERE {known} LIMIT 1"
        sizes = "SELECT 1 FROM op_arguments AS a WHERE a.capture_id = $key AND a.shapes IS NOT NULL LIMIT 1"
        can_rate = self.has_work and self.rows(tuple, peaks) and self.rows(tuple, sizes)
        return self.shared("rated") if can_rate else None

    @cached_property
    def has_work(self) -> bool:
        """Whether a device ran anything."""
        return bool(self.rows(tuple, "SELECT 1 FROM device_events AS d WHERE d.capture_id = $key LIMIT 1"))

    @cached_property
    def _unknown(self) -> tuple[bool, bool]:
        """Whether any time of the host's events is unknown, and whether a twentieth of the devices' time may be
        unknown.
        """
        told = "SELECT 1 FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'unknown times'"
        if not self.rows(tuple, told):
            return False, False
        query = "SELECT of_host, 20 * device_ticks >= span_ticks FROM _unknown_times($key)"
        [(of_host, of_devices)] = self.rows(tuple, query)
        return of_host, of_devices

    @property
    def knows_host(self) -> bool:
        """Whether all times of the host's events are known."""
        return not self._unknown[0]

    @property
    def knows_devices(self) -> bool:
        """Whether nearly all times of devices' events are known."""
        return not self._unknown[1]

    @cached_property
    def missing(self) -> str | None:
        """The detail of the reader's finding about ops that ran but are not in the file; None if the file has most of
        the ops.
        """
        query = "SELECT f.detail FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'incomplete file'"
        return next((detail for (detail,) in self.rows(tuple, query)), None)

    @cached_property
    def other_clock(self) -> str | None:
        """The detail of the reader's finding about clocks that differ; None if there is none."""
        query = "SELECT f.detail FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'device clock'"
        return next((detail for (detail,) in self.rows(tuple, query)), None)

    @cached_property
    def is_clipped(self) -> bool:
        """Whether a step goes beyond the recording. Then only its recorded part counts."""
        query = "SELECT 1 FROM findings AS f WHERE f.capture_id = $key AND f.rule = 'steps beyond the recording'"
        return bool(self.rows(tuple, query))

    @cached_property
    def traits(self) -> Traits:
        steps, launches = self.shared("steps"), self.shared("launches")
        loader = self.loader_calls if self.steps and self.steps.data_loading else LoaderCalls()
        return self.rows(
            lambda row: Traits._make((*row, loader.are_at_ends, loader.may_start_again)),
            f"""
            SELECT t.is_training, t.is_compiled, t.has_workers, t.steps, t.ticks, t.start_ticks, t.replays,
                t.runtime, nullif(n.launches, 0) / greatest(t.steps, 1),
                EXISTS (
                    FROM signatures AS f
                    WHERE f.capture_id = $key AND f.activity IN ('python_function', 'module')
                ),
                EXISTS (
                    SELECT 1 FROM signatures AS f
                    WHERE f.capture_id = $key AND f.activity = 'copy' AND contains(f.label, 'Pageable -> Device')
                )
            FROM _trace_traits($key, '{steps}') AS t
            CROSS JOIN (
                SELECT count(DISTINCT w.call_index) AS launches
                FROM {launches} AS w
                ASOF LEFT JOIN _merged_steps('{steps}') AS s ON row(w.call_start_ticks) >= row(s.start_ticks)
                WHERE w.call_start_ticks < s.end_ticks OR NOT EXISTS (FROM {steps})
            ) AS n
            """,
        )[0]

    @cached_property
    def idle(self) -> list[Idle]:
        return self.rows(
            Idle._make,
            f"""
            SELECT p.device, p.cause, p.did, p.label, p.kind, sum(p.ticks)::BIGINT
            FROM {self.shared("idle")} AS p
            GROUP BY p.device, p.cause, p.did, p.label, p.kind
            ORDER BY p.device, 6 DESC, p.cause, p.label
            """,
        )

    @cached_property
    def gaps(self) -> list[Gaps]:
        """The gaps by device and cause. Causes of one claim are added up."""
        return self.rows(
            Gaps._make,
            f"""
            SELECT p.device, p.cause, count(*), max(p.ticks), arg_max(p.start_ticks, (p.ticks, -p.start_ticks)),
                coalesce(sum(p.ticks) FILTER (p.ticks >= {LONG}), 0)::BIGINT
            FROM (
                SELECT i.device, CASE i.cause {_cases()} ELSE i.cause END AS cause,
                    sum(i.ticks)::BIGINT AS ticks, min(i.start_ticks) AS start_ticks
                FROM {self.shared("idle")} AS i
                GROUP BY i.device, 2, i.gap
            ) AS p
            GROUP BY p.device, p.cause
            """,
        )

    @cached_property
    def functions(self) -> Counter[Subject]:
        """How many Python functions began in the times of each claim."""
        if not self.traits.has_functions:
            return Counter()
        rows = self.rows(
            tuple,
            f"""
            WITH starts AS MATERIALIZED (
                SELECT f.start_ticks, max(f.number) AS number
                FROM (
                    SELECT e.start_ticks, row_number() OVER (ORDER BY e.start_ticks) AS number
                    FROM signatures AS s
                    JOIN event_ticks AS e USING (capture_id, signature_index)
                    WHERE s.capture_id = $key AND s.activity IN ('python_function', 'module')
                ) AS f
                GROUP BY f.start_ticks
            )
            SELECT t.device, t.cause, t.subject, sum(coalesce(u.number, 0) - coalesce(b.number, 0))::BIGINT
            FROM {self.shared("times")} AS t
            ASOF LEFT JOIN starts AS u ON row(t.end_ticks) > row(u.start_ticks)
            ASOF LEFT JOIN starts AS b ON row(t.start_ticks) > row(b.start_ticks)
            GROUP BY t.device, t.cause, t.subject
            """,
        )
        found: Counter[Subject] = Counter()
        for device, cause, subject, number in rows:
            found[device, _TOGETHER.get(cause, cause), subject] += number
        return found

    @cached_property
    def firsts(self) -> dict[Subject, First]:
        """The part of each claim's time that is in the first calls of `_FIRSTS`."""
        firsts = self.shared("firsts")
        if not self.rows(tuple, f"SELECT 1 FROM {firsts} LIMIT 1"):
            return {}
        query = f"""
            WITH spans AS MATERIALIZED (
                SELECT m.*, sum(m.end_ticks - m.start_ticks) OVER (ORDER BY m.start_ticks) AS ticks
                FROM _merged_steps('{firsts}') AS m
            ),
            times AS MATERIALIZED (
                SELECT * REPLACE (CASE t.cause {_cases()} ELSE t.cause END AS cause) FROM {self.shared("times")} AS t
                -- Most first calls are at the start.
                WHERE t.start_ticks < (SELECT max(f.end_ticks) FROM {firsts} AS f)
                    AND t.end_ticks > (SELECT min(f.start_ticks) FROM {firsts} AS f)
            ),
            edges AS (
                SELECT t.device, t.cause, t.subject, unnest([t.start_ticks, t.end_ticks]) AS at_ticks,
                    unnest([-1, 1]) AS sign
                FROM times AS t
            ),
            within AS (
                SELECT e.device, e.cause, e.subject,
                    sum(e.sign * (m.ticks - greatest(m.end_ticks - e.at_ticks, 0)))::BIGINT AS ticks
                FROM edges AS e
                ASOF JOIN spans AS m ON row(e.at_ticks) >= row(m.start_ticks)
                GROUP BY e.device, e.cause, e.subject
                HAVING ticks > 0
            ),
            longest AS (FROM {firsts} AS f ORDER BY f.end_ticks - f.start_ticks DESC, f.family LIMIT 50),
            named AS (
                SELECT t.device, t.cause, t.subject, f AS call,
                    sum(least(t.end_ticks, f.end_ticks) - greatest(t.start_ticks, f.start_ticks)) AS ticks
                FROM times AS t
                JOIN longest AS f ON t.start_ticks < f.end_ticks AND t.end_ticks > f.start_ticks
                GROUP BY t.device, t.cause, t.subject, f
            )
            SELECT w.device, w.cause, w.subject, w.ticks, c.call.family, c.call.end_ticks - c.call.start_ticks,
                c.call.later_ticks, c.call.later
            FROM within AS w
            JOIN (
                SELECT n.device, n.cause, n.subject,
                    arg_max(n.call, (n.ticks, n.call.start_ticks - n.call.end_ticks, n.call.family)) AS call
                FROM named AS n
                GROUP BY n.device, n.cause, n.subject
            ) AS c
                ON c.device IS NOT DISTINCT FROM w.device
                AND c.cause IS NOT DISTINCT FROM w.cause
                AND c.subject IS NOT DISTINCT FROM w.subject
        """
        return {(device, cause, subject): First(*row) for device, cause, subject, *row in self.rows(tuple, query)}

    @cached_property
    def wide(self) -> dict[tuple[str, str | None], tuple[int, int]]:
        """By op and kernel family: the time of kernels whose op only takes numbers of 32 or 64 bits, and the time of
        all kernels.
        """
        narrow = "regexp_matches(a.dtypes, 'c10::(B?F|H|B)|char')"
        rows = self.rows(
            tuple,
            f"""
            SELECT s.family, w.kernel_family,
                coalesce(sum(w.device_ticks) FILTER (
                    regexp_matches(a.dtypes, '"(float|double)"') AND NOT {narrow}
                ), 0),
                sum(w.device_ticks)
            FROM {self.shared("launches")} AS w
            JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = w.op_signature
            LEFT JOIN (FROM op_arguments AS i WHERE i.capture_id = $key) AS a ON a.event_index = w.op_index
            WHERE w.kind = 'kernel'
            GROUP BY s.family, w.kernel_family
            """,
        )
        return {(op, family): (wide, all_ticks) for op, family, wide, all_ticks in rows}

    def is_wide(self, *, op: str | None = None, family: str | None = None) -> bool:
        """Whether kernels on numbers of 32 or 64 bits are known to have nine tenths of the kernel time of an op or a
        family.
        """
        chosen = [times for (name, kind), times in self.wide.items() if op in (None, name) and family in (None, kind)]
        return bool(chosen) and 10 * sum(wide for wide, _ in chosen) >= 9 * sum(ticks for _, ticks in chosen)

    @cached_property
    def devices(self) -> list[Device]:
        # Names of AMD's devices may be empty.
        query = """
            SELECT u.name, u.compute_major, coalesce(starts_with(u.name, 'AMD'), false) OR EXISTS (
                FROM signatures AS s
                WHERE s.capture_id = $key AND s.activity = 'call' AND starts_with(s.label, 'hip')
            )
            FROM trace_devices AS u
            WHERE u.capture_id = $key AND u.is_used
        """
        return self.rows(Device._make, query)

    def have_capability(self, major: int) -> bool:
        """Whether all devices are known to be NVIDIA's of at least this major compute capability."""
        return bool(self.devices) and all(
            not device.is_amd and device.major is not None and device.major >= major for device in self.devices
        )

    @cached_property
    def have_matrix_cores(self) -> bool:
        """Whether all devices are known to be AMD's with matrix cores: the series MI100 to MI399."""
        return bool(self.devices) and all(
            device.is_amd and re.search(r"\bMI[1-3][0-9]{2}", device.name or "") for device in self.devices
        )

    @cached_property
    def unfused_attention(self) -> list[Unfused]:
        """Unfused attention (product, softmax, product) by op, on devices that have fused kernels for it."""
        query = (
            "SELECT 1 FROM signatures AS s WHERE s.capture_id = $key"
            " AND regexp_matches(s.label, '^aten::_(safe_)?softmax') LIMIT 1"
        )
        if not self.rows(tuple, query) or not (self.have_capability(5) or self.have_matrix_cores):
            return []
        return self.rows(
            Unfused._make,
            "SELECT u.op, sum(u.ticks)::BIGINT, count(*), count(*) FILTER (u.is_softmax)"
            f" FROM _unfused_attention($key, '{self.shared('counted')}') AS u GROUP BY u.op",
        )

    @cached_property
    def path(self) -> list[OnPath]:
        return self.rows(
            OnPath._make,
            f"""
            SELECT p.name, p.name_kind, p.cause, p.label, p.kernel_family, p.subject, sum(p.ticks)::BIGINT,
                max(p.ticks), arg_max(p.start_ticks, (p.ticks, -p.start_ticks))
            FROM {self.shared("pieces")} AS p
            GROUP BY p.name, p.name_kind, p.cause, p.label, p.kernel_family, p.subject
            ORDER BY 7 DESC, p.name, p.cause, p.label
            """,
        )

    @cached_property
    def is_path_cut(self) -> bool:
        """Whether the critical path begins after the first op: what its first device event waited for is unknown."""
        query = f"""
            SELECT min(p.start_ticks) > (SELECT r.path_start_ticks FROM recordings AS r WHERE r.capture_id = $key)
            FROM {self.shared("pieces")} AS p
        """
        return bool(self.rows(tuple, query)[0][0])

    @cached_property
    def blocks(self) -> bool:
        """Whether calls that launch return only after their kernels have ended. This is so if kernels that run within
        their calls take half of the calls' time.
        """
        query = """
            SELECT 2 * sum(d.elapsed_ticks) FILTER (
                d.start_ticks >= d.call_start_ticks
                AND d.start_ticks + d.elapsed_ticks <= d.call_start_ticks + d.call_ticks
            ) >= sum(d.call_ticks)
            FROM device_events AS d
            JOIN signatures AS s ON s.capture_id = d.capture_id AND s.signature_index = d.call_signature
            WHERE d.capture_id = $key AND d.launched = 1 AND s.purpose = 'launch'
        """
        return bool(self.rows(tuple, query)[0][0])

    @cached_property
    def device_path(self) -> int | None:
        """The time of devices on the critical path; None if unknown. It is unknown if the host waits within launches,
        if the clocks of host and devices differ, or if much of the host's part may be spent on recording Python's
        functions. It is also unknown if a twentieth of the path is in waits for devices: those of other threads, while
        nothing is recorded of the path's thread, which may wait for them; and those for which the trace has no work.
        """
        is_known = self.knows_host and self.knows_devices and self.other_clock is None
        if self.missing is not None or not is_known or self.blocks:
            return None
        waits = sum(part.ticks for part in self.path if part.cause == "synchronization")
        if 20 * waits > sum(part.ticks for part in self.path):
            return None
        device = sum(part.ticks for part in self.path if part.cause == "device")
        host = sum(part.ticks for part in self.path if part.cause in OF_HOST)
        of_path = sum(number for (_, cause, subject), number in self.functions.items() if subject is not None)
        return None if is_slowed(host, of_path) else device

    def is_beside(self, ticks: float) -> bool:
        """Whether less than half of `ticks`, work of the devices, can be on the critical path."""
        return self.device_path is not None and 2 * self.device_path * max(len(self.use), 1) < ticks

    @cached_property
    def host_ticks(self) -> int:
        """The time in which ops and calls run on the host, without calls that may wait for a device. It is the time
        that the host would need if Python took none. 0 if unknown, for example because launches wait.
        """
        if self.missing is not None or not self.knows_host or self.blocks:
            return 0
        query = """
            WITH ran AS MATERIALIZED (
                SELECT e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks,
                    s.activity = 'call' AND s.waits IS DISTINCT FROM false AS waits
                FROM signatures AS s
                JOIN event_ticks AS e USING (capture_id, signature_index)
                WHERE s.capture_id = $key AND s.activity IN ('op', 'call') AND NOT s.on_device AND e.elapsed_ticks > 0
            ),
            waits AS (FROM ran AS r WHERE r.waits)
            SELECT coalesce((SELECT sum(m.end_ticks - m.start_ticks) FROM _merged_steps('ran') AS m), 0)
                - coalesce((SELECT sum(w.end_ticks - w.start_ticks) FROM _merged_steps('waits') AS w), 0)
        """
        return int(self.rows(tuple, query)[0][0])

    @property
    def communication_path(self) -> int:
        """The time of devices' communication on the critical path."""
        return sum(part.ticks for part in self.path if (part.cause, part.family) == ("device", "communication"))

    @cached_property
    def lacks_autograd(self) -> bool:
        """Whether only one thread has ops, and hardly any of these ops are in torch's annotations of the backward
        pass.
        """
        query = """
            WITH events AS MATERIALIZED (
                SELECT t.event_index, t.parent_index, t.thread_index, t.elapsed_ticks, s.activity,
                    starts_with(s.label, '## backward') AS is_backward
                FROM signatures AS s
                JOIN trace_events AS t ON t.capture_id = s.capture_id AND t.event_signature = s.signature_index
                WHERE s.capture_id = $key AND s.activity IN ('op', 'annotation')
            ),
            passes AS MATERIALIZED (SELECT e.event_index, e.elapsed_ticks FROM events AS e WHERE e.is_backward)
            SELECT (SELECT count(DISTINCT e.thread_index) FROM events AS e WHERE e.activity = 'op') < 2
                AND 10 * (
                    SELECT coalesce(sum(e.elapsed_ticks), 0)
                    FROM events AS e
                    WHERE e.parent_index IN (SELECT p.event_index FROM passes AS p)
                ) < (SELECT sum(p.elapsed_ticks) FROM passes AS p)
        """
        return bool(self.rows(tuple, query)[0][0])

    @cached_property
    def intervals(self) -> dict[str, Intervals]:
        """The intervals by subject. Parts of one subject that follow each other without a gap are one interval."""
        rows = self.rows(
            tuple,
            f"""
            SELECT i.subject, count(*), max(i.ticks), arg_max(i.start_ticks, (i.ticks, -i.start_ticks)),
                coalesce(sum(i.ticks) FILTER (i.ticks >= {LONG}), 0)::BIGINT
            FROM (
                SELECT o.subject, min(o.start_ticks) AS start_ticks, sum(o.ticks)::BIGINT AS ticks
                FROM (
                    SELECT p.start_ticks, p.ticks, p.subject, sum(p.ticks) OVER (
                        PARTITION BY p.subject ORDER BY p.start_ticks ROWS UNBOUNDED PRECEDING
                    ) - p.ticks AS before_ticks
                    FROM {self.shared("pieces")} AS p
                    WHERE p.subject IS NOT NULL
                ) AS o
                GROUP BY o.subject, o.start_ticks - o.before_ticks
            ) AS i
            GROUP BY i.subject
            """,
        )
        return {subject: Intervals(*row) for subject, *row in rows}

    @cached_property
    def beside(self) -> dict[str, tuple[int, str]]:
        """By subject: the host's time on the path in which another thread communicates, and the name that has most of
        it.
        """
        query = "SELECT s.signature_index, s.family FROM signatures AS s WHERE s.capture_id = $key AND NOT s.on_device"
        names = self.rows(tuple, f"{query} AND s.purpose = 'communication'")
        if not names:
            return {}
        chosen = ", ".join(str(index) for index, _ in names)
        calls = f"""
            FROM event_ticks AS e
            WHERE e.capture_id = $key AND e.signature_index IN ({chosen}) AND e.elapsed_ticks > 0
        """
        times: Counter[str] = Counter()
        named = dict(names)
        for index, ticks in self.rows(
            tuple, f"SELECT e.signature_index, sum(e.elapsed_ticks)::BIGINT {calls} GROUP BY e.signature_index"
        ):
            times[named[index]] += ticks
        [(most, ticks)] = times.most_common(1) or [("", 0)]
        label = most if 2 * ticks > times.total() else "communication"
        rows = self.rows(
            tuple,
            f"""
            WITH calls AS (SELECT e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks {calls}),
            spans AS MATERIALIZED (
                SELECT m.*, sum(m.end_ticks - m.start_ticks) OVER (ORDER BY m.start_ticks) AS ticks
                FROM _merged_steps('calls') AS m
            ),
            pieces AS (
                SELECT p.subject, unnest([p.start_ticks, p.start_ticks + p.ticks]) AS at_ticks, unnest([-1, 1]) AS sign
                FROM {self.shared("pieces")} AS p
                WHERE p.subject IS NOT NULL AND p.cause NOT IN ('device', 'wait', 'communication')
            )
            SELECT p.subject, sum(p.sign * (m.ticks - greatest(m.end_ticks - p.at_ticks, 0)))::BIGINT
            FROM pieces AS p
            ASOF JOIN spans AS m ON row(p.at_ticks) >= row(m.start_ticks)
            GROUP BY p.subject
            """,
        )
        return {subject: (ticks, label) for subject, ticks in rows}

    @cached_property
    def use(self) -> list[Use]:
        tables = f"'{self.shared('launches')}', '{self.shared('steps')}'"
        columns = "device, ticks, busy_ticks, kernel_ticks, span_ticks"
        return self.rows(Use._make, f"SELECT {columns} FROM _device_use($key, {tables}) ORDER BY device")

    @cached_property
    def waits(self) -> list[Waits]:
        """The waits of all ranks of the job; none without other ranks' traces."""
        if self.job is None:
            return []
        if self.job not in self.jobs.waits:
            query = "SELECT capture_id, rank, last_rank, waited_ticks, transfer_ticks"
            self.jobs.waits[self.job] = self.rows(
                Waits._make, f"{query} FROM _waits_for_ranks($key) ORDER BY waited_ticks DESC, rank, last_rank"
            )
        return self.jobs.waits[self.job]

    @cached_property
    def job(self) -> str | None:
        """The value of the label job; None without other ranks' traces. Checking for such traces takes less time than
        planning the queries that read them.
        """
        return next((job for (job,) in self.rows(tuple, _JOB)), None)

    @property
    def own_waits(self) -> list[Waits]:
        return [each for each in self.waits if each.capture_id == self._key]

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
    def loader_calls(self) -> LoaderCalls:
        query = """
            WITH loads AS (
                SELECT e.elapsed_ticks AS ticks, e.start_ticks, ntile(4) OVER in_order AS quarter,
                    row_number() OVER in_order AS place
                FROM trace_steps AS t
                JOIN trace_events AS e USING (capture_id, run_index)
                JOIN signatures AS s ON s.capture_id = t.capture_id AND s.signature_index = e.event_signature
                WHERE t.capture_id = $key AND t.start_ticks IS NOT NULL AND s.purpose = 'data_loading'
                    AND e.elapsed_ticks >= 0
                WINDOW in_order AS (ORDER BY e.start_ticks, e.event_index)
            ),
            ops AS (
                SELECT e.start_ticks, row_number() OVER (ORDER BY e.start_ticks) AS number
                FROM signatures AS s JOIN event_ticks AS e USING (capture_id, signature_index)
                WHERE s.capture_id = $key AND s.activity = 'op' AND NOT s.on_device
            ),
            followed AS (
                SELECT l.*, coalesce(o.number, 0) - lag(coalesce(o.number, 0)) OVER (ORDER BY l.place) AS ops
                FROM loads AS l ASOF LEFT JOIN ops AS o ON row(l.start_ticks) >= row(o.start_ticks)
            ),
            turned AS (SELECT f.*, coalesce(2 * f.ops < avg(f.ops) OVER (), true) AS is_first FROM followed AS f)
            SELECT count(*), coalesce(sum(c.ticks), 0)::BIGINT,
                coalesce(sum(c.ticks) FILTER (WHERE c.quarter IN (2, 3)), 0)::BIGINT, coalesce(max(c.ticks), 0),
                coalesce(arg_max(c.start_ticks, c.ticks), 0), count(*) FILTER (WHERE c.is_first AND c.place > 1),
                coalesce(sum(c.ticks) FILTER (WHERE c.is_first OR c.is_last), 0)::BIGINT
            FROM (SELECT t.*, lead(t.is_first, 1, true) OVER (ORDER BY t.place) AS is_last FROM turned AS t) AS c
        """
        return self.rows(LoaderCalls._make, query)[0]

    @cached_property
    def small_collectives(self) -> SmallCollectives:
        is_short = f"w.device_ticks <= {SHORT}"
        query = f"""
            SELECT count(*) FILTER ({is_short}), coalesce(sum(w.device_ticks) FILTER ({is_short}), 0)::BIGINT, count(*),
                coalesce(sum(w.device_ticks), 0)::BIGINT
            FROM {self.shared("launches")} AS w
            WHERE w.kernel_family = 'communication'
        """
        return self.rows(SmallCollectives._make, query)[0]

    @cached_property
    def lost(self) -> Lost:
        if not self.rows(tuple, "SELECT 1 FROM findings WHERE capture_id = $key AND rule = 'lost kernels'"):
            return Lost(0, 0, None)
        return self.rows(Lost._make, "SELECT launches, lost, call FROM _lost_launches($key)")[0]

    @cached_property
    def has_counters(self) -> bool:
        """Whether the profiler read hardware counters, for which it runs each kernel several times."""
        return bool(self.rows(tuple, "SELECT 1 FROM event_counters AS c WHERE c.capture_id = $key LIMIT 1"))

    @property
    def has_kernels(self) -> bool:
        """Whether fewer than a twentieth of the launches lack a device event; otherwise too much time is missing."""
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
        """The time of kernels whose ops could use tensor cores; 0 if some kernels do, or if the device has none."""
        if not self.setup.has_units or self.setup.uses_units:
            return 0
        query = "SELECT _sum_where(c.kernel_self_ticks, c.is_lowest_eligible) FROM _operator_calls($key) AS c"
        [(ticks,)] = self.rows(tuple, query)
        return ticks or 0

    @cached_property
    def memory(self) -> list[tuple[int, int, int]]:
        """For each device: its number, the most bytes in use, and its memory in bytes."""
        return self.rows(tuple, "SELECT device, bytes, memory_bytes FROM _used_memory($key) ORDER BY device")

    @cached_property
    def compiled(self) -> tuple[int | None, int | None, bool | None]:
        """The time in which torch.compile compiled within the steps that count, the time of these steps, and whether
        there are steps. If there are none, the recording counts as one step.
        """
        compiling = "SELECT 1 FROM signatures AS s WHERE s.capture_id = $key AND _is_compilation(s.purpose) LIMIT 1"
        if not self.rows(tuple, compiling):
            return None, None, None
        query = """
            SELECT sum(c.ticks)::BIGINT, sum(s.end_ticks - s.start_ticks)::BIGINT, bool_or(_is_step_run(r.name))
            FROM (FROM trace_steps AS i WHERE i.capture_id = $key AND i.start_ticks IS NOT NULL) AS s
            JOIN runs AS r USING (capture_id, run_index)
            LEFT JOIN _compiled_ticks($key, 'step') AS c ON c.key = s.run_index
        """
        [(ticks, whole, has_steps)] = self.rows(tuple, query)
        return ticks, whole if has_steps else self.traits.ticks, has_steps

    @cached_property
    def recompilations(self) -> int:
        """How often a function was compiled again."""
        query = "SELECT count(*) FROM compilations($key) AS c WHERE c.recompilation > 0 AND NOT c.is_backward"
        [(count,)] = self.rows(tuple, query)
        return int(count)

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

    def since_start(self, at: int) -> str:
        """Return a moment as the time since the start of the recording."""
        return time((at - self.traits.start_ticks) / 1e3, "us")

    def told_rank(self) -> tuple[str, str | None]:
        """Return the thing on which the rank's collectives spend time.

        It is "rank", with the number of the rank that causes more than half of the waiting, if there is one; otherwise
        "transfer", or "communication" if the traces of other ranks are missing.
        """
        own = self.own_waits
        waited: Counter[int] = Counter()
        for each in own:
            if each.last_rank != each.rank:
                waited[each.last_rank] += each.waited
        if not own:
            return "communication", None
        if sum(waited.values()) < sum(each.transfer for each in own):
            return "transfer", None
        last, ticks = min(waited.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        return "rank", str(last) if 2 * ticks > sum(waited.values()) else None
