"""`compare_startup`: loading and first executes, against scipy and `load_breakdown`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, framework, kernel, run
from tests.conftest import CAPTURES
from tests.sampling import thinned
from tests.sql.method import holm
from tests.sql.planting import rows_of


def started(seed: int, first: float = 1.0, load: float = 1.0) -> bytes:
    """A load and six executes with noise of 1 %. The first execute takes twice as long, times `first`."""
    random = np.random.default_rng(seed)
    loading = round(5_000 * load * random.normal(1, 0.01))
    runs = [run("Default", framework("Program::load_method", 0, loading))]
    for place in range(6):
        length = round(10_000 * (2 * first if place == 0 else 1) * random.normal(1, 0.01))
        runs.append(run("Execute", kernel("add", 0, length), execute(0, length)))
    return dump(*runs)


@pytest.mark.parametrize(("first", "load"), thinned([(1.0, 1.0), (1.3, 1.0), (1.0, 0.5)], [1.3]))
def test_startup(warehouse: Warehouse, first: float, load: float) -> None:
    """Against scipy, of the durations as the dumps have them."""
    captures = [
        Labelled(f"{side}{at}", started(100 * (side == "new") + at, *given), {"side": side})
        for side, given in (("base", (1.0, 1.0)), ("new", (first, load)))
        for at in range(5)
    ]
    ingest_all(warehouse, captures)
    rows = {row["what"]: row for row in rows_of(warehouse, "compare_startup", unit="ns")}
    query = """
        SELECT l.value, e.elapsed_ticks::DOUBLE FROM event_ticks AS e
        JOIN labels AS l ON l.capture_id = e.capture_id WHERE e.run_index = $run AND e.event_index = $event
        ORDER BY e.capture_id
    """
    expected, verdicts = {}, {}
    for what, place, event in (("load", 0, 0), ("first execute", 1, 1)):
        values = warehouse.rows(query, run=place, event=event)[1]
        base, new = ([value for of, value in values if of == side] for side in ("base", "new"))
        tested = stats.ttest_ind(np.log(new), np.log(base))
        expected[what] = float(tested.pvalue)
        interval = tested.confidence_interval(0.95)
        is_same = max(-np.expm1(interval.low), np.expm1(interval.high)) <= 0.02
        verdicts[what] = "~" if is_same else "not decided"
        assert (rows[what]["base"], rows[what]["new"], rows[what]["unit"]) == (np.median(base), np.median(new), "ns")
        assert rows[what]["p"] == pytest.approx(expected[what], abs=1e-12)
    for what, q in zip(expected, holm([*expected.values()], [1.0] * len(expected)), strict=True):
        assert rows[what]["q"] == pytest.approx(q, abs=1e-12)
    assert rows["first execute"]["verdict"] == ("slower" if first > 1 else verdicts["first execute"])
    assert rows["load"]["verdict"] == ("faster" if load < 1 else verdicts["load"])
    [total] = [row for row in rows_of(warehouse, "compare_captures") if row["what"] == "total"]
    assert total["verdict"] == "~"


def test_a_load_within_a_load_is_part_of_the_outer_one_s(warehouse: Warehouse) -> None:
    """A method loads another one directly, or while it is initialized; a third is loaded after it."""
    load, init = "Program::load_method", "Method::init"
    nested = [
        run(
            "Default", framework(init, 15, 35), framework(load, 12, 40), framework(init, 10, 60), framework(load, 0, 100),
            framework(load, 110, 120),
        ),
        run("Default", framework(init, 20, 60), framework(load, 10, 70), framework(load, 0, 100)),
    ]  # fmt: skip
    dumps = {side: dump(*nested, run("Execute", execute(200, end))) for side, end in (("base", 300), ("new", 301))}
    ingest_all(warehouse, [Labelled(side, content, {"side": side}) for side, content in dumps.items()])
    query = """SELECT run_index, component, events, total, self_time, share_percent
               FROM load_breakdown($name, unit := 'ns')"""
    assert warehouse.rows(query, name="base")[1][:4] == [
        (0, load, 2, 110, 68, 100), (0, init, 1, 50, 42, 100 * 50 / 110),
        (1, load, 1, 100, 60, 100), (1, init, 1, 40, 40, 40),
    ]  # fmt: skip
    [row] = [row for row in rows_of(warehouse, "compare_startup", unit="ns") if row["what"] == "load"]
    assert (row["base"], row["new"]) == (210, 210)


def test_an_impossible_load_has_no_time(warehouse: Warehouse) -> None:
    load = framework("Program::load_method", 10, 5)
    warehouse.ingest(dump(run("Default", load), run("Execute", execute(200, 300))), name="test", clock_bits=64)
    query = "SELECT component, total, self_time, share_percent FROM load_breakdown('test', unit := 'ns')"
    assert warehouse.rows(query)[1][0] == ("Program::load_method", None, None, None)
    assert warehouse.rows("SELECT DISTINCT number FROM headline('test') WHERE number = 'load'")[1] == []


@pytest.mark.long
@pytest.mark.parametrize("model", thinned(["mlp", "convnet", "convnet_xnn"], ["convnet_xnn"]))
def test_loads_are_those_of_the_load_breakdown(warehouse: Warehouse, model: str) -> None:
    files = sorted((CAPTURES / "fleet" / model).glob("*.etdp"))[:6]
    captures = ingest_all(
        warehouse, [Labelled(each.stem, each, {"side": ("base", "new")[at % 2]}) for at, each in enumerate(files)]
    )
    loads = []
    for capture in captures:
        [(ticks,)] = warehouse.rows(
            "SELECT sum(total) FROM load_breakdown($capture, unit := 'ns') WHERE component = 'Program::load_method'",
            capture=capture,
        )[1]
        loads.append(ticks)
    [row] = [row for row in rows_of(warehouse, "compare_startup", unit="ns") if row["what"] == "load"]
    assert (row["base"], row["new"]) == (np.median(loads[::2]), np.median(loads[1::2]))


def test_a_first_execute_of_unknown_length_is_not_the_second(warehouse: Warehouse) -> None:
    """The first execute of new ends before it begins, so that its time is unknown. Later ones take 300."""
    for side, end in (("base", 1005), ("new", 0)):
        captures = []
        for at in range(3):
            runs = [run("Execute", kernel("add", 10, 500 + at), execute(5, end))]
            runs += [run("Execute", kernel("add", 2010, 2200), execute(2000, 2300)) for _ in range(2)]
            captures.append(Labelled(f"{side}{at}", dump(*runs), {"side": side}))
        ingest_all(warehouse, captures)
    [row] = rows_of(warehouse, "compare_startup", unit="ns")
    assert (row["base"], row["new"], row["new_captures"], row["verdict"]) == (1000, None, 0, "can't judge")
    excess = warehouse.sql("SELECT b.run_index, b.total FROM load_breakdown('new0') AS b").fetchall()
    assert excess == [(0, None)]
    assert warehouse.sql("SELECT b.run_index, b.total FROM load_breakdown('base0', unit := 'ns') AS b").fetchall() == [
        (0, 700)
    ]
