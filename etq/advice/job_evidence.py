"""The evidence about a job: rows of the views of its ranks, in ns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import duckdb

Row = TypeVar("Row")
_CALLS: Final = "_etq_job_calls"
_STEPS: Final = "_etq_job_steps"


class Ranks(NamedTuple):
    """Columns of the view `jobs` about a job."""

    job: str | None
    ranks: int
    world_size: int | None
    missing_ranks: str | None
    steps: int | None
    step: float | None
    waited_percent: float | None
    exposed_percent: float | None
    waited_by: str | None


class Link(NamedTuple):
    """The calls of a process group for one collective and message. The time of a call is its longest transfer;
    `percent` is the median share of the link's rate that the calls reach.
    """

    collective: str
    message_type: str | None
    message_bytes: int | None
    group_size: int | None
    group: str
    ranks: Sequence[int]
    transfers: Sequence[float]
    percent: float | None


class Part(NamedTuple):
    """A part of the step, or a kernel or op, on which a rank spends more time than other ranks, as in the view
    `rank_ops`.
    """

    place: str | None
    name: str
    per_step: float
    others: float
    excess: float


class Clock(NamedTuple):
    """How far a rank's clock is ahead of the job's median, and how much this difference varies between collectives."""

    rank: int
    offset: float
    spread: float


def _passed_on(pairs: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Return the waits of a step, by the rank that waits and the rank that causes the wait. If the last rank itself
    waited in the step, others' waits for it are attributed, up to that time, to the ranks that it waited for.
    """
    own: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (rank, last), ticks in pairs.items():
        own[rank][last] = ticks
    found: Counter[tuple[int, int]] = Counter()
    for (rank, last), ticks in pairs.items():
        before = own.get(last, {})
        spent = sum(before.values())
        passed = min(ticks, spent)
        found[rank, last] += ticks - passed
        for other, waited in before.items():
            if other != rank:  # a rank doesn't wait for itself
                found[rank, other] += passed * waited // spent
    return {pair: ticks for pair, ticks in found.items() if ticks > 0}


class Rank(NamedTuple):
    """How a rank spends a step, as means of its steps in ns; None if unknown. `waited_for` is the mean time that
    another rank waits for this one; `steps` is the number of steps whose waits are known, `last` the number of those in
    which the other ranks wait longest for it.
    """

    rank: int
    step: float
    computation: float
    exposed: float | None
    waited: float | None
    transfer: float | None
    steps: int
    waited_for: float | None
    last: int
    clock: Clock | None


def foremost(ranks: Sequence[Rank], most: int) -> list[Rank]:
    """Return at most `most` ranks: half of them the ranks that others wait for longest, half the ranks that wait
    longest.
    """
    if len(ranks) <= most:
        return [*ranks]
    late = sorted(ranks, key=lambda rank: (-(rank.waited_for or 0), rank.rank))[: most // 2]
    waiting = sorted((rank for rank in ranks if rank not in late), key=lambda rank: (-(rank.waited or 0), rank.rank))
    return [*late, *waiting[: most // 2]]


class JobEvidence:
    """The evidence about the job that a selector chooses, or about the only job of a database."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, selector: str | None) -> None:
        self._connection, self._selector = connection, selector

    def rows(self, make: Callable[[Iterable[Any]], Row], query: str, **values: Any) -> list[Row]:
        """Return the rows of a query, in which `$selector` is the job's selector."""
        given = {"selector": self._selector} if "$selector" in query else {}
        return [make(row) for row in self._connection.execute(query, {**given, **values}).fetchall()]

    @cached_property
    def of_job(self) -> Ranks | None:
        """The job's row of the view `jobs`; None if no capture is of a rank."""
        query = f"SELECT {', '.join(f'j.{name}' for name in Ranks._fields)} FROM jobs($selector, unit := 'ns') AS j"
        return next(iter(self.rows(Ranks._make, query)), None)

    @property
    def is_by_clocks(self) -> bool:
        """Whether waits are known by aligned clocks."""
        return self.of_job is not None and self.of_job.waited_by == "clocks"

    @cached_property
    def ticks(self) -> dict[int, int]:
        """The time of the steps of each rank whose waits are known."""
        query = f"SELECT rank, sum(duration)::BIGINT FROM {self._steps} WHERE waited IS NOT NULL GROUP BY ALL"
        return dict(self.rows(tuple, query))

    @cached_property
    def waits(self) -> dict[int | None, dict[int, int]]:
        """How long other ranks waited for a rank, by step. All steps whose waits are known are included."""
        found: dict[int | None, dict[int, int]] = {}
        for step, pairs in self._pairs.items():
            of_step = found[step] = {}
            for (_, last), ticks in pairs.items():
                of_step[last] = of_step.get(last, 0) + ticks
        return found

    @cached_property
    def waiting(self) -> dict[int, int]:
        """For each rank that others wait for, the number of these others."""
        if not self.is_by_clocks:
            return dict.fromkeys(self.ticks, max(len(self.ticks) - 1, 1))
        return Counter(last for _, last in {pair for pairs in self._pairs.values() for pair in pairs})

    @cached_property
    def _pairs(self) -> dict[int | None, dict[tuple[int, int], int]]:
        """How long a rank waits for another, by step and pair of ranks. If the awaited rank itself waited in the step,
        the cause is the rank that it waited for, see `_passed_on`.
        """
        direct: dict[int | None, dict[tuple[int, int], int]] = {
            step: {}
            for (step,) in self.rows(tuple, f"SELECT DISTINCT step FROM {self._steps} WHERE waited IS NOT NULL")
        }
        query = f"""
            SELECT c.step, c.rank, c.last_rank, sum(c.waited)::BIGINT FROM {self._calls} AS c
            WHERE c.rank <> c.last_rank AND c.waited > 0 GROUP BY ALL
        """
        if not self.is_by_clocks:
            query = f"""
                SELECT s.step, s.rank, s.waits_for, s.waited::BIGINT FROM {self._steps} AS s
                WHERE s.rank <> s.waits_for AND s.waited > 0
            """
        for step, rank, last, waited in self.rows(tuple, query):
            if step in direct:
                direct[step][rank, last] = waited
        return {step: _passed_on(pairs) for step, pairs in direct.items()}

    @cached_property
    def links(self) -> list[Link]:
        """The links with known transfer times."""
        query = f"""
            SELECT c.collective, c.message_type, c.message_bytes, c.group_size, c.process_group,
                list_sort(list_distinct(flatten(list(c.ranks)))), list(c.transfer ORDER BY c.step, c.number),
                median(c.link_percent)
            FROM (
                SELECT i.collective, i.message_type, i.message_bytes, i.group_size, i.process_group, i.step, i.number,
                    list(i.rank) AS ranks, max(i.transfer) AS transfer, min(i.link_percent) AS link_percent
                FROM {self._calls} AS i
                WHERE i.transfer IS NOT NULL
                GROUP BY ALL
            ) AS c
            GROUP BY ALL ORDER BY ALL
        """
        return self.rows(Link._make, query)

    @cached_property
    def by_rank(self) -> list[Rank]:
        """The ranks in order."""
        query = f"""
            SELECT s.rank, avg(s.duration), avg(s.computation), avg(s.exposed), avg(s.waited), avg(s.transfer),
                count(s.waited)
            FROM {self._steps} AS s GROUP BY s.rank ORDER BY s.rank
        """
        clocks = {clock.rank: clock for clock in self.clocks}
        most = Counter(max(of_step, key=of_step.__getitem__) for of_step in self.waits.values() if of_step)
        is_known = self.of_job is not None and self.of_job.waited_by is not None
        return [
            Rank(
                *(rank, step, computation, exposed, waited, transfer, steps),
                waited_for=self._waited_for(rank, steps) if is_known else None,
                last=most[rank],
                clock=clocks.get(rank),
            )
            for rank, step, computation, exposed, waited, transfer, steps in self.rows(tuple, query)
        ]

    def _waited_for(self, rank: int, steps: int) -> float:
        waited = sum(of_step.get(rank, 0) for of_step in self.waits.values())
        return waited / max(self.waiting.get(rank, 1), 1) / max(steps, 1)

    @cached_property
    def clocks(self) -> list[Clock]:
        """The clocks that are known."""
        query = """
            SELECT c.rank, c.clock_offset, c.spread FROM clock_offsets($selector, unit := 'ns') AS c
            WHERE c.clock_offset IS NOT NULL ORDER BY c.rank
        """
        return self.rows(Clock._make, query)

    def beyond(self, rank: int, by: str) -> list[Part]:
        """Return the things on which a rank spends more time in its steps than the other ranks, the largest excess
        first.

        As in the view `rank_ops`, `by` chooses between parts of the step and kernels and ops.
        """
        query = """
            SELECT o.place, o.op, o.per_step, o.others, o.excess
            FROM rank_ops($selector, unit := 'ns', "by" := $by) AS o
            WHERE o.rank = $rank AND o.others IS NOT NULL
            ORDER BY o.excess DESC, o.op
        """
        return self.rows(Part._make, query, rank=rank, by=by)

    @cached_property
    def _calls(self) -> str:
        columns = "step, number, rank, last_rank, collective, process_group, message_type, message_bytes, group_size"
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_CALLS} AS SELECT {columns}, waited, transfer, link_percent "
            "FROM collective_waits($selector, \"by\" := 'call', unit := 'ns') WHERE waited IS NOT NULL",
            {"selector": self._selector},
        )
        return _CALLS

    @cached_property
    def _steps(self) -> str:
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_STEPS} AS SELECT step, rank, duration, computation, exposed, waited, "
            "transfer, waits_for FROM rank_steps($selector, unit := 'ns')",
            {"selector": self._selector},
        )
        return _STEPS

    def drop(self) -> None:
        """Drop the temporary tables."""
        for name in (_CALLS, _STEPS):
            with suppress(duckdb.Error):  # a failed transaction drops it by itself
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
