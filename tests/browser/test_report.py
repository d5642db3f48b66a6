"""The report of a capture in a real browser: the page shows the values of the warehouse."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.warehouse.warehouse import Warehouse
from tests.browser.pages import cells, complaints, drawn, near, number, opened, written
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.typical import are_typical

selenium = pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.remote.webelement import WebElement  # noqa: E402

FOLDER = CAPTURES / "transformer"
CAPTURE = "transformer_100runs"


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """The transformer's 100 runs, with its record and its program."""
    with etq.open() as warehouse:
        capture = warehouse.ingest(FOLDER / f"{CAPTURE}.etdp", labels={"device": "pixel8"})
        warehouse.metric(CAPTURE, "temperature", 41)
        warehouse.link(capture, warehouse.ingest_record(FOLDER / "transformer.etrecord"))
        warehouse.link(capture, warehouse.ingest_program(FOLDER / "transformer.pte"))
        yield warehouse


@pytest.fixture(scope="module")
def path(lab: Warehouse, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(lab, CAPTURE, tmp_path_factory.mktemp("report"))


@pytest.fixture
def page(browser: WebDriver, path: Path) -> Iterator[WebDriver]:
    """The report, freshly opened; nothing may have been complained of when the test is over."""
    opened(browser, path)
    yield browser
    assert complaints(browser) == []


def test_it_needs_nothing_else(page: WebDriver) -> None:
    assert page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert page.find_element(By.TAG_NAME, "h1").text == CAPTURE


def test_every_section_is_there(page: WebDriver) -> None:
    titles = [each.text for each in page.find_elements(By.CSS_SELECTOR, "section > h2")]
    assert titles == [
        "Overview", "Advice", "Where the time goes", "Graph", "Timeline", "Run to run", "Ops", "Modules", "Source lines",
        "Events over runs", "Delegate coverage", "Planned memory",
    ]  # fmt: skip
    assert page.find_elements(By.CSS_SELECTOR, ".missing") == []


def typical_runs(lab: Warehouse) -> set[int]:
    """The runs on the page, by the ticks of their executes."""
    query = "SELECT run_index, duration_ticks FROM events WHERE name = 'Method::execute' AND capture_id = $c ORDER BY 1"
    executes = lab.sql(query, c=lab.capture(CAPTURE).capture_id).fetchall()
    judged = are_typical([ticks for _, ticks in executes])
    found = {run for (run, _), is_typical in zip(executes, judged, strict=True) if is_typical}
    assert len(found) == 94
    return found


def test_headline(page: WebDriver, lab: Warehouse) -> None:
    shown = {
        each.get_dom_attribute("data-number"): each.find_element(By.CLASS_NAME, "value").text
        for each in page.find_elements(By.CLASS_NAME, "card")
    }
    typical = typical_runs(lab)
    later = [
        row[1:]
        for row in lab.sql("SELECT run_index, execute, tax_percent FROM framework_tax($c)", c=CAPTURE).fetchall()
        if row[0] in typical
    ]
    assert shown["execute"].endswith("µs")
    assert float(shown["execute"].split()[0]) == near(statistics.median(row[0] for row in later))
    assert float(shown["framework tax"].split()[0]) == near(statistics.median(row[1] for row in later))
    assert shown["load"] == "61.17 µs"  # 61171 ticks of a nanosecond
    # Of the graph's 93 nodes that a kernel or a delegate runs, no delegate took one.
    assert shown["delegate coverage"] == "0 of 93"


def test_labels_and_metrics(page: WebDriver) -> None:
    text = page.find_element(By.ID, "headline").text
    assert "device pixel8" in text.replace("\n", " ")
    assert cells(page, "metrics")[0][:2] == ["temperature", "41"]


TABLES = {
    "ops": (
        "SELECT op, per_execute, avg, share_percent, calls, min, max, total, kind FROM op_totals($c)",
        "calls per_execute total avg min max share_percent",
    ),
    "instances": (
        "SELECT op, instruction_id, per_execute, avg, share_percent, calls, min, max, total, kind "
        "FROM op_totals($c, by := 'instance')",
        "instruction_id calls per_execute total avg min max share_percent",
    ),
    "modules": (
        "SELECT CASE module_path WHEN '' THEN '(the model)' ELSE module_path END, per_execute, share_percent, self_per_execute, "
        "calls, module_class, mapping, total FROM module_totals($c)",
        "calls self_per_execute per_execute total share_percent",
    ),
    "sources": (
        "SELECT source, per_execute, share_percent, calls, total FROM source_totals($c)",
        "calls per_execute total share_percent",
    ),
    "parts": (
        "SELECT component, per_execute, share_percent, calls, total FROM execute_breakdown($c)",
        "calls per_execute total share_percent",
    ),
    "coverage": (
        "SELECT op_type, delegated, not_delegated, total, share_percent, calls, worst_source, worst_module, basis "
        "FROM delegate_coverage($c)",
        "delegated not_delegated calls total share_percent",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_rows_of_the_views(page: WebDriver, lab: Warehouse, name: str) -> None:
    query, numbers = TABLES[name]
    relation = lab.sql(query, c=CAPTURE)
    is_number = [column in numbers.split() for column in relation.columns]
    rows = relation.fetchall()
    if name != "parts":  # shown as they come
        # The longest first, equally long ones as they come.
        rows.sort(key=lambda row: -row[relation.columns.index("total")])
    expected = [
        [near(value) if numeric else (value or "") for value, numeric in zip(row, is_number, strict=True)]
        for row in rows
    ]
    shown = [
        [number(text) if numeric else text for text, numeric in zip(row, is_number, strict=True)]
        for row in cells(page, name)
    ]
    assert shown == expected


@pytest.mark.parametrize("name", ["ops", "instances", "modules", "parts"])
def test_times_of_a_column_have_the_same_decimals(page: WebDriver, name: str) -> None:
    headings = [each.text for each in page.find_elements(By.CSS_SELECTOR, f'table[data-name="{name}"] th')]
    rows = cells(page, name)
    times = [at for at, heading in enumerate(headings) if ", µs" in heading]
    decimals = [{len(row[at].partition(".")[2]) for row in rows if row[at]} for at in times]
    assert times and all(len(found) == 1 for found in decimals), decimals


def test_how_numbers_are_written(page: WebDriver) -> None:
    script = """
        return [etq.quantity(167.04, "us"), etq.quantity(16.5, "us"), etq.quantity(12, "us"), etq.quantity(1234.5, "us"),
            etq.percent(94.1), etq.percent(100), etq.decimals([1448.28, 0.417, null]), etq.decimals([192.6, 18.17]),
            etq.decimals([3, 0, null]), etq.fixed(0.004, 1), etq.fixed(0, 1), etq.fixed(1448.28, 1)];
    """
    space = "\N{NO-BREAK SPACE}"
    assert page.execute_script(script) == [
        *(f"167.0{space}µs", f"16.50{space}µs", f"12{space}µs", f"1,235{space}µs", f"94.10{space}%", f"100{space}%"),
        *(1, 1, None, "<0.1", "0.0", "1,448.3"),
    ]


def test_percentiles_are_those_of_the_inspector_view(page: WebDriver, lab: Warehouse) -> None:
    """p50 of each event, which another view has too."""
    query = "SELECT event_name, p50 FROM inspector_events($c, unit := 'us', runs := 'typical')"
    expected = sorted(row[1] for row in lab.sql(query, c=CAPTURE).fetchall())
    headings = [each.text.split(",")[0] for each in page.find_elements(By.CSS_SELECTOR, 'table[data-name="events"] th')]
    shown = sorted(number(row[headings.index("p50")]) or 0 for row in cells(page, "events"))
    assert shown == [near(value) for value in expected]


def test_histogram_of_the_event_that_is_chosen(page: WebDriver, lab: Warehouse) -> None:
    rows = page.find_elements(By.CSS_SELECTOR, 'table[data-name="events"] tbody tr')
    chosen = next(row for row in rows if row.text.startswith("native_call_addmm.out"))
    chosen.click()
    drawn(page)
    script = "const plot = document.querySelector('#events .plot').plot; return [plot.data[0], plot.data[1]];"
    edges, counts = page.execute_script(script)
    note = page.find_element(By.CSS_SELECTOR, "#events .plot + p").text
    instruction = int(chosen.find_elements(By.TAG_NAME, "td")[1].text)
    query = """
        SELECT e.run_index, e.inclusive FROM event_times($c) AS e
        WHERE e.event_name = 'native_call_addmm.out' AND e.instruction_id = $i
    """
    typical = typical_runs(lab)
    times = [time for run, time in lab.sql(query, c=CAPTURE, i=instruction).fetchall() if run in typical]
    beyond = [time for time in times if time > edges[-1] + 1e-9]
    assert sum(counts) + len(beyond) == len(times) == 94
    assert note.startswith(f"94 runs, {len(beyond)} of them beyond") or (note == "94 runs" and not beyond)
    width = edges[1] - edges[0]
    for edge, count in zip(edges, counts, strict=True):
        # A value on an edge itself may be on either side, as numbers are rounded.
        inside = [time for time in times if edge + 1e-9 < time < edge + width - 1e-9]
        on_edge = [time for time in times if min(abs(time - edge), abs(time - edge - width)) <= 1e-9]
        assert len(inside) <= count <= len(inside) + len(on_edge)


def test_runs_with_warm_up_and_outliers(page: WebDriver, lab: Warehouse) -> None:
    at, usual, warm, odd, _ = page.execute_script("return document.querySelector('#runs .plot').plot.data")
    expected = dict(lab.sql("SELECT run_index, execute FROM framework_tax($c)", c=CAPTURE).fetchall())
    shown = {run: next(x for x in values if x is not None) for run, *values in zip(at, usual, warm, odd, strict=True)}
    assert shown == expected
    assert [run for run, time in zip(at, warm, strict=True) if time is not None] == [1]
    assert [run for run, time in zip(at, odd, strict=True) if time is not None] == [
        run for run in expected if run not in typical_runs(lab) and run != 1
    ]


def test_a_run_clicked_is_shown_in_the_timeline(page: WebDriver) -> None:
    overlay = page.find_element(By.CSS_SELECTOR, "#runs .u-over")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", overlay)
    place = page.execute_script(
        "const plot = document.querySelector('#runs .plot').plot; return plot.valToPos(58, 'x') - plot.over.clientWidth / 2;"
    )
    ActionChains(page).move_to_element_with_offset(overlay, round(place), 0).click().perform()
    drawn(page)
    assert page.find_element(By.CSS_SELECTOR, "#timeline select").get_property("value") == "58"


def test_icicle_adds_up(page: WebDriver, lab: Warehouse) -> None:
    """The chart is as wide as all executes together; framework time is separate, on the right."""
    executes = lab.sql("SELECT run_index, execute FROM framework_tax($c)", c=CAPTURE).fetchall()
    typical = typical_runs(lab)
    total = sum(time for run, time in executes if run in typical)
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(total)
    script = """
        const spans = etq.icicle, row = spans.rows[1];
        return [...row.ids].map((id, at) => [spans.options.label(id), row.ends[at] - row.starts[at]]);
    """
    level = page.execute_script(script)
    expected = dict(lab.sql("SELECT module_path, total FROM module_totals($c)", c=CAPTURE).fetchall())
    assert level[-2:] == [
        ["(framework)", pytest.approx(expected["(framework)"])],
        ["(unattributed)", pytest.approx(expected["(unattributed)"])],
    ]
    assert dict(level)["layers"] == pytest.approx(expected["layers.0"] + expected["layers.1"])


def test_timeline_has_the_events_of_the_run(page: WebDriver, lab: Warehouse) -> None:
    select = page.find_element(By.CSS_SELECTOR, "#timeline select")
    run = int(str(select.get_property("value")))
    script = """
        const spans = etq.timeline;
        return spans.rows.flatMap((row) => [...row.ids].map((id, at) => [spans.options.label(id), row.starts[at], row.ends[at] - row.starts[at]]));
    """
    query = "SELECT event_name, start, inclusive FROM event_times($c) WHERE run_index = $run"
    expected = sorted(lab.sql(query, c=CAPTURE, run=run).fetchall())
    assert [tuple(each) for each in sorted(page.execute_script(script))] == [
        (name, pytest.approx(start, abs=1e-6), pytest.approx(length, abs=1e-6)) for name, start, length in expected
    ]
    assert len(select.find_elements(By.TAG_NAME, "option")) == 101


def test_timeline_shows_the_event_under_the_pointer(page: WebDriver) -> None:
    canvas = page.find_element(By.CSS_SELECTOR, "#timeline canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    script = """
        const spans = etq.timeline, row = spans.rows[2];
        const at = [...row.ids].findIndex((id) => spans.options.label(id) === "native_call_addmm.out");
        spans.reveal(row.ids[at]);
        const [from, to] = spans.view;
        return ((row.starts[at] + row.ends[at]) / 2 - from) / (to - from) - 0.5;
    """
    place = page.execute_script(script)
    drawn(page)
    across, low = round(place * canvas.size["width"]), -canvas.size["height"] // 2
    ActionChains(page).move_to_element_with_offset(canvas, across, low + 22 + 2 * 19 + 9).perform()
    text = page.find_element(By.CLASS_NAME, "tip").text
    assert text.startswith("native_call_addmm.out")
    for word in ("aten.addmm.default", "layers.0.attn.qkv", "export_models.py:60", "[16, 96]"):
        assert word in text
    ActionChains(page).click().perform()
    assert "layers.0.attn.qkv" in page.find_element(By.CSS_SELECTOR, "#timeline .detail").text


def view(page: WebDriver, section: str = "timeline") -> tuple[float, float]:
    drawn(page)
    canvas = page.find_element(By.CSS_SELECTOR, f"#{section} canvas")
    return tuple(float(canvas.get_dom_attribute(f"data-{each}")) for each in ("from", "to"))  # type: ignore[return-value]


def turn_wheel(page: WebDriver, canvas: WebElement, by: int) -> None:
    """With Control held, over the middle of a canvas."""
    box = page.execute_script(
        "const box = arguments[0].getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]",
        canvas,
    )
    wheel = {"type": "mouseWheel", "x": box[0], "y": box[1], "deltaX": 0, "deltaY": by, "modifiers": 2}
    page.execute_cdp_cmd("Input.dispatchMouseEvent", wheel)


def test_timeline_zooms_and_pans(page: WebDriver) -> None:
    canvas = page.find_element(By.CSS_SELECTOR, "#timeline canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    whole = view(page)
    turn_wheel(page, canvas, -120)
    closer = view(page)
    assert whole[0] < closer[0] < closer[1] < whole[1]
    # The point in the middle, below the pointer, stays there.
    assert sum(closer) == pytest.approx(sum(whole), rel=0.02)
    ActionChains(page).drag_and_drop_by_offset(canvas, 100, 0).perform()
    moved = view(page)
    assert moved[0] < closer[0] and moved[1] - moved[0] == pytest.approx(closer[1] - closer[0])
    ActionChains(page).double_click(canvas).perform()
    assert view(page) == whole
    canvas.send_keys("+")
    assert view(page)[1] - view(page)[0] < whole[1] - whole[0]
    canvas.send_keys("0")
    assert view(page) == whole


def test_timeline_is_searched(page: WebDriver, lab: Warehouse) -> None:
    run = int(str(page.find_element(By.CSS_SELECTOR, "#timeline select").get_property("value")))
    field = page.find_element(By.CSS_SELECTOR, '#timeline input[type="search"]')
    field.send_keys("layers.1.ffn native_call")
    query = """
        SELECT count(*), sum(e.exclusive) FROM event_times($c) AS e
        JOIN event_ops($c) AS o ON o.event_name = e.event_name AND o.instruction_id = e.instruction_id
        WHERE e.run_index = $run AND o.module_path LIKE 'layers.1.ffn%' AND e.event_name LIKE 'native_call%'
    """
    [(count, total)] = lab.sql(query, c=CAPTURE, run=run).fetchall()
    shown = page.find_element(By.CSS_SELECTOR, "#timeline output")
    assert shown.text.startswith(f"{count} events, ")
    assert float(shown.text.split(", ")[1].split()[0]) == near(total)
    whole = view(page)
    field.send_keys(Keys.ENTER)
    assert shown.text.startswith(f"1 of {count} events")
    assert view(page)[1] - view(page)[0] < whole[1] - whole[0]


def test_icicle_zooms_to_what_is_clicked(page: WebDriver) -> None:
    canvas = page.find_element(By.CSS_SELECTOR, "#breakdown canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    whole = view(page, "breakdown")
    left, top = -canvas.size["width"] // 2, -canvas.size["height"] // 2
    ActionChains(page).move_to_element_with_offset(canvas, left + 60, top + 2 * 19 + 9).click().perform()
    inside = view(page, "breakdown")
    assert inside[1] - inside[0] < 0.6 * (whole[1] - whole[0])
    assert "layers.0" in page.find_element(By.CSS_SELECTOR, "#breakdown .detail").text
    ActionChains(page).move_to_element_with_offset(canvas, left + 60, top + 9).click().perform()
    assert view(page, "breakdown") == whole


def test_tables_sort_both_ways(page: WebDriver) -> None:
    heading = page.find_element(By.CSS_SELECTOR, 'table[data-name="ops"] th[data-column="calls"]')
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", heading)
    for direction, is_down in (("descending", True), ("ascending", False)):
        heading.find_element(By.TAG_NAME, "button").click()
        calls = [number(row[4]) or 0 for row in cells(page, "ops")]
        assert heading.get_dom_attribute("aria-sort") == direction
        assert calls == sorted(calls, reverse=is_down) and len(set(calls)) > 3
    name = page.find_element(By.CSS_SELECTOR, 'table[data-name="ops"] th[data-column="op"] button')
    name.click()
    names = [row[0] for row in cells(page, "ops")]
    assert names == page.execute_script("return [...arguments[0]].sort((a, b) => a.localeCompare(b))", names)


def test_tables_are_searched(page: WebDriver, lab: Warehouse) -> None:
    field = page.find_element(By.CSS_SELECTOR, '#modules input[type="search"]')
    field.send_keys("attn LINEAR")
    query = "SELECT module_path FROM module_totals($c) WHERE module_path LIKE '%attn%' AND module_class LIKE '%Linear%'"
    expected = {row[0] for row in lab.sql(query, c=CAPTURE).fetchall()}
    assert {row[0] for row in cells(page, "modules")} == expected and len(expected) == 4
    assert f"{len(expected)} of " in page.find_element(By.CSS_SELECTOR, "#modules .count").text


def test_planned_memory(page: WebDriver, lab: Warehouse) -> None:
    query = "SELECT value_index, memory_offset, first_instruction, last_instruction FROM planned_memory('transformer')"
    expected = sorted(tuple(map(float, row)) for row in lab.sql(query).fetchall())
    headings = [
        each.get_dom_attribute("data-column")
        for each in page.find_elements(By.CSS_SELECTOR, 'table[data-name="planned"] th')
    ]
    at = [headings.index(name) for name in ("value_index", "memory_offset", "first_instruction", "last_instruction")]
    assert sorted(tuple(number(row[place]) for place in at) for row in cells(page, "planned")) == expected
    assert "22 KiB of 26 KiB" in page.find_element(By.ID, "memory").text  # 22,528 of 26,624 bytes
    assert page.execute_script("const axis = document.querySelector('#memory .plot').plot.scales; return [axis.x.max, axis.y.max]") == [
        max(row[3] for row in expected) + 1, 26624,
    ]  # fmt: skip


def test_advice(page: WebDriver, lab: Warehouse) -> None:
    rows = lab.sql("SELECT rule, severity, finding, evidence, remedy FROM advice($c)", c=CAPTURE).fetchall()
    shown = page.find_elements(By.CSS_SELECTOR, "#advice li")
    assert [each.get_dom_attribute("data-rule") for each in shown] == [row[0] for row in rows]
    for item, row in zip(shown, rows, strict=True):
        shown_text = item.text.replace("µs", "us")  # as tables have it
        for text in row:
            assert text in shown_text


def test_light_and_dark(page: WebDriver) -> None:
    def colours() -> tuple[str, list[int]]:
        drawn(page)
        body = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        pixel = page.execute_script(
            "const shown = document.querySelector('#breakdown canvas'), pen = document.createElement('canvas').getContext('2d');"
            "pen.drawImage(shown, 0, 0); return [...pen.getImageData(200, 4, 1, 1).data]"
        )
        return body, pixel

    button = page.find_element(By.ID, "theme")
    assert button.text == "Theme: auto"
    light = colours()
    assert light[0] == "rgb(255, 255, 255)"
    try:
        page.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        )
        dark = colours()
        assert dark[0] != light[0] and dark[1] != light[1]
        button.click()
        assert (button.text, colours()) == ("Theme: light", light)
        button.click()
        assert (button.text, colours()) == ("Theme: dark", dark)
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


AXES = """
    return [...document.querySelectorAll(".plot")].filter((box) => box.plot && !box.hidden).map((box) => box.plot.axes.map(
        (axis) => [axis.label, (axis._values ?? []).filter((each) => each !== null && each !== "").length]));
"""


def test_all_axes_have_numbers_and_units(page: WebDriver) -> None:
    plots = page.execute_script(AXES)
    assert [[label for label, _ in axes] for axes in plots] == [
        ["run", "execute, µs"], ["time, µs", "runs"], ["instruction", "place in the buffer"],
    ]  # fmt: skip
    assert [numbers for axes in plots for _, numbers in axes if numbers < 3] == []


def test_the_histogram_opens_on_the_execute(browser: WebDriver, tmp_path: Path) -> None:
    """Also where something else takes longer."""
    with etq.open() as warehouse:
        runs = [run("Default", kernel("Program::load_method", 0, 9000 + at)) for at in range(9)]
        runs += [run("Execute", kernel("add", 10, 30 + at), execute(0, 60 + at)) for at in range(9)]
        warehouse.ingest(dump(*runs), name="slow load")
        opened(browser, written(warehouse, "slow load", tmp_path))
    chosen = browser.find_element(By.CSS_SELECTOR, "#events h3, section[id='events'] h3").text
    assert chosen.startswith("Method::execute")
    assert browser.find_elements(By.CSS_SELECTOR, "table[data-name='events'] tr.chosen td")[0].text == "Method::execute"


def test_rows_of_spans_that_overlap(page: WebDriver) -> None:
    """Each in the first row from its depth on that is free, found in less than a time that grows with the rows."""
    script = """
        let state = 7;
        const random = (most) => (state = (state * 48271) % 2147483647) % most;
        const simple = (count, start, end, depth) => {
          const rows = [];
          for (let id = 0; id < count; id += 1) {
            let at = depth(id);
            while (rows[at] && rows[at].last > start(id) + 1e-9) at += 1;
            while (rows.length <= at) rows.push({ ids: [], last: -Infinity });
            rows[at].ids.push(id);
            rows[at].last = end(id);
          }
          return rows.map((row) => row.ids);
        };
        for (let turn = 0; turn < 300; turn += 1) {
          const count = random(40);
          const starts = Array.from({ length: count }, () => random(50)).sort((one, other) => one - other);
          const [lengths, depths] = [starts.map(() => random(20)), starts.map(() => random(4))];
          const spans = [count, (id) => starts[id], (id) => starts[id] + lengths[id], (id) => depths[id]];
          const made = etq.spanRows(...spans).map((row) => [...row.ids]);
          if (JSON.stringify(made) !== JSON.stringify(simple(...spans))) return [turn, starts, lengths, depths];
        }
        const begin = performance.now();
        const rows = etq.spanRows(100000, (id) => id, () => 1e9, () => 0);
        return [rows.length, performance.now() - begin < 5000];
    """
    assert page.execute_script(script) == [100_000, True]


def test_on_a_phone_tables_scroll(page: WebDriver) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        drawn(page)
        boxes = page.execute_script(
            """return [...document.querySelectorAll("table[data-name]")].map((table) => {
                const box = table.closest(".wide");
                box.scrollLeft = 1e6;
                return [getComputedStyle(box).overflowX, box.clientWidth, box.scrollWidth - box.scrollLeft];
            });"""
        )
        assert boxes and all(way == "auto" and left <= width + 1 for way, width, left in boxes)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_on_a_phone_nothing_overflows_the_screen(page: WebDriver) -> None:
    size = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    try:
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        drawn(page)
        wide, screen = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide <= screen == 360
        assert all(canvas.size["width"] <= 360 for canvas in page.find_elements(By.TAG_NAME, "canvas"))
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_it_prints_light(page: WebDriver) -> None:
    page.execute_script(
        "addEventListener('beforeprint', () => { window.printedAs = ["
        "document.documentElement.dataset.theme, "
        "Math.max(...[...document.querySelectorAll('.uplot')].map((each) => each.clientWidth))]; })"
    )
    page.find_element(By.ID, "theme").click()
    page.find_element(By.ID, "theme").click()
    assert page.execute_script("return document.documentElement.dataset.theme") == "dark"
    printed = base64.b64decode(page.print_page())
    assert printed.startswith(b"%PDF-") and printed.rstrip().endswith(b"%%EOF")
    assert page.execute_script("return [...window.printedAs, document.documentElement.dataset.theme]") == [
        "light",
        680,
        "dark",
    ]
