"""Graphs of control flow: their connections with nodes around them, by hand from the records' JSON."""

from __future__ import annotations

from typing import Any, cast

import pytest

from etq.report.graph import EXPORTED
from etq.report.nested import ARGUMENTS, USES, VALUES, nested_edges, owners_of
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        # linear (0) is the argument x of both branches: of mul (4) and sub (6); add (5) and relu (7) give the result.
        ("cond", [(0, 4), (0, 6), (5, 3), (7, 3)]),
        # linear (0) is what map_impl (1) goes through: mul (2) takes it, relu (4) gives the result.
        ("maploop", [(0, 2), (4, 1)]),
    ],
)
def test_edges_of_records(warehouse: Warehouse, name: str, edges: list[tuple[int, int]]) -> None:
    record = warehouse.ingest_record(CAPTURES / f"{name}/{name}.etrecord")
    rows = warehouse.rows("SELECT graph_id, node_index, subgraph FROM op_nodes ORDER BY ALL")[1]
    keys, subgraphs = [row[:2] for row in rows], [row[2] for row in rows]
    assert nested_edges(warehouse, record.sha256, EXPORTED, keys, subgraphs) == edges
    assert set(owners_of(keys, subgraphs)) == {at for at, path in enumerate(subgraphs) if path}


class Rows:
    """A record's rows for `nested_edges`: a while_loop (2) over the results of 0 and 1, whose condition has no nodes."""

    def __init__(self, order: tuple[int, int]) -> None:
        self.order = order

    def rows(self, query: str, **_: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        # Values: two results, two of the loop, two inputs of the condition, two of the body, two results of the body.
        makers = (0, 1, 2, 2, None, None, None, None, 3, 4)
        values = [(0, at, maker, "input" if maker is None else "result") for at, maker in enumerate(makers)]
        # The loop takes the condition (0), the body (1), the values (2), and no more values (3, an empty list).
        arguments = [(0, 2, 2, self.order[0]), (0, 2, 2, self.order[1]), (0, 3, 0, 6), (0, 4, 0, 7), (0, 4, 1, 8)]
        uses = [(0, self.order[0], 2, 0), (0, self.order[1], 2, 1), (0, 3, 4, 1)]
        found: dict[str, list[tuple[Any, ...]]] = {VALUES: values[::-1], ARGUMENTS: arguments, USES: uses}
        return [], found[query]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_arguments_are_in_order_and_an_empty_graph_comes_before(order: tuple[int, int]) -> None:
    keys, subgraphs = [(0, node) for node in range(5)], ["", "", "", "body", "body"]
    rows = cast(Warehouse, Rows(order))
    expected = {(order[0], 3), (order[1], 4), (4, 2)}
    assert nested_edges(rows, "x", EXPORTED, keys, subgraphs) == sorted(expected)
