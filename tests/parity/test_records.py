"""Views of an ETRecord and a capture's events against the Inspector: handles, ops, stack traces, modules.

Each deliberate difference is a separate test below, which has both answers.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from typing import Any

import duckdb
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES, COPIES
from tests.parity import oracle
from tests.sampling import FEW, thinned
from tests.warehouses import empty_warehouse

# The Inspector opens these with their record. For the others it raises; the tests below show why.
RECORDS = ["bf16", "convnet", "convnet_xnn", "demo_int", "demo_str", "mlp", "mlp_xnn", "nones", "transformer"]
OPENED = [
    name
    for name in oracle.names("with_etrecord")
    if oracle.capture_path(name).parent.name in RECORDS and oracle.answer(name, "with_etrecord")["construct"]["ok"]
]
FRAMEWORK = ("Method::init", "Program::load_method", "Method::execute", "Method::step", "Runner::set_inputs")


def name_in(name: str) -> str:
    """The name of the ingested capture with this content, which two captures share."""
    return "mlp_debug" if name == "mlp_debug_nobin" else name


@pytest.mark.parametrize("name", thinned(OPENED, (*FEW, "bf16", "nones")))
def test_handles_ops_and_backends(linked_captures: Warehouse, name: str) -> None:
    ours = linked_captures.rows(
        """
        SELECT i.kind, i.event_name, i.instruction_id, o.debug_handles, o.op_types, o.backend
        FROM inspector_events($c, repeats := 'last') AS i
        LEFT JOIN event_ops($c) AS o ON o.block_index = i.block_index AND o.slot = i.slot
        ORDER BY i.block_index, i.slot
        """,
        c=name_in(name),
    )[1]
    theirs = [event for block in oracle.answer(name, "with_etrecord")["blocks"] for event in block["events"]]
    assert len(ours) == len(theirs)
    for (kind, event_name, instruction, handles, op_types, backend), their in zip(ours, theirs, strict=True):
        assert (event_name, instruction) == (their["name"], their["instruction_id"])
        if kind in ("framework", "user", "debug"):
            # In etq these events belong to no op; another test covers that.
            assert handles is None and op_types is None
            continue
        written = their["debug_handles"]
        assert handles == ([written] if isinstance(written, int) else written), event_name
        assert op_types == their["op_types"], event_name
        assert backend == their["delegate_backend_name"], event_name


@pytest.mark.parametrize("name", thinned(OPENED, (*FEW, "bf16", "nones")))
def test_stack_traces_and_modules(linked_captures: Warehouse, name: str) -> None:
    rows = linked_captures.rows(
        """
        SELECT n.block_index, n.slot, n.node_name, p.stack_trace,
            list([m.module_key, m.module_path, m.module_class] ORDER BY m.depth)
        FROM event_nodes($c) AS n
        JOIN captures AS c ON c.name = $c
        JOIN op_nodes AS p
            ON p.record_id = c.record_id AND p.graph_id = n.graph_id AND p.node_index = n.node_index
        LEFT JOIN node_modules AS m
            ON m.record_id = c.record_id AND m.graph_id = n.graph_id AND m.node_index = n.node_index
        WHERE n.mapping = 'exact'
        GROUP BY n.block_index, n.slot, n.position, n.node_name, p.stack_trace
        """,
        c=name_in(name),
    )[1]
    ours: dict[tuple[int, int], dict[str, Any]] = {}
    for block, slot, node, trace, levels in rows:
        ours.setdefault((block, slot), {})[f"{node}_"] = (trace, {key: [path, kind] for key, path, kind in levels})
    table = oracle.answer(name, "with_etrecord")["dataframe"]["value"]
    columns = [column.split(" ")[0] for column in table["columns"]]
    order = linked_captures.rows(
        "SELECT block_index, slot, kind FROM inspector_events($c, repeats := 'last') ORDER BY ALL", c=name_in(name)
    )[1]
    compared = 0
    for (block, slot, kind), row in zip(order, table["rows"], strict=True):
        their = dict(zip(columns, row, strict=True))
        if kind in ("framework", "user", "debug"):
            continue
        found = ours.get((block, slot), {})
        assert {node: trace for node, (trace, _) in found.items()} == their["stack_traces"]
        assert {node: modules for node, (_, modules) in found.items()} == their["module_hierarchy"]
        compared += len(found)
    assert compared > 0 or name in ("mlp_0runs",)


@pytest.mark.parametrize(
    "name",
    thinned((name for name in OPENED if name in RECORDS or name in ("mlp_0runs", "demo_str_100runs")), ["demo_int"]),
)
def test_find_total_for_module_by_substring(linked_captures: Warehouse, name: str) -> None:
    """In other cases, the Inspector adds user events and steps to the module of the first op."""
    for module, expected in oracle.answer(name, "with_etrecord")["find_total_for_module"].items():
        _, [(_, total, _, unit)] = linked_captures.rows(
            "FROM find_total_for_module($c, $module, unit := 'ms', match := 'substring')",
            c=name_in(name),
            module=module,
        )
        assert unit == "ms"
        # The Inspector loses digits of delegated events: see test_inspector.
        assert math.isclose(total, expected, rel_tol=1e-12, abs_tol=4e-14 * 1e3), (module, total, expected)


def test_difference_a_module_is_a_path_not_a_part_of_one(linked_captures: Warehouse) -> None:
    """`act` is not `act2`, and a delegate's call is not added to the events within it."""
    theirs = oracle.answer("demo_int", "with_etrecord")["find_total_for_module"]
    assert math.isclose(theirs["act"], 0.0784, rel_tol=1e-2)
    ask = "SELECT total FROM find_total_for_module('demo_int', $module, unit := 'ms')"
    [(act,)], [(act2,)] = (linked_captures.rows(ask, module=module)[1] for module in ("act", "act2"))
    # From the raw dump: the first DELEGATE_CALL's and the second's time, over 5 executes.
    calls = linked_captures.rows(
        """SELECT e.instruction_id, sum(e.duration_ticks) / 5e6 FROM events AS e JOIN captures AS c USING (capture_id)
           WHERE c.name = 'demo_int' AND e.kind = 'delegate_call' GROUP BY ALL ORDER BY ALL"""
    )[1]
    assert [(3, act), (5, act2)] == [(instruction, pytest.approx(total, rel=1e-12)) for instruction, total in calls]


def test_difference_framework_and_user_events_belong_to_no_op(linked_captures: Warehouse) -> None:
    [theirs] = [
        event
        for block in oracle.answer("mlp_block", "with_etrecord")["blocks"]
        for event in block["events"]
        if event["name"] == "Runner::set_inputs"
    ]
    assert theirs["op_types"] == ["aten.permute_copy.default", "aten.addmm.default"]
    assert (
        linked_captures.rows("SELECT DISTINCT event_name FROM event_ops('mlp_block') WHERE event_name LIKE 'Runner%'")[
            1
        ]
        == []
    )
    steps = [event for block in oracle.answer("mlp_step", "with_etrecord")["blocks"] for event in block["events"]]
    assert any(event["name"] == "Method::step" and event["op_types"] for event in steps)
    kinds = linked_captures.rows(
        """SELECT DISTINCT s.kind FROM event_nodes('mlp_step') AS n JOIN captures AS c ON c.name = 'mlp_step'
           JOIN signatures AS s ON s.capture_id = c.capture_id AND s.signature_index = n.signature_index ORDER BY ALL"""
    )[1]
    assert kinds == [("kernel",), ("operator_call",)]


@pytest.mark.parametrize("name", ["convnet", "mlp_xnn"])
def test_difference_another_programs_record_is_reported(linked_captures: Warehouse, name: str) -> None:
    theirs = oracle.answer(f"mismatch__mlp.etdp__{name}.etrecord", "")
    assert theirs["construct"]["ok"]
    assert any(event["op_types"] for block in theirs["blocks"] for event in block["events"])
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "mlp/mlp.etdp")
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / f"{name}/{name}.etrecord"))
        [(rule, detail)] = warehouse.rows("SELECT rule, detail FROM findings")[1]
        assert rule == "foreign record" and detail.startswith(f"the record {name} is of another program: it fits ")
        assert warehouse.event_nodes(capture).fetchall() == []
        modules = dict(warehouse.rows("SELECT module_path, self_ticks FROM module_totals($c)", c=capture)[1])
        assert sum(modules.values()) == modules["(unattributed)"] + modules["(framework)"]


@pytest.mark.parametrize("name", ["multimethod", "twins", "scalars", "cond"])
def test_difference_records_that_the_inspector_cannot_open(linked_captures: Warehouse, name: str) -> None:
    assert not oracle.answer(name, "with_etrecord")["construct"]["ok"]
    methods = linked_captures.rows(
        "SELECT r.method, count(*) FROM runs AS r JOIN captures AS c USING (capture_id) WHERE c.name = $c GROUP BY ALL ORDER BY ALL",
        c=name,
    )[1]
    assert (
        methods
        == {
            "multimethod": [("decode", 5), ("encode", 5), (None, 2)],
            "scalars": [("forward", 5), (None, 1)],
            # The two methods have the same operators, so they can't be distinguished.
            "twins": [(None, 12)],
            "cond": [(None, 6)],
        }[name]
    )
    if name == "cond":
        with pytest.raises(
            duckdb.Error, match="the record cond of cond is half-written: without its edge graph and maps"
        ):
            linked_captures.module_totals(name).fetchall()
        # Views that need no record still answer.
        assert len(linked_captures.op_totals(name).fetchall()) > 3
    else:
        assert sum(row[10] for row in linked_captures.module_totals(name).fetchall()) > 0
    findings = linked_captures.sql(
        "SELECT f.rule FROM findings AS f JOIN captures AS c USING (capture_id) WHERE c.name = $c", c=name
    )
    assert findings.fetchall() == ([("method unknown",)] if name == "twins" else [])


@pytest.mark.parametrize(
    "name",
    thinned(
        sorted(
            path.stem for path in CAPTURES.glob("*/*.etdp") if path.parent.name in RECORDS and path.stem not in COPIES
        )
    ),
)
def test_modules_and_lines_add_up_to_the_total_exactly(linked_captures: Warehouse, name: str) -> None:
    [(total,)] = linked_captures.rows(
        "SELECT coalesce(sum(total_ticks), 0)::BIGINT FROM op_totals($c) WHERE share_percent IS NOT NULL", c=name
    )[1]
    modules = linked_captures.rows(
        "SELECT module_path, self_ticks, total, share_percent FROM module_totals($c, unit := 'ns')", c=name
    )[1]
    assert sum(ticks for _, ticks, _, _ in modules if ticks is not None) == total
    [(lines,)] = linked_captures.rows("SELECT coalesce(sum(total_ticks), 0)::BIGINT FROM source_totals($c)", c=name)[1]
    assert lines == total
    # A module's total is its own and those of all paths below it that are known.
    for path, _, subtree, _ in modules:
        if not path.startswith("("):
            below = [
                ticks
                for other, ticks, _, _ in modules
                if not other.startswith("(")
                and (other == path or not path or other.startswith(f"{path}."))
                and ticks is not None
            ]
            assert subtree == (sum(below) if below else None)


def test_events_within_xnnpack_are_placed_in_their_modules(linked_captures: Warehouse) -> None:
    """By eye, from the models' source: three stages of conv, bn, relu and pool, then mean, reshape and linear."""
    placed = linked_captures.rows(
        """SELECT n.event_name, n.module_path, n.op_type, n.mapping, n.score FROM event_nodes('convnet_xnn') AS n
           WHERE n.event_name <> 'DELEGATE_CALL' ORDER BY n.slot"""
    )[1]
    assert placed == [
        ("Convolution (NHWC, F32) IGEMM #1", "features.0.cbr.conv", "aten.convolution.default", "aligned", 1.0),
        ("Max Pooling (NHWC, F32) #1", "features.0.pool", "aten.max_pool2d.default", "aligned", 1.0),
        ("Convolution (NHWC, F32) IGEMM #2", "features.1.cbr.conv", "aten.convolution.default", "aligned", 1.0),
        ("Max Pooling (NHWC, F32) #2", "features.1.pool", "aten.max_pool2d.default", "aligned", 1.0),
        ("Convolution (NHWC, F32) IGEMM #3", "features.2.cbr.conv", "aten.convolution.default", "aligned", 1.0),
        ("Max Pooling (NHWC, F32) #3", "features.2.pool", "aten.max_pool2d.default", "aligned", 1.0),
        ("Mean (ND) Reduce2 #1", "gap", "aten.mean.dim", "aligned", 1.0),
        ("Static Reshape (NC) #1", "", "aten.view_copy.default", "aligned", 1.0),
        ("Fully Connected (NC, F32) GEMM #1", "classifier", "aten.linear.default", "aligned", 1.0),
    ]
    mlp = linked_captures.rows(
        """SELECT n.instruction_id, n.event_name, n.module_path FROM event_ops('mlp_xnn') AS n
           WHERE n.mapping = 'aligned' ORDER BY n.slot"""
    )[1]
    blocks = [(f"block{block}.up.linear", f"block{block}.down.linear", f"block{block}") for block in (1, 2, 3)]
    assert [module for _, _, module in mlp] == [*(path for block in blocks for path in block), "head.1"]


def test_ops_by_type_and_shape_add_up(linked_captures: Warehouse) -> None:
    for name in ("mlp", "mlp_xnn", "convnet_xnn", "transformer"):
        totals = {
            by: linked_captures.rows(f"""SELECT sum(total_ticks) FROM op_totals($c, "by" := '{by}')""", c=name)[1][0][0]
            for by in ("family", "op_type", "shape")
        }
        assert totals["op_type"] == totals["shape"] == totals["family"] > 0
    # By eye: the model takes 4 x 64, its blocks go 64 to 128 to 64, its head 64 to 10. A call that stands for many ops
    # is of none of them. There are 5 runs.
    rows = linked_captures.rows("""SELECT op, kind, calls FROM op_totals('mlp_xnn', "by" := 'shape', runs := 'all')""")[
        1
    ]
    assert {(op, kind): calls / 5 for op, kind, calls in rows if kind in ("delegate", "delegate_call", "kernel")} == {
        ("DELEGATE_CALL", "delegate_call"): 1,
        ("aten.linear.default [4, 10]", "delegate_call"): 1,
        ("aten.linear.default [4, 10]", "delegate"): 1,
        ("aten.linear.default [4, 128]", "delegate"): 3,
        ("aten.linear.default [4, 64]", "delegate"): 3,
        ("aten.add.Tensor [4, 64]", "delegate"): 3,
        ("aten.native_layer_norm.default [4, 64]", "kernel"): 1,
    }


def test_a_delegate_that_does_not_match_falls_back_to_its_common_module(linked_captures: Warehouse) -> None:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp")
        record = warehouse.ingest_record(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
        # Planted: two of the graph's six linears were something else, and one of its adds comes first.
        warehouse.connection.execute("UPDATE op_nodes SET op = 'mul' WHERE op = 'linear' AND node_index IN (0, 2)")
        warehouse.link(capture, record)
        mappings = warehouse.sql(
            "SELECT event_name, mapping FROM event_ops($c) WHERE instruction_id = 0 ORDER BY slot", c=capture
        )
        assert {mapping for name, mapping in mappings.fetchall() if name != "DELEGATE_CALL"} == {"call"}
        modules = dict(
            warehouse.rows("SELECT module_path, self_ticks FROM module_totals($c, runs := 'all')", c=capture)[1]
        )
        [[called]] = warehouse.rows(
            "SELECT sum(duration_ticks) FROM events WHERE kind = 'delegate_call' AND instruction_id = 0"
        )[1]
        assert modules["block1.up.linear"] is None and modules[""] == called
        ops = dict(warehouse.rows("SELECT op, total_ticks FROM op_totals($c, runs := 'all')", c=capture)[1])
        assert sum(ticks for ticks in modules.values() if ticks is not None) == sum(ops.values())


def test_exported_nodes_have_the_handles_of_what_was_made_of_them(linked_captures: Warehouse) -> None:
    rows = linked_captures.rows(
        """SELECT r.name, count(DISTINCT n.node_index), count(DISTINCT h.node_index)
           FROM records AS r JOIN graphs AS g ON g.record_id = r.record_id AND g.stage = 'exported_program'
           JOIN op_nodes AS n ON n.record_id = r.record_id AND n.graph_id = g.graph_id
           LEFT JOIN node_debug_handles AS h ON h.record_id = r.record_id AND h.graph_id = g.graph_id AND h.node_index = n.node_index
           WHERE r.is_complete AND r.export_graph_id IS NOT NULL GROUP BY r.name ORDER BY r.name"""
    )[1]
    assert all(nodes == handled for name, nodes, handled in rows if name not in ("bf16",)), rows
    assert sum(nodes for _, nodes, _ in rows) > 100


@pytest.mark.parametrize(
    ("capture", "methods"),
    [
        ("mlp/mlp", [("forward", 1.0, 5)]),
        ("cond/cond_mixed", [("forward", 1.0, 60)]),
        ("maploop/maploop", [("forward", 1.0, 5)]),
        ("convnet_xnn/convnet_xnn", [("forward", 1.0, 5)]),
        ("multimethod/multimethod_interleave", [("decode", 1.0, 5), ("encode", 1.0, 5)]),
        ("twins/twins", [(None, 1.0, 10)]),
    ],
)
def test_methods_are_known_by_the_program_alone(capture: str, methods: list[tuple[str | None, float, int]]) -> None:
    """Also if the record is half-written (cond, maploop); each dump has a program."""
    with empty_warehouse() as warehouse:
        found = warehouse.ingest(CAPTURES / f"{capture}.etdp")
        folder = (CAPTURES / capture).parent
        warehouse.link(found, warehouse.ingest_program(folder / f"{folder.name}.pte"))
        runs = warehouse.sql(
            "SELECT method, method_score, count(*) FROM runs WHERE name = 'Execute' GROUP BY ALL ORDER BY ALL"
        )
        assert runs.fetchall() == methods
        rules = [rule for (rule,) in warehouse.rows("SELECT rule FROM findings")[1]]
        assert rules == (["method unknown"] if capture == "twins/twins" else [])


def test_another_program_is_reported() -> None:
    with empty_warehouse() as warehouse:
        found = warehouse.ingest(CAPTURES / "mlp/mlp.etdp")
        warehouse.link(found, warehouse.ingest_program(CAPTURES / "convnet/convnet.pte"))
        [(rule, detail)] = warehouse.rows("SELECT rule, detail FROM findings")[1]
        assert rule == "foreign program" and "the program convnet is of another program: it fits" in detail


@pytest.mark.parametrize("name", ["mlp_xnn", "convnet_xnn"])
def test_delegation_counts_are_those_of_executorch(linked_captures: Warehouse, name: str) -> None:
    """The comparison leaves out getitem, which selects one of several outputs and is not a node of a record's graph."""
    theirs = oracle.answer(name, "delegation")
    ours = {
        op_type.replace(".", "_").lower(): (delegated, other)
        for op_type, delegated, other in linked_captures.rows(
            "SELECT op_type, delegated, not_delegated FROM delegation($c)", c=name
        )[1]
    }
    assert ours == {
        row["op_type"]: (row["occurrences_in_delegated_graphs"], row["occurrences_in_non_delegated_graphs"])
        for row in theirs["operators"]
        if row["op_type"] not in ("getitem", "Total")
    }
    [(subgraphs,)] = linked_captures.rows(
        "SELECT count(*) FROM delegates AS d JOIN records AS r USING (record_id) WHERE r.name = $c", c=name
    )[1]
    assert subgraphs == theirs["num_delegated_subgraphs"]


def test_a_record_is_asked_about_by_itself_or_its_name(linked_captures: Warehouse) -> None:
    record = linked_captures.record("mlp_xnn")
    assert linked_captures.delegation(record).fetchall() == linked_captures.delegation("mlp_xnn").fetchall() != []
    total = linked_captures.find_total_for_module("mlp_xnn", "head.0").fetchall()
    assert total == linked_captures.rows("FROM find_total_for_module('mlp_xnn', 'head.0')")[1] != []


@pytest.mark.parametrize("name", ["cond", "maploop"])
def test_delegation_of_half_written_records_is_that_of_the_program(name: str) -> None:
    """executorch can't write a whole record of control flow. Truth: the instructions, as flatc reads the program."""
    folder = CAPTURES / name
    with gzip.open(CAPTURES / "expected" / f"{name}.pte.json.gz") as file:
        [plan] = json.load(file)["execution_plan"]
    called = [
        plan["operators"][call["instr_args"]["op_index"]]["name"].partition("::")[2]
        for call in plan["chains"][0]["instructions"]
        if call["instr_args"]["__"] == "KernelCall"
    ]
    with empty_warehouse() as warehouse:
        warehouse.ingest(
            folder / f"{name}.etdp", etrecord=folder / f"{name}.etrecord", pte=folder / f"{name}.pte", name="run"
        )
        counted: Counter[str] = Counter()
        for op_type, delegated, kernels, basis in warehouse.rows(
            f"SELECT op_type, delegated, not_delegated, basis FROM delegation('{name}')"
        )[1]:
            assert (delegated, basis) == (0, "program")
            counted[op_type.rpartition("::")[2].partition(".")[0]] += kernels
        assert counted == Counter(called)
        query = "SELECT sum(not_delegated), sum(calls), fsum(total) FROM delegate_coverage('run', unit := 'ns', runs := 'all')"
        [(kernels, calls, total)] = warehouse.rows(query)[1]
        logged = """
            SELECT count(*), sum(t.elapsed_ticks) FROM event_ticks AS t
            JOIN signatures AS s USING (capture_id, signature_index) WHERE s.kind = 'kernel'
        """
        assert (kernels, calls, total) == (len(called), *warehouse.rows(logged)[1][0])


def test_delegate_coverage_by_the_program_alone() -> None:
    """The ops of XNNPACK's graph: of the model's, 7 linear and 3 add; a relu is part of the op before."""
    folder = CAPTURES / "mlp_xnn"
    with empty_warehouse() as warehouse:
        warehouse.ingest(folder / "mlp_xnn.etdp", pte=folder / "mlp_xnn.pte", name="run")
        query = "SELECT op_type, delegated, not_delegated, calls, basis FROM delegate_coverage('run', runs := 'all')"
        assert warehouse.rows(query)[1] == [
            ("native_layer_norm", 0, 1, 5, "program"),
            ("Add", 3, 0, 0, "program"),
            ("FullyConnected", 7, 0, 0, "program"),
        ]


def test_delegate_coverage(linked_captures: Warehouse) -> None:
    rows = linked_captures.rows(
        "SELECT op_type, delegated, not_delegated, calls, worst_source, worst_module FROM delegate_coverage('mlp_xnn', runs := 'all')"
    )[1]
    # By eye: of the model's operators only the head's LayerNorm is left to a portable kernel, in line 32.
    assert rows[0] == ("aten.native_layer_norm.default", 0, 1, 5, "models/export_models.py:32", "head.0")
    assert [row[:4] for row in rows[1:]] == [
        ("aten.add.Tensor", 3, 0, 0),
        ("aten.linear.default", 7, 0, 0),
        ("aten.relu.default", 6, 0, 0),
    ]
    [(fallen,)] = linked_captures.rows("SELECT sum(total) FROM delegate_coverage('mlp_xnn', unit := 'ns')")[1]
    [(kernels,)] = linked_captures.rows(
        "SELECT total FROM execute_breakdown('mlp_xnn', unit := 'ns') WHERE component = 'kernels'"
    )[1]
    assert fallen == kernels
