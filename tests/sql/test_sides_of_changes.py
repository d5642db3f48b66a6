"""What is compared at a change: the captures before and after it, up to the next changes of the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run
from tests.sql.test_trends import capture
from tests.warehouses import empty_warehouse

pytestmark = pytest.mark.long

COUNT = 36
# The first captures with a slower op, from 1.
FIRST, SECOND = 13, 25
BEGIN = datetime(2026, 11, 1, 8)


def labels(number: int) -> dict[str, str]:
    commit = {"commit": f"{number:040x}", "commit_time": f"2026-10-{1 + number // 24:02}T{number % 24:02}:00:00Z"}
    # Three captures of a nightly; the versions go from 0.9 to 0.45 as selectors sort texts, not as `regressions` does.
    more = {
        "nightly": str(number // 3), "version": f"0.{number + 8}", "note": f'{number}, "x"', "user": "a@b",
        "day": f"day-{number:02}", "device": "a,b", "model": "net",
    }  # fmt: skip
    return {"build": str(number), **commit, **more}


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Captures 1 to 36; addmm is slower from the 13th on, and again from the 25th."""
    captures = []
    for number in range(1, COUNT + 1):
        scale = {"addmm": 1.0 if number < FIRST else 1.3 if number < SECOND else 1.7}
        captures.append(Labelled(f"c{number}", capture(number, scale), labels(number), BEGIN + timedelta(hours=number)))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        yield warehouse


def names(first: int, last: int) -> set[str]:
    return {f"c{number}" for number in range(first, last + 1)}


def compared(warehouse: Warehouse, base: str, new: str) -> tuple[set[str], set[str]]:
    rows = warehouse.rows("SELECT side, capture FROM compared_captures($base, $new)", base=base, new=new)[1]
    base_side, new_side = ({name for side, name in rows if side == which} for which in ("base", "new"))
    return base_side, new_side


def sides(warehouse: Warehouse, over: str, selector: str | None = None) -> dict[str, tuple[str, str]]:
    """The selectors of each change of addmm, by the first bad label."""
    query = "SELECT first_bad, base, new FROM regressions($selector, over := $over) WHERE op = 'addmm'"
    rows = warehouse.rows(query, selector=selector, over=over)[1]
    return {first_bad: (base, new) for first_bad, base, new in rows}


@pytest.mark.parametrize(
    ("over", "label"),
    [("build", str), ("day", lambda number: f"day-{number:02}"), ("commit", lambda number: f"{number:040x}"),
     ("captured_at", lambda number: f"{BEGIN + timedelta(hours=number)}")],
)  # fmt: skip
def test_they_are_all_captures_between_the_changes(lab: Warehouse, over: str, label: Callable[[int], str]) -> None:
    found = {key: compared(lab, *chosen) for key, chosen in sides(lab, over).items()}
    assert found == {
        label(FIRST): (names(1, FIRST - 1), names(FIRST, SECOND - 1)),
        label(SECOND): (names(FIRST, SECOND - 1), names(SECOND, COUNT)),
    }
    if over == "build":
        trend = "SELECT label, base, new FROM trend('op', 'addmm', over := 'build') WHERE base IS NOT NULL"
        assert {label: (base, new) for label, base, new in lab.rows(trend)[1]} == sides(lab, over)


def test_they_are_of_the_selector_and_the_series(lab: Warehouse) -> None:
    series = 'build<34,build>=4,device="a,b",model=net'
    chosen = sides(lab, "build", "build>=4,build<34")
    assert chosen["13"] == (f"{series},build<13", f"{series},build>=13,build<25")
    assert compared(lab, *chosen["13"]) == (names(4, 12), names(13, 24))
    assert sides(lab, "build", "user=a@b")["13"][0] == 'device="a,b",model=net,user=a@b,build<13'
    # This label has a comma, and is the only part.
    assert sides(lab, "build", "device=a,b")["13"][0] == 'device="a,b",model=net,build<13'


def test_commits_of_one_time_are_compared_with_each_other() -> None:
    """The last good commit and the first bad one have one commit_time: no range is between them."""
    captures = []
    for number in range(24):
        commit = {"commit": f"{number:040x}", "commit_time": f"2026-10-0{1 + (number >= 8) + (number >= 18)}"}
        captures.append(Labelled(f"c{number}", capture(number, {"addmm": 1.0 if number < FIRST else 1.3}), commit))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        [chosen] = sides(warehouse, "commit").values()
        assert chosen == (f"commit={FIRST - 1:040x}", f"commit={FIRST:040x}")


def test_slow_growth_within_seconds_is_compared_at_its_ends() -> None:
    captures = []
    for number in range(40):
        content = capture(number, {"addmm": 1.003**number})
        captures.append(Labelled(f"c{number}", content, {}, BEGIN + timedelta(milliseconds=300 * number)))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        query = "SELECT base, new FROM regressions(over := 'captured_at') WHERE kind = 'creep' AND op = 'addmm'"
        [chosen] = warehouse.rows(query)[1]
        assert [len(side) for side in compared(warehouse, *chosen)] == [1, 1]


def test_labels_without_ranges_are_compared_with_each_other(lab: Warehouse) -> None:
    found = {key: compared(lab, *chosen) for key, chosen in sides(lab, "version").items()}
    assert found == {"0.21": ({"c12"}, {"c13"}), "0.33": ({"c24"}, {"c25"})}
    found = {key: compared(lab, *chosen) for key, chosen in sides(lab, "note").items()}
    assert found == {'13, "x"': ({"c12"}, {"c13"}), '25, "x"': ({"c24"}, {"c25"})}
    # Captures of one label are on one side: c12 to c14 are of nightly 4, c24 to c26 of nightly 8.
    found = {key: compared(lab, *chosen) for key, chosen in sides(lab, "nightly").items()}
    assert found == {"4": (names(1, 11), names(12, 23)), "8": (names(12, 23), names(24, COUNT))}


def test_a_series_that_no_selector_chooses_is_not_compared() -> None:
    """Captures without a label of the model: those of another model are before and after the build, too."""
    others = [
        Labelled(f"o{number}", capture(900 + number), {"build": str(number), "model": "a"}) for number in range(30)
    ]
    own = [
        Labelled(f"c{number}", capture(number, {"addmm": 1.0 if number < FIRST else 1.3}), {"build": str(number)})
        for number in range(30)
    ]
    query = "SELECT series, first_bad, base, new FROM regressions($selector) WHERE op = 'addmm'"
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, own)
        assert warehouse.rows(query, selector=None)[1] == [("", "13", "build<13", "build>=13")]
        ingest_all(warehouse, others)
        assert warehouse.rows(query, selector=None)[1] == [("", "13", None, None)]
        assert warehouse.rows("SELECT count(base) FROM trend('op', 'addmm')")[1] == [(0,)]


@pytest.mark.parametrize("op", ["mul", "add"])
def test_a_program_is_the_same_where_its_ops_are(op: str) -> None:
    """A model of one op, mul; from the 13th capture on, it takes longer, or is another one."""
    captures = []
    for number in range(1, 31):
        name, length = ("mul", 10_000 + number) if number < FIRST else (op, 14_000 + number)
        runs = [run("Execute", kernel(name, 0, length + each, 0), execute(0, length + each)) for each in range(5)]
        captures.append(Labelled(f"c{number}", dump(*runs), {"build": str(number)}))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        rows = warehouse.rows("SELECT first_bad, is_same_program FROM regressions() WHERE what = 'total'")[1]
    assert rows == [("13", op == "mul")]
