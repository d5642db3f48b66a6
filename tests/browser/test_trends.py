"""The report of series in a real browser: from one build on, an op and a total are slower."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import etq
import etq.report
from etq.report.home import home_of
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.browser.driver import By, WebDriver
from tests.browser.pages import cells, click_row, drawn, opened, plotted, select, texts, told
from tests.builders import dump, execute, kernel, run
from tests.sql.test_trends import capture

pytestmark = pytest.mark.long

BUILDS = 40


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Two models of 40 builds: of one, addmm takes a fifth more from build 18 on; of the other, all does from 25 on."""
    with etq.open() as warehouse:
        made = []
        for build in range(1, BUILDS + 1):
            op = capture(build, {"addmm": 1.2} if build >= 18 else None)
            total = capture(1000 + build, None, 1.15 if build >= 25 else 1.0)
            made.append(Labelled(f"a{build}", op, {"build": str(build), "model": "one"}))
            made.append(Labelled(f"b{build}", total, {"build": str(build), "model": "other"}))
        ingest_all(warehouse, made)
        yield warehouse


@pytest.fixture(scope="module")
def path(lab: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "trends.html"
    etq.report.trends_of(lab, None).write(path)
    return path


@pytest.fixture
def page(quiet: WebDriver, path: Path) -> WebDriver:
    opened(quiet, path)
    return quiet


def test_the_changes_are_those_of_the_view(page: WebDriver, lab: Warehouse) -> None:
    """A click on one shows its trend."""
    expected = lab.rows("SELECT what, op, verdict, last_good, first_bad, series FROM regressions()")[1]
    assert {row[:5] for row in expected} >= {
        ("op", "addmm", "slower", "17", "18"),
        ("total", "Execute", "slower", "24", "25"),
    }
    shown = told(page, "regressions", "item", "verdict", "last_good", "first_bad", "series")
    assert shown == [(f"total of {row[1]}" if row[0] == "total" else f"{row[1]}@0", *row[2:]) for row in expected]
    click_row(page, "regressions", "addmm@0")
    assert texts(page, "#regressions .chart-title") == ["addmm @0, model=one"]
    labels, data = plotted(page, "#regressions .plot")
    rows = lab.rows("SELECT p25, normalized FROM trend('op', 'addmm', selector := 'model=one')")[1]
    assert labels[1:] == ["p25, as measured", "its own, without the common shift"]
    assert data == [list(range(1, BUILDS + 1)), *(pytest.approx(list(column)) for column in zip(*rows, strict=True))]
    click_row(page, "regressions", "total of Execute")
    assert plotted(page, "#regressions .plot")[0][1] == "p25 of all runs"
    assert len(cells(page, "op_trends")) == 8
    page.find_element(By.CSS_SELECTOR, '#op_trends input[type="search"]').send_keys("relu other")
    assert told(page, "op_trends", "op", "series") == [("relu", "model=other")]


def test_changes_are_marked_where_they_are(page: WebDriver) -> None:
    """The line is between the last good build and the first bad one."""
    script = """
        const drawn = document.querySelector("#totals .plot").plot, found = [], done = arguments[0];
        const move = drawn.ctx.moveTo;
        drawn.ctx.moveTo = function (x, y) {
          if (this.getLineDash().length) found.push(drawn.posToVal((x - drawn.bbox.left) / devicePixelRatio, "x"));
          return move.call(this, x, y);
        };
        drawn.redraw();
        requestAnimationFrame(() => requestAnimationFrame(() => done(found)));
    """
    assert texts(page, "#totals .chart-title") == ["model=other"]
    found = page.execute_async_script(script)
    assert found and all(24 < position < 25 for position in found)


def test_growth_is_marked_at_its_end_and_with_the_ops_of_its_steps(quiet: WebDriver, tmp_path: Path) -> None:
    """An op has three steps, which together look like growth of the total from the first build to the last."""
    with etq.open() as warehouse:
        made = [capture(1000 + build, {"add": 1.06 ** (build // 9)}, runs=3) for build in range(36)]
        ingest_all(warehouse, [Labelled(f"b{at}", each, {"build": str(at)}) for at, each in enumerate(made)])
        etq.report.trends_of(warehouse, None).write(tmp_path / "growth.html")
    opened(quiet, tmp_path / "growth.html")
    script = """
        const drawn = document.querySelector(arguments[0]).plot, found = [], done = arguments[1];
        const [move, fill] = [drawn.ctx.moveTo, drawn.ctx.fillText];
        drawn.ctx.moveTo = function (x, y) {
          if (this.getLineDash().length) found.push(drawn.posToVal((x - drawn.bbox.left) / devicePixelRatio, "x"));
          return move.call(this, x, y);
        };
        drawn.ctx.fillText = function (text, ...more) {
          if (text.startsWith("+")) found.push(text);
          return fill.call(this, text, ...more);
        };
        drawn.redraw();
        requestAnimationFrame(() => requestAnimationFrame(() => done(found)));
    """
    place, text = quiet.execute_async_script(script, "#totals .plot")
    assert 34 < place < 35 and text.endswith(" add"), "the last build is 35"
    click_row(quiet, "regressions", "total of Execute")
    again, _ = quiet.execute_async_script(script, "#regressions .plot")
    assert again == place


@pytest.mark.parametrize(
    ("over", "one", "other", "places"),
    [
        ("captured_at", [1, 3, 20], [2, 3, 21], [1, 2, 3, 20, 21]),
        ("build", ["1", "3", "60"], ["2", "3", "61"], [1, 2, 3, 60, 61]),
        ("build", ["v1", "v3", "v10"], ["v2", "v3", "v9"], [1, 2, 3, 4, 5]),
    ],
    ids=["times", "numbers", "versions"],
)
def test_series_over_each_other_share_their_axis(
    quiet: WebDriver, tmp_path: Path, over: str, one: list[Any], other: list[Any], places: list[int]
) -> None:
    """A point is where its time or number is, or its version among those of both series; not where its series has it."""
    captures: list[Labelled] = []
    for device, given in (("one", one), ("other", other)):
        for each in given:
            moment = datetime(2026, 11, each) if over == "captured_at" else None
            labels = {"device": device, **({} if moment else {"build": each})}
            captures.append(Labelled(f"c{len(captures)}", capture(len(captures)), labels, moment))
    with etq.open() as warehouse:
        ingest_all(warehouse, captures)
        etq.report.trends_of(warehouse, None, over=over).write(tmp_path / "trends.html")
    opened(quiet, tmp_path / "trends.html")
    select(quiet, "#beside", "device")
    names, data = plotted(quiet, "#totals .plot")
    if over == "captured_at":
        shown = quiet.execute_script('return document.querySelector("#totals .plot").plot.axes[0]._values.flat()')
        assert shown[0].startswith("2026-11-") and all(re.fullmatch(r"11-\d\d", text) for text in shown[1:]), shown
        places = [int(datetime(2026, 11, day, tzinfo=UTC).timestamp()) for day in places]
    assert names[1:] == ["one", "other"] and data[0] == places
    filled = [[place for place, value in zip(places, line, strict=True) if value is not None] for line in data[1:]]
    last, last_of_other = (4, 3) if one[-1] == "v10" else (3, 4)
    assert filled == [[places[at] for at in (0, 2, last)], [places[at] for at in (1, 2, last_of_other)]]


def test_series_without_changes_have_a_note(quiet: WebDriver, lab: Warehouse, tmp_path: Path) -> None:
    etq.report.trends_of(lab, "model=one", min_effect=0.5).write(tmp_path / "none.html")
    opened(quiet, tmp_path / "none.html")
    assert "A change counts if it is 50 % or more" in texts(quiet, "#regressions .missing")[0]


def test_cycles_and_times_of_a_series_are_drawn_apart(quiet: WebDriver, tmp_path: Path) -> None:
    """Of each build two captures have the same ticks, as cycles and as nanoseconds."""
    ticks = [10_000 + 10 * build for build in range(10)]
    with etq.open() as warehouse:
        for unit in ("cycles", "ns"):
            for build, length in enumerate(ticks):
                content = dump(run("Execute", kernel(unit, 0, length, 0), execute(0, length)))
                path = tmp_path / f"{unit}{build}.etdp"
                path.write_bytes(content)
                path.with_name(f"{path.name}.json").write_text(f'{{"labels": {{"build": "{build}", "model": "net"}}}}')
            warehouse.ingest_many(sorted(tmp_path.glob(f"{unit}*.etdp")), time_scale=unit)
        etq.report.trends_of(warehouse, None).write(tmp_path / "trends.html")
        home_of(warehouse, None, "lab").write(tmp_path / "home.html")
    opened(quiet, tmp_path / "trends.html")
    found = {}
    for row in quiet.find_elements(By.CSS_SELECTOR, "table[data-name=series] tbody tr"):
        row.click()
        drawn(quiet)
        [title] = texts(quiet, "#totals .chart-title")
        axis = quiet.execute_script("return document.querySelector('#totals .plot').plot.axes[1].label")
        found[title, axis] = plotted(quiet, "#totals .plot")[1][1]
    assert found == {
        ("model=net", "execute, µs"): pytest.approx([length / 1000 for length in ticks]),
        ("model=net in cycles", "execute, cycles"): ticks,
    }
    opened(quiet, tmp_path / "home.html")
    titles = "return [...document.querySelectorAll('.spark title')].map((each) => each.textContent)"
    assert sorted(quiet.execute_script(titles)) == [
        "10 of 10 in model=net in cycles: 10,090\N{NO-BREAK SPACE}cycles",
        "10 of 10 in model=net: 10.09\N{NO-BREAK SPACE}µs",
    ]
