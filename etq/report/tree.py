"""Groups the nodes of a graph by module, and finds the place of each node within its group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from etq.report.layers import layered
from etq.report.nested import owners_of

# The most levels of groups; deeper groups count as part of the last level.
MOST_LEVELS: Final = 64


class Group:
    """A module, a nested graph, a node with its nested graphs, or a whole graph. `path` is None for nested graphs and
    for nodes with these. The parent of a whole graph is -1.
    """

    def __init__(self, graph_id: int, parent: int, name: str, path: str | None, module_class: str | None) -> None:
        self.graph_id = graph_id
        self.parent = parent
        self.name = name
        self.path = path
        self.module_class = module_class


class Links:
    """Edges of a group, by the positions of its children: between children, from outside, and to outside."""

    def __init__(self) -> None:
        self.edges: set[tuple[int, int]] = set()
        self.entries: dict[int, set[int]] = defaultdict(set)
        self.exits: set[int] = set()


class Tree:
    """Nodes grouped by module: `parents` has the group of each node, `groups` the groups, each after its parent."""

    def __init__(
        self,
        keys: Sequence[tuple[int, int]],
        subgraphs: Sequence[str],
        levels: Sequence[tuple[int, int, str, str]],
        ops: Sequence[str],
    ) -> None:
        """Group the nodes of `keys` (graph, node) by rows of `levels` (graph, node, path, class), outermost first.

        ops  the names of nodes with nested graphs; such a node and its graphs form a group
        """
        chains: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
        for graph_id, node_index, path, module_class in levels:
            chains[graph_id, node_index].append((path, module_class))
        self.groups: list[Group] = []
        self.parents: list[int] = []
        self._depths: list[int] = []
        self._known: dict[tuple[int, str | None, str | int], int] = {}
        owners = owners_of(keys, subgraphs)
        are_owners = set(owners.values())
        roots: dict[int, int] = {}
        for number, (key, subgraph) in enumerate(zip(keys, subgraphs, strict=True)):
            chain = chains.get(key, [])
            owner = owners.get(number)
            if key[0] not in roots:
                model = next((kind for path, kind in chain if path == ""), None)
                roots[key[0]] = self._added(Group(key[0], -1, "", "", model))
            if owner is None:
                at = self._within_modules(roots[key[0]], chain)
                for name in subgraph.split("/") if subgraph else ():
                    at = self._within(at, name, name)
            else:
                # A nested graph's modules lie within the modules of its node.
                around = {path for path, _ in chains.get(keys[owner], [])}
                at = self._within(self.parents[owner], subgraph, subgraph.rpartition("/")[2])
                at = self._within_modules(at, [each for each in chain if each[0] not in around])
            if number in are_owners:
                at = self._within(at, number, ops[number])
            self.parents.append(at)

    def _within_modules(self, at: int, chain: Sequence[tuple[str, str]]) -> int:
        """Return the group of the innermost of these modules, within a given group."""
        for path, module_class in chain:
            around = at
            while self.groups[around].path is None:
                around = self.groups[around].parent
            outer = self.groups[around].path
            if path in ("", outer):
                continue
            name = path.removeprefix(f"{outer}.") if outer else path
            at = self._within(at, path, name, path, module_class)
        return at

    def _within(
        self, at: int, key: str | int, name: str, path: str | None = None, module_class: str | None = None
    ) -> int:
        """Return the group of a key within a group, or the latter if the levels are too deep."""
        if self._depths[at] >= MOST_LEVELS - 1:
            return at
        if (at, path, key) not in self._known:
            self._known[at, path, key] = self._added(Group(self.groups[at].graph_id, at, name, path, module_class))
        return self._known[at, path, key]

    def _added(self, group: Group) -> int:
        self.groups.append(group)
        self._depths.append(0 if group.parent < 0 else self._depths[group.parent] + 1)
        return len(self.groups) - 1

    def placed(self, edges: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[tuple[int, ...]]]:
        """Return the rank and order of each node and group among its parent's children, and bends: group, owner, rank,
        order. The edges of a group are those between nodes of its children.
        """
        above = [*self.parents, *(group.parent for group in self.groups)]
        children = self._children(above)
        links = self._links(above, children, edges)
        places = [(0, 0)] * len(above)
        bends: list[tuple[int, ...]] = []
        for group, (siblings, link) in enumerate(zip(children, links, strict=True)):
            makers = sorted(link.entries)
            users = [link.entries[maker] for maker in makers]
            layers = layered(len(siblings), link.edges, users, sorted(link.exits))
            for child, rank, order in zip(siblings, layers.ranks, layers.orders, strict=True):
                places[child] = (rank, order)
            owners = [*siblings, *makers]
            bends += [(group, owners[owner], rank, order) for owner, rank, order in layers.bends]
        return places, bends

    def _children(self, above: Sequence[int]) -> list[list[int]]:
        """Return the children of each group in the order of their first node. This is the program's order, which is
        used if edges don't decide.
        """
        children: list[list[int]] = [[] for _ in self.groups]
        seen = [False] * len(self.groups)
        for node in range(len(self.parents)):
            child = node
            while (parent := above[child]) >= 0:
                children[parent].append(child)
                if seen[parent]:
                    break
                seen[parent] = True
                child = len(self.parents) + parent
        return children

    def _links(
        self, above: Sequence[int], children: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]
    ) -> list[Links]:
        """Return the edges that connect the children of each group."""
        count = len(self.parents)
        depths = [0] * len(self.groups)
        for number, group in enumerate(self.groups):
            depths[number] = depths[group.parent] + 1 if group.parent >= 0 else 0
        index = [0] * len(above)
        for siblings in children:
            for at, child in enumerate(siblings):
                index[child] = at
        links = [Links() for _ in self.groups]
        for maker, user in edges:
            one, other = maker, user
            while (upper := above[one]) != (lower := above[other]):
                if depths[upper] >= depths[lower]:
                    links[upper].exits.add(index[one])
                    one = count + upper
                else:
                    links[lower].entries[maker].add(index[other])
                    other = count + lower
            if one != other:
                links[upper].edges.add((index[one], index[other]))
        return links
