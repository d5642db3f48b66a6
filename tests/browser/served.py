"""Pages of a server in a browser, as tests ask them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.driver import TimeoutException, WebDriver, WebDriverWait
from tests.serve.server import Server

READY = "return document.documentElement.dataset.ready"


def settled(browser: WebDriver, *, failed: bool = False, series: bool = False) -> None:
    expected = "failed" if failed else "yes"
    try:
        waiting(browser).until(lambda each: each.execute_script(READY) == expected)
    except TimeoutException:
        pytest.fail(f"the page isn't ready; it says: {text(browser, 'body')[:1000]}")
    if series:
        waiting(browser).until(
            lambda each: each.execute_script("return document.documentElement.dataset.series") == "yes"
        )


def visit(page: WebDriver, server: Server, path: str, *, failed: bool = False, series: bool = False) -> None:
    page.get(f"{server.url}{path}")
    settled(page, failed=failed, series=series)


def text(page: WebDriver, selector: str) -> str:
    return page.find_element("css selector", selector).text


def names(page: WebDriver) -> list[str]:
    script = "return [...document.querySelectorAll('.grid tbody tr[data-place] a')].map((each) => each.title)"
    found: list[str] = page.execute_script(script)
    return found


def until(page: WebDriver, script: str, *arguments: Any) -> None:
    waiting(page).until(lambda each: each.execute_script(f"return {script}", *arguments))


def waiting(browser: WebDriver) -> Any:
    """What waits for a page, up to a minute."""
    return WebDriverWait(browser, 60)
