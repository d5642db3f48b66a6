"""A team's warehouse of 2,000 captures: the slower op and build are found by clicks alone; the link shows the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import team
from tests.browser.conftest import started
from tests.browser.pages import cells, complaints
from tests.browser.served import settled, text, until
from tests.serve.server import Server, serving

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("team") / "lab.duckdb"
    team.make(path)
    with serving(path) as started_server:
        yield started_server


class Person:
    """Someone who clicks what is in view, and counts clicks."""

    def __init__(self, browser: WebDriver) -> None:
        self.browser = browser
        self.clicks = 0
        self.begin = time.perf_counter()

    def click(self, element: WebElement, page: str) -> None:
        """Click what is there to be clicked, with the mouse, and wait for a page."""
        element.click()
        self.clicks += 1
        until(self.browser, "location.pathname === arguments[0]", page)
        settled(self.browser)

    def report(self) -> None:
        print(f"{self.clicks} clicks, {time.perf_counter() - self.begin:.1f} s")


def test_found_by_clicks_and_shown_to_others_by_the_link(browser: WebDriver, server: Server, tmp_path: Path) -> None:
    browser.get(f"{server.url}/")
    settled(browser)
    assert text(browser, "#shown") == "2,000 captures"
    person = Person(browser)
    person.click(browser.find_element(By.LINK_TEXT, "Trends"), "/trends")
    # The first chart is of the series that changed, and the card leads to what changed.
    assert text(browser, "#totals .chart-title") == f"device={team.SLOW_DEVICE},model={team.SLOW_MODEL}"
    person.click(browser.find_element(By.CSS_SELECTOR, '.card[data-number="ops slower"] a'), "/trends")
    [row] = cells(browser, "regressions")
    assert row[0] == "addmm" and str(team.SLOWER_INSTRUCTION) in row and str(team.SLOW_FROM) in row
    person.click(browser.find_element(By.CSS_SELECTOR, "table[data-name=regressions] tbody a"), "/compare")
    person.report()
    assert person.clicks == 3
    side = f"device={team.SLOW_DEVICE},model={team.SLOW_MODEL},build"
    assert text(browser, "h1") == f"{side}<{team.SLOW_FROM} → {side}>={team.SLOW_FROM}"
    found = re.fullmatch(r"1 op is slower: addmm @4 \+(\d+\.\d) %", text(browser, ".op-line"))
    assert found is not None and abs(float(found[1]) - 100 * (team.SLOWER - 1)) < 1
    assert text(browser, ".stated .value").startswith("About the same")
    shown = text(browser, "main")
    assert complaints(browser) == []
    with started(tmp_path / "profile") as other:
        other.set_window_size(**browser.get_window_size())
        other.get(browser.current_url)
        settled(other)
        assert text(other, "main") == shown and text(other, "h1") == text(browser, "h1")
        assert complaints(other) == []


def test_found_from_the_list(browser: WebDriver, server: Server) -> None:
    """By facets: the captures of a device and a model; their trends; the change."""
    browser.get(f"{server.url}/")
    settled(browser)
    person = Person(browser)
    for key, value in (("device", team.SLOW_DEVICE), ("model", team.SLOW_MODEL)):
        selector = f'.facet button[data-key="{key}"][data-value="{value}"]'
        person.click(browser.find_element(By.CSS_SELECTOR, selector), "/")
    assert text(browser, "#shown") == "250 of 2,000 captures"
    person.click(browser.find_element(By.LINK_TEXT, "Trends of these"), "/trends")
    [row] = cells(browser, "regressions")
    assert row[0] == "addmm"
    person.report()
    assert complaints(browser) == []
