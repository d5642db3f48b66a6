"""Ranks and orders of layered graphs, on generated ones, against plain definitions."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from etq.report.layers import MOST_BENDS, Layers, layered


def acyclic(count: int, number: int, seed: int, reach: int = 30) -> list[tuple[int, int]]:
    """Edges from smaller to larger vertices, `number` to a vertex, over `reach` at most."""
    made = random.Random(seed)
    pairs = ((made.randrange(max(0, each - reach), each), each) for each in range(1, count) for _ in range(number))
    return sorted(set(pairs))


def check(layers: Layers, count: int) -> None:
    """Each rank from 0 on has positions 0, 1, ... without gaps, bends included."""
    assert len(layers.ranks) == len(layers.orders) == count
    rows: dict[int, list[int]] = {}
    for rank, order in [*zip(layers.ranks, layers.orders, strict=True), *((rank, at) for _, rank, at in layers.bends)]:
        rows.setdefault(rank, []).append(order)
    assert sorted(rows) == list(range(len(rows)))
    assert all(sorted(row) == list(range(len(row))) for row in rows.values())
    assert len(layers.bends) <= MOST_BENDS * count


def test_every_edge_goes_to_a_later_rank() -> None:
    edges = acyclic(200, 2, 1)
    layers = layered(200, edges)
    check(layers, 200)
    assert all(layers.ranks[one] < layers.ranks[other] for one, other in edges)
    assert layered(200, reversed(edges)) == layers


def test_a_rank_is_the_longest_path() -> None:
    """The exception: vertices without predecessors are directly above the first vertex that uses them."""
    edges = acyclic(120, 2, 7)
    longest = [0] * 120
    for other in range(120):
        longest[other] = max((longest[one] + 1 for one, end in edges if end == other), default=0)
    ranks = layered(120, edges).ranks
    sources = set(range(120)) - {other for _, other in edges}
    assert all(ranks[each] == longest[each] for each in range(120) if each not in sources)
    for source in sources:
        assert ranks[source] == min((ranks[other] for one, other in edges if one == source), default=1) - 1


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=60))
def test_cycles_are_cut(edges: list[tuple[int, int]]) -> None:
    """The ranks of any graph are those of the graph with some edges of its cycles reversed; no edge is left out."""
    layers = layered(20, edges)
    check(layers, 20)
    forward = {(one, other) for one, other in edges if layers.ranks[one] < layers.ranks[other]}
    after: dict[int, set[int]] = {each: set() for each in range(20)}
    for one, other in edges:
        after[one].add(other)
    for one, other in set(edges) - forward:
        assert one == other or layers.ranks[one] > layers.ranks[other]
        reached: set[int] = set()
        new = {other}
        while new:
            reached |= new
            new = {each for vertex in new for each in after[vertex]} - reached
        assert one in reached, "an edge goes upward that closes no cycle"


def test_values_from_outside_and_to_outside_have_bends() -> None:
    """A value that only the last vertex takes passes the others; so does one that is used outside."""
    layers = layered(3, [(0, 1), (1, 2)], entries=[[0], [2]], exits=[0])
    check(layers, 3)
    assert layers.ranks == [0, 1, 2]
    assert [(owner, rank) for owner, rank, _ in layers.bends] == [(0, 1), (0, 2), (4, 0), (4, 1)]
