"""Names in files are hostile: a page shows them as text, and nothing in them is executed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import pytest
from selenium.common.exceptions import NoAlertPresentException

import etq
from etq.catalog import identifier, quoted
from etq.warehouse.warehouse import Warehouse
from tests.browser.driver import By, WebDriver
from tests.browser.pages import cells, complaints, opened, texts, written
from tests.browser.served import visit
from tests.builders import dump, execute, framework, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.serve.server import serving

pytestmark = pytest.mark.long

CANARY = "window.canary=1"
HOSTILE = {
    "script": f"<script>{CANARY};alert(1)</script>", "end of script": f"</script><script>{CANARY};alert(1)</script>",
    "end of comment": f"--></style></title><!-- <script>{CANARY}</script>",
    "image": f'"><img src=x onerror="{CANARY};alert(1)">', "handler": f"' onmouseover='{CANARY}' x='",
    "svg": f"<svg/onload={CANARY}>", "template": "${" + CANARY + "}{{" + CANARY + "}}{{data}}",
    "url": f"javascript:{CANARY}", "prototype": "__proto__", "constructor": "constructor",
    "lines": "a\u2028b\u2029c\nd\re\x00", "terminal": "\x1b[31mred\x1b[0m\x07\x9b1m",
    "direction": "\u202egnp.exe\u202c", "quotes": '"\'`\\\\\\" &amp; &#x3c;', "long": "x" * 30_000,
    "words": "\U0001f4a3 пример 例",
}  # fmt: skip
# A capture's name holds no =.
NAME = "</title></script><script>alert(1)</script><!-- \"'&lt;"
# Shows every span with its description, tries every search with each text, and clicks on every row and button.
TRY_ALL: Final = """
    for (const spans of [etq.timeline, etq.icicle].filter(Boolean)) {
      for (const row of spans.rows) {
        for (const id of row.ids) {
          etq.showTip({ clientX: 5, clientY: 5 }, spans.options.label(id), spans.options.describe(id));
          spans.options.choose(id);
          spans.drawNow();
        }
      }
    }
    for (const input of document.querySelectorAll('input[type="search"]')) {
      for (const text of arguments[0]) {
        input.value = text;
        input.dispatchEvent(new Event("input"));
      }
    }
    for (const row of document.querySelectorAll("tr[tabindex]")) row.click();
    for (const button of document.querySelectorAll("th button, .more, .graph button")) button.click();
"""


def try_all(page: WebDriver) -> None:
    page.execute_script(TRY_ALL, [name[:200] for name in HOSTILE.values()])
    check(page)


def check(browser: WebDriver) -> None:
    """Nothing was executed, loaded or complained of, and no element came from a name."""
    assert browser.execute_script("return window.canary") is None
    with pytest.raises(NoAlertPresentException):
        browser.switch_to.alert.dismiss()
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    strange = (
        "img, svg, iframe, object, embed, form, b, [onerror], [onload], [onmouseover], body script ~ script ~ script"
    )
    assert browser.find_elements(By.CSS_SELECTOR, strange) == []
    assert complaints(browser) == []


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """A capture whose events, runs, labels, metrics, modules, lines, findings and name are all hostile."""
    names = list(HOSTILE.values())
    events = []
    for number, name in enumerate(names):
        # A file's string ends where a zero byte is.
        events.append(kernel(name.replace("\x00", ""), 10 * number + 1, 10 * number + 8, number))
        events.append(operator_call(10 * number, 10 * number + 9, number))
    runs = [run(HOSTILE["script"], *events, execute(0, 10 * len(names)))] * 4
    with etq.open() as warehouse:
        capture = warehouse.ingest(dump(run("Default", framework("Program::load_method", 0, 50)), *runs), name=NAME)
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
        warehouse.metric(capture, "m<b>", 4, unit="<b>")
        warehouse.metric(capture, "m", 4, unit="constructor")
        # Put there by hand: etq itself would refuse some labels, and the columns of ops come from a record.
        update = """
            UPDATE signature_ops SET module_path = $name, source_file = $name, source_line = 1, lines = 1,
                op_type = $name, op_types = [$name], output_shape = $name, backend = $name, method = $name,
                mapping = 'exact'
            WHERE signature_index % $count = $number
        """
        for number, name in enumerate(names):
            for table, text in (("labels", name), ("findings", name[:100])):
                warehouse.connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", [capture.capture_id, text, text])
            warehouse.connection.execute(update, {"name": name, "count": len(names), "number": number})
        yield warehouse


def test_a_hostile_capture_does_nothing(browser: WebDriver, lab: Warehouse, tmp_path: Path) -> None:
    opened(browser, written(lab, "@latest", tmp_path))
    check(browser)
    assert texts(browser, "h1") == [NAME] and browser.title == NAME
    shown = {row[0] for row in cells(browser, "instances")}
    whole = ("script", "end of script", "image", "svg", "handler", "prototype", "constructor", "quotes", "words")
    assert {f"native_call_{HOSTILE[name]}.out" for name in whole} <= shown
    # Characters that would be interpreted instead of shown are written as escapes.
    assert "native_call_a\\u2028b\\u2029c\\x0ad\\x0de.out" in shown
    assert "native_call_\\x1b[31mred\\x1b[0m\\x07\\x9b1m.out" in shown
    assert "native_call_\\u202egnp.exe\\u202c.out" in shown
    assert {text for row in cells(browser, "metric_values") for text in row} >= {"4\xa0constructor", "4\xa0<b>"}
    wide, width = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert wide <= width
    try_all(browser)


def test_the_policy_lets_nothing_else_run(browser: WebDriver, lab: Warehouse, tmp_path: Path) -> None:
    """Even markup that got into the page would be dead: no inline handler, no script, no image, no request."""
    opened(browser, written(lab, "@latest", tmp_path))
    script = """
        const box = document.createElement("div");
        document.body.append(box);
        box.innerHTML = '<img src="x.png" onerror="window.canary=1"><p onclick="window.canary=1" id="trap">x</p>';
        document.getElementById("trap").click();
        const added = document.createElement("script");
        added.textContent = "window.canary=1";
        document.body.append(added);
        const done = arguments[0];
        fetch("https://example.invalid/").then(() => done("sent"), (error) => done(error.name));
    """
    assert browser.execute_async_script(script) == "TypeError"
    assert browser.execute_script("return window.canary") is None
    refused = complaints(browser)
    assert len(refused) >= 4 and all("Content Security Policy" in each for each in refused), refused


def test_a_server_shows_hostile_names_and_rows_as_texts(browser: WebDriver, tmp_path: Path) -> None:
    """Each of its pages, under its policy: names of ops, captures and labels, and the rows and columns of SQL."""
    path = tmp_path / "lab.duckdb"
    names = [name.replace("\x00", "") for name in HOSTILE.values()]
    with etq.open(path) as warehouse:
        for number in range(2):
            events = [kernel(name, 10 * at + 1, 10 * at + 8 + number, at) for at, name in enumerate(names)]
            labels = {"build": str(number), "note": HOSTILE["image"].replace("=", ":")}
            warehouse.ingest(
                dump(run("Default", *events, execute(0, 10 * len(names)))), name=f"{NAME}{number}", labels=labels
            )
        key = warehouse.rows("SELECT left(sha256, 12) FROM captures ORDER BY capture_id")[1][0][0]
    row = " UNION ALL ".join(f"SELECT {quoted(name)} AS {identifier(HOSTILE['script'])}" for name in names[:10])
    with serving(path) as server:
        for place in (
            "/",
            "/captures",
            f"/capture/{key}",
            "/compare?base=build%3D0&new=build%3D1",
            "/trends",
            f"/sql?{urlencode({'query': row})}",
        ):
            visit(browser, server, place)
            assert browser.execute_script("return window.canary") is None
            with pytest.raises(NoAlertPresentException):
                browser.switch_to.alert.dismiss()
            strange = "img, iframe, object, embed, [onerror], [onload], [onmouseover], main script"
            assert browser.find_elements(By.CSS_SELECTOR, strange) == []
            assert complaints(browser) == [], place
        visit(browser, server, "/capture/%3Cimg%20src=x%20onerror=window.canary=1%3E", failed=True)
        visit(browser, server, "/captures?where=%3Cscript%3Ewindow.canary=1%3C/script%3E", series=True)
        visit(browser, server, "/trends?by=%3Cimg%3E", failed=True)
        assert browser.execute_script("return [window.canary ?? null, document.querySelectorAll('img').length]") == [
            None,
            0,
        ]
        visit(browser, server, place)
        assert {HOSTILE["script"], HOSTILE["image"]} <= {cell for cells_ in cells(browser, "result") for cell in cells_}
