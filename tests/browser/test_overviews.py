"""Overviews in a real browser: series are watched from the page of trends, shown with what changed, and removed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

import etq
from tests.browser.pages import cells, complaints
from tests.browser.served import settled, text, until, visit
from tests.command_line import run_etq
from tests.serve.server import Server, serving
from tests.serve.test_overviews import lab  # noqa: F401 - a fixture

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.long

HOSTILE = "<img src=x onerror=window.canary=1>\"'&/../..?#%2e"


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:  # noqa: F811
    with serving(lab, edits=True) as started:
        yield started


def opened_watch(page: WebDriver, section: str) -> None:
    page.find_element(By.CSS_SELECTOR, f"#{section} .watch summary").click()
    until(page, f"document.querySelector('#{section} .watching').childElementCount")


def test_a_series_is_watched_and_removed(browser: WebDriver, server: Server) -> None:
    visit(browser, server, "/overview")
    assert "There is no overview yet" in text(browser, "#sections")
    visit(browser, server, "/trends?selector=device%3Dpixel8&over=build")
    link = browser.find_element(By.CSS_SELECTOR, "#regressions tbody a").get_attribute("href") or ""
    assert parse_qs(urlsplit(link).query) == {"base": ["device=pixel8,build<18"], "new": ["device=pixel8,build>=18"]}
    opened_watch(browser, "regressions")
    browser.switch_to.active_element.send_keys("our kernels", Keys.ENTER)
    until(browser, "document.querySelector('#regressions .watch [role=status] a')")
    browser.find_element(By.CSS_SELECTOR, "#regressions .watch [role=status] a").click()
    settled(browser)
    assert text(browser, "h1") == "our kernels"
    assert server.data("overviews")["items"]["length"] == 1
    with etq.open(server.path, read_only=True) as lab:  # noqa: F811
        watched = lab.rows("SELECT what, item, selector, ordered_by FROM overview_items")[1]
    assert watched == [("op", "addmm@0", "device=pixel8", "build")]
    [row] = cells(browser, "watched")
    assert row[:2] == ["device=pixel8", "addmm@0"]
    assert len(browser.find_elements(By.CSS_SELECTOR, "#watched .spark")) == 1
    assert "No lasting change" in text(browser, "#changes")
    visit(browser, server, "/overview?name=our+kernels&since=2026-03-10")
    [change] = cells(browser, "changes")
    assert change[:3] == ["2026-03-19 12:00", "addmm", "0"] and change[-2:] == ["compare", "Comment"]
    [row] = cells(browser, "watched")
    assert row[3].startswith("+"), "more than at the last capture before the period"
    browser.find_element(By.CSS_SELECTOR, "#watched button[data-number='1']").click()
    until(browser, "document.querySelector('#sections .missing')?.textContent.startsWith('No overview has this name')")
    assert server.data("overviews")["items"]["length"] == 0
    visit(browser, server, "/overview?name=our+kernels&since=soon")
    assert complaints(browser) == []


def test_without_leave_to_write_the_command_is_shown(browser: WebDriver, lab: Path) -> None:  # noqa: F811
    with serving(lab) as reading:
        visit(browser, reading, "/trends?over=build&by=device")
        opened_watch(browser, "totals")
        command = shlex.split(text(browser, "#totals .watch code"))
    assert command[:2] == ["etq", "overview"]
    done = run_etq(*command[1:])
    assert done.exit_code == 0, done.stderr
    with etq.open(lab) as warehouse:
        found = warehouse.rows("SELECT * EXCLUDE (item_index) FROM overview_items")[1]
        assert found == [("NAME", "total", None, "device=pixel8", "build", "device")]
        warehouse.unwatch("NAME", 1)


def test_hostile_overviews_are_texts(browser: WebDriver, server: Server) -> None:
    """A warehouse may come from anyone: its overviews may have any texts, and watch what is not there."""
    with duckdb.connect(str(server.path)) as plain:
        plain.execute("INSERT INTO overview_items VALUES ($t, 1, 'total', $t, $t, NULL, NULL)", {"t": HOSTILE})
        plain.execute("INSERT INTO overview_items VALUES ($t, 2, $t, $t, NULL, $t, $t)", {"t": HOSTILE})
        plain.execute("INSERT INTO overview_items VALUES ($t, 3, 'op', 'addmm', NULL, NULL, NULL)", {"t": HOSTILE})
    visit(browser, server, "/overview")
    link = browser.find_element(By.CSS_SELECTOR, "#overviews a")
    assert link.text == HOSTILE
    link.click()
    settled(browser)
    until(browser, "document.documentElement.dataset.ready === 'yes'")
    assert text(browser, "h1") == HOSTILE
    assert len(cells(browser, "watched")) == 2  # of the one that can be watched, on two devices
    assert len(browser.find_elements(By.CSS_SELECTOR, "#watched p.missing")) == 2
    for number in (1, 2, 3):
        browser.find_element(By.CSS_SELECTOR, f"#watched button[data-number='{number}']").click()
        until(browser, f"!document.querySelector(\"#watched button[data-number='{number}']\")")
        settled(browser)
    assert browser.execute_script("return [window.canary ?? null, document.querySelectorAll('img').length]") == [
        None,
        0,
    ]
    complaints(browser)  # of what can't be watched, the browser notes the status


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_pages_fit(browser: WebDriver, server: Server, width: int, theme: str) -> None:
    with etq.open(server.path, wait=10) as warehouse:
        number = warehouse.watch("n" * 120, by="device")
    media = [{"name": "prefers-color-scheme", "value": theme}]
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    try:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for path in ("/overview", f"/overview?name={'n' * 120}&since=2026-03-01"):
            visit(browser, server, path)
            assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"), path
        assert complaints(browser) == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        with etq.open(server.path, wait=10) as warehouse:
            warehouse.unwatch("n" * 120, number)
