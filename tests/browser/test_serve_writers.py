"""Pages of `etq serve` while other processes write: new captures appear, and missing ones are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from tests.browser.pages import complaints
from tests.browser.served import names, settled, text, until
from tests.sampling import whole
from tests.serve.server import serving
from tests.sql.test_trends import capture

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.long


def test_two_tabs_while_a_writer_adds(browser: WebDriver, tmp_path: Path) -> None:
    """New captures appear in both tabs without a reload; a removed capture and a missing warehouse are reported."""
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="first", labels={"build": "1"})
    with serving(path) as server:
        tabs = [browser.current_window_handle]
        browser.get(f"{server.url}/")
        settled(browser, series=True)
        browser.switch_to.new_window("tab")
        tabs.append(browser.current_window_handle)
        browser.get(f"{server.url}/")
        settled(browser, series=True)
        for build in range(2, 6):
            with etq.open(path, wait=10) as lab:
                lab.ingest(capture(build), name=f"more{build}", labels={"build": str(build)})
        for tab in tabs:
            browser.switch_to.window(tab)
            until(browser, "document.getElementById('shown')?.textContent === '5 captures'")
            assert names(browser)[0] == "more5"
        browser.get(f"{server.url}/")
        settled(browser, series=True)
        assert browser.find_elements(By.ID, "fresh") == [] or "new since" in text(browser, "#fresh")
        with etq.open(path, wait=10) as lab:
            lab.remove("first")
        browser.get(f"{server.url}/capture/first")
        settled(browser, failed=True)
        assert "no capture matches first" in text(browser, "#state")
        path.unlink()
        browser.get(f"{server.url}/")
        settled(browser, failed=True)
        assert "no such file; make a warehouse with: etq ingest FILE" in text(browser, "#state")
        browser.close()
        browser.switch_to.window(tabs[0])
    complaints(browser)


def test_empty_pages_offer_the_next_step(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with serving(path) as server:
        for page in ("", "compare", "trends"):
            browser.get(f"{server.url}/{page}")
            until(
                browser, "document.getElementById('state').textContent.includes('The warehouse is empty: add captures')"
            )
        for number in (1, 2):
            with etq.open(path, wait=10) as lab:
                lab.ingest(capture(number), name=f"run{number}")
            browser.get(f"{server.url}/compare")
            if number == 1:
                until(browser, "document.getElementById('state').textContent.includes('a comparison needs two')")
        until(browser, "document.getElementById('last-two')")
        browser.find_element(By.ID, "last-two").click()
        until(browser, "document.querySelector('h1')?.textContent.includes('→')")
        browser.get(f"{server.url}/trends")
        until(browser, "document.getElementById('state').textContent.includes('etq label CAPTURE build=1')")
        assert "no capture has a label build, a label commit with commit_time or a captured_at" in text(
            browser, "#state"
        )
        # Times are for the server: a label of that name is not taken instead.
        with etq.open(path, wait=10) as lab:
            lab.label("run1", since="1h")
        for where, expected in (("since%3D1h", "2 captures"), ("since%3D%221h%22", "1 of 2 captures")):
            browser.get(f"{server.url}/?where={where}")
            until(browser, f"document.getElementById('shown')?.textContent === '{expected}'")
    complaints(browser)


@whole
def test_what_is_new_since_the_last_visit(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as lab:
        lab.ingest(capture(1), name="first", labels={"build": "1"})
    with serving(path) as server:
        browser.get(f"{server.url}/")
        settled(browser, series=True)
        assert browser.find_elements(By.ID, "fresh") == []
        with etq.open(path, wait=10) as lab:
            lab.ingest(capture(2), name="second", labels={"build": "2"})
        # A new tab is a new visit.
        old = browser.current_window_handle
        browser.switch_to.new_window("tab")
        browser.get(f"{server.url}/")
        settled(browser, series=True)
        assert text(browser, "#fresh") == "1 new since your last visit"
        browser.find_element(By.ID, "fresh").click()
        assert names(browser) == ["second"]
        browser.close()
        browser.switch_to.window(old)
    complaints(browser)
