"""`compare_graphs` finds planted edits exactly, and matches nodes of one record by handle, as plain Python does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sampling import IS_WHOLE
from tests.warehouses import empty_warehouse

RECORDS = sorted(CAPTURES.glob("**/*.etrecord"))
# Those of `records` when not all are asked, of which some are named below.
NAMED = ("mlp", "mlp_xnn", "multimethod", "two_methods", "vit", "cut")
SOME = RECORDS if IS_WHOLE else [path for at, path in enumerate(RECORDS) if at % 6 == 0 or path.stem in NAMED]
EDGE, EXPORTED = "edge_dialect_exported_program", "exported_program"
EDITS = ("same", "removed", "added", "op", "shape")


@pytest.fixture(scope="module")
def records(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    """All records, or the one of the test that is not long. Tests must not write to it."""
    with empty_warehouse() as opened:
        for path in SOME:
            if request.config.option.markexpr != "not long" or path.stem == "two_methods":
                opened.ingest_record(path)
        yield opened


def graphs_of(warehouse: Warehouse) -> list[tuple[int, int, int]]:
    query = "SELECT record_id, graph_id, count(*) FROM op_nodes GROUP BY ALL ORDER BY ALL"
    return [tuple(row) for row in warehouse.rows(query)[1]]


class Pair:
    """Two records, before and after. Graphs are copied into them as separate methods, with or without edits."""

    def __init__(self, warehouse: Warehouse, planted: list[tuple[tuple[int, int], str, int]]) -> None:
        """`planted` are graphs by record and number, each with an edit of one of its nodes."""
        self.warehouse = warehouse
        self.planted = [(edit, node) for _, edit, node in planted]
        run = warehouse.connection.execute
        run("CREATE TEMP TABLE planted (number INTEGER, record INTEGER, graph INTEGER, edit VARCHAR, node INTEGER)")
        rows = [(number, *source, edit, node) for number, (source, edit, node) in enumerate(planted)]
        warehouse.connection.executemany("INSERT INTO planted VALUES (?, ?, ?, ?, ?)", rows)
        # A copy lacks the node that is added or removed; the following nodes move up by one place.
        for key, name, lacks in ((1001, "before", "added"), (1002, "after", "removed")):
            run(f"""INSERT INTO records SELECT * REPLACE ({key} AS record_id, '{name}' AS name, '{name}' AS sha256)
                FROM records LIMIT 1""")
            run(f"INSERT INTO graphs SELECT {key}, number, 'planted', 'm' || number, 'x', 'EDGE' FROM planted")
            for table, columns in (
                ("op_nodes", ["node_index"]),
                ("node_values", ["node_index"]),
                ("op_edges", ["from_node", "to_node"]),
            ):
                listed = ", ".join(
                    f"{each} - (p.edit = '{lacks}' AND {each} > p.node)::INTEGER AS {each}" for each in columns
                )
                kept = " AND ".join(
                    f"NOT (p.edit = '{lacks}' AND {each} IS NOT DISTINCT FROM p.node)" for each in columns
                )
                run(f"""INSERT INTO {table}
                    SELECT t.* REPLACE ({key} AS record_id, p.number AS graph_id, {listed})
                    FROM planted AS p JOIN {table} AS t ON t.record_id = p.record AND t.graph_id = p.graph WHERE {kept}""")
        place = "FROM planted AS p WHERE t.record_id = 1002 AND t.graph_id = p.number AND t.node_index = p.node AND p.edit ="
        run(f"UPDATE op_nodes AS t SET op_type = 'planted.op', op = 'op' {place} 'op'")
        run(f"UPDATE node_values AS t SET sizes = [7, 7, 7, 7] {place} 'shape'")
        run("DROP TABLE planted")

    def likeness(self, key: int, at: int, node: int) -> Any:
        """The properties of a node. Nodes with equal properties can be distinguished only by their neighbours."""
        query = f"""WITH sides AS (SELECT true AS is_base, {key} AS record_id, 'planted' AS stage)
            SELECT module_path, op_type, outputs FROM _graph_nodes('sides')
            WHERE graph_id = {at} AND node_index = {node}"""
        return self.warehouse.rows(query)[1]

    def differences(self) -> dict[int, list[tuple[str, str | None, int | None, int | None]]]:
        """The nodes that are not the same, by planted edit."""
        found = defaultdict(list)
        query = """SELECT method[2:]::INTEGER, change, changed, base_node, new_node
            FROM compare_graphs('before', 'after', 'planted', 'planted') WHERE change <> 'same'"""
        for at, *rest in self.warehouse.rows(query)[1]:
            found[at].append(tuple(rest))
        return found


def expected(edit: str, node: int, has_outputs: bool) -> list[tuple[str, str | None, int | None, int | None]]:
    if edit == "removed":
        return [("removed", None, node, None)]
    if edit == "added":
        return [("added", None, None, node)]
    is_changed = edit == "op" or (edit == "shape" and has_outputs)
    return [("changed", edit, node, node)] if is_changed else []


@pytest.mark.long
def test_planted_edits_are_found_exactly() -> None:
    """In each graph of each record, the edited node is found, or one with the same op, module, outputs and place."""
    with empty_warehouse() as warehouse:
        for path in RECORDS[:: 1 if IS_WHOLE else 3]:
            warehouse.ingest_record(path)
        planted = [
            ((record, graph), edit, node)
            for record, graph, nodes in graphs_of(warehouse)
            for node in range(0, nodes, 6 * (1 + nodes // (20 if IS_WHOLE else 5)))
            for edit in EDITS
        ]
        pair = Pair(warehouse, planted)
        found = pair.differences()
        with_outputs = {
            *warehouse.rows(
                "SELECT graph_id, node_index FROM node_values WHERE record_id = 1002 AND dtype IS NOT NULL"
            )[1]
        }
        exact: Counter[str] = Counter()
        for at, (edit, node) in enumerate(pair.planted):
            has_outputs = (at, node) in with_outputs
            wanted = expected(edit, node, has_outputs)
            if found[at] == wanted:
                exact[edit] += 1
                continue
            [(change, _, base_node, new_node)] = found[at][:1]
            key, place = (1001, base_node) if edit == "removed" else (1002, new_node)
            if edit in ("removed", "added") and len(found[at]) == 1 and change == edit:
                assert pair.likeness(key, at, int(place or 0)) == pair.likeness(key, at, node), (edit, node, found[at])
            else:  # a node without outputs, inputs and users
                assert edit == "op" and {each[0] for each in found[at]} == {"added", "removed"} and not has_outputs
        number = Counter(edit for edit, _ in pair.planted)
        assert exact["same"] == number["same"] and exact["shape"] == number["shape"]
        assert all(exact[edit] >= min(0.95 * number[edit], number[edit] - 1) for edit in EDITS), (exact, number)


@pytest.mark.parametrize("names", [pytest.param((), id="all", marks=pytest.mark.long), ("two_methods",)])
def test_stages_of_a_record_are_matched_by_their_handles(records: Warehouse, names: tuple[str, ...]) -> None:
    """Against a matching by handles in Python: nodes without a common handle are never paired; the others are paired,
    split or merged.
    """
    checked = 0
    for path in [path for path in RECORDS if path.stem in names] or SOME[::3]:
        record = records.record(path.stem)
        query = """SELECT g.stage, g.method, n.node_index, n.op_type, list(h.debug_handle) FILTER (WHERE h.debug_handle IS NOT NULL)
            FROM graphs AS g JOIN op_nodes AS n USING (record_id, graph_id)
            LEFT JOIN node_debug_handles AS h USING (record_id, graph_id, node_index)
            WHERE record_id = $record AND stage IN ($exported, $edge) GROUP BY ALL"""
        nodes: dict[tuple[str, str], dict[int, tuple[str, set[int]]]] = defaultdict(dict)
        for stage, method, node, op, handles in records.rows(
            query, record=record.record_id, exported=EXPORTED, edge=EDGE
        )[1]:
            nodes[stage, method][node] = (op, set(handles or ()))
        if len({stage for stage, _ in nodes}) < 2:
            continue
        rows = records.rows(
            "SELECT method, change, base_node, new_node, origin, base_op, new_op, basis FROM compare_graphs($name, $name, 'exported', 'edge')",
            name=path.stem,
        )[1]
        for part, stage in ((2, EXPORTED), (3, EDGE)):
            listed = Counter((row[0], row[part]) for row in rows if row[part] is not None)
            every = Counter((method, node) for (of, method), held in nodes.items() if of == stage for node in held)
            assert listed == every, path.stem
        for method, change, base, new, origin, base_op, new_op, basis in rows:
            before, after = nodes[EXPORTED, method], nodes[EDGE, method]
            if change in ("same", "changed"):
                assert (before[base][0], after[new][0]) == (base_op, new_op)
                assert basis != "debug_handle" or before[base][1] & after[new][1], path.stem
                checked += basis == "debug_handle"
            elif change == "split":
                assert before[origin][1] & after[new][1]
            elif change == "merged":
                assert after[origin][1] & before[base][1]
            else:
                held = after[new][1] if change == "added" else before[base][1]
                others = before if change == "added" else after
                assert not any(held & each for _, each in others.values()), (path.stem, method, change)
    assert checked > (10 if names else 100 if IS_WHOLE else 40)


@pytest.mark.long
def test_times_are_those_of_the_nodes(warehouse: Warehouse) -> None:
    folder = CAPTURES / "mlp"
    for name, file in (("run", "mlp_100runs"), ("short", "mlp")):
        warehouse.ingest(folder / f"{file}.etdp", name=name, etrecord=folder / "mlp.etrecord")
    query = "SELECT new_node, base_time, new_time, difference, unit, change FROM compare_graphs('run', 'short', unit := 'ns')"
    rows = {node: rest for node, *rest in warehouse.rows(query)[1]}
    for side, capture in enumerate(("run", "short")):
        query = "SELECT node_index, self_time FROM node_totals($c, unit := 'ns') WHERE calls > 0"
        totals = warehouse.rows(query, c=capture)[1]
        query = "SELECT count(*) FROM runs WHERE is_typical AND capture_id = _capture_id($c) AND scope = 'forward'"
        [(typical,)] = warehouse.rows(query, c=capture)[1]
        assert totals and {node: rows[node][side] for node, _ in totals} == {
            node: pytest.approx(total / typical, rel=1e-12) for node, total in totals
        }
    assert all(row[2:] == [pytest.approx(row[1] - row[0]), "ns", "same"] for row in rows.values())
    alone = warehouse.rows("SELECT DISTINCT base_time IS NULL, unit FROM compare_graphs('mlp', 'short')")[1]
    assert (True, "us") in alone


@pytest.mark.long
def test_backends_and_errors(records: Warehouse) -> None:
    query = "SELECT changed, new_backend, count(*) FROM compare_graphs('mlp_xnn', 'mlp_xnn', 'edge') GROUP BY ALL ORDER BY ALL"
    found = records.rows(query)[1]
    delegated = records.rows("SELECT sum(delegated)::INTEGER FROM delegation('mlp_xnn')")[1]
    assert ("backend", "XnnpackBackend", delegated[0][0]) in found and len(found) <= 2
    # A record without an exported graph.
    alone = records.rows("SELECT DISTINCT change, changed, basis FROM compare_graphs('multimethod', 'multimethod')")[1]
    assert alone == [("same", None, "graph")]
    models = records.rows(
        "SELECT changed, base_op, new_op FROM compare_graphs('mlp', 'mlp_xnn') WHERE module_path = 'head.1'"
    )[1]
    assert ("op, backend", "aten.addmm.default", "aten.linear.default") in models
    for arguments, message in (
        ("'nix', 'mlp'", "no capture or record matches nix; there are vit, cut, mlp and "),
        (
            "'mlp', 'mlp', 'nix'",
            "mlp has no graph of stage nix; its stages are edge_dialect_exported_program, exported_program",
        ),
        ("'mlp', 'mlp', unit := 'h'", "unknown unit h"),
        ("'mlp', 'mlp', metric := 'nix'", "unknown metric nix"),
    ):
        with pytest.raises(QueryError, match=message):
            records.rows(f"FROM compare_graphs({arguments})")


def values_of(warehouse: Warehouse, record: Any, more: float, without: str = "") -> dict[str, list[Any]]:
    """An array of two elements for each op of the exported graph: 1 and 2, plus `more`."""
    query = """SELECT p.name FROM op_nodes AS p JOIN graphs AS g USING (record_id, graph_id)
        WHERE g.stage = 'exported_program' AND p.record_id = $record AND starts_with(p.op_type, 'aten')"""
    names = [name for (name,) in warehouse.rows(query, record=record.record_id)[1]]
    return {name: [np.array([1.0 + more, 2.0 + more])] for name in names if name != without}


@pytest.mark.long
def test_gaps(warehouse: Warehouse) -> None:
    """Mean squared errors by hand: 1 and 9 for values 1 and 3 above the reference; 4 between the two."""
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    for name, more, without in (("right", 0, ""), ("one", 1, ""), ("three", 3, "relu")):
        warehouse.ingest_reference(record, values_of(warehouse, record, more, without), name=name)
    columns = "new_name, basis, base_gap, new_gap, metric, gap_problem"

    def gaps(options: str) -> dict[str, tuple[Any, ...]]:
        return {row[0]: row[1:] for row in warehouse.rows(f"SELECT {columns} FROM compare_graphs({options})")[1]}

    found = gaps("'one', 'three', reference := 'right'")
    relu, last = found.pop("aten_relu_default"), found["aten_addmm_default_6"]
    assert relu == ("graph", 1, None, "mse", "not logged in new")
    assert last == ("graph", 1, 9, "mse", None)
    # No capture has values of permutes. The addmm of a linear has the linear's value.
    assert {row[1:] for row in found.values()} == {(1, 9, "mse", None), (None, None, "mse", None)}
    found = gaps("'one', 'three', metric := 'max_abs'")
    assert found.pop("aten_relu_default") == ("graph", None, None, "max_abs", "not logged in new")
    assert {row[1:] for row in found.values()} == {(None, 2, "max_abs", None), (None, None, "max_abs", None)}
    for options, message in (
        ("'one', 'three', reference := 'nix'", "no capture matches nix"),
        ("'one', 'three', reference := 'name=*'", "no capture matches"),
        ("'one', 'three', metric := 'nix'", "unknown metric nix"),
        (
            "'mlp', 'mlp', reference := 'right'",
            "both sides are records; values can only be compared with those of right",
        ),
    ):
        with pytest.raises(QueryError, match=message):
            gaps(options)
