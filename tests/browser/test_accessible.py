"""Every page and report as axe-core sees it, light and dark, wide and on a phone: it finds nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

import etq
import etq.report
from tests.browser.pages import opened, written
from tests.browser.served import visit
from tests.conftest import CAPTURES
from tests.serve.server import Server, serving
from tests.unit.test_graph_pair import two

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")
pytest.importorskip("axe_core_python", reason="pages are checked by axe-core, of the package axe-core-python")

from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.long

AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
RUN = """
    const done = arguments[0];
    axe.run(document).then(({ violations, passes }) => done([
        passes.length, violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))]));
"""
LOOKS = [(theme, size) for theme in ("light", "dark") for size in ((1400, 900), (390, 844))]


@pytest.fixture(scope="module", params=LOOKS, ids=lambda look: f"{look[0]}-{look[1][0]}")
def look(request: pytest.FixtureRequest, browser: WebDriver) -> Iterator[WebDriver]:
    theme, (width, height) = request.param
    media = [{"name": "prefers-color-scheme", "value": theme}]
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def found(page: WebDriver) -> list[str]:
    page.execute_script(AXE)
    passed, violations = page.execute_async_script(RUN)
    assert passed > 10
    return [str(violation) for violation in violations]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("serve") / "lab.duckdb"
    with etq.open(path) as warehouse:
        for build, name in enumerate(("mlp_100runs", "mlp_1run", "mlp_step")):
            labels = {"build": str(build), "device": f"pixel{build % 2}"}
            warehouse.ingest(CAPTURES / f"mlp/{name}.etdp", name=name, labels=labels)
        warehouse.link("mlp_100runs", warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    with serving(path) as made:
        yield made


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/trends",
        "/compare",
        "/compare?base=build%3D0&new=build%3D1",
        "/sql?query=FROM+captures",
        "/capture/mlp_100runs",
    ],
)
def test_a_page(look: WebDriver, server: Server, path: str) -> None:
    visit(look, server, path)
    assert found(look) == []


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made: dict[str, Path] = {}
    with etq.open() as warehouse:
        dump = warehouse.ingest(CAPTURES / "transformer/transformer_100runs.etdp", name="dump")
        warehouse.link(dump, warehouse.ingest_record(CAPTURES / "transformer/transformer.etrecord"))
        made["dump"] = written(warehouse, "dump", folder)
        for rank in (0, 1):
            warehouse.ingest(CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz", name=f"rank{rank}")
        made["trace"] = written(warehouse, "rank0", folder)
        made["difference"] = folder / "difference.html"
        etq.report.write(warehouse, ["rank0", "rank1"], made["difference"])
    with two("mlp", "mlp_xnn") as warehouse:
        made["graphs"] = folder / "graphs.html"
        made["graphs"].write_text(etq.report.graphs_page_of(warehouse, "base", "new"), encoding="utf-8")
    return made


@pytest.mark.parametrize("kind", ["dump", "trace", "difference", "graphs"])
def test_a_report(look: WebDriver, reports: dict[str, Path], kind: str) -> None:
    opened(look, reports[kind])
    assert found(look) == []
