"""`time_tree`: by hand, on every real capture, and against other views and other readers of the same time."""

from __future__ import annotations

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.asserts import DELEGATED, assert_error, assert_query
from tests.builders import execute, kernel, run
from tests.conftest import CAPTURES


def test_by_event_by_hand() -> None:
    # Of 80 ticks of the execute 40 are the delegate's call (20 and 5 explained), 16 the operator's (10 its kernel's).
    assert_query(
        """SELECT node_index, parent_index, depth, array_to_string(path, '/') AS path, kind, calls, self_time, total,
           share_percent, unit FROM time_tree('test', unit := 'ns')""",
        """
        node_index,parent_index,depth,path,kind,calls,self_time,total,share_percent,unit
        0,,0,,total,0,0.0,80.0,100.0,ns
        1,0,1,Execute,run,0,0.0,80.0,100.0,ns
        2,1,2,Execute/DELEGATE_CALL @0,delegate_call,1,15.0,40.0,50.0,ns
        3,2,3,"Execute/DELEGATE_CALL @0/Convolution (NHWC, F32) IGEMM",delegate,1,20.0,20.0,25.0,ns
        4,2,3,"Execute/DELEGATE_CALL @0/Transpose (ND, X32)",delegate,1,5.0,5.0,6.25,ns
        5,1,2,Execute/mul,kernel,1,10.0,10.0,12.5,ns
        6,1,2,Execute/(unattributed),rest,1,24.0,24.0,30.0,ns
        7,1,2,Execute/(framework),rest,1,6.0,6.0,7.5,ns
        """,
        DELEGATED,
    )


@pytest.mark.long
def test_runs_of_two_names_and_schedules() -> None:
    runs = [
        run("a", kernel("add", start=10, end=20), execute(start=0, end=30)),
        run("b", kernel("add", start=10, end=15), execute(start=0, end=15)),
        run("b", kernel("add", start=10, end=15), execute(start=0, end=115)),
    ]
    query = """SELECT array_to_string(path, '/') AS path, total_ticks FROM time_tree('test'{}) WHERE depth < 2"""
    assert_query(query.format(""), "path,total_ticks\n,160\nb,130\na,30\n", *runs)
    assert_query(query.format(", steps := 'skip_first=1'"), "path,total_ticks\n,115\nb,115\n", *runs)
    # If no run is selected, there is no row with a total of 0.
    assert_query(query.format(", steps := 'skip_first=2'"), "path,total_ticks\n", *runs)


@pytest.mark.long
def test_invalid_queries() -> None:
    assert_error("FROM time_tree('test', \"by\" := 'op')", "by must be 'module' or 'event', not op")
    assert_error("FROM time_tree('test', \"by\" := 'module')", "test has no record, so its events have no modules")
    assert_error("FROM time_tree('test', unit := 'cycles')", "test counts ns")
    assert_error("FROM time_tree('tets')", "no capture matches tets; the nearest is test")


@pytest.mark.long
def test_methods_are_named_where_known(warehouse: Warehouse) -> None:
    folder = CAPTURES / "multimethod"
    warehouse.ingest(folder / "multimethod.etdp", name="t", etrecord=folder / "multimethod.etrecord")
    methods = "SELECT DISTINCT r.method FROM runs AS r WHERE r.method IS NOT NULL ORDER BY ALL"
    found = "SELECT t.name FROM time_tree('t', \"by\" := 'event') AS t WHERE t.kind = 'method' ORDER BY ALL"
    assert warehouse.rows(found)[1] == warehouse.rows(methods)[1] == [("decode",), ("encode",)]
