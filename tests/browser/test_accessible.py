"""Reports as axe-core sees them, light and dark, wide and on a phone: it finds nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import etq
import etq.report
from tests.browser.driver import WebDriver
from tests.browser.pages import opened, screen
from tests.conftest import CAPTURES
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
LOOKS = ((1280, "light"), (390, "dark"))
# How many legends of charts take several lines, with a marker or a colon alone on one.
BROKEN_LEGENDS = """
    const legends = [...document.querySelectorAll(".u-legend th:has(.u-marker)")];
    return legends.filter((each) => each.offsetHeight > 1.9 * parseFloat(getComputedStyle(each).fontSize)).length;
"""


def found(page: WebDriver) -> list[str]:
    page.execute_script(AXE)
    passed, violations = page.execute_async_script(RUN)
    assert passed > 10
    return [str(violation) for violation in violations]


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
