"""Delegation of each model of `tests/captures/delegation/` against executorch's `get_delegation_info`.

getitem is left out: it selects one of several outputs and is not a node of a record's graph.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq.lake import export
from etq.maintenance import checking
from etq.maintenance.merge import merge
from etq.warehouse.warehouse import Warehouse
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.records import Maps, node, record, tensor
from tests.sampling import IS_WHOLE, thinned
from tests.warehouses import empty_warehouse

FOLDER = CAPTURES / "delegation"
KINDS = sorted(path.name for path in FOLDER.iterdir())
FEW_KINDS = ("attention_half", "attention_lowered", "lstm", "mlp_nothing")
SOME_KINDS = KINDS if IS_WHOLE else KINDS[::2]
Counts = dict[tuple[str, str], tuple[int, int]]  # By method and op: nodes delegated, and not.


def path_of(kind: str, suffix: str) -> Path:
    return FOLDER / kind / f"{kind}.{suffix}"


def answer(kind: str) -> dict[str, Any]:
    """The counts of executorch by method, and where each node is."""
    found: dict[str, Any] = json.loads(path_of(kind, "delegation.json").read_text())
    return found


def theirs(kind: str) -> Counts:
    return {
        (method, op): (delegated, other)
        for method, expected in answer(kind).items()
        for op, (delegated, other) in expected["operators"].items()
        if op != "getitem"
    }


def op_of(name: str) -> str:
    """The op of a node by the node's name, as executorch derives it."""
    return re.sub(r"_\d+$", "", name)


def ours(warehouse: Warehouse, kind: str, program: str | None = None) -> tuple[Counts, dict[tuple[str, str], str]]:
    """The counts by executorch's names of ops, and the basis of each."""
    rows = warehouse.rows(
        """
        SELECT d.method, n.name, d.delegated, d.not_delegated, d.basis
        FROM delegation($record, program := $program) AS d
        JOIN (
            SELECT g.method, p.op_type, min(p.name) AS name
            FROM records AS r
            JOIN graphs AS g USING (record_id)
            JOIN op_nodes AS p USING (record_id, graph_id)
            WHERE r.name = $record AND g.stage = 'edge_dialect_exported_program'
            GROUP BY ALL
        ) AS n ON n.method = d.method AND n.op_type = d.op_type
        """,
        record=kind,
        program=program,
    )[1]
    counts = {(method, op_of(name)): (delegated, other) for method, name, delegated, other, _ in rows}
    assert len(counts) == len(rows)
    return counts, {(method, op_of(name)): basis for method, name, _, _, basis in rows}


@pytest.fixture(scope="module")
def linked() -> Iterator[Warehouse]:
    """A warehouse for all kinds, their records and programs; `stored` ingests those that a test uses."""
    with empty_warehouse() as warehouse:
        yield warehouse


def stored(warehouse: Warehouse, kind: str) -> str:
    """The name of a kind's capture, record and program, which are ingested when they are first used."""
    if not warehouse.rows("SELECT 1 FROM captures WHERE name = $kind", kind=kind)[1]:
        made = (warehouse.ingest_record(path_of(kind, "etrecord")), warehouse.ingest_program(path_of(kind, "pte")))
        [capture] = warehouse.ingest_many([path_of(kind, "etdp")], link_to=made)
        assert isinstance(capture, etq.Capture) and capture.name == kind
    return kind


@pytest.mark.long
@pytest.mark.parametrize("kind", thinned(KINDS, FEW_KINDS))
def test_by_one_source_alone(kind: str) -> None:
    """With a program or a capture all counts are known. With the record alone some are guesses, which add up."""
    expected = theirs(kind)
    with empty_warehouse() as warehouse:
        found = warehouse.ingest_record(path_of(kind, "etrecord"))
        counts, basis = ours(warehouse, kind)
        assert counts.keys() == expected.keys()
        for op, known_by in basis.items():
            assert known_by == "handles" or counts[op] == expected[op], op
            assert sum(counts[op]) == sum(expected[op]), op
        sums = [Counter[str](), Counter[str]()]
        for method, name in basis:
            for side, given in zip(sums, (counts, expected), strict=True):
                side[method] += given[method, name][0]
        assert sums[0] == sums[1]
        program = warehouse.ingest_program(path_of(kind, "pte"))
        by_program, basis = ours(warehouse, kind, program.sha256[:12])
        assert by_program == expected and "handles" not in basis.values()
        warehouse.link(warehouse.ingest(path_of(kind, "etdp")), found)
        by_capture, basis = ours(warehouse, kind)
        assert by_capture == expected and "handles" not in basis.values()


@pytest.mark.long
def test_records_that_are_enough_alone() -> None:
    """If delegates and kernels share a handle whose nodes call several ops, kernel names are needed; otherwise not."""
    known = set()
    with empty_warehouse() as warehouse:
        for kind in SOME_KINDS:
            warehouse.ingest_record(path_of(kind, "etrecord"))
            _, basis = ours(warehouse, kind)
            known |= set() if "handles" in basis.values() else {kind}
            if kind == "attention_lowered":
                # The record has the lowered graph, too.
                assert set(basis.values()) <= {"graph", "record"} and "graph" in basis.values()
    # In all others, kernels and delegates share a handle whose nodes call several ops.
    assert known == {*SOME_KINDS} & {
        "activations", "attention_lowered", "attention_one_left", "conv_quantized", "mlp_all", "mlp_dynamic", "mlp_four_bits",
        "mlp_nothing", "mobile", "mobile_quantized",
    }  # fmt: skip


# Delegates that took some of the nodes of one op and handle. Only the order of the nodes distinguishes them.
BY_ORDER = ("attention_half", "decomposed_half", "lstm")


@pytest.mark.long
@pytest.mark.parametrize("kind", thinned(KINDS, FEW_KINDS))
def test_nodes_and_kernels(linked: Warehouse, kind: str) -> None:
    """The backend of each node; the nodes of each call of a delegate; the calls of kernels by op type."""
    name, expected = stored(linked, kind), answer(kind)
    query = "SELECT g.method, n.name, n.backend FROM node_totals($c) AS n JOIN graphs AS g USING (record_id, graph_id)"
    backends = Counter((method, op_of(node), backend) for method, node, backend in linked.rows(query, c=name)[1])
    assert backends == Counter(
        (method, op_of(node), backend)
        for method, of_method in expected.items()
        for backend, nodes in [(None, of_method["left"]), *of_method["taken"]]
        for node in nodes
        if op_of(node) not in ("getitem", "executorch_call_delegate")
    )
    # A call's own nodes are those of the delegate's graph, not all that have one of its handles.
    query = """
        SELECT r.method, list_sort(list(DISTINCT n.node_name))
        FROM event_nodes($c) AS n
        JOIN captures AS c ON c.name = $c
        JOIN signatures AS s USING (capture_id, signature_index)
        JOIN runs AS r ON r.capture_id = c.capture_id AND r.block_index = s.block_index
        WHERE s.kind = 'delegate_call' AND n.is_own
        GROUP BY r.method, s.instruction_id
    """
    calls = [
        (method, sorted(node for node in nodes if op_of(node) != "getitem"))
        for method, of_method in expected.items()
        for _, nodes in of_method["taken"]
    ]
    assert kind in BY_ORDER or sorted(linked.rows(query, c=name)[1]) == sorted(calls)
    # An op type has as many calls as its instructions have runs, and nodes left to kernels if it has any.
    instructions = """
        SELECT split_part(i.op, '::', 2), 5 * count(*)
        FROM programs AS p JOIN instructions AS i USING (program_id)
        WHERE p.name = $c AND i.kind = 'kernel'
        GROUP BY ALL
    """
    assert kernel_calls(linked, name) == dict(linked.rows(instructions, c=name)[1])


def taken(warehouse: Warehouse, table: str, key: str, named: str) -> Counter[tuple[str, str]]:
    """The ops of the nodes that a table of placed nodes has within delegates, with the backend, for a name's key."""
    query = f"""
        SELECT n.name, p.backend FROM {table} AS p
        JOIN {key}s AS k USING ({key}_id)
        JOIN op_nodes AS n ON n.record_id = k.record_id AND n.graph_id = p.graph_id AND n.node_index = p.node_index
        WHERE k.name = $named AND p.backend IS NOT NULL
    """
    return Counter((op_of(name), backend) for name, backend in warehouse.rows(query, named=named)[1])


def check(path: Path) -> list[str]:
    return [problem for part in checking.check(path, folder=path.parent) for problem in part.problems]


@pytest.mark.long
def test_placed_nodes_are_kept(tmp_path: Path) -> None:
    """Whatever is linked first, ingested together, pruned, merged or written into a lake: the nodes are the same, and
    others are found by a check.
    """
    pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
    kind, paths = "attention", [tmp_path / f"{name}.duckdb" for name in ("one", "two", "merged")]
    expected = Counter(
        (op_of(node), backend)
        for of_method in answer(kind).values()
        for backend, nodes in of_method["taken"]
        for node in nodes
        if op_of(node) != "getitem"
    )
    dump, of_record, of_program = (path_of(kind, suffix) for suffix in ("etdp", "etrecord", "pte"))
    with etq.open(paths[0]) as warehouse:
        warehouse.ingest(dump, name="dump first")
        warehouse.link("dump first", of_record)
        # Without a program, the events show the ops of kernels.
        assert taken(warehouse, "placed_nodes", "capture", "dump first") == expected
        warehouse.link("dump first", of_program)
        assert taken(warehouse, "placed_nodes", "capture", "dump first") == expected
        # The record alone leaves some nodes to a guess, but their number is known.
        alone = taken(warehouse, "delegated_nodes", "record", kind)
        assert alone.total() == expected.total()
        warehouse.prune(0, keep_rollups=True)
        assert taken(warehouse, "placed_nodes", "capture", "dump first") == expected
    with etq.open(paths[1]) as warehouse:
        links = warehouse.ingest_record(of_record), warehouse.ingest_program(of_program)
        warehouse.ingest_many([dump], link_to=links)
        # Another record whose kernels decide, for the check.
        warehouse.ingest(path_of("attention_half", "etdp"), etrecord=path_of("attention_half", "etrecord"))
        assert taken(warehouse, "placed_nodes", "capture", kind) == expected
        export(tmp_path / "lake", warehouse)
    merge(paths[:2], paths[2])
    for path, name in ((paths[2], "dump first"), (tmp_path / "lake", kind)):
        with etq.open(path, read_only=True) as warehouse:
            assert taken(warehouse, "placed_nodes", "capture", name) == expected
            assert taken(warehouse, "delegated_nodes", "record", kind) == alone
    assert check(paths[1]) == []
    with duckdb.connect(paths[1]) as connection:
        for table in ("placed_nodes", "delegated_nodes"):
            connection.execute(f"UPDATE {table} SET backend = 'other' WHERE backend IS NOT NULL")
    assert [problem.split(": ")[:2] for problem in check(paths[1])] == [
        [table, name] for table in ("delegated_nodes", "placed_nodes") for name in (kind, "attention_half")
    ]
    with duckdb.connect(paths[2]) as connection:
        connection.execute("UPDATE signature_costs SET bytes = 7 WHERE rowid = 0")
    assert check(paths[2]) == ["signature_costs: dump first: 1 rows differ from what its nodes give"]
    damages = ("DELETE FROM costed_nodes", "DELETE FROM node_values", "UPDATE node_values SET node_index = 7777",
               "UPDATE node_arguments SET value_index = 7777", "DELETE FROM signature_nodes")  # fmt: skip
    for number, damage in enumerate(damages):
        path = tmp_path / f"damaged{number}.duckdb"
        shutil.copy(paths[2], path)
        with duckdb.connect(path) as connection:
            connection.execute(damage)
        assert any(problem.startswith("signature_costs: dump first: ") for problem in check(path)), damage


def kernel_calls(warehouse: Warehouse, capture: str) -> dict[str, int]:
    """The calls of kernels by op, of those with any; each has nodes that are left to kernels."""
    query = "SELECT op_type, not_delegated, calls FROM delegate_coverage($c, runs := 'all') WHERE calls > 0"
    found: Counter[str] = Counter()
    for op_type, left, calls in warehouse.rows(query, c=capture)[1]:
        assert left > 0, op_type
        found[op_type.split(".")[1]] += calls
    return dict(found)


def common(paths: list[list[str]]) -> str:
    """The deepest module that all of these lists of modules, outermost first, have."""
    levels: list[tuple[str, ...]] = [level for level in zip(*paths, strict=False) if len(set(level)) == 1]
    return levels[-1][0]


@pytest.mark.parametrize("kind", thinned(("conv_quantized", "lstm", "lstm_steps"), ["lstm"]))
def test_events_without_nodes_have_the_module_of_their_call(linked: Warehouse, kind: str) -> None:
    """Against the modules of the call's nodes in the record; layout work keeps a row of its own."""
    name = stored(linked, kind)
    query = """
        SELECT s.block_index, s.chain_index, s.instruction_id, list(m.module_path ORDER BY m.depth)
        FROM captures AS k
        JOIN signatures AS s USING (capture_id)
        JOIN signature_nodes AS n USING (capture_id, signature_index)
        JOIN node_modules AS m USING (record_id, graph_id, node_index)
        WHERE k.name = $name AND s.kind = 'delegate_call' AND n.is_own
        GROUP BY s.block_index, s.chain_index, s.instruction_id, n.node_index
    """
    nodes: dict[tuple[int, ...], list[list[str]]] = {}
    for *call, modules in linked.rows(query, name=name)[1]:
        nodes.setdefault(tuple(call), []).append(modules)
    query = """
        SELECT s.block_index, s.chain_index, s.instruction_id, s.family, o.module_path, o.mapping
        FROM captures AS k
        JOIN signatures AS s USING (capture_id)
        JOIN signature_ops AS o USING (capture_id, signature_index)
        WHERE k.name = $name AND s.kind = 'delegate' AND s.signature_index NOT IN (
            SELECT n.signature_index FROM signature_nodes AS n WHERE n.capture_id = k.capture_id
        )
    """
    placed = 0
    for *call, family, module, mapping in linked.rows(query, name=name)[1]:
        is_layout = "Transpose" in family or "Reshape" in family
        expected = (None, None) if is_layout else (common(nodes[tuple(call)]), "call")
        assert (module, mapping) == expected
        placed += not is_layout
    assert placed


@pytest.mark.long
def test_costs_are_counted_once(linked: Warehouse) -> None:
    """The backend took the views of matmul, and kernels run its bmm: its calls cost no operations."""
    rows = linked.rows(
        "SELECT kind, coalesce(sum(flops), 0)::BIGINT FROM roofline($c) GROUP BY ALL",
        c=stored(linked, "attention_views"),
    )[1]
    # By hand: linears of 8 rows of 16 to 48 and to 16; two products of 8 x 8 x 8 of each of 2 heads; a scale of both
    # heads' 8 x 8 and its softmax of 5 operations each; an addition of 8 x 16.
    by_hand = 2 * 8 * 16 * (48 + 16) + 2 * (2 * 2 * 8 * 8 * 8) + (1 + 5) * 2 * 8 * 8 + 8 * 16
    assert dict(rows) == {"kernel": by_hand, "delegate": 0, "delegate_call": 0}


def test_kernels_of_no_node(warehouse: Warehouse, tmp_path: Path) -> None:
    """Coverage counts the calls of all kernels, including those whose handle no node has."""
    x, y, z = tensor("x", 2), tensor("y", 2), tensor("z", 2)
    nodes = (node("aten.relu.default", y, handle=1, self=x), node("aten.tanh.default", z, handle=2, self=y))
    (tmp_path / "net.etrecord").write_bytes(record(*nodes, maps=Maps(handles={0: [1], 1: [2], 2: [1], 3: [9]})))
    ops = ("relu", "tanh", "relu", "copy_")
    one = [kernel(op, start=10 * at, end=10 * at + 4, instruction=at) for at, op in enumerate(ops)]
    (tmp_path / "net.etdp").write_bytes(dump(*(run("Execute", *one, execute(0, 50)) for _ in range(3))))
    warehouse.link(warehouse.ingest(tmp_path / "net.etdp"), warehouse.ingest_record(tmp_path / "net.etrecord"))
    rows = warehouse.rows(
        "SELECT op_type, delegated, not_delegated, calls, total, basis FROM delegate_coverage('net', unit := 'ns')"
    )[1]
    assert rows == [
        ("aten.relu.default", 0, 1, 6, 24, "record"),
        ("aten.tanh.default", 0, 1, 3, 12, "record"),
        ("copy_", None, None, 3, 12, None),
    ]
