"""Events that overlap on their thread, whose moments count once, and what is around each event; by plain Python and by hand."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from etq.ingest.trace.calls import _within
from tests.trace_builders import event
from tests.traces import Traces

COLUMNS = "name, calls, self_cpu_time, cpu_time_total, cpu_time_percent, torch_self_cpu_time, torch_cpu_time_total"
# The time that floats of microseconds since 1970 have: a quarter of a microsecond is their resolution.
TODAY = 1_700_000_000_000_000.0


def averages(traces: Traces, **arguments: Any) -> dict[str, list[float]]:
    return {name: list(numbers) for name, *numbers in traces.ask("key_averages", COLUMNS, **arguments)}


def tree(traces: Traces) -> dict[tuple[str, ...], tuple[float, float]]:
    return {
        tuple(path): (own, total) for path, own, total in traces.ask("time_tree", "path, self_time, total", by="event")
    }


def test_annotations_of_a_name_that_overlap_count_once(traces: Traces) -> None:
    """By hand: of 20, both have 4 to 12; the second began last, so that the time is its own."""
    traces.take(
        event("user_annotation", "copy", 0, 12),
        event("user_annotation", "copy", 4, 20),
        event("cpu_op", "aten::add", 1, 3),
        event("cpu_op", "aten::mul", 6, 7),
    )
    assert averages(traces) == {
        "copy": [2, 17, 20, 100, 25, 28],
        "aten::add": [1, 2, 2, 10, 2, 2],
        "aten::mul": [1, 1, 1, 5, 1, 1],
    }
    assert tree(traces) == {
        (): (0, 20), ("copy",): (17, 20), ("copy", "aten::add"): (2, 2), ("copy", "aten::mul"): (1, 1),
    }  # fmt: skip


def test_children_that_overlap_leave_their_parent_no_less_than_nothing(traces: Traces) -> None:
    """By hand: of 10, the children have 1 to 10 together, though their durations add up to 14; torch says -4."""
    traces.take(
        event("python_function", "run", 0, 10), event("cpu_op", "a", 1, 8), event("python_function", "b", 3, 10)
    )
    assert averages(traces) == {"run": [1, 1, 10, 100, -4, 10], "b": [1, 7, 7, 70, 7, 7], "a": [1, 2, 7, 70, 7, 7]}
    times = traces.ask("event_times", "event_name, total, self_time")
    assert times == [("run", 10, 1), ("a", 7, 2), ("b", 7, 7)]
    assert tree(traces) == {(): (0, 10), ("run",): (1, 10), ("run", "b"): (7, 7), ("run", "a"): (2, 2)}


def test_a_child_that_ends_later_by_rounding_has_no_more_than_its_parent(traces: Traces) -> None:
    traces.take(
        event("cpu_op", "outer", TODAY, TODAY + 10),
        event("cpu_op", "inner", TODAY + 4, TODAY + 10.25),
        event("cpu_op", "innermost", TODAY + 5, TODAY + 10.25),
    )
    assert averages(traces) == {
        "innermost": [1, 5, 5.25, 52.5, 5.25, 5.25],
        "outer": [1, 4, 10, 100, 3.75, 10],
        "inner": [1, 1, 6.25, 62.5, 1, 6.25],
    }


def test_device_time_of_calls_in_calls_counts_once(traces: Traces) -> None:
    """By hand: the outer f launches 5 and 7, of these the inner f 7; what overlaps it launches 11 more."""
    launches = [(2, 5), (6, 7), (25, 11)]
    traces.take(
        event("user_annotation", "f", 0, 20),
        event("user_annotation", "f", 5, 10),
        event("user_annotation", "f", 15, 30),
        *(event("cuda_runtime", "cudaLaunchKernel", at, at + 1, correlation=at) for at, _ in launches),
        *(event("kernel", "k", 40 * at, 40 * at + ticks, 7, device=0, correlation=at) for at, ticks in launches),
    )
    columns = "name, calls, self_device_time, device_time_total, torch_device_time_total"
    assert traces.ask("key_averages", columns)[0] == ("f", 3, 23, 23, 30)
    assert traces.ask("annotation_kernels", "annotation, event, total, share_percent") == [("f", "k", 23, 100)]
    query = "SELECT s.kind, s.calls, s.ticks FROM step_times AS s WHERE s.label = 'f' ORDER BY s.kind"
    assert traces.warehouse.rows(query)[1] == [("annotation", 3, 30_000), ("device_annotation", 3, 23_000)]


def test_an_op_within_itself_has_one_row_and_its_time_once(traces: Traces) -> None:
    """The plug-in adds both calls: of 20 it says 32."""
    traces.take(
        event("cpu_op", "aten::copy_", 0, 20),
        event("cpu_op", "aten::to", 2, 16),
        event("cpu_op", "aten::copy_", 3, 15),
        event("cuda_runtime", "cudaLaunchKernel", 4, 6, correlation=1),
        event("kernel", "k", 10, 13, 7, device=0, correlation=1),
    )
    columns = "name, calls, host_self_time, host_total_time, device_self_time, device_total_time"
    assert traces.ask("operator_table", columns, by="name") == [
        ("aten::copy_", 2, 16, 20, 3, 3), ("aten::to", 1, 2, 14, 0, 3),
    ]  # fmt: skip


def random_events(seed: int) -> list[dict[str, Any]]:
    """Events of few names on two threads, of which many overlap without containing each other."""
    source = random.Random(seed)
    events = []
    for _ in range(source.randint(2, 40)):
        start = source.randint(0, 60)
        category = source.choice(("cpu_op", "user_annotation", "python_function", "cuda_runtime"))
        name = source.choice(("f", "g", "nn.Module: M_0"))
        events.append(event(category, name, start, start + source.choice((0, 1, 2, 5, 20)), source.randint(1, 2)))
    return events


def owners(events: list[dict[str, Any]]) -> tuple[Counter[str], dict[str, int], int]:
    """The time of each name's own, that in which it is open, and that of all, of both threads, moment by moment."""
    own: Counter[str] = Counter()
    total: defaultdict[str, int] = defaultdict(int)
    covered = 0
    for thread in (1, 2):
        for at in range(100):
            there = [
                (one["ts"], -one["dur"], place, f"{one['cat']} {one['name']}")
                for place, one in enumerate(events)
                if one["tid"] == thread and one["ts"] <= at < one["ts"] + one["dur"]
            ]
            if there:
                own[max(there)[3]] += 1
                covered += 1
            for name in {name for *_, name in there}:
                total[name] += 1
    return own, total, covered


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 1, 4, 8, 10])
def test_own_times_of_a_thread_add_up_to_what_it_covers(traces: Traces, seed: int) -> None:
    """Names differ by category, as an op of a name is not an annotation of it."""
    events = random_events(seed)
    traces.take(*({**one, "name": f"{one['cat']} {one['name']}"} for one in events))
    own, total, covered = owners(events)
    rows = averages(traces)
    assert {name: row[1] for name, row in rows.items() if row[1]} == own
    assert {name: row[2] for name, row in rows.items() if row[2]} == dict(total)
    assert all(row[1] >= 0 and (row[3] or 0) <= 100 for row in rows.values())
    for by in ("shape", "stack", "module"):
        assert all(row[1] >= 0 and (row[3] or 0) <= 100 for row in averages(traces, by=by).values())
    assert sum(own for own, _ in tree(traces).values()) == covered
    nodes = traces.ask("time_tree", "node_index, parent_index, self_time, total", by="event")
    for node, _, own_time, whole in nodes:
        assert own_time >= 0
        assert whole == own_time + sum(each[3] for each in nodes if each[1] == node)
    for _, calls, own_time, whole in traces.ask("operator_table", "name, calls, host_self_time, host_total_time"):
        assert calls > 0 and own_time >= 0 and whole <= covered


def test_deep_recursion_that_ends_later_and_later(traces: Traces) -> None:
    """Each call ends a quarter of a microsecond after the one around it, by rounding: all count to the outermost end."""
    depth = 300
    traces.take(*(event("python_function", f"f{at}", TODAY + at, TODAY + 1000 + at / 4) for at in range(depth)))
    rows = averages(traces)
    assert [rows[f"f{at}"][1] for at in range(depth)] == [1.0] * (depth - 1) + [1000 - depth + 1]
    assert sum(row[1] for row in rows.values()) == 1000
    assert all(one != other for one, other in pairwise(sorted(rows)))


HELPER = "profiler::_record_function_exit"


def test_what_is_around_by_hand(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100), event("python_function", "nn.Module: Linear_0", 5, 60),
        event("python_function", "forward", 10, 55), event("cpu_op", "aten::linear", 15, 50),
        event("user_annotation", "part", 20, 45), event("cuda_runtime", "cudaLaunchKernel", 25, 30),
        event("user_annotation", "nccl:all_reduce", 70, 90), event("cpu_op", "c10d::allreduce_", 75, 85),
    )  # fmt: skip
    query = "SELECT event_index, op_index, module_index, node_index, annotation_index FROM trace_events"
    assert {row[0]: row[1:] for row in traces.warehouse.rows(query)[1]} == {
        0: (None, None, None, None), 1: (None, None, 0, 0), 2: (None, 1, 1, 0), 3: (None, 1, 1, 0), 4: (3, 1, 3, 0),
        5: (3, 1, 3, 4), 6: (None, None, 0, 0), 7: (None, None, 6, 6),
    }  # fmt: skip


def test_calls_by_hand(traces: Traces) -> None:
    traces.take(
        event("user_annotation", "ProfilerStep#1", 0, 100), event("cpu_op", "f", 5, 60), event("cpu_op", "f", 10, 55),
        event("cpu_op", "f", 15, 50), event("cpu_op", "g", 20, 30), event("cpu_op", HELPER, 22, 24),
        event("cuda_runtime", "cudaLaunchKernel", 25, 28), event("cpu_op", "f", 70, 90), event("cpu_op", "f", 72, 75),
        event("cpu_op", "f", 75, 80), event("cpu_op", HELPER, 200, 210), event("cpu_op", HELPER, 202, 204),
        event("user_annotation", "nccl:all_reduce", 300, 320), event("cpu_op", "nccl:all_reduce", 305, 315),
    )  # fmt: skip
    query = "SELECT event_index, call_index, operator_index, operators_within FROM trace_events"
    assert {row[0]: row[1:] for row in traces.warehouse.rows(query)[1]} == {
        0: (None, 0, 6),
        1: (None, 1, 2),  # `f`, which only calls `f`
        2: (1, 1, 0), 3: (1, 1, 0), 4: (None, 4, 1), 5: (4, 5, 0), 6: (None, 4, 0),
        7: (None, 7, 2),  # two calls
        8: (None, 8, 0),
        9: (None, 9, 0),
        10: (None, 10, 0),  # helpers in nothing: `operator_table` has them, as one call
        11: (None, 10, 0),
        12: (None, 12, 1),
        13: (12, 13, 0),  # one call with the annotation, but an op of its own
    }  # fmt: skip


def test_a_call_of_a_run_that_is_not_selected(traces: Traces) -> None:
    """What it contains of the runs that are is a call itself; a helper belongs to none."""
    traces.take(
        event("user_annotation", "ProfilerStep#1", 10, 50, thread=2),
        event("cpu_op", "f", 0, 40),
        event("cpu_op", "f", 20, 30),
        event("cpu_op", HELPER, 22, 24),
    )
    rows = traces.ask("key_averages", "name, calls, self_cpu_time")
    assert sorted(rows) == [("ProfilerStep*", 1, 40.0), ("f", 1, 40.0)]
    [(run,)] = traces.warehouse.rows("SELECT run_index FROM event_ticks WHERE event_index = 2")[1]
    traces.warehouse.connection.execute("UPDATE runs SET phase = 'decode' WHERE run_index = ?", [run])
    rows = traces.ask("key_averages", "name, calls, self_cpu_time", phase="decode")
    assert sorted(rows) == [("ProfilerStep*", 1, 40.0), ("f", 1, 8.0)]


@pytest.mark.parametrize("scale", [1, 2**57])
def test_how_many_are_within_at_any_times(scale: int) -> None:
    """Times that are too far apart for one number with the thread are compared by their ranks."""
    spans = np.array([(0, 0, 20), (0, 5, 9), (1, -10, 3), (0, 8, 30), (0, 5, 5), (1, 0, 1), (0, 20, 21), (0, 5, 9)])
    start, end = spans[:, 1] * scale, spans[:, 2] * scale
    # Of those that start and end together, the first contains the second; a moment contains nothing.
    assert _within(spans[:, 0], start, end).tolist() == [4, 3, 1, 1, 0, 0, 0, 2]
