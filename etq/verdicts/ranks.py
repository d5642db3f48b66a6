"""Decides which ranks of a job are late, and which of its links are slow, by more than chance."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import comb
from statistics import median
from typing import Final, NamedTuple

# The probability that a rank or a group is named although none differs.
ALPHA: Final = 0.05
# The smallest ratio of a slow group's transfer times to those of other groups: within one kind of topology, they differ
# by less.
_SLOWER: Final = 1.25


class Late(NamedTuple):
    """A rank that others wait for.

    rank    the rank
    waited  how long the others waited for it, in sum
    steps   the number of steps in which they waited longest for it, among the ranks not named earlier
    of      the number of steps in which it was compared
    p       the probability that by chance any rank is last in as many steps, if all are equally likely
    """

    rank: int
    waited: int
    steps: int
    of: int
    p: float


class Slow(NamedTuple):
    """A process group whose transfers take longer than those of other groups of its size, with the same messages.

    times   the median of its times, and the median of the other groups' times
    longer  the number of its transfers that take longer than the others' median, and the number of all its transfers
    p       the probability that any group has that many by chance
    """

    group: str
    times: tuple[float, float]
    longer: tuple[int, int]
    p: float


def late_ranks(waits: Collection[Mapping[int, int]], ranks: Collection[int], least: float) -> list[Late]:
    """Return the ranks that others wait for, for at least the time `least`, the longest first. Each rank is tested
    against the remaining ranks. The last rank that is returned may be late by chance, which its `p` shows; no rank
    after it is returned.

    waits  for each step, how long the others waited for each rank; empty for a step without waits
    """
    found: list[Late] = []
    left = set(ranks)
    while len(left) > 1:
        totals = {rank: sum(of_step.get(rank, 0) for of_step in waits) for rank in left}
        rank = min(totals, key=lambda each: (-totals[each], each))
        if totals[rank] <= 0 or totals[rank] < least:
            break
        most = [_most(of_step, left) for of_step in waits]
        steps = most.count(rank)
        p = min(1.0, len(left) * at_least(steps, len(most), 1 / len(left)))
        found.append(Late(rank, totals[rank], steps, len(most), p))
        if p > ALPHA:
            break
        left.remove(rank)
    return found


def _most(waits: Mapping[int, int], ranks: Collection[int]) -> int | None:
    """The rank among these that is waited for longest; None if none is waited for."""
    among = {rank: ticks for rank, ticks in waits.items() if rank in ranks and ticks > 0}
    return min(among, key=lambda rank: (-among[rank], rank)) if among else None


def slow_groups(transfers: Mapping[str, Sequence[float]]) -> list[Slow]:
    """Return the groups whose transfers take longer than the other groups' transfers, the slowest first.

    transfers  the times of the calls of each group, all of one collective, message and number of ranks
    """
    found = []
    for group, times in transfers.items():
        others = [time for other, of_other in transfers.items() if other != group for time in of_other]
        if not times or not others:
            continue
        middle = median(others)
        longer = sum(time > middle for time in times)
        p = min(1.0, len(transfers) * at_least(longer, len(times), 0.5))
        if median(times) >= _SLOWER * middle > 0 and p <= ALPHA:
            found.append(Slow(group, (median(times), middle), (longer, len(times)), p))
    return sorted(found, key=lambda each: (-each.times[0] / each.times[1], each.group))


def at_least(times: int, of: int, probability: float) -> float:
    """Return the probability that an event of this probability happens at least `times` times."""
    return float(sum(comb(of, k) * probability**k * (1 - probability) ** (of - k) for k in range(times, of + 1)))
