"""Every page and report as axe-core sees it, light and dark, wide and on a phone: it finds nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import etq
import etq.report
from tests.browser.driver import WebDriver
from tests.browser.pages import opened, screen
from tests.browser.served import visit
from tests.conftest import CAPTURES
from tests.serve.server import serving
from tests.unit.test_graph_pair import two

pytest.importorskip("axe_core_python", reason="pages are checked by axe-core, of the package axe-core-python")

pytestmark = pytest.mark.long

AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
# Of what passes, rules alone are listed: to describe each of the elements takes longer than to check them.
RUN = """
    const done = arguments[0];
    axe.run(document, { resultTypes: ["violations"] }).then(({ violations, passes }) => done([
        passes.length, violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`))]));
"""
LOOKS = ((0, "light"), (390, "dark"))
PAGES = (
    *("/", "/captures", "/trends", "/compare", "/compare?base=build%3D0&new=build%3D1"),
    *("/sql?query=FROM+captures", "/capture/mlp_100runs"),
)


def found(page: WebDriver) -> list[str]:
    page.execute_script(AXE)
    passed, violations = page.execute_async_script(RUN)
    assert passed > 10
    return [str(violation) for violation in violations]


def test_pages_of_the_server(browser: WebDriver, tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        for build, name in enumerate(("mlp_100runs", "mlp_1run", "mlp_step")):
            labels = {"build": str(build), "device": f"pixel{build % 2}"}
            warehouse.ingest(CAPTURES / f"mlp/{name}.etdp", name=name, labels=labels)
        warehouse.link("mlp_100runs", warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord"))
    with serving(path) as server:
        for width, theme in LOOKS:
            with screen(browser, width, theme=theme):
                for page in PAGES:
                    visit(browser, server, page)
                    assert found(browser) == [], (page, theme)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A report of a dump, of a trace, of two traces, and of two graphs."""
    folder = tmp_path_factory.mktemp("reports")
    made = [folder / f"{name}.html" for name in ("dump", "trace", "difference", "graphs")]
    with etq.open() as warehouse:
        stem = CAPTURES / "transformer/transformer"
        warehouse.ingest(f"{stem}_100runs.etdp", name="dump", etrecord=stem.with_suffix(".etrecord"))
        warehouse.ingest_many([CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz" for rank in (0, 1)])
        for path, names in zip(made, (["dump"], ["rank0"], ["rank0", "rank1"]), strict=False):
            etq.report.write(warehouse, names, path)
    with two("mlp", "mlp_xnn") as warehouse:
        made[3].write_text(etq.report.graphs_of(warehouse, "base", "new").page(), encoding="utf-8")
    return made


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_reports(browser: WebDriver, reports: list[Path], width: int, theme: str) -> None:
    with screen(browser, width, theme=theme):
        for path in reports:
            opened(browser, path)
            assert found(browser) == [], path.name
