"""The pages of `etq serve` in a real browser: links, steps back and forward, errors, hostile names, other writers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.browser.driver import ActionChains, By, Keys, WebDriver
from tests.browser.pages import cells, complaints, fits, screen, select, texts
from tests.browser.served import names, settled, text, until, visit
from tests.conftest import CAPTURES
from tests.serve.server import Server, serving
from tests.sql.test_trends import capture

pytestmark = pytest.mark.long

BUILDS = 40
SLOW_FROM = 26
HOSTILE = "<img src=x onerror='window.canary\u003d1'>".replace("=", "\N{FULLWIDTH EQUALS SIGN}") + '"&/.../..?#%2e<b>'
VALUE = "<script>window.canary=1</script>,\"'><img src=x onerror=window.canary=1>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two devices with 40 builds: on one of them, all takes a fifth more from build 26 on; and a hostile capture."""
    path = tmp_path_factory.mktemp("serve") / "lab.duckdb"
    with etq.open(path) as lab:
        made = []
        for build in range(1, BUILDS + 1):
            for device, factor in (("pixel8", 1.2 if build >= SLOW_FROM else 1.0), ("pixel9", 1.0)):
                content = capture(build + (1000 if device == "pixel9" else 0), None, factor)
                labels = {"build": str(build), "device": device, "model": "net"}
                made.append(Labelled(f"{device}-{build}", content, labels))
        ingest_all(lab, made)
        lab.ingest(capture(5000), name=HOSTILE, labels={"build": "7", "device": VALUE})
        lab.save_view("nines", "device=pixel9", sort_by="build", columns=["runs", "build", "self_time", "device"])
        # As somebody else may have written it.
        lab.sql(
            "INSERT INTO named_views VALUES ($name, $value, $name, [$value], TIMESTAMP '2026-01-01')",
            name=HOSTILE,
            value=VALUE,
        )
    with serving(path) as started:
        yield started


@pytest.fixture
def page(browser: WebDriver, server: Server) -> Iterator[WebDriver]:
    visit(browser, server, "/captures", series=True)
    complaints(browser)
    yield browser
    assert browser.execute_script("return window.canary") is None


@pytest.fixture
def silent(page: WebDriver) -> Iterator[WebDriver]:
    """The same; nothing may be complained of. The browser notes the status of an answer that is an error."""
    yield page
    assert complaints(page) == []


def left_for(page: WebDriver, path: str) -> None:
    """Wait until the page at a path is there."""
    until(page, "location.pathname.startsWith(arguments[0])", path)
    settled(page)


def facet(page: WebDriver, key: str, value: str) -> None:
    page.execute_script(
        "[...document.querySelectorAll('.facet button[data-key]')]"
        ".find((each) => each.dataset.key === arguments[0] && each.dataset.value === arguments[1]).click()",
        key,
        value,
    )
    until(page, "document.querySelector('[aria-busy=\"true\"]') === null")


def test_captures_are_chosen_by_facets(page: WebDriver, server: Server) -> None:
    assert text(page, "#shown") == f"{2 * BUILDS + 1} captures"
    facet(page, "device", "pixel8")
    assert text(page, "#shown") == f"{BUILDS} of {2 * BUILDS + 1} captures"
    assert names(page)[0] == f"pixel8-{BUILDS}"
    assert page.find_element(By.ID, "selector").get_property("value") == "device=pixel8"
    facet(page, "build", "40")
    assert names(page) == ["pixel8-40"]
    assert "where=device%3Dpixel8%2Cbuild%3D40" in page.current_url
    page.back()
    until(page, "document.getElementById('shown').textContent.startsWith('40 of')")
    page.forward()
    until(page, "document.getElementById('shown').textContent.startsWith('1 of')")
    link = page.current_url
    page.get("about:blank")
    page.get(link)
    settled(page)
    assert names(page) == ["pixel8-40"], "the link is the state"
    facet(page, "device", "pixel8")
    assert names(page) == ["pixel9-40", "pixel8-40"], "chosen again, it is given up"


def test_a_named_view_has_its_captures_columns_and_order(silent: WebDriver, server: Server) -> None:
    """Of its columns those that the page has; builds from the largest. What is then clicked is as of any selector."""
    visit(silent, server, "/captures?where=@nines", series=True)
    assert text(silent, "#shown") == "40 of 81 captures"
    heads = "return [...document.querySelectorAll('.grid th[data-column]')].map((each) => each.dataset.column)"
    assert silent.execute_script(heads)[-3:] == ["runs", "label build", "label device"]
    assert names(silent)[:3] == ["pixel9-40", "pixel9-39", "pixel9-38"]
    facet(silent, "device", "pixel8")
    assert "@nines" not in silent.current_url and {name[:6] for name in names(silent)} == {"pixel8"}


def test_captures_are_sorted_and_walked_by_keys(page: WebDriver) -> None:
    """Keys reach the table at once."""
    focus = page.switch_to
    page.find_element(By.CSS_SELECTOR, "body").send_keys(Keys.ARROW_DOWN)
    assert focus.active_element.get_dom_attribute("aria-rowindex") == "3"
    page.find_element(By.CSS_SELECTOR, '.grid th[data-column="name"] button').send_keys(Keys.ENTER)
    assert page.execute_script("return document.activeElement.closest('th')?.dataset.column") == "name"
    facet(page, "device", "pixel8")
    for _ in range(2):
        page.find_element(By.CSS_SELECTOR, 'th[data-column="execute"] button').click()
    heading = page.find_element(By.CSS_SELECTOR, 'th[data-column="execute"]')
    assert heading.get_dom_attribute("aria-sort") == "descending"
    assert all(int(name.split("-")[1]) >= SLOW_FROM for name in names(page)[: BUILDS - SLOW_FROM + 1])
    first = page.find_element(By.CSS_SELECTOR, '.grid tr[tabindex="0"]')
    page.execute_script("arguments[0].focus()", first)
    focus.active_element.send_keys(Keys.END)
    assert focus.active_element.get_dom_attribute("aria-rowindex") == str(BUILDS + 1)
    for key in (Keys.HOME, " ", Keys.ARROW_DOWN, " "):
        focus.active_element.send_keys(key)
    assert page.find_elements(By.ID, "compare-two")
    name = focus.active_element.find_element(By.TAG_NAME, "a").text
    focus.active_element.send_keys(Keys.ENTER)
    left_for(page, "/capture/")
    assert text(page, "h1") == name


def test_a_capture_and_its_neighbours(silent: WebDriver, server: Server) -> None:
    page = silent
    visit(page, server, "/capture/pixel8-20", series=True)
    assert page.title.startswith("pixel8-20 · ")
    assert texts(page, "#contents a")[:2] == ["Overview", "Advice"]
    with etq.open(server.path, read_only=True) as lab:
        expected = lab.rows("SELECT op FROM op_totals('pixel8-20') ORDER BY total DESC")[1]
    assert [row[0] for row in cells(page, "op_totals")] == [op for (op,) in expected]
    # A link to a section is a step that changes nothing else.
    page.execute_script("document.querySelector('h1').dataset.kept = 'yes'")
    page.find_element(By.LINK_TEXT, "Ops").click()
    page.back()
    assert page.execute_script("return document.querySelector('h1').dataset.kept") == "yes"
    page.find_element(By.ID, "next").click()
    until(page, "document.querySelector('h1')?.textContent === 'pixel8-21'")
    page.back()
    until(page, "document.querySelector('h1')?.textContent === 'pixel8-20'")
    settled(page)
    select(page, "select[name=runs]", "all")
    until(page, "document.querySelector('#headline .note')?.textContent.includes('are of all runs')")
    assert page.current_url.endswith("/capture/pixel8-20?runs=all")
    page.back()
    until(page, "!document.querySelector('#headline .note')?.textContent.includes('are of all runs')")
    settled(page, series=True)
    page.find_element(By.ID, "with-before").click()
    left_for(page, "/compare")
    assert text(page, "h1") == "pixel8-19 → pixel8-20"


def test_two_sides(page: WebDriver, server: Server) -> None:
    """Chosen on the page of captures, by facets; the link shows the same; a capture of a side is a link."""
    facet(page, "device", "pixel8")
    page.find_element(By.ID, "set-base").click()
    left_for(page, "/compare")
    assert "Choose the other side." in text(page, "#state")
    new = page.find_element(By.CSS_SELECTOR, "input[name=new]")
    page.find_element(By.CSS_SELECTOR, ".side-new summary").click()
    until(page, "document.querySelectorAll('.side-new .facet button[data-key]').length > 5")
    page.execute_script(
        "[...document.querySelectorAll('.side-new .facet button[data-key]')].find((each) => each.dataset.value === 'pixel9').click()"
    )
    assert new.get_property("value") == "device=pixel9"
    until(page, "document.getElementById('new-count').textContent === '40 captures'")
    page.find_element(By.CSS_SELECTOR, "form.sides button[type=submit]").click()
    until(page, "document.querySelector('h1')?.textContent.includes('→')")
    settled(page)
    assert page.current_url.endswith("/compare?base=device%3Dpixel8&new=device%3Dpixel9")
    colours = "return [...document.querySelectorAll('.side-of')].map((each) => getComputedStyle(each).borderLeftColor)"
    assert len(set(page.execute_script(colours))) == 2
    assert text(page, "h1") == "device=pixel8 → device=pixel9"
    page.execute_script("document.querySelector('table[data-name=captures] tbody a').click()")
    until(page, "location.pathname.startsWith('/capture/')")
    page.back()
    until(page, "document.querySelector('h1')?.textContent.includes('→')")
    visit(page, server, "/compare?base=build%3D1&new=nothing", failed=True)
    assert "no capture matches nothing" in text(page, "#state")
    until(page, "document.getElementById('new-count').classList.contains('wrong')")


def click_point(page: WebDriver, position: int) -> None:
    """Click a point of the chart of totals, with Shift."""
    over = page.find_element(By.CSS_SELECTOR, "#totals .plot .u-over")
    place = page.execute_script(
        "const { plot } = document.querySelector('#totals .plot');"
        "plot.over.scrollIntoView({ block: 'center' }); return plot.valToPos(arguments[0], 'x') - plot.over.clientWidth / 2",
        position,
    )
    actions = ActionChains(page).key_down(Keys.SHIFT).move_to_element_with_offset(over, round(place), 0)
    actions.click().key_up(Keys.SHIFT).perform()


def test_a_planted_change_is_found_by_clicks(silent: WebDriver) -> None:
    page = silent
    page.find_element(By.LINK_TEXT, "Trends").click()
    left_for(page, "/trends")
    rows = cells(page, "regressions")
    assert {"total of Execute", "device=pixel8,model=net"} <= set(rows[0])
    assert text(page, "#totals .chart-title") == "device=pixel8,model=net"
    click_point(page, SLOW_FROM - 1)
    assert text(page, "#marked").startswith(f"pixel8-{SLOW_FROM - 1} is the base")
    click_point(page, SLOW_FROM)
    left_for(page, "/compare")
    assert text(page, "h1") == f"pixel8-{SLOW_FROM - 1} → pixel8-{SLOW_FROM}"
    page.back()
    left_for(page, "/trends")
    page.execute_script("document.querySelector('table[data-name=regressions] tbody a').click()")
    left_for(page, "/compare")
    assert text(page, "h1").endswith(f"build<{SLOW_FROM} → device=pixel8,model=net,build>={SLOW_FROM}")
    page.back()
    until(page, "document.querySelector('#totals .plot')?.plot")
    settled(page)
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    plot = page.find_element(By.CSS_SELECTOR, "#totals .plot")
    page.execute_script("arguments[0].focus()", plot)
    for at in (0, 1):
        plot.send_keys(Keys.ARROW_RIGHT)
        until(page, "document.querySelector('#totals .plot').plot.cursor.idx === arguments[0]", at)
    plot.send_keys(Keys.ENTER)
    left_for(page, "/capture/")
    assert text(page, "h1") == "pixel8-2"


def ask(page: WebDriver, query: str) -> None:
    page.execute_script(
        "const { editor } = document.querySelector('.editor');"
        "editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: arguments[0] } });"
        "document.getElementById('run').click()",
        query,
    )


def test_sql(page: WebDriver, server: Server) -> None:
    visit(page, server, "/sql")
    until(page, "document.querySelectorAll('.docs [data-view]').length > 50")
    ask(page, "SELECT capture_id, name FROM captures ORDER BY capture_id LIMIT 12")
    until(page, "document.getElementById('count')?.textContent === '12 rows'")
    assert cells(page, "result")[:2] == [["1", "pixel8-1"], ["2", "pixel9-1"]]
    link = page.current_url
    ask(page, "SELECT nothing FROM captures")
    settled(page, failed=True)
    assert 'Referenced column "nothing" not found' in text(page, "#state")
    line, pointer = page.execute_script("return document.querySelector('#state pre').textContent").split("\n")
    assert line == "LINE 1: SELECT nothing FROM captures" and pointer == " " * line.index("nothing") + "^" * len(
        "nothing"
    )
    page.back()
    until(page, "document.getElementById('count')?.textContent === '12 rows'")
    page.get("about:blank")
    page.get(link)
    settled(page)
    select(page, "select[name='chart-kind']", "bars")
    assert page.execute_script("return document.querySelector('.chart .plot').plot.data[1]") == [*range(1, 13)]
    assert "chart=bars" in page.current_url
    ask(page, "SELECT count(*) FROM range(1000000) AS a, range(1000000) AS b WHERE a.range * b.range = 7")
    until(page, "!document.getElementById('stop').hidden")
    page.find_element(By.ID, "stop").click()
    until(page, "document.getElementById('state').textContent === 'Stopped.'")
    # A stopped query holds up no other: the next one is answered.
    ask(page, "FROM op_totals('pixel8-3')")
    until(page, "document.querySelector('table[data-name=result] tbody td')?.textContent !== ''")
    page.execute_script(
        "const { editor } = document.querySelector('.editor'); editor.dispatch({ selection: { anchor: 8 } })"
    )
    assert text(page, ".docs h3").startswith("op_totals")


def test_completion_and_documentation(silent: WebDriver, server: Server) -> None:
    """The documentation begins with what most people ask."""
    page = silent
    visit(page, server, "/sql")
    until(page, "document.querySelectorAll('.docs [data-view]').length > 100")
    views = page.execute_script(
        "return [...document.querySelectorAll('.docs [data-view]')].map((each) => each.dataset.view)"
    )
    script = (files("etq.serve") / "assets/sql.js").read_text(encoding="utf-8")
    wanted = re.findall(r'"(\w+)"', script.partition("const WANTED = [")[2].partition("]")[0])
    assert views[: len(wanted)] == wanted and wanted[:2] == ["op_totals", "module_totals"]
    content = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')"
    page.execute_script(f"{content}.focus()")
    page.switch_to.active_element.send_keys("FROM capture_su")
    options = (
        "[...document.querySelector('.editor').shadowRoot.querySelectorAll('.cm-completionLabel')]"
        ".map((each) => each.textContent)"
    )
    until(page, f"{options}.includes('capture_summary')")


def test_a_link_leads_to_a_capture_of_any_name(page: WebDriver) -> None:
    facet(page, "device", VALUE)
    assert names(page) == [HOSTILE]
    page.find_element(By.CSS_SELECTOR, ".grid tbody a").click()
    left_for(page, "/capture/")
    assert page.execute_script("return document.querySelector('h1').textContent") == HOSTILE


def test_a_phone_shows_verdicts_and_changes_without_scrolling(page: WebDriver, server: Server) -> None:
    """In each table of a comparison; no row is tall for a note that is out of sight."""
    expected = {
        "compare_captures": {"what", "verdict", "change_percent"},
        "captures": {"capture", "total", "off_percent"},
        "compare_ops": {"op", "verdict", "own_change_percent"},
        "compare_startup": {"what", "verdict", "change_percent"},
    }
    in_view = (
        "return [...document.querySelectorAll(`table[data-name=${arguments[0]}] th`)]"
        ".filter((each) => each.getBoundingClientRect().right <= each.closest('.wide').getBoundingClientRect().right)"
        ".map((each) => each.dataset.column)"
    )
    with screen(page, 390, 844):
        visit(page, server, "/compare?base=build%3D24&new=build%3D27")
        missing = {name: wanted - {*page.execute_script(in_view, name)} for name, wanted in expected.items()}
        assert missing == {name: set() for name in expected}
        rows = page.find_elements(By.CSS_SELECTOR, "table[data-name=compare_ops] tbody tr")
        assert rows and max(row.size["height"] for row in rows) < 100
        # The ends of the scale of changes and its middle don't meet.
        ticks = [each.rect for each in page.find_elements(By.CSS_SELECTOR, ".scale .tick") if each.is_displayed()]
        ticks.sort(key=lambda each: each["x"])
        assert all(one["x"] + one["width"] <= next_one["x"] for one, next_one in pairwise(ticks))
        assert fits(page)


# What stands in the editor of SQL while it is empty.
HINT = "document.querySelector('.editor').editor.contentDOM.querySelector('.cm-placeholder').textContent"


def test_the_first_pages_say_what_to_do_next(browser: WebDriver, tmp_path: Path) -> None:
    """Those of an empty warehouse, then of one with a capture without labels."""
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with serving(path) as server:
        visit(browser, server, "/captures", series=True)
        assert "The warehouse is empty: add captures with etq ingest FILE" in text(browser, "#state")
        controls = ".listed table, #selector, .facets, .hint"
        assert [each for each in browser.find_elements(By.CSS_SELECTOR, controls) if each.is_displayed()] == []
        visit(browser, server, "/sql")
        assert browser.execute_script(f"return {HINT}") == "FROM captures LIMIT 20"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="it's mine")
    with serving(path) as server:
        visit(browser, server, "/captures", series=True)
        assert text(browser, "#shown") == "1 capture"
        assert "No capture has labels" in text(browser, ".facets") and "etq label CAPTURE" in text(browser, ".facets")
        visit(browser, server, "/compare")
        until(browser, "document.getElementById('state').textContent.includes('a comparison needs two')")
        visit(browser, server, "/trends", failed=True)
        until(
            browser,
            "/no capture has labels; etq label CAPTURE build=41 sets it/.test(document.getElementById('state').textContent)",
        )
        visit(browser, server, "/sql")
        until(browser, f"{HINT} === \"FROM op_totals('it''s mine') LIMIT 20\"")
        browser.execute_script(f"location.assign('/sql?query=' + encodeURIComponent({HINT}))")
        until(browser, "location.search !== ''")
        settled(browser)
        assert browser.execute_script("return document.querySelectorAll('#output tbody tr').length") > 5
