"""Comparing captures: captures that can't be compared are an error with the reason, and odd input is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from scipy import stats

import etq
from etq import catalog
from etq.analysis.comparison import OPTIONS, VIEWS, Comparison
from etq.database.functions import FUNCTIONS, _list_of
from etq.verdicts.findings import other_programs
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import ProfileEvent, delegate_call, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.sql.method import holm
from tests.sql.planting import rows_of, rules
from tests.warehouses import empty_warehouse

TIMED = ("compare_ops", "compare_modules", "compare_captures", "compare_findings", "compared_captures")


def file(*kernels: int, runs: int = 4, seed: int = 0, name: str = "Execute") -> bytes:
    """Runs of kernels with these times in ns plus up to 1 % at random; the execute takes 500 ns more."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(runs):
        start, events = 100, []
        for place, ticks in enumerate(kernels):
            end = start + int(ticks * (1 + random.random() / 100))
            events.append(kernel(f"op{place}", start, end, place))
            start = end + 10
        made.append(run(name, *events, execute(0, start + 500)))
    return dump(*made)


def ingest_sides(warehouse: Warehouse, count: int = 4, *, slower: float = 1.0) -> None:
    captures = []
    for place in range(2 * count):
        side = ("base", "new", "new", "base")[place % 4]
        second = 20_000 * (slower if side == "new" else 1)
        content = file(10_000, int(second), 30_000, 40_000, seed=place)
        captures.append(Labelled(f"run{place}", content, {"side": side}, datetime(2026, 1, 1, place)))
    ingest_all(warehouse, captures)


@pytest.fixture(scope="module")
def sides() -> Iterator[Warehouse]:
    """Two captures a side; not to be written to."""
    with empty_warehouse() as opened:
        ingest_sides(opened, 2)
        yield opened


def add_metric(warehouse: Warehouse, name: str, better: str | None, values: dict[str, list[float]]) -> None:
    """Add values of a metric to the captures of each side, one value per capture."""
    for side, given in values.items():
        keys = warehouse.rows("SELECT l.capture_id FROM labels AS l WHERE l.value = $side ORDER BY ALL", side=side)[1]
        for (key,), value in zip(keys, given, strict=False):
            warehouse.connection.execute(
                "INSERT INTO metrics VALUES (?, NULL, ?, ?, 'x', ?, 0, NULL)", [key, name, value, better]
            )


@pytest.mark.parametrize(
    ("base", "new", "message"),
    [
        ("nope", "side=new", "no capture matches nope; there are run"),
        ("side=base", "side=old", "no capture matches side=old: none has side=old; values are base, "),
        ("side=base", "", "no capture matches ; there are "),
        ("run0", "run0", "run0 is on both sides, run0 and run0; choose different captures"),
        ("run0", "side=base", "run0 is on both sides, run0 and side=base"),
    ],
)
def test_invalid_sides(sides: Warehouse, base: str, new: str, message: str) -> None:
    for view in (*TIMED, "compare_metrics") if base == "nope" else ("compare_captures",):
        with pytest.raises(etq.QueryError, match=f"^{message}"):
            rows_of(sides, view, base, new)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quantile": 0.3}, "quantile must be 0.25, 0.5 or 0.9, not 0.3"),
        ({"phase": "decoding"}, "unknown phase 'decoding'; known are load, prefill, decode, mixed, other"),
        ({"alpha": 0}, "alpha must be a number above 0 and below 1, not 0"),
        ({"alpha": None}, "alpha must be a number above 0 and below 1, not NULL"),
        ({"min_effect": -0.1}, "min_effect must be a fraction from 0 to below 10, such as 0.03, not -0.1"),
        ({"min_effect": 30}, "min_effect must be a fraction from 0 to below 10, such as 0.03, not 30"),
        # Neither side has one; DuckDB evaluates either first.
        ({"phase": "decode"}, "no capture of side=(base|new) has an execute of phase decode to compare"),
        ({"history": "nope"}, "no capture matches nope"),
        ({"unit": "cycles"}, "the captures count ns, which cannot be converted to cycles"),
        ({"unit": "hours"}, "unknown unit hours; known are ns, us, ms, s, cycles"),
    ],
)
def test_invalid_parameters(sides: Warehouse, given: dict[str, Any], message: str) -> None:
    chosen = ("run0", "run1") if "history" in given else ("side=base", "side=new")
    with pytest.raises(etq.QueryError, match=f"^{message}"):
        rows_of(sides, "compare_ops", *chosen, **given)


@pytest.mark.parametrize("call", ["compare_parts('side=base', 'side=new', {})", "trend({})", "regressions({})"])
def test_an_unknown_phase(sides: Warehouse, call: str) -> None:
    given = "phase := 'warm'" if "parts" in call else "over := 'captured_at', phase := 'warm'"
    with pytest.raises(etq.QueryError, match="unknown phase 'warm'; known are load, prefill, decode, mixed, other"):
        sides.rows(f"FROM {call.format(given)}")


@pytest.mark.long
def test_captures_without_executes(warehouse: Warehouse) -> None:
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    warehouse.ingest_reference(record, {"linear": [np.zeros(3)]}, name="truth")
    empty = Labelled("empty", CAPTURES / "mlp/mlp_0runs.etdp", {"side": "empty"})
    others = {"old": "prof_result/no_execute.prof_result.bin", "trace": "torch/pair_mlp.pt.trace.json.gz"}
    ingest_all(warehouse, [empty, *((name, CAPTURES / path) for name, path in others.items())])
    ingest_all(warehouse, [("full", CAPTURES / "mlp/mlp.etdp")], link_to=[record])
    for base, new, name in (("empty", "full", "empty"), ("full", "side=empty", "empty"), ("old", "full", "old")):
        for view in TIMED if base == "empty" else ("compare_captures",):
            with pytest.raises(etq.QueryError, match=f"^{name} has no (execute to compare: only ETDumps|record)"):
                rows_of(warehouse, view, base, new)
    with pytest.raises(etq.QueryError, match="^truth has no execute to compare"):
        rows_of(warehouse, "compare_captures", "truth", "full")
    with pytest.raises(etq.QueryError, match="^the baseline trace has no execute"):
        warehouse.rows("FROM framework_tax('full', baseline := 'trace')")
    # Metrics need no times.
    warehouse.metric("empty", "load", 1, better="lower")
    warehouse.metric("trace", "load", 2, better="lower")
    [row] = rows_of(warehouse, "compare_metrics", "empty", "trace")
    assert (row["verdict"], row["change_percent"]) == ("too few", 100)


@pytest.mark.long
def test_one_capture_of_many_without_executes(warehouse: Warehouse) -> None:
    ingest_sides(warehouse)
    warehouse.ingest(
        CAPTURES / "mlp/mlp_0runs.etdp", name="empty", labels={"side": "base"}, captured_at=datetime(2026, 1, 1)
    )
    assert rules(warehouse)["no times"] == "empty of base has no execute, and is excluded"
    assert {row["base_captures"] for row in rows_of(warehouse, "compare_ops")} == {4}
    assert len(rows_of(warehouse, "compared_captures")) == 8


@pytest.mark.long
def test_a_record_on_one_side_alone(warehouse: Warehouse) -> None:
    """Runs of one capture have a method, those of the other only a name: they have one total and no modules."""
    warehouse.ingest_many([CAPTURES / f"mlp/{name}.etdp" for name in ("mlp", "mlp_100runs")])
    # Although no table of modules has a row, the error is raised.
    with pytest.raises(etq.QueryError, match="has no record, so its events have no modules; link one"):
        rows_of(warehouse, "compare_modules", "mlp", "mlp_100runs")
    warehouse.link("mlp", warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    parts = [(row["what"], row["method"]) for row in rows_of(warehouse, "compare_captures", "mlp", "mlp_100runs")]
    assert parts == [("total", "forward"), ("ops", "forward"), ("outside ops", "forward"), ("common shift", None)]
    ops = rows_of(warehouse, "compare_ops", "mlp_100runs", "mlp")
    assert len(ops) == 24 and {(row["matched"], row["verdict"]) for row in ops} == {("event", "too few")}
    with pytest.raises(etq.QueryError, match="^mlp_100runs has no record, so its events have no modules; link one"):
        rows_of(warehouse, "compare_modules", "mlp", "mlp_100runs")


@pytest.mark.long
def test_captures_of_different_programs(warehouse: Warehouse) -> None:
    paths = [(model, CAPTURES / f"fleet/{model}/{place:02}.etdp") for model in ("mlp", "convnet") for place in range(4)]
    ingest_all(warehouse, [Labelled(f"{model}{path.stem}", path, {"side": model}) for model, path in paths])
    ops = rows_of(warehouse, "compare_ops", "side=mlp", "side=convnet")
    assert {row["matched"] for row in ops} == {"name"}
    assert {"added", "removed"} <= {row["verdict"] for row in ops}
    findings = rules(warehouse, base="side=mlp", new="side=convnet")
    assert findings["different programs"].startswith("ops are matched by name: ")
    assert findings["few common ops"] == "fewer than half of the ops are in both: compare totals only"
    # Some of the ops in both are decided, but the sentences are those of totals.
    assert {"slower", "faster"} & {row["verdict"] for row in ops}
    assert [line[:6] for line in warehouse.compare("side=mlp", "side=convnet").verdicts] == ["total:"]
    assert "common shift" not in findings
    assert findings["time order unknown"].startswith("some captures have no timestamps")


@pytest.mark.long
def test_what_a_backend_counts_itself_has_its_own_unit(warehouse: Warehouse) -> None:
    """An accelerator's cycles have no share of the host's nanoseconds."""
    made = []
    for place in range(6):
        cycles = ProfileEvent(None, 0, 0, delegate_debug_id_str="conv (cycles)", start_time=0, end_time=7_000 + place)
        events = [cycles, delegate_call(10, 9_000 + place), execute(0, 10_000 + place)]
        made.append(Labelled(f"run{place}", dump(run("Execute", *events)), {"side": "new" if place % 2 else "base"}))
    ingest_all(warehouse, made)
    rows = {row["kind"]: row for row in rows_of(warehouse, "compare_ops", unit="ns")}
    assert (rows["delegate"]["base"], rows["delegate"]["unit"], rows["delegate"]["share_percent"]) == (
        7_002,
        "cycles",
        None,
    )
    assert (rows["delegate_call"]["base"], rows["delegate_call"]["unit"]) == (8_992, "ns")
    parts = {row["what"]: row for row in rows_of(warehouse, "compare_captures", unit="ns")}
    assert (parts["total"]["base"], parts["ops"]["base"], parts["outside ops"]["base"]) == (10_002, 8_992, 1_010)


@pytest.mark.long
def test_conditions_that_differ(warehouse: Warehouse) -> None:
    ingest_sides(warehouse, 5, slower=1.3)
    [slower] = [row for row in rows_of(warehouse, "compare_ops") if row["verdict"] == "slower"]
    assert slower["op"] == "op1"
    add_metric(warehouse, "temperature", None, {"base": [40, 45], "new": [43, 50]})
    assert "conditions differ" not in rules(warehouse)
    # A better direction that is given for some captures makes it a result of all.
    add_metric(warehouse, "score", None, {"base": [90, 91, 92], "new": [50, 51, 52]})
    warehouse.rows("UPDATE metrics SET better = 'higher' WHERE name = 'score' AND value IN (92, 52)")
    assert "conditions differ" not in rules(warehouse)
    add_metric(warehouse, "clock", None, {"base": [1800, 1801], "new": [1200, 1300]})
    assert rules(warehouse)["conditions differ"].startswith("clock: 1800 to 1801 x in base, 1200 to 1300 x in new; ")
    assert {row["verdict"] for row in rows_of(warehouse, "compare_ops")} == {"~", "conditions differ"}
    assert "slower" in {row["verdict"] for row in rows_of(warehouse, "compare_ops", allow_mismatch=True)}
    [clock] = [row for row in rows_of(warehouse, "compare_metrics") if row["name"] == "clock"]
    assert (clock["verdict"], clock["base"], clock["new"], clock["better"]) == ("differs", 1800.5, 1250, None)
    warehouse.connection.execute("""
        INSERT INTO labels SELECT l.capture_id, 'governor', CASE l.value WHEN 'base' THEN 'performance' ELSE 'powersave' END
        FROM labels AS l WHERE l.key = 'side'""")
    assert "governor: performance in base, powersave in new" in rules(warehouse)["conditions differ"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "new", "told"),
    [
        (["pixel8"] * 3, ["s24"] * 3, "device: pixel8 in all of base, s24 in all of new; this may be"),
        (["a", "b", "b"], ["c", "c", "d"], "device: a, b in all of base, c, d in all of new; this may be"),
        # One capture has the other side's, none is known of one, and each capture has its own.
        (["pixel8", "pixel8", "s24"], ["s24"] * 3, None),
        (["pixel8"] * 3, ["s24", "s24", None], None),
        (["1", "2", "3"], ["4", "5", "6"], None),
    ],
)
def test_labels_that_differ_besides_those_that_select_the_sides(
    warehouse: Warehouse, base: list[str], new: list[str | None], told: str | None
) -> None:
    captures = []
    for build, devices in (("41", base), ("42", new)):
        for number, device in enumerate(devices):
            labels = {"build": build, "commit": f"c{build}", "side": "s"} | ({"device": device} if device else {})
            events = kernel("mm", 0, 1009 + number), execute(0, 2003 + int(build))
            captures.append(Labelled(f"{build}-{number}", dump(run("Execute", *events)), labels))
    ingest_all(warehouse, captures)
    sides = {"base": "build=41", "new": "build=42"}
    details = [
        row["detail"] for row in rows_of(warehouse, "compare_findings", **sides) if row["rule"] == "labels differ"
    ]
    assert [detail.startswith(told or "?") for detail in details] == ([True] if told else [])
    lines = warehouse.compare(**sides).verdicts
    assert [line for line in lines if "device" in line] == [f"labels differ: {detail}" for detail in details]
    if told and len({*base}) == 1:
        assert "labels differ" not in {
            row["rule"] for row in rows_of(warehouse, "compare_findings", "device=pixel8", "device=s24")
        }


METRICS: dict[str, tuple[str, list[float], list[float], str]] = {
    "latency": ("lower", [10, 11, 10.5, 10.2, 10.8], [12, 12.5, 12.1, 12.9, 12.3], "worse"),
    "speed": ("higher", [10, 11, 10.5, 10.2, 10.8], [12, 12.5, 12.1, 12.9, 12.3], "better"),
    "noise": ("lower", [10, 14, 9, 12, 11], [12, 10, 13, 9, 11.5], "not decided"),
    "drops": ("lower", [0, 0, 0, 0, 0], [5, 6, 5, 7, 6], "worse"),
    "gain": ("higher", [-10, -10.5, -9.9, -10.1, -10.2], [-5, -5.1, -4.9, -5.2, -5], "better"),
    "loss": ("lower", [-10, -10.5, -9.9, -10.1, -10.2], [-5, -5.1, -4.9, -5.2, -5], "worse"),
    "constant": ("lower", [0.1] * 5, [0.1] * 3, "~"),
    "stepped": ("lower", [0.1] * 5, [0.2] * 5, "worse"),
    "little": ("lower", [100, 100.1, 100.2, 100, 100.1], [101, 101.1, 101.2, 101, 101.1], "~"),
    "few": ("lower", [1, 2], [9, 9.5], "too few"),
    "gone": ("lower", [1, 2, 3], [], "removed"),
    "come": ("lower", [], [1, 2, 3], "added"),
}


@pytest.mark.long
def test_metrics(warehouse: Warehouse) -> None:
    ingest_sides(warehouse, 5)
    for name, (better, base, new, _) in METRICS.items():
        add_metric(warehouse, name, better, {"base": base, "new": new})
    rows = {row["name"]: row for row in rows_of(warehouse, "compare_metrics")}
    assert {name: row["verdict"] for name, row in rows.items()} == {name: each[3] for name, each in METRICS.items()}
    tested = {}
    for name, (_, base, new, verdict) in METRICS.items():
        row = rows[name]
        assert (row["base_captures"], row["new_captures"]) == (len(base), len(new))
        if verdict in ("added", "removed"):
            continue
        before, after = float(np.median(base)), float(np.median(new))
        assert (row["base"], row["new"]) == (before, after)
        change = None if before == 0 else pytest.approx(100 * (after - before) / abs(before))
        assert row["change_percent"] == change
        if name in ("constant", "stepped"):
            tested[name] = 1.0 if name == "constant" else 0.0
        else:
            to = (np.log(base), np.log(new)) if min(*base, *new) > 0 else (np.array(base), np.array(new))
            tested[name] = float(stats.ttest_ind(to[1], to[0]).pvalue)
        assert row["p"] == pytest.approx(tested[name], abs=1e-12)
    for name, q in zip(tested, holm([*tested.values()], [1.0] * len(tested)), strict=True):
        assert rows[name]["q"] == pytest.approx(q, abs=1e-12)


@pytest.mark.long
def test_several_models_on_a_side_are_refused(warehouse: Warehouse) -> None:
    """A median over different models has no meaning. Each model can be compared separately."""
    captures = []
    for place in range(8):
        model, side = ("mlp", "convnet")[place % 2], ("base", "new")[place // 2 % 2]
        content = file(10_000, 20_000, 30_000 * (1 + place % 2), 40_000, seed=place)
        captures.append(Labelled(f"run{place}", content, {"side": side, "model": model}))
    ingest_all(warehouse, captures)
    message = "^(base|new) has captures of several models, convnet and mlp: compare them one by one, as with model="
    for view in TIMED[:1] + TIMED[2:]:
        with pytest.raises(etq.QueryError, match=message):
            warehouse.rows(f"FROM {view}('side=base', 'side=new')")
    assert warehouse.rows("FROM compare_ops('side=base', 'side=new', allow_mismatch := true)")[1]
    assert warehouse.rows("FROM compare_ops('side=base,model=mlp', 'side=new,model=mlp')")[1]


def test_several_programs_on_a_side_are_not_judged() -> None:
    """Two models without labels: half of the captures of base took five times as long."""
    with empty_warehouse() as warehouse:
        sides = {"base": [f"{model}/0{place}" for model in ("convnet", "mlp") for place in range(4)]}
        sides["new"] = [f"mlp/{place:02}" for place in range(4, 14)]
        captures = [
            Labelled(
                each.replace("/", ""),
                (CAPTURES / "fleet" / f"{each}.etdp").read_bytes(),
                {"side": side, "net": each.split("/")[0]},
            )
            for side, files in sides.items()
            for each in files
        ]
        ingest_all(warehouse, captures)
        [total] = [row for row in rows_of(warehouse, "compare_captures") if row["what"] == "total"]
        assert (total["verdict"], round(total["change_percent"])) == ("conditions differ", -64)
        assert not {row["verdict"] for row in rows_of(warehouse, "compare_ops")} & {"slower", "faster"}
        assert rules(warehouse)["conditions differ"] == (
            "convnet00 of base has other ops than others of its side, as have 7 more: 99.8 % of its time is in ops that "
            "at most half of the captures of base have; compare the captures of one program"
        )
        assert "conditions differ" not in rules(warehouse, base="side=base,net=mlp")


def test_a_program_of_which_most_of_a_side_has_no_op() -> None:
    """By hand: of 40 ticks of the third capture, 30 are in an op of its own; of 50 of the fourth, half."""
    columns = {
        "capture_id": [1, 1, 2, 2, 3, 3, 4, 4, 4, 5], "item": ["a", "b", "a", "b", "a", "c", "b", "d", "c", "e"],
        "ticks": [10.0, 5, 10, 5, 10, 30, 25, 20, 5, 9], "side": ["base"] * 9 + ["new"],
    }  # fmt: skip
    samples = {name: np.array(values) for name, values in columns.items()}
    samples |= {"level": np.full(10, "op"), "is_additive": np.full(10, True), "is_trace": np.full(10, False)}
    assert [*other_programs(samples)] == [(3, "base", 0.75, 1)]
    # One program may run kernels of other names in each trace.
    assert [*other_programs(samples | {"is_trace": np.full(10, True)})] == []


@pytest.mark.long
def test_python_and_sql_take_the_same_steps() -> None:
    """Of programs whose ops are aligned: a part in Python has the rows of its view. Nothing is left on the connection."""
    with empty_warehouse() as warehouse:
        captures = []
        for place in range(8):
            side = ("base", "new")[place % 2]
            ticks = (10_000, 20_000, 30_000) if side == "base" else (10_000, 20_000, 5_000, 30_000)
            captures.append(Labelled(f"run{place}", file(*ticks, seed=place), {"side": side}))
        ingest_all(warehouse, captures)
        options = {"alpha": 0.2, "unit": "ms", "quantile": 0.5}
        comparison = Comparison(warehouse, "side=base", "side=new", dict.fromkeys(OPTIONS) | options)
        for part in ("ops", "captures", "parts", "startup"):
            view = catalog.named(VIEWS[part])
            passed = {name: value for name, value in options.items() if name in {each.name for each in view.parameters}}
            call = f"{view.name}('side=base', 'side=new'{catalog.more_arguments(passed)})"
            rows = comparison.rows(part)
            assert rows == warehouse.rows(f"FROM {call}", **passed)
            assert rows[1]
        assert {row[0]: row[4] for row in comparison.rows("ops")[1]}["op3"] == "added"
        comparison.close()
        wrong = Comparison(warehouse, "side=base", "side=new", dict.fromkeys(OPTIONS) | {"alpha": 2.0})
        with closing(wrong), pytest.raises(etq.QueryError, match="alpha must be"):
            wrong.rows("ops")
        query = """
            SELECT t.table_name FROM system.main.duckdb_tables() AS t WHERE t.temporary
            UNION ALL SELECT f.function_name FROM system.main.duckdb_functions() AS f WHERE f.database_name = 'temp'
            UNION ALL SELECT v.view_name FROM system.main.duckdb_views() AS v WHERE v.temporary AND NOT v.internal
        """
        assert warehouse.rows(query)[1] == []


def test_a_comparison_is_read_in_the_types_of_its_function(sides: Warehouse) -> None:
    """DuckDB converts a function's arguments; where Python calls it, nothing does."""
    [function] = [each for each in FUNCTIONS if each.name == "needs_etq_to_compare"]
    described = sides.rows("DESCRIBE FROM _comparison_input('side=base', 'side=new')")[1]
    expected = [kind if isinstance(kind, str) else _list_of(kind) for kind in function.arguments]
    assert [row[1].replace('"', "") for row in described] == [*expected, "VARCHAR[]"]
