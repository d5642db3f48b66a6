"""Makes the pictures of the README and of the site anew: `python -m tests.docs.make_pictures`.

Needs chromium and chromedriver, as tests of pages do. What they show is made of captures in this repository.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import etq
import etq.report
from tests.browser.conftest import started
from tests.browser.pages import opened, written
from tests.browser.served import visit
from tests.conftest import CAPTURES
from tests.serve.server import serving
from tests.slower import slower

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

    from etq.warehouse.warehouse import Warehouse

FOLDER: Final = Path(__file__).parents[2] / "docs/pictures"
SIZE: Final = (1200, 780)
SLOWER_OP: Final = "native_call_addmm.out"
CAPTURES_OF_SIDE: Final = 5
FIRST_BUILD: Final = 41


def main(names: Sequence[str]) -> None:
    """Make the pictures of these names, or all."""
    with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "profile") as browser:
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False},
        )
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        )
        with etq.open(Path(folder) / "lab.duckdb") as lab:
            fill(lab)
            opened(browser, written(lab, "transformer", Path(folder)))
            keep(browser, "report", names)
            browser.execute_script("document.getElementById('graph').scrollIntoView()")
            keep(browser, "graph", names)
        with serving(Path(folder) / "lab.duckdb") as server:
            visit(browser, server, "/", series=True)
            keep(browser, "captures", names)
            visit(browser, server, "/compare?base=build%3D41&new=build%3D42")
            keep(browser, "compare", names)


def fill(lab: Warehouse) -> None:
    """Ingest a capture with its record, and two builds of a model, of which the newer has a slower op."""
    transformer = CAPTURES / "transformer"
    lab.ingest(transformer / "transformer_100runs.etdp", name="transformer", labels={"model": "transformer"})
    lab.link("transformer", lab.ingest_record(transformer / "transformer.etrecord"))
    files = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))[: 2 * CAPTURES_OF_SIDE]
    for at, file in enumerate(files):
        build = FIRST_BUILD + at % 2
        content = file.read_bytes() if build == FIRST_BUILD else slower(file, SLOWER_OP, None, 1.35)
        lab.ingest(
            content, name=f"mlp-{build}-{at // 2}", labels={"model": "mlp", "device": "pixel8", "build": str(build)}
        )


def keep(browser: WebDriver, name: str, names: Sequence[str]) -> None:
    """Write what the browser shows into `docs/pictures`."""
    if not names or name in names:
        browser.execute_script("document.documentElement.style.scrollbarWidth = 'none'")
        # What was scrolled into view is painted within two frames.
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        browser.save_screenshot(str(FOLDER / f"{name}.png"))


if __name__ == "__main__":
    main(sys.argv[1:])
