"""Pages of a warehouse with nothing in it, and with one capture: each says what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etq
from tests.browser.served import settled, text, until, visit
from tests.conftest import CAPTURES
from tests.serve.server import serving

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.long
# What stands in the editor of SQL while it is empty.
HINT = "document.querySelector('.editor').editor.contentDOM.querySelector('.cm-placeholder').textContent"


def test_an_empty_warehouse(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    etq.open(path).close()
    with serving(path) as server:
        visit(browser, server, "/", series=True)
        assert "The warehouse is empty: add captures with etq ingest FILE" in text(browser, "#state")
        shown = "[...document.querySelectorAll('.listed table, #selector, .facets, .hint')].filter((each) => each.checkVisibility())"
        assert browser.execute_script(f"return {shown}.length") == 0
        visit(browser, server, "/sql")
        assert browser.execute_script(f"return {HINT}") == "FROM captures LIMIT 20"


def test_a_capture_without_labels(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="it's mine")
    with serving(path) as server:
        visit(browser, server, "/", series=True)
        assert text(browser, "#shown") == "1 capture"
        assert "No capture has labels" in text(browser, ".facets") and "etq label CAPTURE" in text(browser, ".facets")
        visit(browser, server, "/compare")
        until(browser, "document.getElementById('state').textContent.includes('a comparison needs two')")
        visit(browser, server, "/trends", failed=True)
        until(
            browser,
            "/no capture has labels\\. A label is given with/.test(document.getElementById('state').textContent)",
        )
        visit(browser, server, "/sql")
        until(browser, f"{HINT} === \"FROM op_totals('it''s mine') LIMIT 20\"")
        browser.execute_script(f"location.assign('/sql?query=' + encodeURIComponent({HINT}))")
        until(browser, "location.search !== ''")
        settled(browser)
        assert browser.execute_script("return document.querySelectorAll('#output tbody tr').length") > 5
