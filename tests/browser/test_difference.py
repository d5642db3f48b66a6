"""The report of two sides in a real browser: real captures with an op planted slower on one side."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import etq
import etq.report
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.browser.driver import By, WebDriver
from tests.browser.pages import near, number, opened, plotted, select, texts, told
from tests.conftest import CAPTURES
from tests.slower import slower

pytestmark = pytest.mark.long

SIDES = ("side=base", "side=new")
# Of the mlp, instruction 3 copies block1.down.linear's weights: a tenth of the time.
OP, MODULE, INSTRUCTION, FACTOR = "permute_copy", "block1.down.linear", 3, 1.5


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Six captures per side in turns. Those of new are as from a build whose op takes 1.5 times as long."""
    with etq.open() as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        made = []
        for number in range(12):
            side = ("base", "new", "new", "base")[number % 4]
            source = CAPTURES / f"fleet/mlp/{number:02}.etdp"
            content = slower(source, "native_call_permute_copy.out", INSTRUCTION, FACTOR) if side == "new" else source
            made.append(Labelled(f"m{number:02}", content, {"side": side}, datetime(2026, 1, 1, 0, number)))
        for number, capture in enumerate(ingest_all(warehouse, made, link_to=[record])):
            warehouse.metric(capture, "speed", 50 + number / 10 - 20 * (number % 4 in (1, 2)), better="higher")
        yield warehouse


@pytest.fixture(scope="module")
def path(lab: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "difference.html"
    etq.report.write(lab, SIDES, path)
    return path


@pytest.fixture
def page(quiet: WebDriver, path: Path) -> WebDriver:
    opened(quiet, path)
    return quiet


def shown_number(text: str) -> float | None:
    """A number of a table that compares: its sign is a minus sign."""
    return number(text.removesuffix("%").strip())


def rows_of(lab: Warehouse, view: str) -> list[dict[str, Any]]:
    names, rows = lab.rows(f"FROM {view}('side=base', 'side=new')")
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_the_verdict_comes_first(page: WebDriver, lab: Warehouse) -> None:
    [total] = [row for row in rows_of(lab, "compare_captures") if row["what"] == "total"]
    assert total["verdict"] == "slower"
    stated = page.find_element(By.CSS_SELECTOR, "main > section:first-child .stated")
    assert stated.get_dom_attribute("data-verdict") == "slower"
    assert stated.text.startswith("New is slower")
    change = shown_number(stated.find_element(By.CLASS_NAME, "change").text)
    assert change == pytest.approx(total["change_percent"], abs=0.051)
    interval = [shown_number(each) for each in stated.find_element(By.CLASS_NAME, "interval").text.split(" to ")]
    assert interval == [pytest.approx(total[end], abs=0.051) for end in ("low_percent", "high_percent")]
    parts = ["Captures", "Largest changes", "Where they differ", "Modules", "Ops", "Metrics", "Start-up"]
    assert texts(page, "section > h2") == ["Verdict", *parts]
    assert told(page, "compare_metrics", "name", "verdict") == [("speed", "worse")]
    # Captures are shown in the order in which they were measured.
    expected = lab.rows("SELECT side, total FROM compared_captures('side=base', 'side=new') ORDER BY captured_at")[1]
    points = dict(zip(*plotted(page, "#captures .plot"), strict=True))
    for side in ("base", "new"):
        assert points[side] == [pytest.approx(total) if of == side else None for of, total in expected]


def test_tables_have_the_rows_of_the_views(page: WebDriver, lab: Warehouse) -> None:
    for view, of, key in (("compare_ops", "op", "op"), ("compare_modules", "module", "module_path")):
        expected = rows_of(lab, view)
        shown = told(page, view, of, "verdict", "own_change_percent", "base", "new", "difference")
        assert len(shown) == len(expected) > 20
        for row, (name, verdict, change, *times) in zip(expected, shown, strict=True):
            assert (name, verdict) == (row[key] or "(model)", row["verdict"])
            own = row["change_percent"]
            assert shown_number(change) == (None if own is None else pytest.approx(own, abs=0.051)), row
            assert [shown_number(time) for time in times] == [near(row[each]) for each in ("base", "new", "difference")]


def test_the_planted_op_is_shown(page: WebDriver) -> None:
    """The planted change is shown at its place in all pictures, and no other op is blamed."""
    first, *others = page.find_elements(By.CSS_SELECTOR, ".dots .dot-row:not(.scale)")
    assert OP in first.text and f"{MODULE} @{INSTRUCTION}" in first.text
    assert first.get_dom_attribute("data-verdict") == "slower"
    assert shown_number(first.find_element(By.CLASS_NAME, "dot-value").text) == pytest.approx(100 * (FACTOR - 1), abs=5)
    assert {each.get_dom_attribute("data-verdict") for each in others} <= {"~", "not decided"}
    marked = page.execute_script(
        "return etq.parts.rows.flatMap((row) => [...row.ids]).map(etq.partsTold).filter((node) => node.verdict === 'slower').map((node) => [node.name, node.path])"
    )
    assert [OP, MODULE] in marked
    # Its modules count too, because their ops take longer; it is the only op that changed.
    assert {path for _, path in marked} == {"", "block1", "block1.down", MODULE}


def test_the_icicle_adds_up(page: WebDriver, lab: Warehouse) -> None:
    """The chart is as wide as base or new: the first row is the total; ops have the view's places and widths."""
    [totals] = [row for row in rows_of(lab, "compare_captures") if row["what"] == "total"]
    for side in ("base", "new"):
        select(page, "#parts select", side)
        shown = page.execute_script(
            "return etq.parts.rows.flatMap((row) => [...row.ids].map((id, at) => [etq.partsTold(id).path, etq.partsTold(id).name,"
            " etq.partsTold(id).kind, row.ends[at] - row.starts[at]]))"
        )
        assert shown[0][3] == pytest.approx(totals[side])
        leaves = sorted((path, name, width) for path, name, kind, width in shown if kind not in ("module", "method"))
        query = f"SELECT coalesce(module_path, ''), op, {side}_self FROM compare_parts('side=base', 'side=new') ORDER BY ALL"
        assert leaves == [(path, op, pytest.approx(time)) for path, op, time in lab.rows(query)[1]]


def test_the_steps_of_two_traces(quiet: WebDriver, tmp_path: Path) -> None:
    """Samples are called steps, all verdicts of ops are counted, and each op is named with its kind."""
    with etq.open() as warehouse:
        for name in ("before", "after"):
            warehouse.ingest(CAPTURES / f"torch_steps/{name}.pt.trace.json.gz", name=name)
        etq.report.write(warehouse, ["before", "after"], tmp_path / "steps.html")
        query = "SELECT verdict, count(*) FROM compare_ops('before', 'after') GROUP BY verdict"
        verdicts = warehouse.rows(query)[1]
    opened(quiet, tmp_path / "steps.html")
    on_host, on_devices = texts(quiet, ".stated")
    assert "Not decided" in on_host and "626.4 µs in base (10 steps)" in on_host
    assert "New is possibly slower" in on_devices and "judged by the steps of one trace" in on_devices
    shown = [" ".join(each.split()) for each in texts(quiet, ".legend.ops > span:has(.verdict)")]
    words = {"~": "about the same"}
    assert sorted(shown) == sorted(f"{words.get(verdict, verdict)} {count}" for verdict, count in verdicts)
    assert "more calls 4" in shown
    assert texts(quiet, "section > h2") == ["Verdict", "Steps", "Largest changes", "Where they differ", "Ops"]
    names = texts(quiet, ".dot-name")
    assert {"aten::conv2d", "aten::conv2d on devices", "conv_kernel kernel", "train annotation"} <= set(names)
    assert len(set(names)) == len(names)
