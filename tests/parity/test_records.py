"""Views of an ETRecord and a capture's events against the Inspector: handles, ops, stack traces, modules.

`test_dropin_differences` has other deliberate differences, with both answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_linked
from tests.conftest import CAPTURES, COPIES
from tests.parity import oracle
from tests.sampling import FEW, thinned
from tests.warehouses import empty_warehouse

WITH = "with_etrecord"
# The Inspector opens these with their record. For the others it raises; the tests below show why.
RECORDS = ["bf16", "convnet", "convnet_xnn", "demo_int", "demo_str", "mlp", "mlp_xnn", "nones", "transformer"]
OPENED = [
    name
    for name in oracle.names(WITH)
    if oracle.capture_path(name).parent.name in RECORDS and oracle.answer(name, WITH)["construct"]["ok"]
]
OFTEN = [name for name in (*FEW, "bf16", "nones") if name in OPENED]
FEW_METHODS = ["multimethod", "twins", "cond"]
# In etq, events of these kinds belong to no op.
OF_NO_OP = ("framework", "user", "debug")

Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def linked() -> Iterator[Warehouse]:
    """A warehouse of captures with their model's record; other than these, `ask` ingests when they are first used."""
    with empty_warehouse() as warehouse:
        ingest_linked(warehouse, [oracle.capture_path(name) for name in (*OFTEN, *FEW_METHODS)])
        yield warehouse


@pytest.fixture
def ask(linked: Warehouse) -> Ask:
    """Rows of a query about `$c`, a capture."""

    def rows(query: str, c: str, **parameters: Any) -> list[tuple[Any, ...]]:
        path = oracle.capture_path(c)
        # Two captures have the same content.
        name = "mlp_debug" if c == "mlp_debug_nobin" else c
        if not linked.rows("SELECT 1 FROM captures WHERE name = $name", name=name)[1]:
            record = linked.ingest_record(path.with_name(f"{path.parent.name}.etrecord"))
            linked.ingest_many([path], link_to=[record])
        return linked.rows(query, c=name, **parameters)[1]

    return rows


@pytest.mark.parametrize("name", thinned(OPENED, OFTEN))
def test_handles_ops_and_backends(ask: Ask, name: str) -> None:
    query = """
        SELECT i.kind, i.event_name, i.instruction_id, o.debug_handles, o.op_types, o.backend
        FROM inspector_events($c, repeats := 'last') AS i
        LEFT JOIN event_ops($c) AS o ON o.block_index = i.block_index AND o.slot = i.slot
        ORDER BY i.block_index, i.slot
    """
    for (kind, *ours), theirs in zip(ask(query, name), oracle.events(name, WITH), strict=True):
        handles = theirs["debug_handles"]
        handles = [handles] if isinstance(handles, int) else handles
        symbols = [handles, theirs["op_types"], theirs["delegate_backend_name"]]
        expected = [None, None, ours[4]] if kind in OF_NO_OP else symbols
        assert ours == [theirs["name"], theirs["instruction_id"], *expected]


@pytest.mark.parametrize("name", thinned(OPENED, OFTEN))
def test_stack_traces_and_modules(ask: Ask, name: str) -> None:
    query = """
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
    """
    ours: dict[tuple[int, int], dict[str, Any]] = {}
    for block, slot, node, trace, levels in ask(query, name):
        ours.setdefault((block, slot), {})[f"{node}_"] = (trace, {key: [path, kind] for key, path, kind in levels})
    order = ask("SELECT block_index, slot, kind FROM inspector_events($c, repeats := 'last') ORDER BY ALL", name)
    compared = 0
    for (block, slot, kind), theirs in zip(order, oracle.frame(name, WITH), strict=True):
        if kind not in OF_NO_OP:
            found = ours.get((block, slot), {})
            assert {node: trace for node, (trace, _) in found.items()} == theirs["stack_traces"]
            assert {node: modules for node, (_, modules) in found.items()} == theirs["module_hierarchy"]
            compared += len(found)
    assert compared > 0 or name == "mlp_0runs"


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    thinned((name for name in OPENED if name in RECORDS or name in ("mlp_0runs", "demo_str_100runs")), ["demo_int"]),
)
def test_find_total_for_module_by_substring(ask: Ask, name: str) -> None:
    """In other captures, the Inspector adds user events and steps to the module of the first op."""
    query = "SELECT total, unit FROM find_total_for_module($c, $module, unit := 'ms', match := 'substring')"
    for module, expected in oracle.answer(name, WITH)["find_total_for_module"].items():
        [(total, unit)] = ask(query, name, module=module)
        # The Inspector loses digits of delegated events: see test_inspector.
        assert unit == "ms" and math.isclose(total, expected, rel_tol=1e-12, abs_tol=4e-14 * 1e3), module


# Runs by method of captures whose record the Inspector can't open. The methods of twins have the same operators.
METHODS: dict[str, list[tuple[str | None, int]]] = {
    "multimethod": [("decode", 5), ("encode", 5), (None, 2)],
    "scalars": [("forward", 5), (None, 1)],
    "twins": [(None, 12)],
    "cond": [(None, 6)],
}


@pytest.mark.parametrize("name", thinned(METHODS, FEW_METHODS))
def test_records_that_the_inspector_cannot_open(ask: Ask, name: str) -> None:
    assert not oracle.answer(name, WITH)["construct"]["ok"]
    of_runs = "FROM runs AS r JOIN captures AS c USING (capture_id) WHERE c.name = $c GROUP BY ALL ORDER BY ALL"
    assert ask(f"SELECT r.method, count(*) {of_runs}", name) == METHODS[name]
    found = ask("SELECT f.rule FROM findings AS f JOIN captures AS c USING (capture_id) WHERE c.name = $c", name)
    assert found == ([("method unknown",)] if name == "twins" else [])
    if name == "cond":
        message = "the record cond of cond is half-written: without its edge graph and maps"
        with pytest.raises(QueryError, match=message):
            ask("FROM module_totals($c)", name)
        # Views that need no record still answer.
        assert len(ask("FROM op_totals($c)", name)) > 3
    else:
        assert ask("SELECT sum(self_ticks) > 0 FROM module_totals($c)", name) == [(True,)]


@pytest.mark.parametrize(
    "name",
    thinned(
        sorted(
            path.stem for path in CAPTURES.glob("*/*.etdp") if path.parent.name in RECORDS and path.stem not in COPIES
        ),
        ["mlp_wrap32", "demo_int"],
    ),
)
def test_modules_and_lines_add_up_to_the_total_exactly(ask: Ask, name: str) -> None:
    total_of = "SELECT coalesce(sum(total_ticks), 0)::BIGINT FROM"
    [total] = ask(f"{total_of} op_totals($c) WHERE share_percent IS NOT NULL", name)
    assert ask(f"{total_of} source_totals($c)", name) == [total]
    modules = ask("SELECT module_path, self_ticks, total FROM module_totals($c, unit := 'ns')", name)
    assert sum(ticks or 0 for _, ticks, _ in modules) == total[0]
    # A module's total is its own and those of all paths below it that are known.
    known = [(path, ticks) for path, ticks, _ in modules if not path.startswith("(") and ticks is not None]
    for path, _, subtree in modules:
        if not path.startswith("("):
            below = [ticks for other, ticks in known if not path or f"{other}.".startswith(f"{path}.")]
            assert subtree == (sum(below) if below else None)


def test_events_within_xnnpack_are_placed_in_their_modules(ask: Ask) -> None:
    """By eye, from the models' source: three stages of conv, bn, relu and pool, then mean, reshape and linear."""
    placed = ask(
        """SELECT n.event_name, n.module_path, n.op_type, n.mapping, n.score FROM event_nodes($c) AS n
           WHERE n.event_name <> 'DELEGATE_CALL' ORDER BY n.slot""",
        "convnet_xnn",
    )
    stages = [
        each
        for stage in range(3)
        for each in (
            (f"Convolution (NHWC, F32) IGEMM #{stage + 1}", f"features.{stage}.cbr.conv", "aten.convolution.default"),
            (f"Max Pooling (NHWC, F32) #{stage + 1}", f"features.{stage}.pool", "aten.max_pool2d.default"),
        )
    ]
    assert placed == [
        (*each, "aligned", 1.0)
        for each in (
            *stages,
            ("Mean (ND) Reduce2 #1", "gap", "aten.mean.dim"),
            ("Static Reshape (NC) #1", "", "aten.view_copy.default"),
            ("Fully Connected (NC, F32) GEMM #1", "classifier", "aten.linear.default"),
        )
    ]
    mlp = ask("SELECT n.module_path FROM event_ops($c) AS n WHERE n.mapping = 'aligned' ORDER BY n.slot", "mlp_xnn")
    blocks = [(f"block{block}.up.linear", f"block{block}.down.linear", f"block{block}") for block in (1, 2, 3)]
    assert [module for (module,) in mlp] == [*(path for block in blocks for path in block), "head.1"]


def test_ops_by_type_and_shape_add_up(ask: Ask) -> None:
    for name in ("mlp", "mlp_xnn"):
        by_what = ("family", "op_type", "shape")
        totals = [ask('SELECT sum(total_ticks) FROM op_totals($c, "by" := $by)', name, by=by) for by in by_what]
        assert totals[0] == totals[1] == totals[2] and totals[0][0][0] > 0
    # By eye: the model takes 4 x 64, its blocks go 64 to 128 to 64, its head 64 to 10. What the events of the
    # two calls leave of these is of no op. There are 5 runs.
    rows = ask("SELECT op, kind, calls FROM op_totals($c, \"by\" := 'shape', runs := 'all')", "mlp_xnn")
    assert {(op, kind): calls / 5 for op, kind, calls in rows if kind in ("delegate", "delegate_call", "kernel")} == {
        ("(delegate unaccounted)", "delegate_call"): 2,
        ("aten.linear.default [4, 10]", "delegate"): 1, ("aten.linear.default [4, 128]", "delegate"): 3,
        ("aten.linear.default [4, 64]", "delegate"): 3, ("aten.add.Tensor [4, 64]", "delegate"): 3,
        ("aten.native_layer_norm.default [4, 64]", "kernel"): 1,
    }  # fmt: skip


def test_a_delegate_that_does_not_match_falls_back_to_its_common_module(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp")
    record = warehouse.ingest_record(CAPTURES / "mlp_xnn/mlp_xnn.etrecord")
    # Planted: two of the graph's six linears were something else, and one of its adds comes first.
    warehouse.connection.execute("UPDATE op_nodes SET op = 'mul' WHERE op = 'linear' AND node_index IN (0, 2)")
    warehouse.link(capture, record)
    mappings = warehouse.rows("SELECT event_name, mapping FROM event_ops($c) WHERE instruction_id = 0", c=capture)[1]
    assert {mapping for name, mapping in mappings if name != "DELEGATE_CALL"} == {"call"}
    modules = dict(warehouse.rows("SELECT module_path, self_ticks FROM module_totals($c, runs := 'all')", c=capture)[1])
    of_calls = "SELECT sum(duration_ticks) FROM events WHERE kind = 'delegate_call' AND instruction_id = 0"
    assert modules["block1.up.linear"] is None and warehouse.rows(of_calls)[1] == [(modules[""],)]
    [(total,)] = warehouse.rows("SELECT sum(total_ticks) FROM op_totals($c, runs := 'all')", c=capture)[1]
    assert sum(ticks for ticks in modules.values() if ticks is not None) == total


@pytest.mark.parametrize(
    ("capture", "methods"),
    thinned(
        [
            ("mlp/mlp", [("forward", 1.0, 5)]),
            ("cond/cond_mixed", [("forward", 1.0, 60)]),
            ("maploop/maploop", [("forward", 1.0, 5)]),
            ("convnet_xnn/convnet_xnn", [("forward", 1.0, 5)]),
            ("multimethod/multimethod_interleave", [("decode", 1.0, 5), ("encode", 1.0, 5)]),
            ("twins/twins", [(None, 1.0, 10)]),
        ],
        ["cond/cond_mixed", "multimethod/multimethod_interleave", "twins/twins"],
    ),
)
def test_methods_are_known_by_the_program_alone(
    warehouse: Warehouse, capture: str, methods: list[tuple[str | None, float, int]]
) -> None:
    """Also if the record is half-written (cond, maploop); each dump has a program."""
    folder = (CAPTURES / capture).parent
    warehouse.ingest(CAPTURES / f"{capture}.etdp", pte=folder / f"{folder.name}.pte")
    query = "SELECT method, method_score, count(*) FROM runs WHERE name = 'Execute' GROUP BY ALL ORDER BY ALL"
    assert warehouse.rows(query)[1] == methods
    rules = warehouse.rows("SELECT rule FROM findings")[1]
    assert rules == ([("method unknown",)] if capture == "twins/twins" else [])


@pytest.mark.parametrize("name", thinned(["cond", "maploop"], ["cond"]))
def test_delegation_of_half_written_records_is_that_of_the_program(warehouse: Warehouse, name: str) -> None:
    """executorch can't write a whole record of control flow. Truth: the instructions, as flatc reads the program."""
    [plan] = oracle.answer(name, "pte")["execution_plan"]
    called = [
        plan["operators"][call["instr_args"]["op_index"]]["name"].partition("::")[2]
        for call in plan["chains"][0]["instructions"]
        if call["instr_args"]["__"] == "KernelCall"
    ]
    stem = CAPTURES / name / name
    record, program = stem.with_suffix(".etrecord"), stem.with_suffix(".pte")
    warehouse.ingest(stem.with_suffix(".etdp"), name="run", etrecord=record, pte=program)
    counted: Counter[str] = Counter()
    query = "SELECT op_type, not_delegated, delegated, basis FROM delegation($name)"
    for op_type, kernels, *rest in warehouse.rows(query, name=name)[1]:
        assert rest == [0, "program"]
        counted[op_type.rpartition("::")[2].partition(".")[0]] += kernels
    assert counted == Counter(called)
    sums = (
        "SELECT sum(not_delegated), sum(calls), fsum(total) FROM delegate_coverage('run', unit := 'ns', runs := 'all')"
    )
    logged = """
        SELECT count(*), sum(t.elapsed_ticks) FROM event_ticks AS t
        JOIN signatures AS s USING (capture_id, signature_index) WHERE s.kind = 'kernel'
    """
    assert warehouse.rows(sums)[1] == [(len(called), *warehouse.rows(logged)[1][0])]


def test_delegate_coverage_by_the_program_alone(warehouse: Warehouse) -> None:
    """The ops of XNNPACK's graph: of the model's, 7 linear and 3 add; a relu is part of the op before."""
    stem = CAPTURES / "mlp_xnn/mlp_xnn"
    warehouse.ingest(stem.with_suffix(".etdp"), pte=stem.with_suffix(".pte"), name="run")
    query = "SELECT op_type, delegated, not_delegated, calls, basis FROM delegate_coverage('run', runs := 'all')"
    assert warehouse.rows(query)[1] == [
        ("native_layer_norm", 0, 1, 5, "program"),
        ("Add", 3, 0, 0, "program"),
        ("FullyConnected", 7, 0, 0, "program"),
    ]
