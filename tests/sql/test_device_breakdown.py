"""Computation, communication and memory of devices: against plain Python and HolisticTraceAnalysis's answers."""

from __future__ import annotations

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.hta import hta
from tests.launch_traces import ALL_REDUCE, FEW, OF_HTA, Machine
from tests.sampling import thinned

# HolisticTraceAnalysis's names of overlapping types, by etq's names.
OF_HTA_TYPES = {
    "COMPUTATION overlapping COMMUNICATION": "computation and communication",
    "COMPUTATION overlapping MEMORY": "computation and memory",
    "COMMUNICATION overlapping MEMORY": "communication and memory",
    "COMPUTATION overlapping COMMUNICATION overlapping MEMORY": "computation, communication and memory",
}
BREAKDOWN = """
    SELECT b.device, b.total, b.idle, b.compute, b.non_compute, b.communication, b.overlapped, b.exposed, b.overlap_percent
    FROM device_breakdown($c, unit := 'ns') AS b
"""


@pytest.mark.parametrize("name", thinned(OF_HTA, FEW))
def test_equals_hta(launch_traces: Warehouse, name: str) -> None:
    """HTA leaves out the planted event whose launch was not recorded, and all events after it."""
    [row] = launch_traces.rows(BREAKDOWN.replace("'ns'", "'us'"), c=name)[1]
    answers = hta(name)
    [temporal] = answers["temporal"]
    if name != "planted":
        times = ("kernel_time(us)", "idle_time(us)", "compute_time(us)", "non_compute_time(us)")
        assert [*row[1:5]] == [temporal[time] for time in times]
        percents = "SELECT b.idle_percent, b.compute_percent, b.non_compute_percent FROM device_breakdown($c) AS b"
        expected = [temporal[f"{part}_time_pctg"] for part in ("idle", "compute", "non_compute")]
        assert [*launch_traces.rows(percents, c=name)[1][0]] == pytest.approx(expected, abs=0.00501)
        types = launch_traces.rows("SELECT t.types, t.total, t.share_percent FROM work_types($c) AS t", c=name)[1]
        assert {each[0]: each[1] for each in types} == {
            OF_HTA_TYPES.get(each["kernel_type"], each["kernel_type"].lower()): each["sum"]
            for each in answers["kernel_types"]
            if each["sum"]
        }
        kernels = "SELECT w.type, w.event, w.total, w.max, w.min, w.mean, w.stddev FROM work_totals($c) AS w"
        assert {each[:2]: [*each[2:]] for each in launch_traces.rows(kernels, c=name)[1]} == {
            (each["kernel_type"].lower(), each["name"]): pytest.approx(
                [each[f"{column} (us)"] for column in ("sum", "max", "min", "mean")] + [each["stddev"]], rel=1e-9
            )
            for each in answers["kernels"]
        }
    assert row[8] == pytest.approx(answers["overlap"][0]["comp_comm_overlap_pctg"], abs=0.00501)


def test_steps_by_hand(warehouse: Warehouse) -> None:
    """Two steps: in the first, communication is hidden except for 10 us; the second only waits for communication."""
    made = Machine()
    with made.frame("ProfilerStep#1", "user_annotation"):
        made.now = 1010
        made.run("k", 1020, 1060, 7, correlation=0)
        made.run(ALL_REDUCE, 1030, 1070, 24, correlation=0)
        made.now = 1099
    made.now = 1100
    with made.frame("ProfilerStep#2", "user_annotation"):
        made.run(ALL_REDUCE, 1110, 1150, 24, correlation=0)
        made.run("Memset (Device)", 1140, 1160, 7, kind="gpu_memset", correlation=0)
        made.now = 1199
    warehouse.ingest(made.trace(), name="t")
    query = """
        SELECT b.step, b.total, b.idle, b.compute, b.non_compute, b.communication, b.exposed
        FROM device_breakdown('t', "by" := 'step') AS b
    """
    assert warehouse.rows(query)[1] == [(1, 100, 50, 40, 10, 40, 10), (2, 100, 50, 0, 50, 40, 40)]
    with pytest.raises(QueryError, match="by must be device or step, not rank"):
        warehouse.rows("FROM device_breakdown('t', \"by\" := 'rank')")


def test_steps_add_up(launch_traces: Warehouse) -> None:
    """Totals by step equal those of step_breakdown; the sums over all steps equal plain Python's."""
    for name in ("training 0", "rank 0"):
        steps = (
            "SELECT sum(s.time) FROM step_breakdown($c, unit := 'ns') AS s GROUP BY s.run_index ORDER BY s.run_index"
        )
        found = launch_traces.rows(
            "SELECT b.total FROM device_breakdown($c, unit := 'ns', \"by\" := 'step') AS b ORDER BY b.run_index", c=name
        )[1]
        assert found == launch_traces.rows(steps, c=name)[1]
