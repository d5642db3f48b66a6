"""A change is accepted in the browser: it is gone from the regressions, and what was said stays readable."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import etq
from tests.browser.pages import cells, complaints
from tests.browser.served import settled, text, until, visit
from tests.serve.server import Server, serving
from tests.serve.test_overviews import lab  # noqa: F401 - a fixture

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")
pytest.importorskip("axe_core_python", reason="pages are checked by axe-core, of the package axe-core-python")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

from tests.browser.test_accessible import found, look  # noqa: F401 - a fixture

pytestmark = pytest.mark.long

HOSTILE = "<img src=x onerror=window.canary=1>\"'&"
PAGE = "/overview?name=kernels&since=2026-03-01"


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:  # noqa: F811
    with etq.open(lab) as warehouse:
        warehouse.watch("kernels")
        warehouse.watch("kernels", what="metric", item="heat")
        warehouse.watch_comparison("kernels", "device=pixel8,build<18", "device=pixel8,build>=18")
    with serving(lab, edits=True) as started:
        yield started


def commented(page: WebDriver, button: str, words: str, verdict: str = "accepted") -> None:
    page.find_element(By.CSS_SELECTOR, button).click()
    until(page, "document.querySelector('dialog[open] textarea') === document.activeElement")
    page.switch_to.active_element.send_keys(words)
    page.find_element(By.CSS_SELECTOR, f"dialog option[value='{verdict}']").click()
    page.find_element(By.CSS_SELECTOR, "dialog button[type='submit']").click()
    until(page, "!document.querySelector('dialog')")
    settled(page)


def removed_comments(page: WebDriver, server: Server) -> None:
    with etq.open(server.path, wait=10) as warehouse:
        for (number,) in warehouse.rows("SELECT comment_id FROM change_comments")[1]:
            warehouse.remove_comment(number)


def test_from_an_overview_to_the_accepted_change(browser: WebDriver, server: Server) -> None:
    visit(browser, server, PAGE)
    assert [row[1] for row in cells(browser, "changes")] == ["addmm", "heat"]
    with etq.open(server.path, read_only=True, wait=10) as warehouse:
        [line] = warehouse.compare("device=pixel8,build<18", "device=pixel8,build>=18").verdicts
    # As on all pages, with the sign for microseconds.
    assert line.replace(" us", "\N{NO-BREAK SPACE}µs") in text(browser, "#comparisons li").replace(
        " µs", "\N{NO-BREAK SPACE}µs"
    )
    link = browser.find_element(By.CSS_SELECTOR, "#comparisons a").get_attribute("href")
    assert link == f"{server.url}/compare?base=device%3Dpixel8%2Cbuild%3C18&new=device%3Dpixel8%2Cbuild%3E%3D18"
    before = server.get("/badge/kernels.svg").body
    commented(browser, "button[aria-label='Comment on addmm@0 at 18']", "new tokenizer, see 12")
    assert [row[1] for row in cells(browser, "changes")] == ["heat"]
    [accepted] = cells(browser, "accepted")
    assert accepted[1] == "addmm" and accepted[-1] == "accepted: new tokenizer, see 12 "
    [said] = cells(browser, "comments")
    assert said[1:6] == ["accepted", "op addmm@0", "device=pixel8", "build 18", "new tokenizer, see 12"]
    assert b"1 slower" in before and b"no regressions" in server.get("/badge/kernels.svg").body
    visit(browser, server, "/trends?over=build")
    assert cells(browser, "accepted")[0][0] == "addmm"
    assert not browser.find_elements(By.CSS_SELECTOR, "table[data-name='regressions']")
    assert "No total and no op has a lasting change" in text(browser, "#regressions .missing")
    # It is a regression again without the comment.
    visit(browser, server, PAGE)
    browser.find_element(By.CSS_SELECTOR, "button[aria-label='Remove comment 1']").click()
    until(browser, "document.querySelector(\"button[aria-label='Comment on addmm@0 at 18']\")")
    visit(browser, server, "/trends?over=build")
    assert [row[0] for row in cells(browser, "regressions")] == ["addmm"]
    assert complaints(browser) == []


def test_a_note_from_the_page_of_trends(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/trends?over=build&selector=device%3Dpixel8")
    commented(browser, "#regressions button[aria-label^='Comment on addmm@0']", HOSTILE, "note")
    [row] = cells(browser, "regressions")
    assert row[-1] == f"{HOSTILE} Comment"
    visit(browser, server, PAGE)
    assert HOSTILE in [row[1:6] for row in cells(browser, "comments")][0]
    assert browser.execute_script("return [window.canary ?? null, document.querySelectorAll('img').length]") == [
        None,
        0,
    ]
    removed_comments(browser, server)
    assert complaints(browser) == []


def test_periods_and_groups_are_in_the_link(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/overview?name=kernels&since=18&group=commit")
    headings = "return [...document.querySelectorAll('#changes h3')].map((each) => each.textContent)"
    assert browser.execute_script(headings) == ["build 18"]
    assert len(cells(browser, "changes-1")) == 2
    visit(browser, server, "/overview?name=kernels&since=2026-03-01&group=week")
    # The 18th build is of Thursday, 19 March 2026.
    assert browser.execute_script(headings) == ["Week of 2026-03-16"]
    visit(browser, server, "/overview?name=kernels&since=19")
    assert "No lasting change" in text(browser, "#changes")
    visit(browser, server, "/overview?name=kernels&since=week")
    assert text(browser, "#changes h2") == "What changed this week"
    visit(browser, server, "/overview?name=kernels&since=gone")
    assert "Neither a time nor a label of these captures" in text(browser, "#changes")
    browser.find_element(By.CSS_SELECTOR, "input[name='other']").clear()
    browser.find_element(By.CSS_SELECTOR, "input[name='other']").send_keys("18\n")
    until(browser, "location.search.includes('since=18') && document.querySelector('#changes table')")
    feed = browser.find_element(By.LINK_TEXT, "Feed").get_attribute("href")
    assert feed == f"{server.url}/feed/kernels.atom" and server.get("/feed/kernels.atom").status == 200
    assert complaints(browser) == []


def test_a_comparison_is_added_and_removed(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/overview?name=kernels")
    for name, side in (("base", "device=pixel9,build<18"), ("new", "device=pixel9,build>=18")):
        browser.find_element(By.CSS_SELECTOR, f"#comparisons input[name='{name}']").send_keys(side)
    browser.find_element(By.CSS_SELECTOR, "#comparisons button[type='submit']").click()
    until(browser, "document.querySelector(\"#comparisons li[data-number='2'] .verdict\")")
    assert "about the same" in text(browser, "#comparisons li[data-number='2']")
    settled(browser)
    browser.find_element(By.CSS_SELECTOR, "button[aria-label='Remove the comparison 2']").click()
    until(browser, "document.querySelector('#comparisons li') && !document.querySelector(\"li[data-number='2']\")")
    settled(browser)
    assert complaints(browser) == []


def test_it_is_the_same_of_a_lake(browser: WebDriver, server: Server, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
    from etq.lake import export

    export(tmp_path / "lake", str(server.path))
    with serving(tmp_path / "lake", edits=True) as of_lake:
        test_from_an_overview_to_the_accepted_change(browser, of_lake)
        test_a_note_from_the_page_of_trends(browser, of_lake)
        test_a_comparison_is_added_and_removed(browser, of_lake)


def test_readers_have_no_buttons_and_may_send_nothing(browser: WebDriver, server: Server) -> None:
    with serving(server.path) as reading:
        visit(browser, reading, PAGE)
        assert cells(browser, "changes")
        buttons = browser.find_elements(
            By.CSS_SELECTOR, "#sections button[aria-label^='Comment'], #sections form button"
        )
        assert buttons == []
        body = b'{"first_bad": "18", "text": "x", "verdict": "accepted"}'
        assert reading.post("/data/edit", body).status in (403, 405)
    with etq.open(server.path, read_only=True, wait=10) as warehouse:
        assert warehouse.rows("FROM change_comments")[1] == []


def test_who_writes_is_not_what_the_page_says(server: Server) -> None:
    body = b'{"first_bad": "18", "text": "x", "verdict": "note", "author": "the boss"}'
    assert server.post("/data/edit", body).status == 200
    with etq.open(server.path, wait=10) as warehouse:
        [(number, author)] = warehouse.rows("SELECT comment_id, author FROM change_comments")[1]
        warehouse.remove_comment(number)
    assert author is None


def test_hostile_comments_and_comparisons_are_texts(browser: WebDriver, server: Server) -> None:
    """A warehouse may come from anyone."""
    with duckdb.connect(str(server.path)) as plain:
        plain.execute("INSERT INTO overview_comparisons VALUES ('kernels', 7, $t, $t, $t, 7, true)", {"t": HOSTILE})
        plain.execute(
            "INSERT INTO change_comments VALUES "
            "(9, '', 'all', NULL, NULL, 'build', '18', $t, $t, $t, $t, TIMESTAMP '2026-03-01')",
            {"t": HOSTILE},
        )
    visit(browser, server, PAGE)
    until(browser, "document.querySelector(\"#comparisons li[data-number='7'] .missing\")")
    assert HOSTILE in text(browser, "#comments")
    assert browser.execute_script("return [window.canary ?? null, document.querySelectorAll('img').length]") == [
        None,
        0,
    ]
    with duckdb.connect(str(server.path)) as plain:
        plain.execute("DELETE FROM overview_comparisons WHERE comparison_index = 7; DELETE FROM change_comments")
    complaints(browser)  # of what can't be compared, the browser notes the status


def test_axe_finds_nothing(look: WebDriver, server: Server, request: pytest.FixtureRequest) -> None:  # noqa: F811
    with etq.open(server.path, wait=10) as warehouse:
        warehouse.accept("18", "new tokenizer", "device=pixel8", what="op", item="addmm@0", author="ann")
        warehouse.comment("18", "a " * 200, "device=pixel8", what="metric", item="heat", author="bo")
    try:
        for place, path in enumerate((PAGE, f"{PAGE}&group=week", "/trends?over=build")):
            visit(look, server, path)
            assert found(look) == [], path
            assert look.execute_script(
                "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            ), path
            shot(look, f"{request.node.callspec.id}-{place}")
        visit(look, server, PAGE)
        look.find_element(By.CSS_SELECTOR, "button[aria-label^='Comment on heat']").click()
        until(look, "document.querySelector('dialog[open]')")
        inside = "const { left, right, bottom } = arguments[0].getBoundingClientRect(); return left > 0 && right < document.documentElement.clientWidth && bottom < document.documentElement.clientHeight"
        assert look.execute_script(inside, look.find_element(By.CSS_SELECTOR, "dialog"))
        assert found(look) == []
        shot(look, f"{request.node.callspec.id}-dialog")
    finally:
        removed_comments(look, server)


def shot(page: WebDriver, name: str) -> None:
    if folder := os.environ.get("ETQ_SHOTS"):
        page.save_screenshot(f"{folder}/{name}.png")
