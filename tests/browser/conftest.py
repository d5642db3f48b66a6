"""A browser, where one is installed: Debian's packages chromium and chromium-driver, or what PATH has instead."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1280,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def started_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """One browser for all tests."""
    with started(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def browser(started_once: WebDriver) -> WebDriver:
    """The browser, which shows no page, and whose console has nothing of earlier tests."""
    from tests.browser.pages import complaints

    started_once.get("about:blank")  # a page of an earlier test would go on asking a server that has ended
    complaints(started_once)
    return started_once


@pytest.fixture
def quiet(browser: WebDriver) -> Iterator[WebDriver]:
    """The browser, whose console has no error and no warning when the test is over."""
    from tests.browser.pages import complaints

    yield browser
    assert complaints(browser) == []


@contextmanager
def started(profile: Path) -> Iterator[WebDriver]:
    """A browser with a profile in a folder."""
    pytest.importorskip("selenium", reason="the browser is driven by the package selenium")
    program = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("no browser here: install chromium and chromium-driver (.ci/run does)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    made.set_script_timeout(60)
    try:
        yield made
    finally:
        made.quit()
