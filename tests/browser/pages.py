"""A page in a browser, as tests ask it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import etq.report
from etq.warehouse.warehouse import Warehouse
from tests.browser.driver import By, WebDriver, WebDriverWait


def opened(browser: WebDriver, path: Path) -> None:
    """Open a report from disk and wait until it has drawn itself."""
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


def columns(page: WebDriver, table: str) -> list[str]:
    """The names of a table's columns."""
    script = "return [...document.querySelectorAll(`table[data-name='${arguments[0]}'] th`)].map((each) => each.dataset.column)"
    found: list[str] = page.execute_script(script, table)
    return found


def told(page: WebDriver, table: str, *names: str) -> list[tuple[str, ...]]:
    """The texts of these columns in all rows of a table; of a column that is said above it, the same in each row."""
    known = columns(page, table)
    script = """
        const box = document.querySelector(`table[data-name="${arguments[0]}"]`).closest(".rows");
        return Object.fromEntries([...box.querySelectorAll(".said")].map((each) => [each.dataset.column, each.lastElementChild.textContent]));
    """
    said: dict[str, str] = page.execute_script(script, table)
    return [
        tuple(row[known.index(name)] if name in known else said.get(name, "") for name in names)
        for row in cells(page, table)
    ]


def texts(page: WebDriver, selector: str) -> list[str]:
    return [each.text for each in page.find_elements(By.CSS_SELECTOR, selector)]


def select(page: WebDriver, selector: str, value: object) -> None:
    """Choose an option."""
    page.execute_script(
        "const each = document.querySelector(arguments[0]); each.value = arguments[1]; each.dispatchEvent(new Event('change'))",
        selector,
        value,
    )
    drawn(page)


def click_row(page: WebDriver, table: str, cell: str) -> None:
    """Click the row of a table one of whose cells has a text."""
    page.execute_script(
        "[...document.querySelectorAll(`table[data-name='${arguments[0]}'] tbody tr`)]"
        ".find((row) => [...row.cells].some((cell) => cell.textContent === arguments[1])).click()",
        table,
        cell,
    )
    drawn(page)


def plotted(page: WebDriver, selector: str) -> tuple[list[str], list[list[Any]]]:
    """The names of a chart's axis and series, and their values."""
    script = "const { plot } = document.querySelector(arguments[0]); return [plot.series.map((each) => each.label), plot.data.map((each) => [...each])]"
    labels, data = page.execute_script(script, selector)
    return labels, data


@contextmanager
def screen(page: WebDriver, width: int = 0, height: int = 800, theme: str = "light") -> Iterator[None]:
    """A screen of another width, a phone's if it is narrow, and with a theme, until the block ends."""
    media = [{"name": "prefers-color-scheme", "value": theme}]
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": 0 < width < 900}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    try:
        if width:
            page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def fits(page: WebDriver) -> bool:
    """Whether neither the page nor a canvas is wider than the screen."""
    drawn(page)
    script = """
        const widths = [...document.querySelectorAll("canvas")].map((each) => each.offsetWidth);
        return Math.max(document.documentElement.scrollWidth, ...widths) <= innerWidth;
    """
    return bool(page.execute_script(script))


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
