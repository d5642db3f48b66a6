"""The report of a capture in a real browser: the page shows the values of the warehouse."""

from __future__ import annotations

import base64
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from etq.analysis.series import short
from etq.render.table import with_short_commits
from etq.warehouse.warehouse import Warehouse
from tests.browser.driver import ActionChains, By, Keys, WebDriver
from tests.browser.pages import cells, columns, drawn, near, number, opened, plotted, screen, texts, told, written
from tests.builders import dump, execute, kernel, run
from tests.conftest import CAPTURES
from tests.typical import are_typical

pytestmark = pytest.mark.long

FOLDER = CAPTURES / "transformer"
CAPTURE = "transformer_100runs"
# The height of a row of spans, in pixels.
ROW = 19


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
def page(quiet: WebDriver, path: Path) -> WebDriver:
    opened(quiet, path)
    return quiet


@pytest.fixture(scope="module")
def typical(lab: Warehouse) -> set[int]:
    """The runs on the page, by the ticks of their executes."""
    query = "SELECT run_index, duration_ticks FROM events WHERE name = 'Method::execute' AND capture_id = $c ORDER BY 1"
    executes = lab.sql(query, c=lab.capture(CAPTURE).capture_id).fetchall()
    judged = are_typical([ticks for _, ticks in executes])
    found = {run for (run, _), is_typical in zip(executes, judged, strict=True) if is_typical}
    assert len(found) == 94
    return found


def test_the_page_alone_has_every_section_and_key_figure(page: WebDriver, lab: Warehouse, typical: set[int]) -> None:
    assert page.execute_script("return performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert texts(page, "h1") == [CAPTURE] and texts(page, ".missing") == []
    assert texts(page, "section > h2") == [
        "Overview", "Advice", "Where the time goes", "Graph", "Timeline", "Run to run", "Ops", "Modules", "Source lines",
        "Events over runs", "Delegate coverage", "Planned memory",
    ]  # fmt: skip
    cards = page.find_elements(By.CLASS_NAME, "card")
    shown = {
        each.get_dom_attribute("data-number"): each.find_element(By.CLASS_NAME, "value").text.split() for each in cards
    }
    taxes = lab.sql("SELECT run_index, execute, tax_percent FROM framework_tax($c)", c=CAPTURE).fetchall()
    median, tax = (statistics.median(row[at] for row in taxes if row[0] in typical) for at in (1, 2))
    assert (float(shown["execute"][0]), shown["execute"][1]) == (near(median), "µs")
    assert float(shown["framework tax"][0]) == near(tax)
    assert shown["load"] == ["61.17", "µs"]  # 61171 ticks of a nanosecond
    # Of the graph's 93 nodes that a kernel or a delegate runs, no delegate took one.
    assert shown["delegate coverage"] == ["0", "of", "93"]
    assert "device pixel8" in texts(page, "#headline")[0].replace("\n", " ")
    assert told(page, "metric_values", "name", "value") == [("temperature", "41")]
    script = """
        return [...document.querySelectorAll(".plot")].filter((box) => box.plot && !box.hidden).map((box) => box.plot.axes.map(
            (axis) => [axis.label, (axis._values ?? []).filter((each) => each !== null && each !== "").length]));
    """
    plots = page.execute_script(script)
    labels = [["run", "execute, µs"], ["time, µs", "runs"], ["instruction", "place in the buffer"]]
    assert [[label for label, _ in axes] for axes in plots] == labels
    assert [numbers for axes in plots for _, numbers in axes if numbers < 3] == []


TABLES = {
    "op_totals": "SELECT op, kind, method, per_execute, per_call, share_percent, calls, min, max FROM op_totals($c)",
    "instances": "SELECT op, instruction_id, per_execute, share_percent, calls FROM op_totals($c, \"by\" := 'instance')",
    "module_totals": "SELECT CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module, per_execute, share_percent, "
    "self_per_execute, calls, module_class, mapping FROM module_totals($c)",
    "execute_breakdown": "SELECT component, per_execute, share_percent, calls FROM execute_breakdown($c)",
}


def test_tables_have_the_rows_of_the_views(page: WebDriver, lab: Warehouse) -> None:
    for name, query in TABLES.items():
        relation = lab.sql(query, c=CAPTURE)
        rows = relation.fetchall()
        if name != "execute_breakdown":  # shown as they come
            # The longest first, equally long ones as they come.
            rows.sort(key=lambda row: -row[relation.columns.index("per_execute")])
        shown = [
            [
                number(text) if isinstance(value, int | float) else text
                for text, value in zip(told_row, row, strict=True)
            ]
            for told_row, row in zip(told(page, name, *relation.columns), rows, strict=True)
        ]
        assert shown == [
            [near(value) if isinstance(value, int | float) else value or "" for value in row] for row in rows
        ]
        found = cells(page, name)
        # The times of a column have the same number of decimals.
        headings = texts(page, f'table[data-name="{name}"] th')
        times = [at for at, heading in enumerate(headings) if ", µs" in heading]
        decimals = [{len(row[at].partition(".")[2]) for row in found if row[at]} for at in times]
        assert times and all(len(each) == 1 for each in decimals), (name, decimals)


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


def test_commits_have_12_digits_everywhere(page: WebDriver) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    shown = [short(commit), with_short_commits(commit).removesuffix("…")]
    assert [*shown, page.execute_script("return etq.shortHash(arguments[0])", commit)] == ["0123456789ab"] * 3


def test_events_over_runs(page: WebDriver, lab: Warehouse, typical: set[int]) -> None:
    """The median of each event is that of another view; a row chosen shows its histogram."""
    query = "SELECT event_name, p50 FROM inspector_events($c, unit := 'us', runs := 'typical')"
    shown = sorted(number(text) or 0 for (text,) in told(page, "events", "p50"))
    assert shown == [near(value) for value in sorted(row[1] for row in lab.sql(query, c=CAPTURE).fetchall())]
    rows = page.find_elements(By.CSS_SELECTOR, 'table[data-name="events"] tbody tr')
    chosen = next(row for row in rows if row.text.startswith("native_call_addmm.out"))
    chosen.click()
    drawn(page)
    edges, counts, *_ = plotted(page, "#events .plot")[1]
    note = texts(page, "#events .plot + p")[0]
    instruction = int(chosen.find_elements(By.TAG_NAME, "td")[columns(page, "events").index("instruction_id")].text)
    query = """
        SELECT e.run_index, e.total FROM event_times($c) AS e
        WHERE e.event_name = 'native_call_addmm.out' AND e.instruction_id = $i
    """
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


def test_the_histogram_opens_on_the_execute(quiet: WebDriver, tmp_path: Path) -> None:
    """Also where something else takes longer."""
    with etq.open() as warehouse:
        runs = [run("Default", kernel("Program::load_method", 0, 9000 + at)) for at in range(9)]
        runs += [run("Execute", kernel("add", 10, 30 + at), execute(0, 60 + at)) for at in range(9)]
        warehouse.ingest(dump(*runs), name="slow load")
        opened(quiet, written(warehouse, "slow load", tmp_path))
    assert texts(quiet, "#events h3, section[id='events'] h3")[0].startswith("Method::execute")
    assert texts(quiet, "table[data-name='events'] tr.chosen td")[0] == "Method::execute"


def test_runs_with_warm_up_and_outliers(page: WebDriver, lab: Warehouse, typical: set[int]) -> None:
    """A run that is clicked is shown in the timeline."""
    at, usual, warm, odd, medians = plotted(page, "#runs .plot")[1]
    expected = dict(lab.sql("SELECT run_index, execute FROM framework_tax($c)", c=CAPTURE).fetchall())
    shown = {run: next(x for x in values if x is not None) for run, *values in zip(at, usual, warm, odd, strict=True)}
    assert shown == expected
    blocks = lab.rows("SELECT run_index, block_median FROM run_times($c)", c=CAPTURE)[1]
    assert [*zip(at, medians, strict=True)] == blocks
    assert [run for run, time in zip(at, warm, strict=True) if time is not None] == [1]
    slow = [run for run in expected if run not in typical and run != 1]
    assert [run for run, time in zip(at, odd, strict=True) if time is not None] == slow
    overlay = page.find_element(By.CSS_SELECTOR, "#runs .u-over")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", overlay)
    place = page.execute_script(
        "const plot = document.querySelector('#runs .plot').plot; return plot.valToPos(58, 'x') - plot.over.clientWidth / 2;"
    )
    ActionChains(page).move_to_element_with_offset(overlay, round(place), 0).click().perform()
    drawn(page)
    assert page.find_element(By.CSS_SELECTOR, "#timeline select").get_property("value") == "58"


def view(page: WebDriver, section: str = "timeline") -> tuple[float, float]:
    drawn(page)
    canvas = page.find_element(By.CSS_SELECTOR, f"#{section} canvas")
    return tuple(float(canvas.get_dom_attribute(f"data-{each}")) for each in ("from", "to"))  # type: ignore[return-value]


def test_the_icicle_adds_up_and_zooms(page: WebDriver, lab: Warehouse, typical: set[int]) -> None:
    """The chart is as wide as all executes together; framework time is separate, on the right."""
    executes = lab.sql("SELECT run_index, execute FROM framework_tax($c)", c=CAPTURE).fetchall()
    total = sum(time for run, time in executes if run in typical)
    assert page.execute_script("return etq.icicle.extent[1]") == pytest.approx(total)
    level = page.execute_script("""
        const spans = etq.icicle, row = spans.rows[1];
        return [...row.ids].map((id, at) => [spans.options.label(id), row.ends[at] - row.starts[at]]);
    """)
    expected = dict(lab.sql("SELECT module_path, total FROM module_totals($c)", c=CAPTURE).fetchall())
    rest = ["(framework)", "(unattributed)"]
    assert level[-2:] == [[name, pytest.approx(expected[name])] for name in rest]
    assert dict(level)["layers"] == pytest.approx(expected["layers.0"] + expected["layers.1"])
    canvas = page.find_element(By.CSS_SELECTOR, "#breakdown canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    whole = view(page, "breakdown")
    left, top = -canvas.size["width"] // 2, -canvas.size["height"] // 2
    ActionChains(page).move_to_element_with_offset(canvas, left + 60, top + 2 * ROW + 9).click().perform()
    inside = view(page, "breakdown")
    assert inside[1] - inside[0] < 0.6 * (whole[1] - whole[0])
    assert "layers.0" in texts(page, "#breakdown .detail")[0]
    ActionChains(page).move_to_element_with_offset(canvas, left + 60, top + 9).click().perform()
    assert view(page, "breakdown") == whole


def test_the_timeline_has_the_events_of_the_run_and_is_searched(page: WebDriver, lab: Warehouse) -> None:
    choice = page.find_element(By.CSS_SELECTOR, "#timeline select")
    run = int(str(choice.get_property("value")))
    assert len(choice.find_elements(By.TAG_NAME, "option")) == 102  # and all runs
    script = """
        const spans = etq.timeline;
        return spans.rows.flatMap((row) => [...row.ids].map((id, at) => [spans.options.label(id), row.starts[at], row.ends[at] - row.starts[at]]));
    """
    query = "SELECT event_name, start, total FROM event_times($c) WHERE run_index = $run"
    expected = sorted(lab.sql(query, c=CAPTURE, run=run).fetchall())
    assert [tuple(each) for each in sorted(page.execute_script(script))] == [
        (name, pytest.approx(start, abs=1e-6), pytest.approx(length, abs=1e-6)) for name, start, length in expected
    ]
    field = page.find_element(By.CSS_SELECTOR, '#timeline input[type="search"]')
    field.send_keys("layers.1.ffn")
    query = """
        SELECT count(*), sum(e.self_time) FROM event_times($c) AS e
        JOIN event_ops($c) AS o ON o.event_name = e.event_name AND o.instruction_id = e.instruction_id
        WHERE e.run_index = $run AND o.module_path LIKE 'layers.1.ffn%'
    """
    [(count, total)] = lab.sql(query, c=CAPTURE, run=run).fetchall()
    shown = page.find_element(By.CSS_SELECTOR, "#timeline output")
    assert shown.text.startswith(f"{count} events, ")
    assert float(shown.text.split(", ")[1].split()[0]) == near(total)
    whole = view(page)
    field.send_keys(Keys.ENTER)
    assert shown.text.startswith(f"1 of {count} events")
    assert view(page)[1] - view(page)[0] < whole[1] - whole[0]


def test_the_timeline_zooms_and_pans(page: WebDriver) -> None:
    canvas = page.find_element(By.CSS_SELECTOR, "#timeline canvas")
    x, y = page.execute_script(
        "arguments[0].scrollIntoView({block: 'center'}); const box = arguments[0].getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]",
        canvas,
    )
    whole = view(page)
    # The wheel turns over the middle while Control is held.
    wheel = {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": -120, "modifiers": 2}
    page.execute_cdp_cmd("Input.dispatchMouseEvent", wheel)
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


def test_tables_sort_both_ways_and_are_searched(page: WebDriver, lab: Warehouse) -> None:
    heading = page.find_element(By.CSS_SELECTOR, 'table[data-name="op_totals"] th[data-column="calls"]')
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", heading)
    for direction, is_down in (("descending", True), ("ascending", False)):
        heading.find_element(By.TAG_NAME, "button").click()
        calls = [number(text) or 0 for (text,) in told(page, "op_totals", "calls")]
        assert heading.get_dom_attribute("aria-sort") == direction
        assert calls == sorted(calls, reverse=is_down) and len(set(calls)) > 3
    page.find_element(By.CSS_SELECTOR, 'table[data-name="op_totals"] th[data-column="op"] button').click()
    names = [name for (name,) in told(page, "op_totals", "op")]
    assert names == page.execute_script("return [...arguments[0]].sort((a, b) => a.localeCompare(b))", names)
    page.find_element(By.CSS_SELECTOR, '#modules input[type="search"]').send_keys("attn LINEAR")
    query = "SELECT module_path FROM module_totals($c) WHERE module_path LIKE '%attn%' AND module_class LIKE '%Linear%'"
    expected = {row[0] for row in lab.sql(query, c=CAPTURE).fetchall()}
    assert {module for (module,) in told(page, "module_totals", "module")} == expected and len(expected) == 4
    assert f"{len(expected)} of " in texts(page, "#modules .count")[0]


def test_planned_memory_and_advice(page: WebDriver, lab: Warehouse) -> None:
    wanted = ("value_index", "memory_offset", "first_instruction", "last_instruction")
    rows = lab.sql(f"SELECT {', '.join(wanted)} FROM planned_memory('transformer')").fetchall()
    expected = sorted(tuple(map(float, row)) for row in rows)
    planned = [tuple(map(number, row)) for row in told(page, "planned_memory", *wanted)]
    assert sorted(planned) == expected
    assert "22 KiB of 26 KiB" in page.find_element(By.ID, "memory").text  # 22,528 of 26,624 bytes
    scales = page.execute_script(
        "const { x, y } = document.querySelector('#memory .plot').plot.scales; return [x.max, y.max]"
    )
    assert scales == [max(row[3] for row in expected) + 1, 26624]
    rows = lab.sql("SELECT rule, severity, finding, evidence, remedy FROM advice($c)", c=CAPTURE).fetchall()
    shown = page.find_elements(By.CSS_SELECTOR, "#advice li")
    assert [each.get_dom_attribute("data-rule") for each in shown] == [row[0] for row in rows] and rows
    for item, row in zip(shown, rows, strict=True):
        shown_text = item.text.replace("µs", "us")  # as tables have it
        assert [text for text in row if text not in shown_text] == []


def test_light_and_dark_and_on_paper(page: WebDriver) -> None:
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
    with screen(page, theme="dark"):
        dark = colours()
        assert dark[0] != light[0] and dark[1] != light[1]
        button.click()
        assert (button.text, colours()) == ("Theme: light", light)
        button.click()
        assert (button.text, colours()) == ("Theme: dark", dark)
    # A dark page is printed light, with its charts as wide as paper.
    page.execute_script(
        "addEventListener('beforeprint', () => { window.printedAs = [document.documentElement.dataset.theme, "
        "Math.max(...[...document.querySelectorAll('.uplot')].map((each) => each.clientWidth))]; })"
    )
    printed = base64.b64decode(page.print_page())
    assert printed.startswith(b"%PDF-") and printed.rstrip().endswith(b"%%EOF")
    shown = page.execute_script("return [...window.printedAs, document.documentElement.dataset.theme]")
    assert shown == ["light", 680, "dark"]


def test_rows_of_spans_that_overlap(page: WebDriver) -> None:
    """Each is in the first row from its depth on that is free; the time to find it doesn't grow with the rows."""
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
        return etq.spanRows(100000, (id) => id, () => 1e9, () => 0).length;
    """
    assert page.execute_script(script) == 100_000
