"""A page in a browser, as tests ask it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import etq.report
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver


def opened(browser: WebDriver, path: Path) -> None:
    """Open a report from disk and wait until it has drawn itself."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(path.as_uri())
    WebDriverWait(browser, 60).until(lambda each: each.execute_script("return document.documentElement.dataset.ready"))
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes", complaints(browser)
    drawn(browser)


def written(warehouse: Warehouse, capture: str, folder: Path) -> Path:
    """The report of a capture, in a file."""
    path = folder / "report.html"
    etq.report.write(warehouse, [capture], path)
    return path


def complaints(browser: WebDriver) -> list[str]:
    """The errors and warnings that the browser wrote to its console since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]


def drawn(browser: WebDriver) -> None:
    """Wait until the page has drawn its last change: two frames."""
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
    )


def cells(browser: WebDriver, name: str) -> list[list[str]]:
    """The texts of all rows of a table, as shown in the page."""
    script = """
        const table = document.querySelector(`table[data-name="${arguments[0]}"]`);
        const more = table.closest("section").querySelectorAll(".more");
        const mine = [...more].find((button) => button.previousElementSibling.contains(table));
        if (!mine.hidden && mine.textContent.startsWith("Show all")) mine.click();
        return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    """
    found: list[list[str]] = browser.execute_script(script, name)
    return found


def number(text: str) -> float | None:
    """A number as the page writes it: 21,288 or 7.47 %; None for nothing."""
    text = text.split("\N{NO-BREAK SPACE}", maxsplit=1)[0].replace(",", "")
    return float(text) if text else None


def near(value: float | None) -> Any:
    """A number as the page rounds it: to four digits, or to whole numbers from a thousand on; shares to hundredths."""
    return None if value is None else pytest.approx(value, rel=6e-4, abs=0.0051)
