"""Ops, modules and events of several methods in one capture are distinguished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import etq
from etq.cli import main
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_query
from tests.builders import Run, dump, execute, framework, kernel, run
from tests.cli.peaks import ON_LINUX, lines_and_peak
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

MULTIMETHOD = CAPTURES / "multimethod"


def forward(start: int = 0) -> Run:
    """Two kernels: addmm of 100 ticks, then relu of 20, in an execute of 130."""
    return run(
        "Execute",
        kernel("addmm", start + 5, start + 105, instruction=0),
        kernel("relu", start + 105, start + 125, instruction=1),
        execute(start, start + 130),
    )


def decode(start: int = 0) -> Run:
    """The first kernel is that of `forward` and takes 10 ticks, the others differ; the execute takes 50."""
    return run(
        "Execute",
        kernel("addmm", start + 5, start + 15, instruction=0),
        kernel("sigmoid", start + 15, start + 45, instruction=1),
        execute(start, start + 50),
    )


def prefix(start: int = 0) -> Run:
    """Only the first kernel of `forward`, without a jump around the others: another program."""
    return run("Execute", kernel("addmm", start + 5, start + 15, instruction=0), execute(start, start + 20))


def branch(name: str, instruction: int) -> Run:
    """One branch of a program that jumps. Its kernel has a separate instruction."""
    return run(
        "Execute",
        framework("JF_CALL", 1, 2),
        kernel(name, 10, 30, instruction=instruction),
        execute(0, 40),
    )


def branches(first: str, branch: int, name: str) -> Run:
    """A first kernel, a jump, and the kernel of one branch, with a separate instruction."""
    return run(
        "Execute",
        framework("JF_CALL", 1, 2),
        kernel(first, 5, 10, instruction=0),
        kernel(name, 10, 30, instruction=branch),
        execute(0, 40),
    )


def test_branches_belong_to_one_program() -> None:
    """Only one branch of the first program calls instruction 2, which another program calls otherwise."""
    assert_query(
        """SELECT r.scope, list(DISTINCT r.block_index ORDER BY r.block_index)::VARCHAR AS blocks
        FROM runs AS r GROUP BY r.scope ORDER BY r.scope""",
        """
        scope,blocks
        Execute #1,"[0, 2]"
        Execute #2,"[1, 3]"
        """,
        branches("addmm", 2, "relu"),
        branches("mul", 2, "sigmoid"),
        branches("addmm", 3, "tanh"),
        branches("mul", 4, "tanh"),
    )


def test_an_instruction_of_two_programs_has_a_row_in_each() -> None:
    assert_query(
        """SELECT op, method, instruction_id, calls, avg, share_percent
        FROM op_totals('test', by := 'instance', unit := 'ns') WHERE kind = 'kernel' ORDER BY method, instruction_id""",
        """
        op,method,instruction_id,calls,avg,share_percent
        native_call_addmm.out,Execute #1,0,2,100.0,55.55555555555556
        native_call_relu.out,Execute #1,1,2,20.0,11.11111111111111
        native_call_addmm.out,Execute #2,0,2,10.0,5.555555555555555
        native_call_sigmoid.out,Execute #2,1,2,30.0,16.666666666666668
        """,
        forward(),
        decode(),
        forward(),
        decode(),
    )


def test_one_program_alone_can_be_asked_for() -> None:
    assert_query(
        """SELECT op, calls, avg, share_percent
        FROM op_totals('test', unit := 'ns', method := 'Execute #2') ORDER BY total DESC, op DESC""",
        """
        op,calls,avg,share_percent
        sigmoid,1,30.0,60.0
        addmm,1,10.0,20.0
        (unattributed),1,10.0,20.0
        """,
        forward(),
        decode(),
    )


def test_programs_of_the_same_first_kernels_without_jumps_are_two() -> None:
    assert_query(
        "SELECT scope, count(*) AS runs FROM runs GROUP BY scope ORDER BY scope",
        """
        scope,runs
        Execute #1,2
        Execute #2,1
        """,
        forward(),
        prefix(),
        forward(),
    )


def test_a_run_that_stopped_early_is_of_its_program() -> None:
    assert_query(
        "SELECT scope, count(*) AS runs FROM runs GROUP BY scope ORDER BY scope",
        """
        scope,runs
        Execute,11
        """,
        *[forward() for _ in range(10)],
        prefix(),
    )


def test_a_run_that_logged_no_operators_is_of_the_first_program() -> None:
    assert_query(
        "SELECT scope, count(*) AS runs FROM runs GROUP BY scope ORDER BY scope",
        """
        scope,runs
        Execute #1,2
        Execute #2,1
        """,
        run("Execute", execute(0, 10)),
        forward(),
        decode(),
    )


def test_comparisons_do_not_go_by_the_order_in_which_programs_ran() -> None:
    with empty_warehouse() as warehouse:
        for order in ("ab", "ba"):
            for number in range(3):
                runs = [
                    each
                    for _ in range(4)
                    for each in ((forward(), decode()) if order == "ab" else (decode(), forward()))
                ]
                warehouse.ingest(dump(*runs, run(f"{order}{number}")), name=f"{order}{number}", labels={"order": order})
        query = "SELECT DISTINCT c.verdict FROM compare_captures('order=ab', 'order=ba') AS c"
        assert {verdict for (verdict,) in warehouse.rows(query)[1]} <= {"~", "not decided", None}


def test_branches_of_a_program_are_one() -> None:
    assert_query(
        "SELECT scope, count(*) AS runs FROM runs GROUP BY scope ORDER BY scope",
        """
        scope,runs
        Execute,3
        """,
        branch("sin", 3),
        branch("cos", 5),
        branch("sin", 3),
    )


@pytest.mark.long
@ON_LINUX
def test_runs_of_as_many_programs_take_memory_in_proportion(tmp_path: Path) -> None:
    """4,000 took 1.2 GB, and 16 times the time of 1,000, as each was compared with each."""
    plain = [run("Execute", kernel(f"op{at}", 1, 2), execute(0, 3)) for at in range(2000)]
    jumping = [
        run("Execute", framework("JF_CALL", 1, 2), kernel(f"op{at}", 5, 10), execute(0, 40)) for at in range(2000)
    ]
    path = tmp_path / "many.etdp"
    path.write_bytes(dump(*plain, *jumping))
    status, lines, kilobytes = lines_and_peak(tmp_path, "ops", path)
    assert status == 0 and lines > 4000
    assert kilobytes < 400_000


def test_steps_that_execute_one_instruction_each_are_of_one_program() -> None:
    assert_query(
        "SELECT scope, count(*) AS runs FROM runs GROUP BY scope ORDER BY scope",
        """
        scope,runs
        Step,2
        """,
        run("Step", kernel("add", 1, 2, instruction=0), framework("Method::step", 0, 3)),
        run("Step", kernel("mul", 1, 2, instruction=1), framework("Method::step", 0, 3)),
    )


def test_parts_of_programs_are_distinguished_by_executes() -> None:
    assert_query(
        """SELECT component, method, per_execute, share_percent
        FROM execute_breakdown('test', unit := 'ns') ORDER BY method, component""",
        """
        component,method,per_execute,share_percent
        kernels,Execute #1,120.0,77.41935483870968
        rest,Execute #1,10.0,6.451612903225806
        kernels,Execute #2,40.0,12.903225806451612
        rest,Execute #2,10.0,3.225806451612903
        """,
        forward(),
        decode(),
        forward(),
    )


@pytest.mark.long
@pytest.mark.parametrize("captures", ["all_captures", "linked_captures"])
def test_where_runs_of_a_name_have_one_block_their_scope_is_that_of_the_search(
    captures: str, request: pytest.FixtureRequest
) -> None:
    """The search for programs isn't run for such captures when they are ingested."""
    warehouse = request.getfixturevalue(captures)
    query = """
        SELECT count(*) FILTER (r.scope = f.scope), count(*), count(DISTINCT r.capture_id)
        FROM runs AS r
        JOIN _find_run_scopes(0, 1000000) AS f ON f.capture_id = r.capture_id AND f.run_index = r.run_index
    """
    [(same, all_runs, number)] = warehouse.rows(query)[1]
    assert same == all_runs > number > 50


def test_the_tree_has_a_level_of_methods() -> None:
    assert_query(
        "SELECT depth, name, kind, total FROM time_tree('test', unit := 'ns') ORDER BY node_index",
        """
        depth,name,kind,total
        0,total,total,180.0
        1,Execute #1,run,130.0
        2,addmm,kernel,100.0
        2,relu,kernel,20.0
        2,(unattributed),rest,10.0
        1,Execute #2,run,50.0
        2,sigmoid,kernel,30.0
        2,addmm,kernel,10.0
        2,(unattributed),rest,10.0
        """,
        forward(),
        decode(),
    )


@pytest.fixture(scope="module")
def linked() -> Warehouse:
    warehouse = etq.open()
    record = warehouse.ingest_record(MULTIMETHOD / "multimethod.etrecord")
    capture = warehouse.ingest(MULTIMETHOD / "multimethod_100runs.etdp")
    warehouse.link(capture, record)
    return warehouse


def executes(warehouse: Warehouse) -> dict[str, int]:
    """Ticks of all executes by method, from the base tables."""
    query = """
        SELECT r.method, sum(t.elapsed_ticks)::BIGINT
        FROM event_ticks AS t
        JOIN signatures AS s USING (capture_id, signature_index)
        JOIN runs AS r USING (capture_id, run_index)
        WHERE s.name = 'Method::execute'
        GROUP BY r.method
    """
    return dict(warehouse.rows(query)[1])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT method, sum(self_ticks)::BIGINT FROM module_totals('multimethod_100runs', runs := 'all') GROUP BY 1",
        "SELECT method, sum(total_ticks)::BIGINT FROM source_totals('multimethod_100runs', runs := 'all') GROUP BY 1",
        "SELECT method, sum(self_ticks)::BIGINT FROM module_ops('multimethod_100runs', runs := 'all') GROUP BY 1",
        """SELECT method, sum(total_ticks)::BIGINT
        FROM op_totals('multimethod_100runs', by := 'instance', runs := 'all') GROUP BY 1""",
        "SELECT method, sum(total_ticks)::BIGINT FROM execute_breakdown('multimethod_100runs', runs := 'all') GROUP BY 1",
        """SELECT name, total_ticks FROM time_tree('multimethod_100runs', runs := 'all') WHERE kind = 'method'""",
    ],
)
def test_each_methods_rows_add_up_to_its_executes(linked: Warehouse, query: str) -> None:
    assert executes(linked).keys() == {"encode", "decode"}
    assert dict(linked.rows(query)[1]) == executes(linked)


def test_each_method_has_a_root_module(linked: Warehouse) -> None:
    query = """
        SELECT m.method, m.module_class FROM module_totals('multimethod_100runs') AS m
        WHERE m.module_path = '' ORDER BY m.method
    """
    assert linked.rows(query)[1] == [("decode", "__main__.Dec"), ("encode", "__main__.Enc")]


@pytest.mark.parametrize("method", ["encode", "decode"])
@pytest.mark.parametrize(
    "view", ["op_totals", "module_totals", "source_totals", "module_ops", "execute_breakdown", "inspector_events"]
)
def test_one_method_equals_a_capture_of_it_alone(linked: Warehouse, view: str, method: str) -> None:
    of_all = f"FROM {view}('multimethod_100runs', runs := 'all') AS v WHERE v.method = $method"
    alone = f"FROM {view}('multimethod_100runs', runs := 'all', method := $method) AS v"
    kept = "SELECT v.* EXCLUDE (share_percent)" if view != "inspector_events" else "SELECT v.*"
    assert linked.rows(f"{kept} {of_all}", method=method)[1] == linked.rows(f"{kept} {alone}", method=method)[1] != []


@pytest.mark.long
def test_the_command_line_shows_methods_where_there_are_several_and_takes_one() -> None:
    path = str(MULTIMETHOD / "multimethod_100runs.etdp")
    both = CliRunner().invoke(main, ["ops", path, "--by", "instance"])
    assert "method" in both.stdout.splitlines()[0]
    one = CliRunner().invoke(main, ["ops", path, "--by", "instance", "--format", "json", "--method", "Execute #1"])
    assert {row["method"] for row in json.loads(one.stdout)} == {"Execute #1"}
    single = CliRunner().invoke(main, ["ops", str(CAPTURES / "mlp" / "mlp.etdp")])
    assert "method" not in single.stdout.splitlines()[0]
    wrong = CliRunner().invoke(main, ["ops", path, "--method", "forward"])
    assert (wrong.exit_code, wrong.stderr) == (
        1,
        "Error: no run is of method 'forward'; the methods are Execute #1, Execute #2\n",
    )


def test_a_baseline_without_methods_gives_no_tax_of_two() -> None:
    untraced = dump(run("Execute", execute(0, 60)), run("Execute", execute(0, 120)))
    with empty_warehouse() as warehouse:
        warehouse.ingest(dump(forward(), decode()), name="traced")
        warehouse.ingest(untraced, name="untraced")
        rows = warehouse.rows("SELECT t.tax, t.note FROM framework_tax('traced', baseline := 'untraced') AS t")[1]
    assert rows == [(None, "the baseline does not distinguish methods")] * 2


def test_a_baseline_of_another_method_gives_no_tax() -> None:
    with empty_warehouse() as warehouse:
        for name, runs in (("traced", [decode()]), ("untraced", [run("Execute", execute(0, 40))])):
            warehouse.ingest(dump(*runs), name=name)
        # As linking to a record has it.
        warehouse.connection.execute(
            "UPDATE runs SET method = CASE capture_id WHEN 1 THEN 'decode' ELSE 'encode' END; UPDATE runs SET scope = method"
        )
        query = "SELECT t.tax, t.note FROM framework_tax('traced', baseline := 'untraced') AS t"
        assert warehouse.rows(query)[1] == [(None, "the baseline is of another method")]
