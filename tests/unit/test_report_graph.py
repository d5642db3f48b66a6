"""The graph of a report: its values are those of the views, its positions fit the edges; delegates by flatc; hostile names."""

from __future__ import annotations

import gzip
import json
import math
import random
import re
from collections import defaultdict
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
import etq.report
from etq.errors import EtqError, printable
from etq.render.dot import dot_of
from etq.report import graph_section, single
from etq.report.columns import Table
from etq.report.graph import EXPORTED
from etq.report.graph_extras import NAN, UNBOUNDED, GraphExtras
from etq.report.layers import MOST_BENDS, Layers, layered
from etq.report.nested import nested_edges, owners_of
from etq.report.overlays import METRICS
from etq.report.target import target_of
from etq.report.tree import Tree
from etq.warehouse.warehouse import Warehouse
from tests.batches import linked
from tests.conftest import CAPTURES
from tests.hostile import EVIL
from tests.warehouses import empty_warehouse

# Records with an edge graph, and a capture of each.
RECORDS = (
    "bf16", "convnet", "convnet_xnn", "demo_int", "demo_str", "mlp", "mlp_bundled", "mlp_manual", "mlp_xnn",
    "multimethod", "nones", "scalars", "transformer",
)  # fmt: skip


def dicts(table: Table) -> list[dict[str, Any]]:
    columns = [
        [None if at < 0 else column["texts"][at] for at in column["at"]] if isinstance(column, dict) else column
        for column in table.columns
    ]
    return [dict(zip(table.names, row, strict=True)) for row in zip(*columns, strict=True)]


def tables_of(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    section = graph_section.graph(target_of(warehouse, "run", None, None, "typical"))
    assert section is not None and section.missing is None
    return {name: dicts(table) for name, table in section.tables.items()}


def judged_warehouse() -> Warehouse:
    """A capture with values and a program, and a reference, `right`, from which its values differ by known steps."""
    warehouse = etq.open()
    mlp = CAPTURES / "mlp"
    capture = warehouse.ingest(
        mlp / "mlp_debug.etdp", name="run", debug_buffer=mlp / "mlp_debug.bin", keep_values=True,
        etrecord=mlp / "mlp.etrecord",
    )  # fmt: skip
    warehouse.link(capture, warehouse.ingest_program(mlp / "mlp.pte"))
    query = """
        SELECT n.name, v.sizes, v.elements
        FROM _values_by_handle('captures') AS v
        JOIN node_debug_handles AS h ON h.debug_handle = v.debug_handle
        JOIN graphs AS g ON g.record_id = h.record_id AND g.graph_id = h.graph_id AND g.stage = 'exported_program'
        JOIN op_nodes AS n ON n.record_id = g.record_id AND n.graph_id = g.graph_id AND n.node_index = h.node_index
        WHERE v.output_index = 0 AND starts_with(n.op_type, 'aten')
        QUALIFY row_number() OVER (PARTITION BY v.debug_handle ORDER BY n.node_index DESC) = 1
        ORDER BY v.debug_handle
    """
    values = {}
    for at, (name, sizes, elements) in enumerate(warehouse.rows(query)[1]):
        value = np.array(elements).reshape(sizes)
        value[0] += 10.0 ** (at - 12) if at else 0.0
        values[name] = [value]
    assert len(values) > 10
    values[name][0][0] = math.inf
    warehouse.ingest_reference("mlp", values, name="right")
    return warehouse


@pytest.mark.long
@pytest.mark.parametrize("name", ["multimethod", "bf16"])
def test_values_are_those_of_the_views(name: str) -> None:
    with linked(name) as warehouse:
        tables = tables_of(warehouse)
        nodes, groups = tables["nodes"], tables["groups"]
        keys = "graph_id, node_index"

        def by_key(query: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
            return {tuple(row[:2]): tuple(row[2:]) for row in warehouse.rows(query)[1]}

        times = by_key(f"SELECT {keys}, calls, self_time, share_percent, backend, op_type FROM node_totals('run')")
        costs = by_key(f"SELECT {keys}, flops, bytes_read + bytes_written, output_shape FROM node_costs('{name}')")
        modules = by_key("SELECT method, module_path, total, share_percent FROM module_totals('run')")
        assert {(each["graph_id"], each["node_index"]) for each in nodes} == set(times)
        for each in nodes:
            key = each["graph_id"], each["node_index"]
            calls, *time = times[key]
            assert (each["calls"] or 0, each["backend"], each["op_type"]) == (calls, *time[2:])
            assert (each["self_time"], each["share_percent"]) == (tuple(time[:2]) if calls else (None, None))
            assert (each["flops"], each["bytes"], each["output_shape"]) == costs[key]
        for group in groups:
            assert (group["total"], group["share_percent"]) == modules.get(
                (group["method"], group["module_path"]), (None, None)
            )
        check_groups(warehouse, nodes, groups)
        check_places(tables)


def check_groups(warehouse: Warehouse, nodes: list[dict[str, Any]], groups: list[dict[str, Any]]) -> None:
    """Each op is in its innermost module; a module's sums are those of the ops in it, at any depth."""
    inner: dict[tuple[int, int], str] = {}
    for graph_id, node_index, path in warehouse.rows(
        "SELECT graph_id, node_index, module_path FROM node_modules ORDER BY graph_id, node_index, depth"
    )[1]:
        inner[graph_id, node_index] = path
    sums: dict[int, list[float]] = {at: [0, 0, 0, 0] for at in range(len(groups))}
    for node in nodes:
        at = node["parent"]
        assert groups[at]["module_path"] == inner[node["graph_id"], node["node_index"]]
        while at >= 0:
            for place, value in enumerate((1, node["calls"], node["flops"], node["bytes"])):
                sums[at][place] += value or 0
            assert groups[at]["graph_id"] == node["graph_id"]
            at = groups[at]["parent"]
    for at, group in enumerate(groups):
        assert [group[name] or 0 for name in ("nodes", "calls", "flops", "bytes")] == sums[at]


def check_places(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Every edge between two children of a module goes to a later rank, in these records without cycles."""
    nodes, groups = tables["nodes"], tables["groups"]
    items = [*nodes, *groups]

    def line(item: int) -> list[int]:
        found = [item]
        while items[found[-1]]["parent"] >= 0:
            found.append(len(nodes) + items[found[-1]]["parent"])
        return found[::-1]

    for edge in tables["edges"]:
        maker, user = line(edge["maker"]), line(edge["user"])
        one, other = next(pair for pair in zip(maker, user, strict=False) if pair[0] != pair[1])
        assert items[one]["rank"] < items[other]["rank"], (items[one]["name"], items[other]["name"])
    places = [(each["parent"], each["rank"], each["order"]) for each in items if each["parent"] >= 0]
    places += [(each["group"], each["rank"], each["order"]) for each in tables["bends"]]
    assert len(set(places)) == len(places)


def test_nested_graphs_are_in_a_group_with_their_node() -> None:
    """Modules of a nested graph are within it, those around its node are not repeated; without a node, it is at the top."""
    levels = [(0, node, path, "M") for node in (0, 1, 2) for path in ("", "body")] + [(0, 2, "body.mlp", "MLP")]
    keys = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    tree = Tree(keys, ["", "true", "true/inner", "false", "lost/graph"], levels, ["cond", "map", "mul", "add", "relu"])
    assert [(group.name, group.path, group.parent) for group in tree.groups] == [
        ("", "", -1), ("body", "body", 0), ("cond", None, 1), ("true", None, 2), ("map", None, 3), ("inner", None, 4),
        ("mlp", "body.mlp", 5), ("false", None, 2), ("", "", -1), ("lost", None, 8), ("graph", None, 9),
    ]  # fmt: skip
    assert tree.parents == [2, 4, 6, 7, 10]


MORE: Final[dict[str, Any]] = {"gap": "right", "peak_flops": 20e9, "peak_bandwidth": 15e9}


def line_of(group: int, groups: list[dict[str, Any]]) -> list[int]:
    return [] if group < 0 else [group, *line_of(groups[group]["parent"], groups)]


@pytest.mark.long
def test_captures_without_a_graph() -> None:
    for path, reason in (
        ("mlp/mlp_0runs.etdp", "Without its ETRecord"),
        ("torch/mlp_train.pt.trace.json.gz", "a PyTorch trace has no graph"),
        # Its two methods have the same instructions, so the one that ran is unknown.
        ("twins/twins.etdp", "None of the ETRecord's edge graphs is of a method that is known to have run"),
    ):
        with empty_warehouse() as warehouse:
            record = CAPTURES / "twins/twins.etrecord" if path.startswith("twins") else None
            warehouse.ingest(CAPTURES / path, name="run", etrecord=record)
            with pytest.raises(EtqError, match=f"run: {reason}"):
                etq.report.graph_of(warehouse, "run").page()


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
    assert nested_edges(warehouse, record.record_id, EXPORTED, keys, subgraphs) == edges
    assert set(owners_of(keys, subgraphs)) == {at for at, path in enumerate(subgraphs) if path}


HOSTILE = (
    EVIL, "</text></svg><script>alert(1)</script>", "]]><!-- --><![CDATA[ &lt; &amp; &#0;",
    "\"' onload='alert(1)' \\\" \\n \\", '"]; n0 -> n1; "', "<b>{x}|</b>\\l\\r",
    "a\u2028b\u2029c\nd\re\x00\ufffe\uffff", "x" * 30_000, "\U0001f4a3 пример 例" * 30, "", "None",
)  # fmt: skip
DOT_LINE = re.compile(r'  n\d+_\d+ (\[label="(?:[^"\\]|\\.)*", fillcolor="[\d. ]+"\]|-> n\d+_\d+);')


def check_dot(text: str) -> None:
    first, _, *lines, last = text.splitlines()
    assert (first, last) == ("digraph ops {", "}")
    assert all(DOT_LINE.fullmatch(line) for line in lines)


@pytest.mark.long
def test_hostile_names() -> None:
    """In each format they are text: nothing ends an element, a string or a line."""
    with linked("transformer") as warehouse:
        update = "UPDATE {} SET {} WHERE (node_index + 1) % $count = $number"
        for number, name in enumerate(HOSTILE):
            parameters: dict[str, Any] = {"name": name, "count": len(HOSTILE), "number": number}
            for table, columns in (
                ("op_nodes", ("name", "op_type", "op", "module_path", "source_file", "subgraph")),
                ("node_modules", ("module_class",)),
                ("node_values", ("dtype",)),
                ("node_arguments", ("literal",)),
            ):
                values = ", ".join(f"{column} = $name" for column in columns)
                warehouse.connection.execute(update.format(table, values), parameters)
            values = "module_path = $name || module_path"
            warehouse.connection.execute(update.format("node_modules", values), parameters)
        text = etq.report.graph_json_of(warehouse, "run").replace("\n", "")
        assert printable(text) == text, "it has no control characters"
        assert {each["name"] for each in json.loads(text)["nodes"]} == set(HOSTILE)
        check_dot(dot_of(warehouse, "run", {}))


def acyclic(count: int, number: int, seed: int, reach: int = 30) -> list[tuple[int, int]]:
    """Edges from smaller to larger vertices, `number` to a vertex, over `reach` at most."""
    made = random.Random(seed)
    pairs = ((made.randrange(max(0, each - reach), each), each) for each in range(1, count) for _ in range(number))
    return sorted(set(pairs))


def check_layers(layers: Layers, count: int) -> None:
    """Each rank from 0 on has positions 0, 1, ... without gaps, bends included."""
    assert len(layers.ranks) == len(layers.orders) == count
    rows: dict[int, list[int]] = {}
    for rank, order in [*zip(layers.ranks, layers.orders, strict=True), *((rank, at) for _, rank, at in layers.bends)]:
        rows.setdefault(rank, []).append(order)
    assert sorted(rows) == list(range(len(rows)))
    assert all(sorted(row) == list(range(len(row))) for row in rows.values())
    assert len(layers.bends) <= MOST_BENDS * count


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
    check_layers(layers, 20)
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


def with_program(name: str) -> Any:
    [program] = CAPTURES.glob(f"**/{name}.pte")
    warehouse = etq.open()
    warehouse.ingest(program.with_suffix(".etdp"), name="run", etrecord=program.with_suffix(".etrecord"), pte=program)
    return warehouse


def edges_by_flatc(name: str) -> dict[tuple[str, int], set[tuple[int, int]]]:
    """By method and delegate: ops, of which the second takes a value that the first makes."""
    graphs = json.loads(gzip.decompress((CAPTURES / "expected" / "xnnpack_graphs.json.gz").read_bytes()))[name]
    found = {}
    for place, graph in graphs.items():
        method, _, index = place.rpartition("/")
        fields = [node["xnode_union"] for node in graph["xnodes"]]
        makers = {
            value: at for at, each in enumerate(fields) for key, value in each.items() if key.startswith("output")
        }
        found[method, int(index)] = {
            (makers[value], at)
            for at, each in enumerate(fields)
            for key, value in each.items()
            if key.endswith("_id") and not key.startswith("output") and value in makers
        }
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", ["causal", "two_methods"])
def test_ops_and_edges_of_delegates(name: str) -> None:
    with with_program(name) as warehouse:
        tables = tables_of(warehouse)
        columns = "method, instruction_id, op_index, op, event_name, self_time, graph_id, node_index"
        rows = warehouse.rows(f"SELECT {columns} FROM delegate_graph('run')")[1]
        query = "SELECT method, instruction_id, delegate_index FROM instructions WHERE kind = 'delegate' ORDER BY ALL"
        calls = warehouse.rows(query)[1]
    nodes = tables["nodes"]
    inner = [each for each in nodes if each["graph_id"] < 0]
    shown = [(each["method"], each["node_index"], each["op"], each["events"], each["self_time"]) for each in inner]
    title = "{}: XnnpackBackend, instruction {}".format
    assert shown == [(title(*row[:2]), *row[2:6]) for row in rows]
    # From a node to the first op that was made from it, and back.
    numbers = {(each["graph_id"], each["node_index"]): at for at, each in enumerate(nodes)}
    first = len(nodes) - len(inner)
    assert [each["counterpart"] for each in inner] == [numbers.get(row[6:]) for row in rows]
    became = defaultdict(list)
    for at, row in enumerate(rows, first):
        became[row[6:]].append((at, row[3]))
    for each in nodes[:first]:
        made = became[each["graph_id"], each["node_index"]]
        assert each["counterpart"] == (made[0][0] if made else None)
        assert each["delegate_ops"] == (", ".join(op for _, op in made) or None)
    graphs = {each["method"]: each["graph_id"] for each in inner}
    expected = edges_by_flatc(name)
    for method, instruction_id, index in calls:
        if (method, index) not in expected or title(method, instruction_id) not in graphs:
            continue
        graph = graphs.pop(title(method, instruction_id))
        found = {
            (nodes[edge["maker"]]["node_index"], nodes[edge["user"]]["node_index"])
            for edge in tables["edges"]
            if nodes[edge["maker"]]["graph_id"] == nodes[edge["user"]]["graph_id"] == graph
        }
        assert found == expected[method, index]
    assert not graphs
    assert all(nodes[edge["maker"]]["graph_id"] == nodes[edge["user"]]["graph_id"] for edge in tables["edges"])


def test_crossings_that_need_not_be_are_removed() -> None:
    """Two chains that start crossed end up next to each other."""
    layers = layered(8, [(0, 3), (1, 2), (2, 4), (3, 5), (4, 6), (5, 7)])
    left = {each for each in range(8) if layers.orders[each] == 0}
    assert left in ({0, 3, 5, 7}, {1, 2, 4, 6})


@pytest.mark.long
def test_gaps_are_those_of_the_view() -> None:
    """What is not finite is a number that no value has; a model has the worst of its ops."""
    with judged_warehouse() as judged:
        section = single.graph_of(judged, "run", None, GraphExtras(gap="right"), runs="all").sections[0]
        nodes, groups = dicts(section.tables["nodes"]), dicts(section.tables["groups"])
        for metric in METRICS:
            query = f"SELECT node_index, gap FROM node_gaps('right', 'run', metric := '{metric}')"
            sign = -1 if metric in ("snr", "cosine") else 1
            expected = {
                at: value
                if math.isfinite(value)
                else sign * NAN
                if math.isnan(value)
                else math.copysign(UNBOUNDED, value)
                for at, value in judged.rows(query)[1]
            }
            assert {each["node_index"]: each[metric] for each in nodes if each[metric] is not None} == expected
            assert groups[0][metric] == sign * max(sign * value for value in expected.values()), metric
