"""Layered order of a directed graph: a rank for each vertex, an order within each rank, and bends of long edges.

This is the method of Sugiyama: edges that close a cycle are reversed, a vertex's rank is the longest path to it, and
sweeps by barycentre reduce crossings. A page positions boxes itself, because their sizes change when modules open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# The number of sweeps over all ranks, downward and upward in turn. More sweeps hardly reduce crossings further.
SWEEPS: Final = 8
# Long edges get bends, the shortest edge first, up to this number of bends per vertex.
MOST_BENDS: Final = 3


@dataclass(frozen=True)
class Layers:
    """The places of the vertices 0, 1, ... of a graph.

    ranks   the rank of each vertex, from 0
    orders  its position within its rank, from 0; bends count
    bends   places of edges that lead beyond the next rank, in the ranks that they pass, as (owner, rank, order). The
            owner is the vertex where these edges start; for entry i it is `count` + i
    """

    ranks: list[int]
    orders: list[int]
    bends: list[tuple[int, int, int]]


def layered(
    count: int, edges: Iterable[tuple[int, int]], entries: Sequence[Iterable[int]] = (), exits: Iterable[int] = ()
) -> Layers:
    """Return the layers of a graph of `count` vertices. Each edge leads to a later rank, except some within cycles.

    The time is linear in vertices and edges, except for sorting within ranks. The result depends only on the arguments.

    entries  for each value from outside the graph, the vertices that use it; the edges to these come from above
    exits    vertices with edges that leave the graph, at its lower end
    """
    below = _acyclic(count, sorted({(one, other) for one, other in edges if one != other}))
    ranks = _ranks(below)
    last = [max((ranks[other] for other in others), default=rank) for rank, others in zip(ranks, below, strict=True)]
    lowest = max(ranks, default=-1)
    for vertex in exits:
        last[vertex] = lowest + 1
    # An entry is treated as a vertex above all other vertices that gets no place.
    for users in entries:
        below.append(sorted(users))
        ranks.append(-1)
        last.append(max((ranks[user] for user in below[-1]), default=-1))
    bent = _bent(ranks, last, MOST_BENDS * count)

    places = [(vertex, rank) for vertex in bent for rank in range(ranks[vertex] + 1, last[vertex])]
    first_bend: dict[int, int] = {}
    for at, (vertex, _) in enumerate(places, len(ranks)):
        first_bend.setdefault(vertex, at)
    all_ranks = [*ranks, *(rank for _, rank in places)]
    neighbours: list[tuple[list[int], list[int]]] = [([], []) for _ in all_ranks]

    def join(upper: int, lower: int) -> None:
        if all_ranks[upper] >= 0:
            neighbours[lower][0].append(upper)
            neighbours[upper][1].append(lower)

    for vertex, others in enumerate(below):
        bend = first_bend.get(vertex)
        if bend is not None:
            join(vertex, bend)
            for at in range(bend, bend + last[vertex] - ranks[vertex] - 2):
                join(at, at + 1)
        for other in others:
            length = ranks[other] - ranks[vertex]
            join(vertex if bend is None or length == 1 else bend + length - 2, other)
    orders = _orders(all_ranks, neighbours)
    bends = [(vertex, rank, orders[at]) for at, (vertex, rank) in enumerate(places, len(ranks))]
    return Layers(ranks[:count], orders[:count], bends)


def _acyclic(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Return the successors of each vertex, with edges that close a cycle reversed."""
    after: list[list[int]] = [[] for _ in range(count)]
    for one, other in edges:
        after[one].append(other)
    below: list[set[int]] = [set() for _ in range(count)]
    entered, left = [False] * count, [False] * count
    for start in range(count):
        if entered[start]:
            continue
        entered[start] = True
        path = [(start, iter(after[start]))]
        while path:
            vertex, others = path[-1]
            for other in others:
                if entered[other] and not left[other]:
                    below[other].add(vertex)
                    continue
                below[vertex].add(other)
                if not entered[other]:
                    entered[other] = True
                    path.append((other, iter(after[other])))
                    break
            else:
                left[vertex] = True
                path.pop()
    return [sorted(others) for others in below]


def _ranks(below: Sequence[Sequence[int]]) -> list[int]:
    """Return the length of the longest path to each vertex; vertices without predecessors are right above their
    users.
    """
    above = [0] * len(below)
    for others in below:
        for other in others:
            above[other] += 1
    ready = [vertex for vertex, number in enumerate(above) if not number]
    sources = tuple(ready)
    ranks = [0] * len(below)
    for vertex in ready:
        for other in below[vertex]:
            ranks[other] = max(ranks[other], ranks[vertex] + 1)
            above[other] -= 1
            if not above[other]:
                ready.append(other)
    for vertex in sources:
        if below[vertex]:
            ranks[vertex] = min(ranks[other] for other in below[vertex]) - 1
    return ranks


def _bent(ranks: Sequence[int], last: Sequence[int], left: int) -> list[int]:
    """Return the vertices whose long edges get bends, `left` at most."""
    kept = []
    for length, vertex in sorted((last[vertex] - rank - 1, vertex) for vertex, rank in enumerate(ranks)):
        if length > left:
            break
        if length > 0:
            left -= length
            kept.append(vertex)
    return sorted(kept)


def _orders(ranks: Sequence[int], neighbours: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[int]:
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for vertex, rank in enumerate(ranks):
        if rank >= 0:
            rows[rank].append(vertex)
    # Positions are relative to the middle of the row, so that they can be compared between rows of different lengths.
    places = [0.0] * len(ranks)
    orders = [0] * len(ranks)

    def place(row: Sequence[int]) -> None:
        for at, vertex in enumerate(row):
            orders[vertex] = at
            places[vertex] = at - (len(row) - 1) / 2

    for row in rows:
        place(row)
    for sweep in range(SWEEPS):
        side = sweep % 2
        for row in rows if side == 0 else reversed(rows):
            if len(row) > 1:
                centres = {}
                for vertex in row:
                    others = neighbours[vertex][side]
                    centres[vertex] = sum(places[other] for other in others) / len(others) if others else places[vertex]
                row.sort(key=lambda vertex: (centres[vertex], orders[vertex]))
                place(row)
    return orders
