"""Ops, modules and events of several methods in one capture are distinguished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_error, assert_query
from tests.batches import Labelled, ingest_all
from tests.builders import Run, dump, execute, framework, kernel, run
from tests.cli.peaks import ON_LINUX, lines_and_peak
from tests.trace_builders import event
from tests.warehouses import empty_warehouse


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


def branches(first: str, branch: int, name: str) -> Run:
    """A first kernel, a jump, and the kernel of one branch, with a separate instruction."""
    return run(
        "Execute", framework("JF_CALL", 1, 2), kernel(first, 5, 10, instruction=0),
        kernel(name, 10, 30, instruction=branch), execute(0, 40),
    )  # fmt: skip


# Only the first kernel of `forward`.
PREFIX = run("Execute", kernel("addmm", 5, 15, instruction=0), execute(0, 20))
# Two steps of one instruction each.
STEPS = [run("Step", kernel(op, 1, 2, instruction=at), framework("Method::step", 0, 3)) for at, op in enumerate("ab")]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # Only one branch of the first program calls instruction 2, which another program calls otherwise.
        (
            [branches("addmm", 2, "relu"), branches("mul", 2, "sigmoid"), branches("addmm", 3, "tanh"), branches("mul", 4, "tanh")],
            ["Execute #1", "Execute #2", "Execute #1", "Execute #2"],
        ),
        ([branches("addmm", 3, "sin"), branches("addmm", 5, "cos"), branches("addmm", 3, "sin")], ["Execute"] * 3),
        # Without a jump around the other kernels, it is another program; or one that stopped early, if it is rare.
        ([forward(), PREFIX, forward()], ["Execute #1", "Execute #2", "Execute #1"]),
        ([*[forward() for _ in range(10)], PREFIX], ["Execute"] * 11),
        # A run that logged no operators is of the first program.
        ([run("Execute", execute(0, 10)), forward(), decode()], ["Execute #1", "Execute #1", "Execute #2"]),
        (STEPS, ["Step", "Step"]),
    ],
    ids=["two of branches", "one of branches", "prefix", "stopped", "no operators", "steps"],
)  # fmt: skip
def test_the_program_of_each_run(warehouse: Warehouse, runs: list[Run], expected: list[str]) -> None:
    warehouse.ingest(dump(*runs))
    assert [scope for (scope,) in warehouse.rows("SELECT scope FROM runs ORDER BY run_index")[1]] == expected


@pytest.mark.long
def test_an_instruction_of_two_programs_has_a_row_in_each() -> None:
    assert_query(
        """SELECT op, method, instruction_id, calls, per_call, share_percent
        FROM op_totals('test', by := 'instance', unit := 'ns') WHERE kind = 'kernel' ORDER BY method, instruction_id""",
        """
        op,method,instruction_id,calls,per_call,share_percent
        native_call_addmm.out,Execute #1,0,2,100.0,55.55555555555556
        native_call_relu.out,Execute #1,1,2,20.0,11.11111111111111
        native_call_addmm.out,Execute #2,0,2,10.0,5.555555555555555
        native_call_sigmoid.out,Execute #2,1,2,30.0,16.666666666666668
        """,
        forward(), decode(), forward(), decode(),
    )  # fmt: skip
    assert_query(
        "SELECT op, calls, per_call, share_percent FROM op_totals('test', unit := 'ns', method := 'Execute #2') WHERE total > 10",
        "op,calls,per_call,share_percent\nsigmoid,1,30.0,60.0\n",
        forward(),
        decode(),
    )
    message = "no run is of method 'forward'; the methods are Execute #1, Execute #2"
    assert_error("FROM op_totals('test', method := 'forward')", message, forward(), decode())


def test_comparisons_do_not_go_by_the_order_in_which_programs_ran() -> None:
    with empty_warehouse() as warehouse:
        captures = []
        for order in ("ab", "ba"):
            for number in range(3):
                runs = [
                    each
                    for _ in range(4)
                    for each in ((forward(), decode()) if order == "ab" else (decode(), forward()))
                ]
                name = f"{order}{number}"
                captures.append(Labelled(name, dump(*runs, run(name)), {"order": order}))
        ingest_all(warehouse, captures)
        query = "SELECT DISTINCT c.verdict FROM compare_captures('order=ab', 'order=ba') AS c"
        assert {verdict for (verdict,) in warehouse.rows(query)[1]} <= {"~", "not decided", None}


def test_incomplete_steps_are_a_block(warehouse: Warehouse) -> None:
    """The work of the last two steps is missing. A dump of two programs is ingested at once, so scopes are searched."""
    made = [event("user_annotation", f"ProfilerStep#{step}", 100 * step, 100 * step + 50) for step in range(8)]
    for step in range(8):
        made.append(event("cuda_runtime", "cudaLaunchKernel", 100 * step, 100 * step, correlation=step + 1))
        if step < 6:
            made.append(
                event("kernel", "gemm", 100 * step, 100 * step + 2, 7, correlation=step + 1, device=0, stream=7)
            )
    trace = json.dumps({"traceEvents": made}).encode()
    ingest_all(warehouse, [("trace", trace), ("dump", dump(forward(), decode()))])
    blocks = "SELECT name, block_index, runs, first_run, last_run, events FROM event_blocks('trace')"
    assert warehouse.rows(blocks)[1] == [("ProfilerStep", 0, 6, 0, 5, 8), ("Incomplete step", 1, 2, 6, 7, 3)]
    scopes = "SELECT DISTINCT name, scope FROM runs WHERE capture_id = 1 ORDER BY ALL"
    assert warehouse.rows(scopes)[1] == [(name, name) for name in ("Incomplete step", "ProfilerStep")]
    [(searched, runs)] = warehouse.rows("SELECT (SELECT count(*) FROM _find_run_scopes(1, 2)), count(*) FROM runs")[1]
    assert searched == runs


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


@pytest.mark.long
def test_where_runs_of_a_name_have_one_block_their_scope_is_that_of_the_search(all_captures: Warehouse) -> None:
    """The search for programs isn't run for such captures when they are ingested."""
    query = """
        SELECT count(*) FILTER (r.scope = f.scope), count(*), count(DISTINCT r.capture_id)
        FROM runs AS r
        JOIN _find_run_scopes(0, 1000000) AS f ON f.capture_id = r.capture_id AND f.run_index = r.run_index
    """
    [(same, all_runs, number)] = all_captures.rows(query)[1]
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


def test_a_baseline_without_methods_or_of_another_gives_no_tax(warehouse: Warehouse) -> None:
    others = {"untraced": (60, 120), "other": (40,)}
    contents = {name: dump(*[run("Execute", execute(0, end)) for end in times]) for name, times in others.items()}
    ingest_all(warehouse, {"traced": dump(forward(), decode()), **contents}.items())
    query = "SELECT t.tax, t.note FROM framework_tax('traced', baseline := '{}') AS t"
    unknown = [(None, "the baseline does not distinguish methods")] * 2
    assert warehouse.rows(query.format("untraced"))[1] == unknown
    # As linking to a record has it.
    warehouse.connection.execute(
        "UPDATE runs SET method = CASE capture_id WHEN 1 THEN 'decode' ELSE 'encode' END; UPDATE runs SET scope = method"
    )
    assert set(warehouse.rows(query.format("other"))[1]) == {(None, "the baseline is of another method")}
