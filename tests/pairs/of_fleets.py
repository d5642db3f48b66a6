"""Comparisons and trends of many captures: against numpy over their runs, and the method in numpy and scipy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from tests.conftest import CAPTURES
from tests.pairs.asking import Pair, Sides, keyed
from tests.pairs.etrecords import Record
from tests.pairs.fleet import BASE, BUILDS, COUNT, NEW, OPS, SELECTOR, STEP, Fleet, by_module
from tests.sql.method import common_of, is_interleaved, several

Question = Callable[[Fleet], Sides]
FLEET_PAIRS: list[tuple[Pair, Question]] = []


def pair(view: str, way: str) -> Callable[[Question], Question]:
    def put(ask: Question) -> Question:
        FLEET_PAIRS.append((Pair(view, "fleet", way, lambda asked: (None, None)), ask))
        return ask

    return put


def rows(fleet: Fleet, query: str) -> list[Any]:
    return fleet.warehouse.rows(query)[1]


def compared(fleet: Fleet, view: str, columns: str, keys: int) -> dict[Any, list[Any]]:
    """Columns of a comparison of both sides."""
    return fleet.keyed(f"SELECT {columns} FROM {view}('{BASE}', '{NEW}', unit := 'ns')", keys)


@pair("compare_ops", "the method in numpy and scipy, on numpy's quantiles of each op's runs")
def compare_ops(fleet: Fleet) -> Sides:
    numbers = "verdict, change_percent, low_percent, high_percent, base, new, share_percent, q"
    found = compared(fleet, "compare_ops", f"op, kind, instruction_id, {numbers}", 3)
    keys, sides = fleet.compared()
    judged, common = several(sides), common_of(sides)
    base, new = sides.of("base", common.disturbed), sides.of("new", common.disturbed)
    expected = {}
    for at, key in enumerate(keys):
        each = judged[at]
        expected[key] = [
            *(each.verdict, 100 * each.change, _percent(each.low), _percent(each.high)),
            *(float(np.median(sides.ops[base, at])), float(np.median(sides.ops[new, at])), 100 * each.share, each.q),
        ]
    return found, expected


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


@pair("compare_captures", "the method in numpy and scipy, on numpy's quantiles of the executes")
def compare_captures(fleet: Fleet) -> Sides:
    columns = "what, verdict, change_percent, low_percent, high_percent, base, new, p"
    found = compared(fleet, "compare_captures", columns, 1)
    _, sides = fleet.compared()
    total, common = several(sides)["total"], common_of(sides)
    base, new = sides.of("base", common.disturbed), sides.of("new", common.disturbed)
    ops = [float(sum(np.median(sides.ops[side, at]) for at in range(sides.ops.shape[1]))) for side in (base, new)]
    totals = [float(np.median(sides.totals[side])) for side in (base, new)]
    beside = [float(np.median(fleet.outside()[side])) for side in (base, new)]
    return {what: row for (what,), row in found.items() if what != "common shift"}, {
        "total": [total.verdict, 100 * total.change, _percent(total.low), _percent(total.high), *totals, total.p],
        "ops": [None, 100 * (ops[1] / ops[0] - 1), None, None, *ops, None],
        "outside ops": [None, 100 * (beside[1] / beside[0] - 1), None, None, *beside, None],
    }


@pair("compared_captures", "numpy's quantile of each capture's executes, and who is disturbed by the method in numpy")
def compared_captures(fleet: Fleet) -> Sides:
    found = compared(fleet, "compared_captures", "capture, side, total, is_disturbed", 1)
    _, sides = fleet.compared()
    disturbed = common_of(sides).disturbed
    return found, {
        (name,): [side, total, bool(is_disturbed)]
        for name, side, total, is_disturbed in zip(fleet.dumps, sides.sides, sides.totals, disturbed, strict=True)
    }


@pair("compare_findings", "what the method in numpy knows of the captures' order and number")
def compare_findings(fleet: Fleet) -> Sides:
    checked = {"measured apart", "time order unknown", "disturbed capture", "few captures"}
    found, expected = [], []
    halves = "', '".join([f"build={number},device=desk" for number in (0, 1)])
    for sides_asked, picked in ((f"'{BASE}', '{NEW}'", slice(None)), (f"'{halves}'", slice(0, 2))):
        reported = {row[0] for row in rows(fleet, f"SELECT rule FROM compare_findings({sides_asked})")}
        found.append(sorted(reported & checked))
        sides = fleet.sides[picked]
        rules = set() if is_interleaved(sides) else {"measured apart"}
        if len(sides) > 2:
            rules |= {"disturbed capture"} if common_of(fleet.compared()[1]).disturbed.any() else set()
            rules |= {"few captures"} if min(sides.count("base"), sides.count("new")) < 3 else set()
            expected.append(sorted(rules))
    # One capture against one is judged by a history, so its findings are not compared.
    return found[:1], expected


@pair("compare_modules", "numpy's quantiles of what each module took in a run, by the record's JSON")
def compare_modules(fleet: Fleet) -> Sides:
    found = compared(fleet, "compare_modules", "module_path, base, new", 1)
    record = Record(CAPTURES / "mlp/mlp.etrecord")
    modules = [by_module(dump, record) for dump in fleet.dumps.values()]
    _, sides = fleet.compared()
    disturbed = common_of(sides).disturbed
    expected = {}
    for module in modules[0]:
        values = np.array([np.quantile(of[module], 0.25) for of in modules])
        expected[module,] = [float(np.median(values[sides.of(side, disturbed)])) for side in ("base", "new")]
    return found, expected


@pair("compare_parts", "compare_ops' times of each op; and the parts' own times add up to the total")
def compare_parts(fleet: Fleet) -> Sides:
    of_op = "op, kind, instruction_id, base, new"
    parts = compared(fleet, "compare_parts", f"{of_op}, base_self, new_self", 3)
    found = {key: row[:2] for key, row in parts.items() if key[1] in ("kernel", "delegate_call", "delegate")}
    own = [sum(row[at] or 0 for row in parts.values()) for at in (2, 3)]
    total = compared(fleet, "compare_captures", "what, base, new", 1)["total",]
    return [found, *own], [compared(fleet, "compare_ops", of_op, 3), *total]


@pair("compare_memory", "medians of what the captures' runs allocated at most, in plain Python over the files")
def compare_memory(fleet: Fleet) -> Sides:
    found = fleet.keyed(f"SELECT what, base, new FROM compare_memory('{BASE}', '{NEW}')", 1)
    most: dict[str, list[int]] = {"base": [], "new": []}
    for side, capture in zip(fleet.sides, fleet.dumps.values(), strict=True):
        of_runs: Counter[int] = Counter()
        for number, _, size in capture.allocations():
            of_runs[number] += size
        if of_runs:
            most[side].append(max(of_runs.values()))
    expected = {("allocated",): [float(median(most["base"])), float(median(most["new"]))]} if all(most.values()) else {}
    return found, expected


@pair("compare_metrics", "medians of the captures' metrics, in plain Python")
def compare_metrics(fleet: Fleet) -> Sides:
    found = fleet.keyed(f"SELECT name, base, new, change_percent FROM compare_metrics('{BASE}', '{NEW}')", 1)
    expected = {}
    for at, name in enumerate(("decode_tokens_per_second", "temperature")):
        values = [of[at] for of in fleet.metrics.values()]
        base, new = median(values[::2]), median(values[1::2])
        expected[name,] = [base, new, 100 * (new / base - 1)]
    return found, expected


@pair("compare_startup", "medians of the captures' first executes, in plain Python")
def compare_startup(fleet: Fleet) -> Sides:
    query = f"SELECT base, new FROM compare_startup('{BASE}', '{NEW}', unit := 'ns') WHERE what = 'first execute'"
    firsts: dict[str | None, list[float]] = {"base": [], "new": []}
    for side, dump in zip(fleet.sides, fleet.dumps.values(), strict=False):
        if side in firsts:
            first = min(at for at, time in dump.executing.items() if time is not None)
            firsts[side].append(float(dump.executing[first] or 0))
    return rows(fleet, query), [(median(firsts["base"]), median(firsts["new"]))]


@pair("metric_values", "the metrics that were output of each capture")
def metric_values(fleet: Fleet) -> Sides:
    found = {name: rows(fleet, f"SELECT name, value FROM metric_values('{name}')") for name in fleet.dumps}
    names = ("decode_tokens_per_second", "temperature")
    return found, {name: list(zip(names, values, strict=True)) for name, values in fleet.metrics.items()}


@pair("capture_groups", "captures and runs by label, counted in plain Python")
def capture_groups(fleet: Fleet) -> Sides:
    found = fleet.keyed("SELECT value, captures, runs, undated FROM capture_groups('side')", 1)
    runs: Counter[str | None] = Counter()
    for side, dump in zip(fleet.sides, fleet.dumps.values(), strict=True):
        runs[side] += len(dump.runs)
    return found, {
        ("base",): [COUNT // 2, runs["base"], 0],
        ("new",): [COUNT // 2, runs["new"], 0],
        (None,): [BUILDS, 5 * BUILDS, BUILDS],
    }


@pair("labelled_captures", "the labels that each capture was given")
def labelled_captures(fleet: Fleet) -> Sides:
    query = "SELECT name, labels['side'], labels['none'] FROM labelled_captures WHERE labels['device'] = 'desk'"
    return fleet.keyed(query, 1), {(name,): [side, None] for name, side in zip(fleet.dumps, fleet.sides, strict=True)}


@pair("trend", "numpy's quantiles of each capture's executes")
def trend(fleet: Fleet) -> Sides:
    query = f"SELECT capture, position, runs, p25, median, p90, common_percent FROM trend(selector := '{SELECTOR}', unit := 'ns')"
    found = keyed(rows(fleet, query), 1)
    factors = _factors(fleet)
    expected = {}
    for number, (name, dump) in enumerate(fleet.dumps.items()):
        times = [time for time in dump.executing.values() if time is not None]
        quantiles = [float(each) for each in np.quantile(times, [0.25, 0.5, 0.9])]
        expected[name,] = [number + 1, len(times), *quantiles, 100 * (np.exp(factors[number]) - 1)]
    return found, expected


def _factors(fleet: Fleet) -> np.ndarray[Any, Any]:
    """The common shift of each capture: the median over its 20 largest ops, by the medians of three families or more, of
    their change from the usual time.
    """
    keys, values, _ = fleet.quantiles(0.25)
    largest = np.argsort(-np.median(values, axis=0), kind="stable")[:20]
    logs = np.log(values[:, largest])
    off = logs - np.median(logs, axis=0)
    families = np.array([keys[at][0] for at in largest])
    of_families = [np.median(off[:, families == family], axis=1) for family in dict.fromkeys(families)]
    return np.asarray(np.median(of_families, axis=0) if len(of_families) >= 3 else np.median(off, axis=1))


@pair("trend", "numpy's quantiles of an op's and of a module's runs, and a metric's values")
def trend_of_parts(fleet: Fleet) -> Sides:
    keys, values, _ = fleet.quantiles(0.25)
    key = ("addmm", "kernel", 1)
    record = Record(CAPTURES / "mlp/mlp.etrecord")
    modules = [by_module(dump, record)[""] for dump in fleet.dumps.values()]
    found, expected = {}, {
        "op": list(values[:, keys.index(key)]),
        "module": [float(np.quantile(each, 0.25)) for each in modules],
        "metric": [of[1] for of in fleet.metrics.values()],
    }  # fmt: skip
    for what, item in (("op", "addmm@1"), ("module", ""), ("metric", "temperature")):
        column = "median" if what == "metric" else "p25"
        unit = "" if what == "metric" else ", unit := 'ns'"
        query = f"SELECT {column} FROM trend('{what}', '{item}', '{SELECTOR}'{unit}) ORDER BY position"
        found[what] = [row[0] for row in rows(fleet, query)]
    return found, expected


@pair("op_trends", "numpy's quantiles of each op's runs, without what all ops have in common")
def op_trends(fleet: Fleet) -> Sides:
    query = f"""SELECT op, instruction_id, position, captures, p25, normalized, low, high
        FROM op_trends('{SELECTOR}', unit := 'ns') WHERE what = 'op'"""
    found = keyed(rows(fleet, query), 3)
    keys, values, _ = fleet.quantiles(0.25)
    own = values / np.exp(_factors(fleet))[:, None]
    return found, {
        (_op(fleet, key), key[2], number + 1): [1, values[number, at], *[own[number, at]] * 3]
        for at, key in enumerate(keys)
        for number in range(COUNT)
    }


def _op(fleet: Fleet, key: tuple[str, str, int]) -> str:
    """The name of an op: its op type in the record."""
    query = (
        "SELECT own_op_type FROM event_ops('fleet_00') WHERE instruction_id = $at AND own_op_type IS NOT NULL LIMIT 1"
    )
    found = fleet.warehouse.rows(query, at=key[2])[1]
    return str(found[0][0]) if found else key[0]


@pair("regressions", "the op and the build that were made slower, by how they were made")
def regressions(fleet: Fleet) -> Sides:
    query = """SELECT what, op, verdict, last_good, first_bad, change_percent, cost, captures_before, captures_after
        FROM regressions('device=made', unit := 'ns')"""
    found = {row[0]: row[1:] for row in rows(fleet, query)}
    total, cost = sum(OPS.values()), OPS["relu"] / 2
    after = BUILDS - STEP
    return found, {
        "op": ["relu", "slower", str(STEP - 1), str(STEP), 50.0, cost, STEP, after],
        "total": ["Execute", "slower", str(STEP - 1), str(STEP), 100 * cost / total, cost, STEP, after],
    }
