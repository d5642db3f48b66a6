"""What readers compute: of each event its children, its own time, whether it counts, and its duration after a wrap; of
each run its executes and the work in them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.ingest.etdump import run_groups
from etq.ingest.events.run_times import COLUMNS
from etq.maintenance.checking import check
from etq.storage import inserting
from etq.storage.capture import Options
from etq.storage.ephemeral import load_second
from etq.storage.inserting import settle, settle_runs
from etq.storage.sources import source_of
from etq.warehouse.warehouse import Warehouse
from tests.asserts import assert_csv
from tests.builders import Run, delegate_call, delegated, dump, execute, framework, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.launch_traces import SHAPES as LAUNCHES
from tests.sampling import thinned
from tests.trace_builders import event
from tests.traces import Traces

TOP = 2**32
OWN = "unwrapped_ticks, children, self_ticks, torch_self_ticks, is_additive, is_execute"
FILES = sorted(
    str(path.relative_to(CAPTURES))
    for kind in ("*.etdp", "*.prof_result.bin", "*.pt.trace.json*")
    for path in CAPTURES.glob(f"*/{kind}")
    if path.parent.name != "malformed"
)


def reference(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """The own times of all events, computed one by one from what was read of them."""
    query = """
        SELECT e.capture_id, e.run_index, e.event_index, coalesce(e.parent_run_index, e.run_index), e.parent_index,
            e.execute_index, e.start_ticks, e.elapsed_ticks, e.is_detached, coalesce(e.overlap_ticks, 0), c.clock_bits,
            s.name, s.chain_index, s.instruction_id, e.occurrence, s.clock = 'host' AND s.value_unit = 'ticks'
        FROM event_ticks AS e JOIN captures AS c USING (capture_id) JOIN signatures AS s USING (capture_id, signature_index)
        ORDER BY ALL
    """
    rows = warehouse.rows(query)[1]
    children, counted, whole = Counter[Any](), Counter[Any](), Counter[Any]()
    times = []
    for key, _, _, outer_run, outer, _, start, elapsed, is_detached, overlap, bits, *_, is_host in rows:
        is_turned = elapsed < 0 and bits == 32 and 0 <= start < TOP and -TOP < elapsed != -start
        unwrapped = elapsed + TOP if is_turned else None
        ticks = elapsed if elapsed >= 0 else unwrapped or 0
        own = ticks - overlap if elapsed >= 0 or is_turned else 0
        times.append((unwrapped, ticks, own))
        if is_host and not is_detached and outer is not None:
            of_it = key, outer_run, outer
            children[of_it] += 1
            counted[of_it] += own
            whole[of_it] += ticks
    found = []
    for row, (unwrapped, ticks, own) in zip(rows, times, strict=True):
        event, index, is_host = row[:3], row[2], row[-1]
        self_ticks, torchs = own - counted[event], ticks - whole[event]
        is_additive = is_host and (not row[8] or row[5] == index)
        name, *instruction = row[11:15]
        begins = row[5] == index and (name != "Method::step" or instruction == [0, 0, 0])
        torch_self = None if torchs == self_ticks else torchs
        found.append((*event, unwrapped, children[event], self_ticks, torch_self, is_additive, begins))
    return found


def reference_of_runs(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """The times of runs, added up one by one from the events that count within their executes."""
    query = """
        SELECT e.capture_id, e.run_index, e.event_index, e.parent_index, e.event_index = e.execute_index, e.is_execute,
            e.children, e.self_ticks, CASE WHEN e.elapsed_ticks >= 0 THEN e.elapsed_ticks ELSE e.unwrapped_ticks END,
            s.kind, e.is_additive
        FROM event_ticks AS e JOIN signatures AS s USING (capture_id, signature_index)
        WHERE e.execute_index IS NOT NULL
    """
    parts = {"kernel": 2, "delegate": 3, "delegate_call": 3, "operator_call": 4}
    found: dict[tuple[int, int], list[int]] = {}
    unknown, without_work = set(), set()
    rows = warehouse.rows(query)[1]
    counting = {row[:3]: row[9] for row in rows if row[10]}
    for key, run_index, _, outer, is_outermost, begins, children, self_ticks, ticks, kind, is_additive in rows:
        is_lost = not is_additive and counting.get((key, run_index, outer), "kernel") not in parts
        if kind in parts and kind != "delegate" and (ticks is None or is_lost):
            without_work.add((key, run_index))
        if not is_additive:
            continue
        sums = found.setdefault((key, run_index), [0] * 5)
        sums[0] += begins
        if is_outermost and ticks is None:
            unknown.add((key, run_index))
        sums[1] += ticks or 0 if is_outermost else 0
        if kind in parts and not (kind == "operator_call" and children):
            sums[parts[kind]] += self_ticks
    runs = warehouse.rows("SELECT capture_id, run_index FROM runs ORDER BY ALL")[1]
    return [
        (*run, None if run not in found else found[run][0])
        + ((found[run][1],) if run in found and run not in unknown else (None,))
        + (tuple(found[run][2:]) if run in found and run not in unknown | without_work else (None,) * 3)
        for run in runs
    ]


def of_runs(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return warehouse.rows(f"SELECT capture_id, run_index, {', '.join(COLUMNS)} FROM runs ORDER BY ALL")[1]


def stored(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    query = f"SELECT capture_id, run_index, event_index, {OWN} FROM event_ticks ORDER BY ALL"
    return warehouse.rows(query)[1]


def found_again(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    query = f"SELECT capture_id, run_index, event_index, {OWN} FROM _find_own_times(0, 1000) ORDER BY ALL"
    return warehouse.rows(query)[1]


@pytest.mark.long
@pytest.mark.parametrize("file", thinned(FILES, [file for file in FILES if Path(file).parts[0] in ("mlp", "mlp_xnn")]))
def test_those_of_real_captures(file: str) -> None:
    """As read, as computed again, and one by one."""
    with etq.read(CAPTURES / file) as warehouse:
        assert stored(warehouse) == found_again(warehouse) == reference(warehouse)
        assert of_runs(warehouse) == reference_of_runs(warehouse)
        before = of_runs(warehouse)
        settle_runs(warehouse.connection, 1, 1)
        assert of_runs(warehouse) == before


def test_those_of_traces_of_devices(launch_traces: Warehouse) -> None:
    assert len(LAUNCHES) > 5
    assert stored(launch_traces) == found_again(launch_traces) == reference(launch_traces)


def test_of_a_dump(warehouse: Warehouse) -> None:
    """An execute of 100 ticks: a call of 40 of a delegate that logged two events, 30 ticks together, and an operator of
    12 whose kernel takes 8.
    """
    made = run(
        "Execute", delegated("a", 12, 32), delegated("b", 35, 45), delegate_call(10, 50), kernel("add", 62, 70),
        operator_call(60, 72), framework("Method::execute", 0, 100),
    )  # fmt: skip
    warehouse.ingest(dump(made))
    assert_csv(
        warehouse,
        f"SELECT label, {OWN} FROM event_ticks JOIN signatures USING (capture_id, signature_index) ORDER BY event_index",
        """
        label,unwrapped_ticks,children,self_ticks,torch_self_ticks,is_additive,is_execute
        a,,0,20,,True,False
        b,,0,10,,True,False
        DELEGATE_CALL,,2,10,,True,False
        native_call_add.out,,0,8,,True,False
        OPERATOR_CALL,,1,4,,True,False
        Method::execute,,2,48,,True,True
        """,
    )


def test_of_overlapping_slices(traces: Traces) -> None:
    """A begins at 0 and lasts 100, and has B, from 10 for 20. C begins at 90 and lasts 50: A has its thread until then.
    torch subtracts only what A contains.
    """
    traces.take(event("cpu_op", "A", 0, 100), event("cpu_op", "B", 10, 30), event("cpu_op", "C", 90, 140))
    assert_csv(
        traces.warehouse,
        f"SELECT label, {OWN} FROM event_ticks JOIN signatures USING (capture_id, signature_index) ORDER BY label",
        """
        label,unwrapped_ticks,children,self_ticks,torch_self_ticks,is_additive,is_execute
        A,,1,70000,80000,True,False
        B,,0,20000,,True,False
        C,,0,50000,,True,False
        """,
    )


def call_of(start: int, *events: tuple[str, int, int]) -> Run:
    """A run of 100 ticks with a call of a delegate, from 10 to 50 ticks after its start."""
    logged = [delegated(*event) for event in events]
    return run("Execute", *logged, delegate_call(start + 10, start + 50), execute(start, start + 100))


# Runs of which the last ones refute what the first ones show: that a value is on the host's clock, and that the counter
# has 32 bits. The second value is whether the first run's call has a breakdown.
REFUTED = {
    "the delegate's clock": [call_of(1000, ("a", 1012, 1032)), *[call_of(1000, ("a", 5000, 5020))] * 3],
    "bare values": [call_of(0, ("a", 12, 32)), *[call_of(1000, ("a", 12, 32))] * 3],
    "64 bits": [
        run("Execute", kernel("add", 50, 40), execute(0, 100)),
        run("Execute", kernel("add", TOP + 50, TOP + 60), execute(TOP, TOP + 100)),
    ],
    "64 bits, impossible times": [
        run("Execute", kernel("add", 50, 40), execute(0, 100)),
        run("Execute", kernel("add", TOP + 50, TOP + 40), execute(TOP, TOP + 100)),
    ],
    "32 bits": [
        run("Execute", kernel("add", 50, 60), execute(0, 100)),
        run("Execute", kernel("add", TOP - 5, 15), execute(TOP - 10, 90)),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("name", REFUTED)
def test_what_later_runs_refute(warehouse: Warehouse, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored, in memory, and as the second file in memory."""
    content = dump(*REFUTED[name])
    monkeypatch.setattr(run_groups, "SLICE", 1)
    settled: list[tuple[Any, ...]] = []

    def noted(*given: Any) -> None:
        settled.append(given)
        settle(*given)

    monkeypatch.setattr(inserting, "settle", noted)
    warehouse.ingest(content)
    assert settled or name == "32 bits"
    with etq.read(content) as read:
        assert stored(warehouse) == stored(read) == reference(read)
        assert of_runs(warehouse) == of_runs(read) == reference_of_runs(read)
    with etq.read(dump(call_of(0, ("a", 12, 32)))) as read:
        load_second(read.connection, source_of(content), Options())
        assert stored(read) == reference(read) and {key for key, *_ in stored(read)} == {1, 2}


@pytest.mark.long
def test_the_largest_time_is_unknown_to_readers_and_the_check(tmp_path: Path) -> None:
    """Sums are cut to what 64 bits hold."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(dump(run("Execute", execute(0, 2**63 - 1)), run("Execute", execute(0, 2**63 - 2))))
        assert warehouse.rows("SELECT execute_ticks FROM runs ORDER BY run_index")[1] == [(None,), (2**63 - 2,)]
    assert [problem for part in check(path) for problem in part.problems] == []
