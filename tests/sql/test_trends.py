"""`trend` and `regressions`: orders, series, planted changes, and captures without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha1

import numpy as np
import pytest

from etq.analysis.series import series_of
from etq.errors import QueryError
from etq.verdicts.changes import KEPT, OPEN, Least, changes_of
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import delegate_call, dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.warehouses import empty_warehouse

FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
OPS = ("addmm", "relu", "permute_copy", "add")


def capture(seed: int, scale: dict[str, float] | None = None, everything: float = 1.0, runs: int = 5) -> bytes:
    """A dump of some runs of four ops of 10, 20, 30, 40 us, with noise of 0.5 %, scaled."""
    random = np.random.default_rng(seed)
    made = []
    for _ in range(runs):
        at = 0
        events = []
        for number, op in enumerate(OPS):
            length = 10_000 * (number + 1) * (scale or {}).get(op, 1.0) * everything * random.normal(1, 0.005)
            events.append(kernel(op, at, at + round(length), number))
            at += round(length)
        made.append(run("Execute", *events, execute(0, at)))
    return dump(*made)


def history(
    warehouse: Warehouse, count: int, slow_from: int, scale: dict[str, float] | None = None, everything: float = 1.0
) -> None:
    captures = []
    for build in range(1, count + 1):
        is_slow = build >= slow_from
        content = capture(build, scale if is_slow else None, everything if is_slow else 1.0)
        captures.append(Labelled(f"b{build}", content, {"build": str(build), "model": "net"}))
    ingest_all(warehouse, captures)


@pytest.fixture(scope="module")
def few() -> Iterator[Warehouse]:
    """Three builds. Tests must not write to it."""
    with empty_warehouse() as warehouse:
        history(warehouse, 3, 99)
        yield warehouse


@pytest.mark.long
def test_ops_that_changed(warehouse: Warehouse) -> None:
    """From build 18 of 30 on: what is slower comes before what is faster."""
    history(warehouse, 30, 18, {"addmm": 1.2, "add": 0.8})
    rows = warehouse.rows("SELECT label, change_percent FROM trend('op', 'addmm')")[1]
    assert [row[0] for row in rows] == [str(build) for build in range(1, 31)], "9 comes before 10"
    [(label, change)] = [row for row in rows if row[1] is not None]
    assert label == "18" and change == pytest.approx(20, abs=1)
    slower, faster = warehouse.rows(
        """SELECT series, what, op, instruction_id, verdict, last_good, first_bad, unit, cost, share_percent, change_percent
           FROM regressions() WHERE what = 'op'"""
    )[1]
    assert slower[:8] == ("model=net", "op", "addmm", 0, "slower", "17", "18", "us")
    assert slower[8:10] == pytest.approx((0.2 * 10, 10), rel=0.05) and slower[10] == pytest.approx(change)
    assert faster[2:7] == ("add", 3, "faster", "17", "18") and faster[8] < 0


def test_a_change_is_shown_if_alpha_is_above_its_probability(warehouse: Warehouse) -> None:
    """An op is 1 % slower, with noise of 0.5 %; there are four ops."""
    history(warehouse, 12, 7, {"add": 1.01})

    def probabilities(alpha: float) -> list[tuple[float, float]]:
        return warehouse.rows(f"SELECT p, q FROM regressions(alpha := {alpha}, min_effect := 0.001) WHERE op = 'add'")[
            1
        ]

    [(p, q)] = probabilities(0.99)
    assert 0 < q < 0.4 and q == pytest.approx(4 * p)
    assert probabilities(1.01 * q) == [(p, q)] and probabilities(0.99 * q) == []


@pytest.mark.long
def test_times_are_those_of_the_runs(warehouse: Warehouse) -> None:
    """Against numpy, from the durations of events: of an op, and of a module whose ops are instructions 0 to 2."""
    record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
    made = [Labelled(path.stem, path, {"build": str(number)}) for number, path in enumerate(FLEET[:3])]
    for number, one in enumerate(ingest_all(warehouse, made, link_to=[record])):
        warehouse.metric(one, "tokens_per_second", 10.0 + number)
    columns = "capture, p25, median, p90, runs"
    of_op = warehouse.rows(f"SELECT {columns} FROM trend('op', 'addmm@4', unit := 'ns')")[1]
    of_module = warehouse.rows(f"SELECT {columns} FROM trend('module', 'block1.up', unit := 'ns')")[1]
    for rows, instructions in ((of_op, [4]), (of_module, [0, 1, 2])):
        for name, *quantiles, runs in rows:
            query = """SELECT sum(e.duration_ticks) FROM events AS e JOIN captures AS c USING (capture_id)
                WHERE c.name = $name AND e.kind = 'kernel' AND list_contains($instructions, e.instruction_id)
                GROUP BY e.run_index"""
            ticks = [float(row[0]) for row in warehouse.rows(query, name=name, instructions=instructions)[1]]
            assert runs == len(ticks) == 40
            assert quantiles == pytest.approx(list(np.quantile(ticks, [0.25, 0.5, 0.9])), rel=1e-12)
    rows = warehouse.rows("SELECT label, median, p25, common_percent FROM trend('metric', 'tokens_per_second')")[1]
    assert rows == [(str(at), 10.0 + at, None, None) for at in range(3)]


@pytest.mark.long
def test_what_all_ops_have_in_common_is_the_totals(warehouse: Warehouse) -> None:
    history(warehouse, 24, 13, everything=1.1)
    [row] = warehouse.rows("SELECT what, verdict, first_bad, change_percent, share_percent FROM regressions()")[1]
    assert row == ("total", "slower", "13", pytest.approx(10, abs=1), 100)
    common = [row[0] for row in warehouse.rows("SELECT common_percent FROM trend('op', 'relu')")[1]]
    assert np.mean(common[12:]) - np.mean(common[:12]) == pytest.approx(10, abs=1.5)


@pytest.mark.long
def test_slow_growth_is_reported_as_creep(warehouse: Warehouse) -> None:
    """An op that takes 0.15 % more in each of 30 builds: no single build is to blame, and the regression spans all."""
    captures = []
    for build in range(1, 31):
        labels = {"build": str(build), "model": "net"}
        captures.append(Labelled(f"b{build}", capture(build, {"addmm": 1.0015**build}), labels))
    ingest_all(warehouse, captures)
    columns = "kind, verdict, last_good, first_bad, captures_after, position, change_percent, per_capture_percent"
    [row] = warehouse.rows(f"SELECT {columns} FROM regressions() WHERE what = 'op'")[1]
    assert row[:6] == ("creep", "slower", "1", "30", 30, 1)
    assert row[6] == pytest.approx(100 * (1.0015**29 - 1), abs=1) and row[7] == pytest.approx(0.15, abs=0.04)


@pytest.mark.long
def test_series_are_distinguished_by_labels(warehouse: Warehouse) -> None:
    captures = []
    for build in range(1, 31):
        for device, factor in (("a", 1.0), ("b", 1.3 if build >= 16 else 1.0)):
            content = capture(build if device == "a" else 100 + build, {"add": factor})
            captures.append(Labelled(f"{device}{build}", content, {"build": str(build), "device": device}))
    ingest_all(warehouse, captures)
    rows = warehouse.rows("SELECT series, what, op, last_good, first_bad FROM regressions() ORDER BY ALL")[1]
    assert rows == [("device=b", "op", "add", "15", "16"), ("device=b", "total", "Execute", "15", "16")]
    assert warehouse.rows("SELECT DISTINCT series FROM trend()")[1] == [("device=a",), ("device=b",)]
    assert warehouse.rows("SELECT DISTINCT series FROM trend(selector := 'device=b')")[1] == [("device=b",)]
    assert warehouse.rows("SELECT count(*) FROM regressions(since := '16')")[1] == [(2,)]
    assert warehouse.rows("SELECT count(*) FROM regressions(since := '17')")[1] == [(0,)]


@pytest.mark.long
def test_orders(warehouse: Warehouse) -> None:
    versions = ["1.10.0", "1.9.3", "1.9.3-rc2", "1.9.3-rc10", "2.0"]
    start = datetime(2026, 1, 1)
    made = []
    for number, version in enumerate(versions):
        labels = {"version": version, "commit": f"{number:040x}", "commit_time": f"2026-01-0{9 - number}T00:00:00Z"}
        made.append(Labelled(f"v{number}", capture(number), labels, start + timedelta(days=(number * 3) % 5)))
    ingest_all(warehouse, made)

    def order(over: str) -> list[str]:
        return [row[0] for row in warehouse.rows("SELECT capture FROM trend(over := $over)", over=over)[1]]

    assert order("version") == ["v2", "v3", "v1", "v0", "v4"]
    assert order("commit") == ["v4", "v3", "v2", "v1", "v0"]
    assert order("captured_at") == ["v0", "v2", "v4", "v1", "v3"]

    def usual(selector: str | None = None) -> tuple[str, list[str]]:
        rows = warehouse.rows("SELECT capture FROM trend(selector := $selector)", selector=selector)[1]
        views = [("op_trends", "first_label"), ("trend", "label")]
        labels = [
            warehouse.rows(f"SELECT DISTINCT {label} FROM {view}(selector := $s) ORDER BY ALL", s=selector)[1]
            for view, label in views
        ]
        assert labels[0] == labels[1]
        return series_of(warehouse, selector, None, None).order, [name for (name,) in rows]

    # Commits in the order of their dates; builds if there are any; else the time, and also if a commit has no date.
    assert usual() == ("commit", ["v4", "v3", "v2", "v1", "v0"])
    warehouse.label("v0", build="2")
    warehouse.label("v1", build="10")
    warehouse.label("v2", build="9")
    assert usual() == ("build", ["v0", "v2", "v1"])
    assert usual("captured_at>=2026-01-02,captured_at<2026-01-05") == ("build", ["v2", "v1"])
    for name in ("v0", "v1", "v2"):
        warehouse.label(name, build=None)
    warehouse.label("v4", commit_time=None)
    assert usual() == ("captured_at", ["v0", "v2", "v4", "v1", "v3"])
    assert usual(f"commit={0:040x}") == ("commit", ["v0"])
    assert series_of(warehouse, None, "version", None).order == "version"
    with pytest.raises(QueryError, match="commits cannot be ordered"):
        warehouse.label("v0", commit_time=None)
        warehouse.connection.execute("UPDATE captures SET captured_at = NULL WHERE name = 'v0'")
        warehouse.rows("FROM trend(over := 'commit')")


@pytest.mark.long
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("trend(\"by\" := 'device,typo')", "no capture has a label typo to separate series by; labels are build"),
        ("regressions(\"by\" := 'typo')", "no capture has a label typo to separate series by; labels are build"),
        ("trend(min_effect := -1)", "min_effect must be a fraction from 0 to below 10"),
        ("regressions(alpha := 7)", "alpha must be a number above 0 and below 1, not 7"),
        ("regressions(min_effect := 30)", "min_effect must be a fraction from 0 to below 10"),
        ("trend('op', 'nothing')", "no op nothing in these captures; etq show op_trends lists ops"),
        ("trend('op')", "name the op of the trend"),
        ("trend('metric', 'tokens')", "no metric tokens in these captures"),
        ("trend('module', 'a.b')", "no module a.b in these captures"),
        ("trend('speed')", "what must be 'total', 'op', 'module' or 'metric', not speed"),
        ("trend(selector := 'model=other')", "no capture matches model=other"),
        ("regressions(over := 'day')", "no capture has a label day"),
    ],
)
def test_what_is_refused(few: Warehouse, call: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        few.rows(f"FROM {call}")


@pytest.mark.long
def test_hashes_are_no_order(warehouse: Warehouse) -> None:
    """Builds are given as hashes of commits: the times of recordings order them, if they are known. Dates and numbers
    with letters are an order, and so are hashes if they are asked for.
    """
    builds = {
        "hashes": [sha1(str(at).encode()).hexdigest()[:8] for at in range(9)],
        "dirty": [f"{sha1(str(at).encode()).hexdigest()}-dirty" for at in range(9)],
        "dates": [f"2026010{at}" for at in range(1, 10)],
        "letters": [f"20260101{letter}" for letter in "abcdef"],
        "prefixes": [f"b{at:07}" for at in range(9)],
        "hex": ["1a", "1b", "2f"],
    }
    made = [
        Labelled(f"{model}{at}", capture(100 * place + at), {"model": model, "build": build})
        for place, (model, labels) in enumerate(builds.items())
        for at, build in enumerate(labels)
    ]
    ingest_all(warehouse, made)
    for at in range(9):
        warehouse.label(f"dirty{at}", captured_at=f"2026-01-0{9 - at}")
    orders = "SELECT series, ordered_by, captures_unordered FROM series() ORDER BY series"
    assert warehouse.rows(orders)[1] == [
        ("model=dates", "build", 0), ("model=dirty", "captured_at", 0), ("model=hashes", "captured_at", 9),
        ("model=hex", "build", 0), ("model=letters", "build", 0), ("model=prefixes", "build", 0),
    ]  # fmt: skip
    assert warehouse.rows("SELECT list(capture) FROM trend(selector := 'model=dirty')")[1] == [
        ([f"dirty{at}" for at in range(8, -1, -1)],)
    ]
    assert series_of(warehouse, None, None, None).not_judged == {
        "no order (etq label adds the label build: a number, version or date)": 9,
        "in series of fewer than 8 builds": 9,
    }
    with pytest.raises(QueryError, match="no capture has a label build that is no hash, a label commit with"):
        warehouse.rows("FROM trend(selector := 'model=hashes')")
    asked = "SELECT count(*) FROM trend(selector := 'model=hashes', over := 'build')"
    assert warehouse.rows(asked)[1] == [(9,)]


@pytest.mark.long
def test_few_and_odd_captures(warehouse: Warehouse) -> None:
    """No labels, a single capture, several of a build and gaps between builds, and phases."""
    warehouse.ingest(capture(99), name="unlabelled")
    message = (
        "no capture has a label build, a label commit with commit_time or a captured_at to order by; "
        "no capture has labels; etq label CAPTURE build=41 sets it$"
    )
    with pytest.raises(QueryError, match=message):
        warehouse.rows("FROM regressions()")
    with pytest.raises(QueryError, match="no capture has a label device; .*; etq label CAPTURE device=VALUE sets it$"):
        warehouse.rows("FROM outliers()")
    builds = ["1", "1", "3", "7", "7", "7", "100"]
    made = (Labelled(f"c{number}", capture(number), {"build": build}) for number, build in enumerate(builds))
    ingest_all(warehouse, made)
    rows = warehouse.rows("SELECT position, label, capture FROM trend()")[1]
    assert rows == [(at + 1, build, f"c{at}") for at, build in enumerate(builds)]
    assert len(warehouse.rows("FROM trend(selector := 'build=3')")[1]) == 1
    assert warehouse.rows("FROM regressions(selector := 'build=3')")[1] == []
    warehouse.phase("c0", "decode", runs=[1, 2])
    assert warehouse.rows("SELECT capture, runs FROM trend(phase := 'decode')")[1] == [("c0", 2)]
    assert warehouse.rows("SELECT DISTINCT runs FROM trend()")[1] == [(5,)]


@pytest.mark.long
def test_equal_values_do_not_change(warehouse: Warehouse) -> None:
    """Equal except for the time at which it ran."""
    made = [dump(run("Execute", kernel("add", at, at + 50), execute(at, at + 60))) for at in range(1000, 20_000, 1000)]
    ingest_all(warehouse, [Labelled(f"b{at}", each, {"build": str(at)}) for at, each in enumerate(made)])
    assert warehouse.rows("SELECT DISTINCT change_percent FROM trend('op', 'add')")[1] == [(None,)]


@pytest.mark.long
def test_instances_of_an_op_that_changed_at_one_build_are_one_row(warehouse: Warehouse) -> None:
    """Three of six ops take 47 % more: their common cause is no shift of all ops, and is accepted at once."""
    ops = [("mm", 200_000), ("permute", 3000), ("permute", 4000), ("add", 5000), ("permute", 6000), ("relu", 30_000)]
    made = []
    for build in range(1, 31):
        random, runs = np.random.default_rng(build), []
        for _ in range(5):
            at, events = 0, []
            for number, (op, length) in enumerate(ops):
                end = at + round(length * (1.47 if op == "permute" and build >= 16 else 1) * random.normal(1, 0.004))
                events.append(kernel(op, at, end, number))
                at = end
            runs.append(run("Execute", *events, execute(0, at)))
        made.append(Labelled(f"b{build}", dump(*runs), {"build": str(build)}))
    ingest_all(warehouse, made)
    columns = "what, op, instruction_id, instances, stage, first_bad, round(change_percent), round(cost)"
    listed = f"SELECT {columns} FROM regressions() WHERE what <> 'total'"
    assert warehouse.rows(listed)[1] == [
        ("op", "permute", None, 3, "kept", "16", 47, 6),
        ("instance", "permute", 4, 1, "kept", "16", 47, 3),
        ("instance", "permute", 2, 1, "kept", "16", 47, 2),
        ("instance", "permute", 1, 1, "kept", "16", 47, 1),
    ]
    warehouse.comment("16", "wanted", what="op", item="permute", accepted=True)
    assert warehouse.rows(listed)[1] == []


@pytest.mark.long
@pytest.mark.parametrize("condition", ["governor", "device", "temperature", "temperature_after", "build_host"])
def test_a_condition_that_goes_with_a_level_is_the_machine_s(warehouse: Warehouse, condition: str) -> None:
    """Of 36 builds, 12 in the middle take 20 % more. A condition goes with them, or what is none does."""
    made = []
    for build in range(1, 37):
        is_slow = 13 <= build <= 24
        labels = {"build": str(build), "model": "net"}
        if "temperature" not in condition:
            labels[condition] = "b" if is_slow else "a"
        made.append(Labelled(f"b{build}", capture(build, None, 1.2 if is_slow else 1.0, runs=3), labels))
    ingest_all(warehouse, made)
    if "temperature" in condition:
        for build in range(1, 37):
            warehouse.metric(f"b{build}", condition, 40 + build % 3 + 15 * (13 <= build <= 24), unit="degC")
    listed = warehouse.rows("""SELECT first_bad, verdict, stage, condition FROM regressions("by" := 'model')""")[1]
    shown = warehouse.rows(
        """SELECT label, stage, condition FROM trend("by" := 'model') WHERE change_percent IS NOT NULL"""
    )[1]
    if condition in ("temperature_after", "build_host"):
        assert listed == [("13", "slower", "reverted", None)]
        assert shown == [("13", "reverted", None), ("25", "returned", None)]
        return
    texts = ["a before, b since", "b before, a since"]
    if condition == "temperature":
        texts = ["40 to 42 degC before, 55 to 57 degC since", "55 to 57 degC before, 40 to 42 degC since"]
    there, back = (f"{condition} {text}" for text in texts)
    assert listed == [("13", "slower", "one of two levels", there), ("25", "faster", "one of two levels", back)]
    assert shown == [("13", "one of two levels", there), ("25", "one of two levels", back)]


@pytest.mark.long
def test_delegates_count_on_their_own_clock(warehouse: Warehouse) -> None:
    """A series with a single op has no common shift; its change is reported nevertheless."""
    random = np.random.default_rng(4)
    captures = []
    for build in range(1, 31):
        length = round(10_000 * (1.3 if build > 15 else 1) * random.normal(1, 0.003))
        runs = [run("Execute", delegate_call(0, length + at), execute(0, length + at)) for at in range(4)]
        captures.append(Labelled(f"b{build}", dump(*runs), {"build": str(build)}))
    ingest_all(warehouse, captures)
    rows = warehouse.rows("SELECT what, op, first_bad FROM regressions() ORDER BY what")[1]
    assert rows == [("op", "DELEGATE_CALL", "16"), ("total", "Execute", "16")]


@pytest.mark.long
def test_a_change_by_the_step_of_the_clock_is_none(warehouse: Warehouse) -> None:
    """A clock of 1 us: an op of 1 us takes 2 from the 20th build on, as another does that takes 20 more."""
    captures = []
    for build in range(40):
        is_new = build >= 20
        runs = []
        for number in range(5):
            ends = (1000 * (1 + is_new), 1000 * (100 + number % 2), 1000 * (20 + 20 * is_new))
            events = [
                kernel(op, 1_000_000 * at, 1_000_000 * at + end, at)
                for at, (op, end) in enumerate(zip(("flips", "other", "grows"), ends, strict=True))
            ]
            # Captures of equal content would be one.
            runs.append(run("Execute", *events, execute(0, 5_000_000 + 1000 * build)))
        captures.append(Labelled(f"b{build}", dump(*runs), {"build": str(build), "model": "net"}))
    ingest_all(warehouse, captures)
    found = warehouse.rows("SELECT op, verdict, first_bad FROM regressions() WHERE what = 'op'")[1]
    assert found == [("grows", "slower", "20")]
    changed = warehouse.rows("SELECT label FROM trend('op', 'flips') WHERE change_percent IS NOT NULL")[1]
    assert changed == []


def test_the_noise_is_no_smaller_than_the_clock_s_step() -> None:
    """Of 10 us at a clock of 1 us, 12 us for 6 captures may be by chance, as 20 % are 2 of its steps; for 30 they are not.
    By a finer clock, both are steps.
    """
    values = [np.log(np.where(np.arange(60) >= at, 12.0, 10.0)) for at in (54, 30)]
    places = [
        [
            [step.place for step in found.changes if step.stage == KEPT]
            for found in changes_of(values, [Least(0.03, clock)] * 2)
        ]
        for clock in (0, 1)
    ]
    assert places == [[[54], [30]], [[], [30]]]


@pytest.mark.long
def test_a_change_is_seen_after_three_builds_and_kept_once_it_has_held() -> None:
    """The larger the change, the fewer builds it takes; the same number before the change."""
    noise = np.random.default_rng(1).normal(0, 0.005, 60)
    first = {}
    for size in (0.04, 0.05, 0.1, 0.2):
        values = [noise[:until] + np.log1p(size) * (np.arange(until) >= 30) for until in range(31, 61)]
        found = [each.changes for each in changes_of(values, [Least(np.log(1.03))] * 30)]
        assert {change.place for changes in found for change in changes} == {30}
        stages = [changes[0].stage if changes else None for changes in found]
        first[size] = stages.index(OPEN) + 1, stages.index(KEPT) + 1
        assert {*stages[first[size][1] :]} == {KEPT}
    assert {seen for seen, _ in first.values()} == {3}
    assert 5 <= first[0.2][1] <= first[0.1][1] <= first[0.05][1] <= first[0.04][1] <= 9
    start = noise + np.log1p(0.1) * (np.arange(60) >= 4)
    assert changes_of([start], [Least(np.log(1.03))])[0].changes == []


def test_values_of_other_units_are_series_of_their_own(warehouse: Warehouse) -> None:
    """Ten builds count cycles of a clock of 100 MHz, and the next twenty ns. Of these, the last ten take 20 % more."""
    for build in range(1, 31):
        is_cycles = build <= 10
        content = capture(build, everything=0.1 if is_cycles else 1.2 if build > 20 else 1.0)
        made = warehouse.ingest(
            content, name=f"b{build}", labels={"build": str(build)}, time_scale="cycles" if is_cycles else "ns"
        )
        warehouse.metric(made, "latency_of_app", 40 + build % 3 / 10 if is_cycles else 0.04 + build % 3 / 1e4,
                         "ms" if is_cycles else "s")  # fmt: skip
    query = "SELECT t.label, t.position, t.unit, t.change_percent FROM {} AS t"
    rows = warehouse.sql(query.format("trend()")).fetchall()
    assert [row[:3] for row in rows] == [
        *((str(build), build, "cycles") for build in range(1, 11)),
        *((str(build), build - 10, "us") for build in range(11, 31)),
    ]
    [(label, change)] = [(label, change) for label, _, _, change in rows if change is not None]
    assert label == "21" and change == pytest.approx(20, abs=1)
    found = warehouse.sql("SELECT r.what, r.first_bad, r.unit, r.captures_before FROM regressions() AS r").fetchall()
    assert found == [("total", "21", "us", 10)]
    assert warehouse.sql("SELECT s.verdict, s.unit, s.builds FROM series() AS s").fetchall() == [
        ("slower", "us", 20), ("~", "cycles", 10)
    ]  # fmt: skip
    metric = warehouse.sql(query.format("trend('metric', 'latency_of_app')")).fetchall()
    assert {(unit, change) for _, _, unit, change in metric} == {("ms", None), ("s", None)}


def test_an_accepted_op_explains_no_total_of_another_unit(warehouse: Warehouse) -> None:
    """Each build is captured in cycles and in ns. From build 11 on, one op takes 10,000 cycles more, which somebody
    accepts, and another 8,000 ns.
    """
    first, second = OPS[:2]
    for build in range(1, 21):
        more = ({first: 2.0}, {second: 1.4}) if build > 10 else (None, None)
        warehouse.ingest(capture(build, more[0]), labels={"build": str(build)}, time_scale="cycles")
        warehouse.ingest(capture(100 + build, more[1]), labels={"build": str(build)})
    query = "SELECT s.unit, s.verdict, s.captures, s.builds FROM series() AS s ORDER BY s.unit"
    counts = (20, 20)
    assert warehouse.sql(query).fetchall() == [("cycles", "slower", *counts), ("us", "slower", *counts)]
    warehouse.comment("11", "wanted", what="op", item=first, accepted=True)
    assert warehouse.sql(query).fetchall() == [("cycles", "~", *counts), ("us", "slower", *counts)]
    query = "SELECT r.op, r.unit FROM regressions() AS r WHERE r.what = '{}'"
    assert warehouse.sql(query.format("total")).fetchall() == [("Execute", "us")]
    assert warehouse.sql(query.format("op")).fetchall() == [(second, "us")]


def test_programs_that_labels_do_not_tell_apart(warehouse: Warehouse) -> None:
    """Two models of a device in one series, of whose builds the second has both."""
    captures = [
        Labelled(f"{net}{build}", dump(run("Execute", kernel(op, 0, 10 + int(build)), execute(0, 50))), labels)
        for net, build, op in (("a", "1", "add"), ("a", "2", "add"), ("b", "2", "mul"), ("b", "3", "mul"))
        for labels in ({"device": "pixel8", "build": build, "net": net},)
    ]
    ingest_all(warehouse, captures)
    assert series_of(warehouse, None, None, None).mixed == (
        "captures of build 2 in the series device=pixel8 have different ops: if they ran different programs, add a "
        "label that tells them apart, such as model"
    )
    assert series_of(warehouse, None, None, "device,net").mixed is None
    of = "SELECT series, mixed_build FROM series(by := 'device,net') UNION ALL SELECT series, mixed_build FROM series()"
    assert warehouse.sql(f"{of} ORDER BY ALL").fetchall() == [
        ("device=pixel8", "2"),
        ("device=pixel8,net=a", None),
        ("device=pixel8,net=b", None),
    ]
