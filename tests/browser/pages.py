"""A page in a browser, as tests ask it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class Shown(float):
    """A number as a page shows it, rounded to a multiple of `step`."""

    step: float


def number(text: str) -> Shown | None:
    """A number as the page writes it: 21,288, 7.47 % or, for what isn't 0, <0.1; None for nothing."""
    text = text.split("\N{NO-BREAK SPACE}", maxsplit=1)[0].replace(",", "").replace("\N{MINUS SIGN}", "-")
    if not text:
        return None
    digits = text.lstrip("<>")
    # What is shown as less than 0.1 would be rounded to 0.
    found = Shown(digits) if digits == text else Shown(float(digits) / 4)
    found.step = 10.0 ** -len(digits.partition(".")[2])
    return found


class Near:
    """A number of which a page has the rounded one."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float):
            return NotImplemented
        step = other.step if isinstance(other, Shown) else max(0.01, 1e-3 * abs(self.value))
        return abs(self.value - other) <= 0.501 * step + 1e-9 * abs(self.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"near {self.value!r}"


def near(value: float | None) -> Any:
    """A number as the page rounds it: what is shown is equal to it."""
    return None if value is None else Near(value)
