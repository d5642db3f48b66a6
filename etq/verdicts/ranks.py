"""Which rank of a job is late, and which of its links is slow, more than by chance."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import comb
from statistics import median
from typing import Final, NamedTuple

# The probability with which any rank, or any group, is named where none differs from others.
ALPHA: Final = 0.05
# How much longer than those of other groups transfers take at least: topologies of one kind differ by less.
_SLOWER: Final = 1.25


class Late(NamedTuple):
    """A rank that others wait for.

    rank    the rank
    waited  how long the others waited for it, all together
    steps   the number of steps in which they waited for it longest, of the ranks not named before it
    of      the number of steps
    p       the probability that any rank is that in as many steps by chance, if each is equally likely to be last
    """

    rank: int
    waited: int
    steps: int
    of: int
    p: float


class Slow(NamedTuple):
    """A process group whose transfers take longer than those of other groups of its size, with the same messages.

    times   its median, and that of the others
    longer  the number of its transfers that take longer than that of the others, and of all
    p       the probability that those of any group are as many by chance
    """

    group: str
    times: tuple[float, float]
    longer: tuple[int, int]
    p: float


def late_ranks(waits: Collection[Mapping[int, int]], ranks: Collection[int], least: float) -> list[Late]:
    """Return the ranks that others wait for, for at least the time `least`, that longest first; each is told from those
    that are left. The last one may be so by chance, as its `p` tells; then none follows.

    waits  how long the others waited for a rank, by rank, of each step; of a step without waits, nothing
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
    """The rank of these that is waited for longest; None if none is."""
    among = {rank: ticks for rank, ticks in waits.items() if rank in ranks and ticks > 0}
    return min(among, key=lambda rank: (-among[rank], rank)) if among else None


def slow_groups(transfers: Mapping[str, Sequence[float]]) -> list[Slow]:
    """Return the groups whose transfers take longer than those of the others, the slowest first.

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
    """Return the probability that something of this probability happens at least so many times of all."""
    return float(sum(comb(of, k) * probability**k * (1 - probability) ** (of - k) for k in range(times, of + 1)))
