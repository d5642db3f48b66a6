"""Comparisons of PyTorch traces: times per step equal those of plain Python, and planted differences are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import pytest

import etq
from etq.analysis.comparison import Comparison
from etq.analysis.steps import steps_by_name, stored_steps
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES
from tests.trace_builders import event, trace, two_steps
from tests.trace_pairs import Planted, served, trained
from tests.warehouses import empty_warehouse

SLOWER: Final = Planted(host={"aten::conv2d": 1.2}, device={"conv_kernel": 1.2})
# One trace of each kind, with 10 steps; the others are compared with `base`.
SINGLE: Final = {
    "base": Planted(), "same": Planted(), "op": SLOWER, "calls": Planted(calls={"aten::relu": 3}),
    "kernel": Planted(kernels={"aten::mul": "mul_kernel_v2"}),
    "shape": Planted(
        shapes={"aten::addmm": [[64, 512], [512, 256]]}, device={"gemm_kernel": 1.5}, host={"aten::addmm": 1.3}
    ),
    "slow_step": Planted(slow_step=(4, 3.0)),
}  # fmt: skip
OPTIONS: Final = {
    **dict.fromkeys(("unit", "quantile", "phase", "history", "alpha", "min_effect")),
    "allow_mismatch": False,
}


@pytest.fixture(scope="module")
def single() -> Iterator[Warehouse]:
    with empty_warehouse() as opened:
        ingest_all(opened, ((name, trained(seed, planted)) for seed, (name, planted) in enumerate(SINGLE.items())))
        yield opened


@pytest.fixture(scope="module")
def others() -> Iterator[Warehouse]:
    """Traces without steps, with many, and with modules."""
    with empty_warehouse() as opened:
        opened.ingest(trained(1), name="base")
        opened.ingest(trained(90, has_steps=False), name="whole")
        opened.ingest(trained(91, has_steps=False), name="whole_too")
        opened.ingest(trained(92, steps=50, has_device=False), name="many")
        opened.ingest(trained(93, steps=4, has_modules=True), name="modules")
        opened.ingest(trained(94, SLOWER, steps=4, has_modules=True), name="slower_modules")
        yield opened


@pytest.fixture(scope="module")
def several() -> Iterator[Warehouse]:
    """Three traces per side, in turns, each in another state of the machine."""
    with empty_warehouse() as opened:
        planted = Planted(host={"aten::conv2d": 1.2}, calls={"aten::relu": 3}, device={"conv_kernel": 1.2})
        captures = []
        for place in range(6):
            side = ("base", "new", "new", "base")[place % 4]
            state = (1.0, 1.004, 0.997, 1.006, 1.002, 0.995)[place]
            made = Planted(planted.host, planted.device, planted.calls, state=state) if side == "new" else None
            content = trained(100 + place, made or Planted(state=state), steps=4)
            labels = {"side": side, "build": str(place)}
            captures.append(Labelled(f"run{place}", content, labels, datetime(2026, 1, place + 1)))
        ingest_all(opened, captures)
        yield opened


def rows_of(warehouse: Warehouse, query: str, **given: Any) -> list[Any]:
    return warehouse.rows(query, **given)[1]


def verdicts(warehouse: Warehouse, base: str, new: str) -> dict[tuple[str, str], tuple[str, float | None, str | None]]:
    """Verdict, change and note by kind and op."""
    query = "SELECT kind, op, verdict, change_percent, note FROM compare_ops($base, $new)"
    return {(kind, op): row for kind, op, *row in rows_of(warehouse, query, base=base, new=new)}


# Of `two_steps` and a call that begins with aten::addmm, by hand: microseconds of each kind in the first and the second step, each by what was launched in it.
FIRST: Final = {
    "framework": 100, "op aten::linear": 10, "op aten::addmm": 7, "runtime cudaLaunchKernel": 10, "runtime cudaMalloc": 3,
    "device_op aten::addmm": 40, "device_kernel volta_h884gemm": 40, "device_total devices": 40,
}  # fmt: skip
LOADER: Final = "annotation enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SECOND: Final = {
    "framework": 100, LOADER: 8, "op aten::relu": 4, "runtime cudaLaunchKernel": 6, "runtime cudaMemcpyAsync": 10,
    "device_op aten::relu": 40, "device_kernel relu_kernel": 40, "device_copy Memcpy HtoD": 20,
    "device_total devices": 60,
}  # fmt: skip
# With the calls of aten::addmm as steps.
NAMED: Final = {
    "framework": 20, "runtime cudaLaunchKernel": 10, "runtime cudaMalloc": 3, "device_kernel volta_h884gemm": 40,
    "device_total devices": 40,
}  # fmt: skip


def test_times_per_step_by_hand(warehouse: Warehouse) -> None:
    """By profiler steps, by calls of an op, and then by profiler steps again."""
    events = [*two_steps(), event("cuda_runtime", "cudaMalloc", 15, 18)]
    warehouse.ingest(trace(*events, is_older=True), name="older")
    warehouse.ingest(trace(*events), name="made")

    def times(capture: str) -> dict[int, dict[str, float]]:
        query = "SELECT t.run_index, t.kind, t.label, t.ticks FROM step_times AS t WHERE t.capture_id = $key"
        found: dict[int, dict[str, float]] = {}
        for run, kind, label, ticks in rows_of(warehouse, query, key=warehouse.capture(capture).capture_id):
            found.setdefault(run, {})[kind if kind == "framework" else f"{kind} {label}"] = ticks / 1000
        return found

    assert times("made") == {0: FIRST, 1: SECOND}
    # Older files don't tell annotations from ops.
    assert times("older") == {0: FIRST, 1: {name.replace("annotation", "op"): time for name, time in SECOND.items()}}
    steps_by_name(warehouse, ["made"], "aten::addmm")
    assert times("made") == {0: NAMED}
    stored_steps(warehouse)
    assert times("made") == {0: FIRST, 1: SECOND}


CONV: Final = (("op", "aten::conv2d"), ("device_op", "aten::conv2d"), ("device_kernel", "conv_kernel"))
RELU: Final = (("op", "aten::relu"), ("device_op", "aten::relu"), ("device_kernel", "relu_kernel"))
BY_STEPS: Final = ("possibly slower", "judged by the steps of one trace per side: measure 3")
OTHER_SHAPES: Final = (
    "other shapes",
    "shapes [[64, 128], [128, 256]] only in base, [[64, 512], [512, 256]] only in new",
)
# What differs from `base`, by verdict and the beginning of the note. Steps of one trace share a state, so that slower is
# only possible; one slow step makes nothing slower.
DIFFERENT: Final[dict[str, dict[tuple[str, str], tuple[str, str]]]] = {
    "same": {},
    "op": dict.fromkeys(CONV, BY_STEPS),
    "calls": dict.fromkeys((*RELU, ("runtime", "cudaLaunchKernel")), ("more calls", "calls per step "))
    | {RELU[0]: ("more calls", "calls per step 2 to 3, each 1")},
    "kernel": {
        ("device_kernel", "mul_kernel"): ("removed", "may have become mul_kernel_v2"),
        ("device_kernel", "mul_kernel_v2"): ("added", ""),
    },
    "shape": dict.fromkeys((("op", "aten::addmm"), ("device_op", "aten::addmm")), OTHER_SHAPES)
    | {("device_kernel", "gemm_kernel"): BY_STEPS},
    "slow_step": {},
}


@pytest.mark.long
@pytest.mark.parametrize("new", list(DIFFERENT))
def test_what_differs(single: Warehouse, new: str) -> None:
    expected = DIFFERENT[new]
    rows = {key: row for key, row in verdicts(single, "base", new).items() if "annotation" not in key[0]}
    found = {key: row for key, row in rows.items() if row[0] not in ("~", "not decided")}
    assert {key: row[0] for key, row in found.items()} == {key: verdict for key, (verdict, _) in expected.items()}
    assert all((found[key][2] or "").startswith(note) for key, (_, note) in expected.items())
    if new == "op":
        assert [row[1] for row in found.values()] == pytest.approx([20] * 3, abs=2)


@pytest.mark.long
def test_findings_on_two_traces(single: Warehouse) -> None:
    rules = dict(rows_of(single, "FROM compare_findings('base', 'kernel')"))
    assert rules["different programs"].endswith("1 of new are not in base, 1 of base not in new")
    assert rules["one trace per side"].startswith(
        "the samples are steps, 10 of base and 10 of new, which share the machine"
    )
    disturbed = rows_of(single, "FROM compare_findings('base', 'slow_step') WHERE rule = 'disturbed steps'")
    assert len(disturbed) == 2 and disturbed[0][1].startswith("1 of 10 steps of new took ")
    sides = rows_of(single, "SELECT capture, is_disturbed FROM compared_captures('base', 'slow_step')")
    assert [name for name, is_disturbed in sides if is_disturbed] == ["slow_step #5"] and len(sides) == 20


@pytest.mark.long
def test_traces_without_steps_have_too_few(others: Warehouse) -> None:
    found = {verdict for verdict, _, _ in verdicts(others, "whole", "whole_too").values()}
    assert found == {"too few"}
    with pytest.raises(etq.QueryError, match="different steps, ProfilerStep and Trace .*--step-name NAME"):
        rows_of(others, "FROM compare_ops('base', 'whole')")


@pytest.mark.long
def test_calls_of_an_annotation_are_steps(others: Warehouse) -> None:
    """Also if one of the traces has no profiler steps; after that, the stored steps are used again."""
    comparison = Comparison(others, "base", "whole", dict(OPTIONS), "train")
    try:
        totals = comparison.rows("captures", "what, method, verdict, base_captures")[1]
        assert ("total", "train", "~", 10) in totals
        assert ("total", "train on devices", "~", 10) in totals
        assert {verdict for _, verdict in comparison.verdicts("ops", "op")} == {"~"}
    finally:
        comparison.close()
    assert rows_of(others, "SELECT DISTINCT method FROM compare_captures('whole', 'whole_too') WHERE what = 'total'")
    with pytest.raises(etq.EtqError, match="base has no annotation 'trian'; the nearest is train; annotation is train"):
        Comparison(others, "base", "whole", dict(OPTIONS), "trian")


@pytest.mark.long
def test_modules_have_a_row_for_the_host_and_one_for_devices(others: Warehouse) -> None:
    query = "SELECT module_path, method, verdict FROM compare_modules('modules', 'slower_modules')"
    assert {row[:2]: row[2] for row in rows_of(others, query)} == {
        ("Conv2d_0", "ProfilerStep"): "possibly slower",
        ("Conv2d_0", "ProfilerStep on devices"): "possibly slower",
        ("Net_0", "ProfilerStep"): "not decided",
        ("Net_0", "ProfilerStep on devices"): "not decided",
    }
    assert rows_of(others, "FROM compare_modules('whole', 'whole_too')") == []


@pytest.mark.long
def test_several_traces_per_side_are_samples(several: Warehouse) -> None:
    """They are judged as captures are: an op is slower, and another one called more often."""
    found = verdicts(several, "side=base", "side=new")
    judged = {
        key: row for key, row in found.items() if row[0] not in ("~", "not decided") and "annotation" not in key[0]
    }
    assert {key: row[0] for key, row in judged.items() if key[0] != "runtime"} == {
        **dict.fromkeys(CONV, "slower"), **dict.fromkeys(RELU, "more calls"),
    }  # fmt: skip
    assert [judged[key][1] for key in CONV] == pytest.approx([20] * 3, abs=3)
    rules = [rule for rule, _ in rows_of(several, "FROM compare_findings('side=base', 'side=new')")]
    assert "one trace per side" not in rules


PREFILL, DECODE = "step[EXTEND bs=1 toks=90]", "step[DECODE bs=4]"


def in_phases(seed: int, decode: Planted | None = None, prefill: Planted | None = None) -> bytes:
    """12 prefills, each with three decodes behind it, that differ as planted; prefills take three times as long."""
    prefill = replace(prefill or Planted(), state=3)
    return served(seed, [(PREFILL, prefill), *[(DECODE, decode or Planted())] * 3] * 12)


@pytest.mark.long
def test_steps_of_a_phase_are_samples(warehouse: Warehouse) -> None:
    """A kernel that is slower in decodes and faster in prefills: each phase has its own verdict, and of equal ones none."""
    faster = Planted(device={"conv_kernel": 0.7})
    contents = {"base": in_phases(1), "same": in_phases(2), "new": in_phases(3, SLOWER, faster)}
    ingest_all(warehouse, contents.items())
    query = "SELECT kind, op, verdict, change_percent FROM compare_ops('base', $new, phase := $phase)"

    def changed(new: str, phase: str) -> dict[tuple[str, str], list[Any]]:
        rows = rows_of(warehouse, query, new=new, phase=phase)
        return {(kind, op): told for kind, op, *told in rows if told[0] not in ("~", "not decided", "can't judge")}

    slower = ["possibly slower", pytest.approx(20, abs=1)]
    kernel, launcher, op = (("device_kernel", "conv_kernel"), ("device_op", "aten::conv2d"), ("op", "aten::conv2d"))
    assert changed("new", "decode") == {kernel: slower, launcher: slower, op: slower}
    shorter = ["possibly faster", pytest.approx(-30, abs=1)]
    assert changed("new", "prefill") == {kernel: shorter, launcher: shorter}
    assert changed("same", "decode") == changed("same", "prefill") == {}
    # Of decodes at most 30, spread over all 36, which are runs 1 to 3 of each four.
    query = """WITH sides AS (FROM _compared_sides('base', 'new')),
            times AS (FROM _compared_times(0.25, $phase) UNION ALL FROM _compared_steps('sides', $phase))
        SELECT DISTINCT step - 1 FROM _comparison_samples('sides', 'times', $phase, false) ORDER BY 1"""
    assert rows_of(warehouse, query, phase="prefill") == [(4 * at,) for at in range(12)]
    decodes = [run for (run,) in rows_of(warehouse, query, phase="decode")]
    places = [run - run // 4 - 1 for run in decodes]
    assert len(places) == 30
    assert all(run % 4 for run in decodes)
    assert {after - before for before, after in pairwise([-1, *places, 36])} == {1, 2}
    with pytest.raises(
        etq.QueryError, match="(base|new) has no step of phase mixed to compare: steps of vLLM and SGLang have"
    ):
        rows_of(warehouse, "FROM compare_ops('base', 'new', phase := 'mixed')")
    with pytest.raises(etq.EtqError, match="an annotation have no phases: leave out step_name"):
        Comparison(warehouse, "base", "new", {**OPTIONS, "phase": "decode"}, "aten::conv2d")


@pytest.mark.long
def test_phases_and_pruning_keep_the_times_of_steps(warehouse: Warehouse) -> None:
    for name, planted in (("base", None), ("op", SLOWER)):
        warehouse.ingest(trained(len(name), planted, steps=4), name=name)
        warehouse.phase(name, "decode", runs="0-1")
    query = "SELECT DISTINCT verdict FROM compare_ops('base', 'op', phase := $phase) WHERE op = 'aten::conv2d'"
    assert rows_of(warehouse, query, phase="decode") == [("too few",)]
    assert rows_of(warehouse, query, phase=None) == [("possibly slower",)]
    for name in ("base", "op"):
        warehouse.phase(name, "decode", runs="0-3")
    warehouse.prune(0, keep_rollups=True)
    assert rows_of(warehouse, "FROM event_ticks") == []
    assert rows_of(warehouse, query, phase="decode") == [("possibly slower",)]
    assert rows_of(warehouse, query, phase=None) == [("possibly slower",)]


@pytest.mark.long
def test_traces_are_not_compared_with_other_captures(single: Warehouse) -> None:
    single.ingest(CAPTURES / "mlp" / "mlp_100runs.etdp", name="dump")
    try:
        message = (
            "base is a PyTorch trace and dump is not: only traces can be compared with traces; etq show model_map shows"
        )
        for view in ("compare_ops", "compare_captures", "compare_findings"):
            for sides in (("base", "dump"), ("dump", "base")):
                with pytest.raises(etq.QueryError, match=message):
                    rows_of(single, f"FROM {view}($base, $new)", base=sides[0], new=sides[1])
    finally:
        single.remove("dump")


def test_traces_of_other_programs() -> None:
    """A collective on the host, and kernels: all that both have is called less often, and nothing has a median op."""
    with empty_warehouse() as warehouse:
        warehouse.ingest(CAPTURES / "torch_gloo/rank0.pt.trace.json.gz", name="gloo")
        warehouse.ingest(CAPTURES / "torch_gpu/rank1.pt.trace.json.gz", name="gpu")
        rows = warehouse.rows("SELECT op, verdict, common_percent FROM compare_ops('gloo', 'gpu')")[1]
    assert ("gloo:all_reduce", "removed", None) in rows
    assert {verdict for _, verdict, _ in rows} == {"added", "removed", "fewer calls"}
