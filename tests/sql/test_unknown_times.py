"""Times that no event shows are NULL, not zero: of modules, nodes and ops that a delegate ran in a call without events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from etq.cli import main
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_csv
from tests.builders import delegate_call, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.records import Maps, node, record, tensor
from tests.warehouses import empty_warehouse

# A call runs three nodes, a kernel one, nothing the last.
NODES = (
    node("aten.linear.default", tensor("a", 2), handle=1),
    node("aten.relu.default", tensor("b", 2), handle=2),
    node("aten.linear.default", tensor("c", 2), handle=3),
    node("aten.tanh.default", tensor("d", 2), handle=4),
    node("aten.alias_copy.default", tensor("e", 2), handle=5),
)
MODULES = ("up", "act", "down", "out.act", "idle")
HANDLES = Maps(handles={0: [1, 2, 3], 1: [4]}, delegates={0: None})


@pytest.fixture
def warehouse() -> Iterator[Warehouse]:
    with empty_warehouse() as made:
        yield made


def ingested(warehouse: Warehouse, folder: Path, *events: object) -> None:
    """A capture of one run, linked to the record of these nodes in these modules."""
    (folder / "net.etrecord").write_bytes(record(*NODES, maps=HANDLES))
    (folder / "run.etdp").write_bytes(dump(run("Execute", *events)))  # type: ignore[arg-type]
    linked = warehouse.ingest_record(folder / "net.etrecord")
    for index, module in enumerate(MODULES):
        warehouse.connection.execute("UPDATE op_nodes SET module_path = ? WHERE node_index = ?", [module, index])
        for depth, path in enumerate(["", *(["out"] if module == "out.act" else []), module]):
            warehouse.connection.execute(
                "INSERT INTO node_modules BY NAME SELECT record_id, graph_id, node_index, $depth AS depth, "
                "$path AS module_path, $path AS module_key, 'Module' AS module_class, 0 AS call_number FROM op_nodes WHERE node_index = $at",
                {"depth": depth, "path": path, "at": index},
            )
    warehouse.link(warehouse.ingest(folder / "run.etdp"), linked)


CALLED = (delegate_call(start=0, end=100), kernel("tanh", start=100, end=110, instruction=1), execute(0, 110))


def test_modules(warehouse: Warehouse, tmp_path: Path) -> None:
    """The call is of the model as a whole. A module that only contains others has no time of its own, which is known."""
    ingested(warehouse, tmp_path, *CALLED)
    query = """
        SELECT module_path, calls, self_time, total, share_percent, mapping FROM module_totals('run', unit := 'ns')
        WHERE depth IS NOT NULL
    """
    assert_csv(
        warehouse,
        query,
        """
        module_path,calls,self_time,total,share_percent,mapping
        ,1,100.0,110.0,100.0,exact
        act,,,,,
        down,,,,,
        idle,0,0.0,0.0,0.0,
        out,0,0.0,10.0,9.090909090909092,
        out.act,1,10.0,10.0,9.090909090909092,exact
        up,,,,,
        """,
    )


def test_nodes(warehouse: Warehouse, tmp_path: Path) -> None:
    ingested(warehouse, tmp_path, *CALLED)
    assert_csv(
        warehouse,
        "SELECT op_type, calls, self_time, share_percent FROM node_totals('run', unit := 'ns')",
        """
        op_type,calls,self_time,share_percent
        aten.linear.default,,,
        aten.relu.default,,,
        aten.linear.default,,,
        aten.tanh.default,1,10.0,9.090909090909092
        aten.alias_copy.default,0,0.0,0.0
        """,
    )


@pytest.mark.parametrize(
    ("module", "expected"), [("up", (None, None)), ("idle", (0, 0)), ("out", (10, 1)), ("", (110, 2)), ("none", (0, 0))]
)
def test_one_module(
    warehouse: Warehouse, tmp_path: Path, module: str, expected: tuple[float | None, int | None]
) -> None:
    ingested(warehouse, tmp_path, *CALLED)
    query = "SELECT total, events FROM find_total_for_module('run', $module, unit := 'ns')"
    assert warehouse.rows(query, module=module)[1] == [expected]


def test_ops_of_a_delegate_without_an_event(warehouse: Warehouse) -> None:
    """The clamps of a quantized net, which were fused."""
    stem = CAPTURES / "delegation" / "mobile_quantized" / "mobile_quantized"
    warehouse.ingest(stem.with_suffix(".etdp"), name="run", pte=stem.with_suffix(".pte"))
    query = "SELECT DISTINCT calls, self_time, share_percent FROM delegate_graph('run') WHERE op = 'Clamp'"
    assert warehouse.rows(query)[1] == [(None, None, None)]


def notes(*arguments: str) -> list[str]:
    answer = CliRunner().invoke(main, [*arguments])
    assert answer.exit_code == 0, answer.output
    return [line for line in answer.stderr.splitlines() if "unknown" in line]


def test_the_reason_is_stated_once() -> None:
    """Batch norms and relu6 of delegated convolutions have no event; a transformer that isn't delegated has all."""
    delegated = CAPTURES / "delegation" / "mobile" / "mobile"
    record_of = ("--etrecord", f"{delegated}.etrecord")
    # A stem and head of one each, two blocks of three convolutions with two relu6.
    unknown = 2 * (1 + 1) + 2 * (3 + 2)
    assert notes("modules", f"{delegated}.etdp", *record_of) == [
        f"Note: the time of {unknown} modules is unknown: a delegate runs the ops, and no event of it is known to be theirs"
    ]
    stem = CAPTURES / "transformer" / "transformer"
    assert notes("modules", f"{stem}.etdp", "--etrecord", f"{stem}.etrecord") == []


def test_an_op_whose_times_are_impossible(warehouse: Warehouse, tmp_path: Path) -> None:
    """The execute or an op ends before it starts: its time is unknown, and is not zero, as of an execute that events
    cover.
    """
    add, covered, impossible = kernel("add", start=0, end=100), execute(0, 100), execute(2**40, 0)
    late = (kernel("add", start=2**40, end=100), kernel("mul", start=100, end=150), execute(0, 200))
    for name, events, expected in (
        ("covered", (add, covered), [("add", 100), ("(unattributed)", 0)]),
        ("impossible", (add, impossible), [("(unattributed)", None)]),
        ("late", late, [("(unattributed)", 150), ("mul", 50), ("add", None)]),
    ):
        (tmp_path / f"{name}.etdp").write_bytes(dump(run("Execute", *events)))
        warehouse.ingest(tmp_path / f"{name}.etdp")
        query = "SELECT op, total FROM op_totals($name, unit := 'ns')"
        assert warehouse.rows(query, name=name)[1] == expected, name
