"""The rules of advice: each fires on a planted problem with text worked out by hand, and not without a problem."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

import etq
from etq import EtqError
from etq.advice.collecting import distinct
from etq.advice.evidence import is_copying
from etq.advice.finding import Finding
from etq.database.handles import Capture
from etq.warehouse.warehouse import Warehouse
from tests.builders import (
    DebugEvent,
    Event,
    Run,
    Tensor,
    delegate_call,
    delegated,
    dump,
    execute,
    framework,
    kernel,
    operator_call,
    run,
)
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace
from tests.warehouses import empty_warehouse

Advice = dict[str, dict[str, Any]]
# Four ops, none of them dominant, with 5520 ns of work. The times are prime, so that no clock seems coarse.
WORK = (("mul", 1009), ("_softmax", 2003), ("sub", 1511), ("gelu", 997))


def running(*work: tuple[str, int], gap: int = 7, name: str = "Execute", begin: int = 0) -> Run:
    """A run of operators one after another; each OPERATOR_CALL takes `gap` ns more than its kernel."""
    events: list[Event] = []
    now = begin
    for instruction, (op, duration) in enumerate(work):
        events.append(kernel(op, now + gap, now + gap + duration, instruction))
        now += gap + duration
        events.append(operator_call(now - duration - gap, now, instruction))
    return run(name, *events, execute(begin, now))


def slower(by: int, *work: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    """The same work with `by` ns more in each op."""
    return tuple((op, duration + by) for op, duration in work)


def runs_of(*work: tuple[str, int], number: int = 12, **options: Any) -> list[Run]:
    """Runs of the same work, each 1 ns an op slower than the one before."""
    return [running(*slower(index, *work), **options) for index in range(number)]


def advice_on(runs: Sequence[Run], unit: str = "ns", **options: Any) -> Advice:
    """The advice on a capture of these runs, by rule."""
    with empty_warehouse() as warehouse:
        return advice_of(warehouse, warehouse.ingest(dump(*runs), name="test", **options).name, unit)


def advice_of(warehouse: Warehouse, capture: str, unit: str | None = "ns", **options: Any) -> Advice:
    rows = warehouse.advice(capture, unit=unit, **options).to_arrow_table().to_pylist()
    by_rule = {row["rule"]: row for row in rows}
    assert len(by_rule) == len(rows)
    return by_rule


def with_delegate(index: int, *work: tuple[str, int], calls: int = 1, inner: Sequence[tuple[str, int]] = ()) -> Run:
    """A run of kernels, then of delegate calls of 2003 ns with these events in them."""
    events: list[Event] = list(running(*slower(index, *work), begin=1000).events[:-1])
    now = 1000 + sum(duration + index + 7 for _, duration in work)
    for instruction in range(10, 10 + calls):
        at = now
        for label, duration in inner:
            events.append(delegated(label, at, at + duration + index, instruction))
            at += duration + index
        events.append(delegate_call(now, now + 2003 + index, instruction))
        now += 2003 + index
    return run("Execute", *events, execute(1000, now))


TRANSPOSED = (("permute_copy", 1001), ("quantize_per_tensor", 199), ("dequantize_per_tensor", 301), *WORK)
COPIED = (("Transpose (ND, X32) #1", 101), ("Convolution (NHWC, F32) IGEMM #1", 1801))
WARMED_UP = [running(*slower(0, *((op, 2 * duration) for op, duration in WORK))), *runs_of(*WORK, number=13)[1:]]
ONE_SLOW = [*runs_of(*WORK, number=7), running(*((op, 10 * time) for op, time in WORK)), *runs_of(*WORK, number=13)[8:]]
LOADED = run("Default", framework("Method::init", 101, 90101), framework("Program::load_method", 0, 100003))
COARSE = [with_delegate(at, calls=6, inner=(("Add (ND) #1", -at), ("Mul (ND) #2", 1000 - at))) for at in range(15)]
# Rules, and runs with their severity, time at stake, share of the time (`...`: whatever it is), finding and evidence.
FINDINGS: list[tuple[str, Sequence[Run], tuple[str, Any, Any], str, str]] = [
    # 15 runs take 7 ns an op more than the first of them, on average and in the middle.
    # So the median run has 3 kernels of 108 ns and 3 gaps of 250: 750 of 1074 ns.
    ("framework tax", runs_of(("mul", 101), ("sub", 101), ("gelu", 101), gap=250, number=15),
     ("medium", 750, 750 / 1074),
     "Outside of kernels and delegates, the median run takes 750 ns of 1,074 ns (70 %), tracing included: "
     "125 ns for each of its 6 events, about the cost of logging one: tracing is the likely reason.", ""),
    # Only the kernel is an event within the execute.
    ("framework tax", [run("Execute", kernel("add", 101, 104), execute(100, 113))] * 2, ("medium", 10, 10 / 13),
     "Outside of kernels and delegates, the median run takes 10.0 ns of 13.0 ns (77 %), tracing included: "
     "10.0 ns for its event, about the cost of logging one: tracing is the likely reason.", ""),
    # 4 gaps of 160 of 6160 ns, just above a tenth.
    ("framework tax", runs_of(*WORK, gap=160), ("medium", ..., ...), "", ""),
    ("framework tax", [run("Execute", execute(10, 20), kernel("add", 12, 18))] * 2, ("high", 10, 1),
     "Outside of kernels and delegates, the median run takes 10.0 ns of 10.0 ns (100 %), tracing included.", ""),
    # The average of 15 runs: addmm 3001 + 7, and other work of 5520 + 4 * 7.
    ("nothing delegated", runs_of(("addmm", 3001), *WORK, gap=0, number=15), ("high", 3008, 3008 / (8521 + 5 * 7)),
     "No delegate runs anything: convolutions and matrix products (addmm), which backends are made for, take "
     "3,008 ns of the average run (35 %) in kernels.", "addmm 3,008 ns in 1 call (instruction 0)"),
    # The average of 15 runs: kernels of 1016 and 510 ns, a call of 2010, gaps of 14.
    ("fallback kernels", [with_delegate(index, ("mul", 1009), ("sub", 503)) for index in range(15)],
     ("high", 1526, 1526 / (1526 + 2010 + 14)),
     "Next to 1 delegate call, the average run has 2 kernels for ops that no delegate took: 1,526 ns (43 %), most of "
     "it in mul.", "mul 1,016 ns in 1 call (instruction 0), sub 510 ns in 1 call (instruction 1)"),
    # The average of 15 runs: permute_copy 1008, quantize 206, dequantize 308, and the delegate's transpose 108.
    ("copies", [with_delegate(index, *TRANSPOSED, inner=COPIED) for index in range(15)],
     ("medium", 1008 + 206 + 308 + 108, 1630 / (1522 + 5520 + 28 + 7 * 7 + 2010)), "",
     "permute_copy 1,008 ns in 1 call (instruction 0), dequantize_per_tensor 308 ns"),
    # The first run takes 11068 ns, twice the median of the others (5520 + 28 + 4 * 6.5 = 5574).
    ("first run", WARMED_UP, ("medium", (11068 - 5574) / 13, 5494 / (11068 + 12 * 5574)),
     "The first run takes 11,068 ns, 1.99 times the median of the 12 runs after it (5,574 ns): it is a warm-up.", ""),
    # One of 13 runs takes 55228 ns; of the others the middle two are runs 5 and 6: 5548 + 4 * 5 and + 4 * 6.
    ("slow runs", ONE_SLOW,
     ("high", ..., (55228 - 5570) / (sum(5548 + 4 * index for index in range(13) if index != 7) + 55228)),
     "Without the first, 1 of 13 runs took longer than typical, the slowest 55,228 ns against 5,570 ns",
     "run 7 55,228 ns"),
    ("few runs", runs_of(*WORK, number=9), ("low", ..., ...), "The capture has 9 runs", "runs 0 to 8"),
    # The average of 15 runs: gelu 9001 + 7, 3 other ops of 4523 + 3 * 7, 4 gaps of 7.
    ("dominating op", runs_of(("gelu", 9001), *WORK[:3], number=15), ("medium", 9008, 9008 / (9001 + 4523 + 28 + 28)),
     "The op gelu takes 9,008 ns of the average run (66 %): making all else faster gains at most 34 %.", ""),
    # The average of 15 runs: 6 calls of 2010 ns, of which 308 copy, 1016 compute and 686 are unaccounted.
    ("small delegate calls",
     [with_delegate(index, calls=6, inner=(("Copy (NC, X32) #1", 301), (*COPIED[1][:1], 1009))) for index in range(15)],
     ("high", 6 * (308 + 686), 994 / 2010),
     "The average run calls delegates 6 times, 2,010 ns each, 49 % of it copies, layout and time that the delegates' "
     "events leave unaccounted.", "DELEGATE_CALL 4,116 ns in 6 calls (most in instructions 10, 11, 12)"),
    ("small delegate calls", [with_delegate(index, calls=6) for index in range(15)], ("low", None, ...),
     "and the delegates' events do not show how much of it is overhead.", ""),
    # Events within calls count whole microseconds, most of them none, as with XNNPACK: unaccounted time is no overhead.
    ("coarse clock", COARSE, ("medium", ..., ...),
     "Events within delegates are timed in steps of 1,000 ns: 50 % have a time of 0.",
     "180 events over all runs, 90 of them 0"),
    ("small delegate calls", COARSE, ("low", None, ...), "", ""),
    # Of 50 us: kernels take one or two steps, every sixth of them none.
    ("coarse clock",
     [running(*((op, 50_000 * ((0, 1, 1, 1, 2, 2)[(at + place) % 6])) for place, op in enumerate(("mul", "sub", "gelu"))), gap=0) for at in range(12)],
     ("high", ..., ...), "Events are timed in steps of 50,000 ns", ""),
    # All times are multiples of 100 ns; kernels take 1 to 4 of these, the median of all durations is 300.
    ("coarse clock",
     [running(*((op, 100 * (1 + (at + place) % 4)) for place, op in enumerate(("mul", "sub", "gelu"))), gap=0) for at in range(13)],
     ("high", ..., ...),
     "Events are timed in steps of 100 ns, and half of them take at most 300 ns: 0.0 % have a time of 0.", ""),
    # 12 runs of 5548 to 5592 ns are 66840 together, 5570 the median; loading takes 100003.
    ("loading", [LOADED, *runs_of(*WORK)], ("low", None, 100003 / (100003 + 66840)),
     "Loading took 100,003 ns, as much as 18.0 median runs: 60 % of the time in this capture.",
     "1 Program::load_method, of it Method::init 90,000 ns"),
    # Of 12 runs, one takes a step of the clock, 40,000 ns, and the others none.
    ("loading", [LOADED, *[running(("mul", 40_000 * (at == 5)), gap=0) for at in range(12)]], ("medium", None, 100003 / (100003 + 40_000)),
     "Loading took 100,003 ns, more than all runs together: 71 % of the time in this capture.", ""),
    ("impossible times", [run("Execute", kernel("add", start=50, end=40), execute(start=2**40, end=2**40 + 60))],
     ("high", ..., None), "1 event ends before the start: the duration is null.", ""),
    ("wrapped clock",
     [run("Execute", kernel("add", start=2**32 - 9, end=2**32 - 5), execute(start=2**32 - 10, end=5))],
     ("low", ..., ...), "", ""),
]  # fmt: skip
OFTEN = ("fallback kernels", "slow runs")


@pytest.mark.parametrize(
    ("rule", "runs", "expected", "finding", "evidence"),
    [pytest.param(*each, id=each[0], marks=() if each[0] in OFTEN else pytest.mark.long) for each in FINDINGS],
)
def test_a_rule(rule: str, runs: Sequence[Run], expected: tuple[str, Any, Any], finding: str, evidence: str) -> None:
    row = advice_on(runs)[rule]
    severity, time, share = expected
    assert row["severity"] == severity and finding in row["finding"] and evidence in row["evidence"]
    assert (row["share_percent"] is None) == (row["share_of"] is None)
    if time is not ...:
        assert row["time_at_stake"] == (time and pytest.approx(time))
    if share is not ...:
        assert row["share_percent"] == (share and pytest.approx(100 * share))


# Runs without any finding: clean ones; a tax of 600 of 6120 ns; ops named as if they computed what delegates are made
# for; of two ops, one is the larger; all that runs is delegated.
CLEAN = {
    "clean": runs_of(*WORK),
    "small tax": runs_of(*WORK, gap=150),
    "names": runs_of(
        *((name, 2003) for name in ("upsample_bilinear2d", "convert_element_type", "conv_like", "common"))
    ),
    "two ops": runs_of(("gelu", 9001), ("mul", 1009)),
    "delegated": [with_delegate(index) for index in range(15)],
}


def test_every_rule_has_a_test() -> None:
    names = [
        name
        for path in Path(etq.__file__).parent.glob("advice/*.py")
        for name in re.findall(r'(?:Finding|Claim)\(\s*"(.+?)"', path.read_text())
    ]
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].glob("*/test_*.py"))
    assert names and [name for name in names if f'"{name}"' not in tests] == []


@pytest.mark.parametrize("name", ["clean", *(pytest.param(name, marks=pytest.mark.long) for name in [*CLEAN][1:])])
def test_runs_without_findings(name: str) -> None:
    assert advice_on(CLEAN[name]) == {}


@pytest.mark.long
def test_units_of_a_tax_that_tracing_does_not_explain() -> None:
    # 4 gaps of 5003 ns, 2501.5 ns for each of 8 events; the median run of 15 works 5520 + 4 * 7 ns.
    row = advice_on(runs_of(*WORK, gap=5003, number=15), unit="us")["framework tax"]
    assert (row["severity"], row["time_at_stake"], row["unit"]) == ("high", 20.012, "us")
    assert row["share_percent"] == pytest.approx(100 * 20012 / 25560)
    assert "2.50 us for each of its 8 events, more than the cost of logging one" in row["finding"]
    cycles = advice_on(runs_of(*WORK, gap=5003, number=15), unit="cycles", time_scale="cycles")["framework tax"]
    assert "this clock does not show" in cycles["finding"] and cycles["severity"] == "high"


def test_which_ops_are_copies() -> None:
    copies = ["permute_copy", "clone", "_clone_dim_order", "_to_copy", "_to_dim_order_copy", "select_copy.int"]
    copies += ["quantized_decomposed::quantize_per_tensor", "dequantize_per_channel", "copy"]
    others = ["mul", "index_copy_add", "cat", "copysign", "embedding"]
    assert [name for name in copies + others if is_copying(name)] == copies


@pytest.mark.long
def test_remedies_of_copies_are_for_what_copies() -> None:
    """Whether inputs have another layout matters to what changes it, not to copies to a delegate's own memory."""

    def remedy(number: int, label: str) -> str:
        inner = ((label, 801), ("COMPUTE", 1001))
        return str(advice_on([with_delegate(at, calls=number, inner=inner) for at in range(15)])["copies"]["remedy"])

    assert remedy(1, "VGF_COPY_INPUTS") == ""
    assert remedy(2, "VGF_COPY_INPUTS").startswith("With fewer and larger delegated parts")
    assert remedy(1, "Transpose (ND, X32) #1").startswith("Give the delegate its inputs in the layout")
    assert "together" in remedy(1, "Static Reshape (NC)") and "layout" not in remedy(2, "Convert (NC, F32, QD8)")


def test_a_kernel_that_a_delegate_calls_is_the_delegate_s(warehouse: Warehouse) -> None:
    """The kernel of the delegate's own instruction is within its call; instruction 1 is a kernel that no delegate took."""
    runs = [
        run(
            "Execute", delegated("conv", 112, 140), kernel("mul", 150, 210), delegate_call(105, 305),
            kernel("add", 310, 330, 1), operator_call(308, 340, 1), execute(100, 401 + at),
        )
        for at in range(5)
    ]  # fmt: skip
    warehouse.ingest(dump(*runs), name="test")
    assert advice_of(warehouse, "test")["fallback kernels"]["finding"].endswith("it in add.")
    query = "SELECT total, ops, unaccounted, events, other_events FROM delegate_totals('test', unit := 'ns')"
    assert warehouse.rows(query)[1] == [(5 * 200, 5 * (28 + 60), 5 * (200 - 28 - 60), 10, 0)]


@pytest.mark.long
def test_a_schedule_without_the_first_run(warehouse: Warehouse) -> None:
    warehouse.ingest(dump(*WARMED_UP), name="test")
    assert advice_of(warehouse, "test", steps="skip_first=1") == {}


@pytest.mark.long
def test_runs_that_vary() -> None:
    # The 12 runs after the first alternate between 5548 and 8308 ns: these are p10 and p90; the median is between them.
    fast, slow = running(*WORK), running(*((op, 3 * duration // 2) for op, duration in WORK))
    rows = advice_on([fast, *[fast, slow] * 6])
    spread = (8306 - 5548) / ((8306 + 5548) / 2)
    captures = 2 * (1.96 + 0.84) ** 2 * (0.15 * spread / 0.048790164169) ** 2
    assert 23 < captures < 24
    assert set(rows) == {"variance"} and rows["variance"]["severity"] == "low"
    assert rows["variance"]["finding"] == (
        "Runs that log the same events, without the first, take 5,548 ns (p10) to 8,306 ns (p90), a spread of 40 % "
        "around the median of 6,927 ns: to detect a change of 5 %, about 24 captures per side are needed."
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "words"),
    [
        # Run i takes 5,548 + 400 i ns; the first doesn't count. A tenth are two runs: 1 and 2, 19 and 20.
        (range(21), "more time: the first tenth of them 6,148 ns, the last tenth 13,348 ns, 117 % more."),
        (
            range(20, -1, -1),
            "less time: the first tenth of them 12,948 ns, the last tenth 5,748 ns, 56 % less.",
        ),
        ([0, *[1, 20] * 15], None),
        (range(20), None),  # 19 runs are too few
    ],
)
def test_runs_that_drift(order: Sequence[int], words: str | None) -> None:
    rows = advice_on([running(*slower(100 * index, *WORK)) for index in order])
    assert ("variance" in rows) == (words is None)
    assert ("drift" in rows) == (words is not None)
    if words is not None:
        assert rows["drift"]["finding"] == f"Later runs that log the same events take {words}"
        assert rows["drift"]["evidence"].endswith("their order explains 100 % of their variance")


@pytest.mark.long
def test_shares_leave_slow_runs_out() -> None:
    runs = runs_of(*WORK, number=13)
    runs[7] = running(("mul", 1_000_003), *WORK[1:])
    assert set(advice_on(runs)) == {"slow runs"}, "mul dominates no run but one"


@pytest.mark.long
def test_times_with_logged_values_are_not_judged() -> None:
    value = DebugEvent(Tensor(6, (1,), (0,), 0), instruction_id=0)
    runs = [replace(each, events=(value, *each.events)) for each in runs_of(("addmm", 9001), *WORK)]
    assert set(advice_on(runs)) == {"logged values"}


@pytest.mark.long
def test_a_record_of_another_program_changes_nothing(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(CAPTURES / "mlp/mlp.etdp")
    warehouse.link(capture, warehouse.ingest_record(CAPTURES / "convnet/convnet.etrecord"))
    rows = advice_of(warehouse, capture.name)
    assert next(iter(rows)) == "foreign record" and rows["foreign record"]["severity"] == "high"
    assert "models/" not in str(rows) and "dominating module" not in rows


@pytest.mark.long
def test_findings_of_linking_and_of_values(warehouse: Warehouse) -> None:
    twins = warehouse.ingest(CAPTURES / "twins/twins.etdp")
    warehouse.link(twins, warehouse.ingest_record(CAPTURES / "twins/twins.etrecord"))
    assert advice_of(warehouse, twins.name)["method unknown"]["severity"] == "medium"
    maploop = warehouse.ingest(CAPTURES / "maploop/maploop.etdp")
    warehouse.link(maploop, warehouse.ingest_record(CAPTURES / "maploop/maploop.etrecord"))
    assert advice_of(warehouse, maploop.name)["half-written"]["finding"].startswith("The record maploop lacks")
    mlp = warehouse.ingest(CAPTURES / "mlp/mlp.etdp")
    warehouse.link(mlp, warehouse.ingest_program(CAPTURES / "convnet/convnet.pte"))
    assert advice_of(warehouse, mlp.name)["foreign program"]["severity"] == "high"
    short = CAPTURES / "mlp/mlp_debug_shortbin"
    debug = warehouse.ingest(short.with_suffix(".etdp"), debug_buffer=short.with_suffix(".bin"))
    assert set(advice_of(warehouse, debug.name)) == {"logged values", "short debug buffer"}


@pytest.mark.long
def test_rules_for_devices_do_not_apply_to_traces(warehouse: Warehouse) -> None:
    warehouse.ingest(trace(*(event("cpu_op", "aten::mm", 10 * at, 10 * at + 5) for at in range(40))), name="trace")
    assert {*advice_of(warehouse, "trace")} == {"critical path"}


@pytest.mark.long
def test_runs_that_vary_have_no_warm_up() -> None:
    """The first takes 1.5 times the median of the others, of which some take longer; if it takes 8 times that, it is a
    warm-up.
    """
    others = [(0.6, 0.8, 1.0, 1.2, 1.5, 1.9)[at % 6] for at in range(30)]
    for first, expected in ((1.7, False), (1.9, False), (9.0, True)):
        runs = [running(*((op, int(scale * time)) for op, time in WORK)) for scale in (first, *others)]
        assert ("first run" in advice_on(runs)) == expected, first


@pytest.mark.long
def test_rows_are_stored_and_equal_those_of_the_file(tmp_path: Path) -> None:
    """As in any program that reads DuckDB's files; captures that are ingested together, one of a file alone."""
    files = [CAPTURES / f"{name}/{name}.etdp" for name in ("mlp", "cond", "mlp_xnn", "multimethod")]
    alone = [etq.read(file).advice().fetchall() for file in files]
    with etq.open(tmp_path / "lab.duckdb") as lab:
        captures = lab.ingest_many(files)
        assert [lab.sql("FROM advice($c)", c=each).fetchall() for each in captures] == alone
        assert [lab.advice(each).fetchall() for each in captures if isinstance(each, Capture)] == alone
        with pytest.raises(EtqError, match="etq advice mlp, or warehouse.advice"):
            lab.rows("FROM advice('mlp', runs := 'all')")
        assert lab.advice("mlp", runs="all").fetchall()
    with duckdb.connect(str(tmp_path / "lab.duckdb"), read_only=True) as connection:
        columns = "rule, severity, finding, evidence, time_at_stake, share_percent, share_of, remedy, unit"
        query = f"SELECT {columns} FROM all_advice ORDER BY capture_id, place"
        assert connection.execute(query).fetchall() == [row for rows in alone for row in rows] and all(alone)


@pytest.mark.long
def test_advice_about_ranks_is_written_again(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule about a job counts its traces."""

    def ranks(connection: duckdb.DuckDBPyConnection, key: int, jobs: object, also: object) -> list[Finding]:
        query = (
            "SELECT count(*) FROM labels WHERE key = 'job' AND value IN (SELECT value FROM labels WHERE capture_id = ?)"
        )
        [(number,)] = connection.execute(query, [key]).fetchall()
        return [Finding("ranks", "low", str(number), "")]

    monkeypatch.setattr("etq.advice.trace_rows.trace_findings", ranks)

    def found() -> list[tuple[str, str]]:
        query = "SELECT c.name, a.finding FROM all_advice AS a JOIN captures AS c USING (capture_id) ORDER BY ALL"
        return warehouse.rows(query)[1]

    for rank in "ab":
        warehouse.ingest(trace(event("cpu_op", f"aten::{rank}", 0, 5)), name=rank, labels={"job": "j"})
    assert found() == [("a", "2"), ("b", "2")]
    warehouse.ingest(trace(event("cpu_op", "aten::c", 0, 5)), name="c")
    warehouse.label("c", job="j")
    assert found() == [("a", "3"), ("b", "3"), ("c", "3")]
    warehouse.label("a", job="k")
    assert found() == [("a", "1"), ("b", "2"), ("c", "2")]
    warehouse.remove("b")
    assert found() == [("a", "1"), ("c", "1")]


def test_one_finding_of_a_cause() -> None:
    """Device idle stays; it says more than a low utilization from a fifth on, and the host's part of the path from half
    on; of others, the one of most time stays.
    """
    idle = Finding("device idle", "high", "", "", cause="host", percent=30)
    path = Finding("critical path", "high", "", "", cause="host", percent=60)
    small = Finding("critical path", "low", "", "", cause="fusion", percent=4)
    chains = Finding("fusable kernels", "medium", "", "", cause="fusion", percent=6)
    low = Finding("gpu utilization", "medium", "", "")
    assert distinct([path, idle, small, chains, low]) == [idle, chains]
    idle, shorter = idle._replace(percent=10), path._replace(percent=40)
    assert distinct([path, idle, low]) == [path, idle]
    assert distinct([shorter, idle, low]) == [shorter, idle, low]
