"""Where the boxes of a graph are, from ranks and orders: as the page places them (graph_places.js), for files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

# Between boxes of a row, between rows, around the content of a module, height of its title, width of a bend.
ACROSS: Final = 14
DOWN: Final = 24
INNER: Final = 12
TITLE: Final = 22
BEND: Final = 8


class Line(NamedTuple):
    """An edge between two boxes, with the points that it passes: x, top y, bottom y."""

    start: int
    end: int
    points: list[tuple[float, float, float]]


class Places:
    """Places of all items: nodes, then groups, then bends, in one numbering.

    `x`, `y`, `width` and `height` are valid for `visible` (boxes) and `frames` (open groups) after `place`.
    """

    def __init__(
        self,
        nodes: Sequence[dict[str, Any]],
        groups: Sequence[dict[str, Any]],
        edges: Sequence[dict[str, Any]],
        bends: Sequence[dict[str, Any]],
    ) -> None:
        """Take the rows of `graph_rows`."""
        self.count = len(nodes)
        self.all = len(nodes) + len(groups)
        total = self.all + len(bends)
        self.parent = [each["parent"] for each in (*nodes, *groups)] + [each["group"] for each in bends]
        rank = [each["rank"] for each in (*nodes, *groups, *bends)]
        order = [each["order"] for each in (*nodes, *groups, *bends)]
        self.depth = [0] * self.all
        for item in (*range(self.count, self.all), *range(self.count)):
            if self.parent[item] >= 0:
                self.depth[item] = self.depth[self.count + self.parent[item]] + 1
        # Bends of one owner in a group follow each other, from rank to rank.
        self.bends: list[dict[int, list[int]]] = [{} for _ in groups]
        for item, bend in enumerate(bends, self.all):
            self.bends[bend["group"]].setdefault(bend["owner"], []).append(item)
        self.rows: list[list[list[int]]] = [[] for _ in groups]
        for item in sorted((each for each in range(total) if self.parent[each] >= 0), key=order.__getitem__):
            rows = self.rows[self.parent[item]]
            rows.extend([] for _ in range(rank[item] + 1 - len(rows)))
            rows[rank[item]].append(item)
        self.rank = rank
        self.upper: dict[int, dict[int, None]] = {}
        self.lower: dict[int, dict[int, None]] = {}
        self.edges: list[tuple[int, int, int, int]] = []
        for edge in edges:
            self._join(edge["maker"], edge["user"])
        self.x, self.y, self.width, self.height = ([0.0] * total for _ in range(4))
        self.open: set[int] = set()
        self.visible: list[int] = []
        self.frames: list[int] = []

    def _join(self, maker: int, user: int) -> None:
        one, other = self._siblings(maker, user)
        self.edges.append((maker, user, one, other))
        for item in self._outward(maker, one):
            self._pass([item, *self._way_out(item)])
        self._pass([one, *self._way(one, other), other])
        for item in self._outward(user, other):
            self._pass([*self._way_in(maker, item), item])

    def _pass(self, way: Sequence[int]) -> None:
        for one, other in pairwise(way):
            self.lower.setdefault(one, {})[other] = None
            self.upper.setdefault(other, {})[one] = None

    def _outward(self, item: int, end: int) -> list[int]:
        """Return an item and the groups that contain it, up to `end`, which is excluded."""
        found = []
        while item != end:
            found.append(item)
            item = self.count + self.parent[item]
        return found

    def _siblings(self, one: int, other: int) -> tuple[int, int]:
        """Return the two that contain the ends of an edge, or are them, and have one parent."""
        while self.parent[one] != self.parent[other]:
            if self.depth[one] >= self.depth[other]:
                one = self.count + self.parent[one]
            else:
                other = self.count + self.parent[other]
        return one, other

    def _way(self, one: int, other: int) -> list[int]:
        return self._passed(self.parent[one], one, self.rank[other] - self.rank[one] - 1)

    def _way_out(self, item: int) -> list[int]:
        return self._passed(self.parent[item], item, len(self.rows[self.parent[item]]) - self.rank[item] - 1)

    def _way_in(self, maker: int, item: int) -> list[int]:
        return self._passed(self.parent[item], maker, self.rank[item])

    def _passed(self, group: int, owner: int, number: int) -> list[int]:
        return self.bends[group].get(owner, [])[: max(0, number)]

    def is_open(self, item: int) -> bool:
        """Whether an item is a group whose content is shown."""
        return self.count <= item < self.all and item - self.count in self.open

    def open_to(self, level: int | None) -> None:
        """Open groups down to a level: 1 opens whole graphs only, None everything."""
        self.open = {
            item - self.count for item in range(self.count, self.all) if level is None or self.depth[item] < level
        }

    def shown(self, item: int) -> int:
        """Return the box that shows a node: its own, or that of the outermost closed group that contains it."""
        found, at = item, self.parent[item]
        while at >= 0:
            if at not in self.open:
                found = self.count + at
            at = self.parent[self.count + at]
        return found

    def place(self, root: int, size_of: Callable[[int], tuple[float, float]]) -> None:
        """Place what is open of the graph of the item `root`, from (0, 0) on; `size_of` returns sizes of boxes."""
        self.visible, self.frames = [], []
        self._place_group(root, size_of)
        self._put(root, 0.0, 0.0)

    def _place_group(self, item: int, size_of: Callable[[int], tuple[float, float]]) -> None:
        rows = self.rows[item - self.count]
        for row in rows:
            for each in row:
                if self.is_open(each):
                    self._place_group(each, size_of)
                else:
                    self.width[each], self.height[each] = size_of(each) if each < self.all else (BEND, 0.0)
        for row, neighbours in (
            *((row, None) for row in rows),
            *((row, self.upper) for row in rows[1:]),
            *((row, self.lower) for row in rows[-2::-1]),
            *((row, self.upper) for row in rows[1:]),
        ):
            self._spread(row, neighbours)
        y = float(TITLE + INNER)
        for row in rows:
            high = max((self.height[each] for each in row), default=0.0)
            for each in row:
                self.y[each] = y + (high - self.height[each]) / 2
                if each >= self.all:
                    self.y[each], self.height[each] = y, high
            y += high + DOWN
        left = min((self.x[each] - self.width[each] / 2 for row in rows for each in row), default=0.0)
        right = max((self.x[each] + self.width[each] / 2 for row in rows for each in row), default=0.0)
        wide = max(right - left, size_of(item)[0])
        shift = INNER - left + (wide - (right - left)) / 2
        for row in rows:
            for each in row:
                self.x[each] += shift - self.width[each] / 2
        self.width[item] = wide + 2 * INNER
        self.height[item] = y - DOWN + INNER

    def _spread(self, row: Sequence[int], neighbours: dict[int, dict[int, None]] | None) -> None:
        """Place a row as near to its neighbours in one direction as its order allows: by least squares."""
        # Of each block of items that touch: sum of weighted wishes, weight, number of items.
        blocks: list[tuple[float, float, int]] = []
        offsets = []
        offset = 0.0
        for at, item in enumerate(row):
            if at:
                offset += (self.width[row[at - 1]] + self.width[item]) / 2 + ACROSS
            offsets.append(offset)
            others = () if neighbours is None else neighbours.get(item, ())
            if neighbours is None:
                wish = 0.0
            elif others:
                wish = sum(self.x[other] / len(others) for other in others)
            else:
                wish = self.x[item]
            weight = 0.01 if neighbours is not None and not others else 1.0
            block = ((wish - offset) * weight, weight, 1)
            while blocks and blocks[-1][0] / blocks[-1][1] > block[0] / block[1]:
                last = blocks.pop()
                block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
            blocks.append(block)
        at = 0
        for total, weight, number in blocks:
            for item in row[at : at + number]:
                self.x[item] = total / weight + offsets[at]
                at += 1

    def _put(self, item: int, x: float, y: float) -> None:
        self.x[item], self.y[item] = x, y
        if not self.is_open(item):
            if item < self.all:
                self.visible.append(item)
            return
        self.frames.append(item)
        for row in self.rows[item - self.count]:
            for each in row:
                self._put(each, x + self.x[each], y + self.y[each])

    def lines(self, root: int) -> list[Line]:
        """Return the edges between what is visible of a graph, each once."""
        found = []
        known = set()
        for maker, user, one, other in self.edges:
            start, end = self.shown(maker), self.shown(user)
            if start == end or (start, end) in known or self._root(maker) != root:
                continue
            known.add((start, end))
            passed = [bend for item in self._outward(start, one) for bend in self._way_out(item)]
            passed += self._way(one, other)
            for item in reversed(self._outward(end, other)):
                passed += self._way_in(maker, item)
            bottom = self.y[start] + self.height[start]
            points = [(self._middle(start), bottom, bottom)]
            points += [(self._middle(bend), self.y[bend], self.y[bend] + self.height[bend]) for bend in passed]
            points.append((self._middle(end), self.y[end], self.y[end]))
            found.append(Line(start, end, points))
        return found

    def _middle(self, item: int) -> float:
        return self.x[item] + self.width[item] / 2

    def _root(self, item: int) -> int:
        while self.parent[item] >= 0:
            item = self.count + self.parent[item]
        return item
