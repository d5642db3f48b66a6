"""Each page in a browser: it has its sections, and the browser's console has neither an error nor a warning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import etq
import etq.report
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.browser.driver import WebDriver
from tests.browser.pages import cells, fits, opened, texts
from tests.browser.served import names, text, visit
from tests.conftest import CAPTURES
from tests.serve.server import serving

DUMPS = ("mlp_100runs", "mlp_step", "mlp_1run")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of three dumps with a record, and two traces of a GPU."""
    path = tmp_path_factory.mktemp("visit") / "lab.duckdb"
    with etq.open(path) as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        labels = ({"build": str(build), "device": f"pixel{build % 2}"} for build in range(len(DUMPS)))
        dumps = [CAPTURES / f"mlp/{name}.etdp" for name in DUMPS]
        ingest_all(warehouse, map(Labelled, DUMPS, dumps, labels), link_to=[record])
        warehouse.ingest_many([CAPTURES / f"torch_gpu/rank{rank}.pt.trace.json.gz" for rank in (0, 1)])
    return path


@pytest.fixture(scope="module")
def lab(path: Path) -> Iterator[Warehouse]:
    with etq.open(path, read_only=True) as warehouse:
        yield warehouse


def report(*captures: str) -> Callable[[Warehouse, Path], object]:
    return lambda lab, path: etq.report.write(lab, captures, path)


REPORTS: dict[str, tuple[Callable[[Warehouse, Path], object], list[str]]] = {
    "dump": (
        report("mlp_100runs"),
        ["Overview", "Advice", "Where the time goes", "Graph", "Timeline", "Run to run", "Ops", "Modules",
         "Source lines", "Events over runs", "Delegate coverage", "Planned memory"],
    ),
    "trace": (
        report("rank0"),
        ["Overview", "Advice", "Idle devices", "Critical path", "Where the time goes", "Timeline", "Steps",
         "Device time", "Ops", "Kernels of devices", "How far from the peak", "Collectives", "Launches", "Modules"],
    ),
    "comparison": (
        report("mlp_100runs", "mlp_step"),
        ["Verdict", "Captures", "Largest changes", "Where they differ", "Modules", "Ops", "Start-up"],
    ),
    "trends": (lambda lab, path: etq.report.trends_of(lab, "build>=0").write(path),
        ["Overview", "Totals", "Changes", "Ops"]),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("kind", REPORTS)
def test_a_report(quiet: WebDriver, lab: Warehouse, tmp_path: Path, kind: str) -> None:
    write, titles = REPORTS[kind]
    write(lab, tmp_path / "report.html")
    opened(quiet, tmp_path / "report.html")
    assert texts(quiet, "section > h2") == titles
    assert quiet.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert fits(quiet)


@pytest.mark.long
def test_pages_of_the_server(quiet: WebDriver, path: Path) -> None:
    with serving(path) as server:
        visit(quiet, server, "/captures", series=True)
        assert sorted(names(quiet)) == sorted([*DUMPS, "rank0", "rank1"])
        visit(quiet, server, "/trends?where=build")
        assert "Totals" in texts(quiet, "section > h2")
        visit(quiet, server, "/compare?base=build%3D0&new=build%3D1")
        assert text(quiet, "h1") == "build=0 → build=1" and texts(quiet, "section > h2")[0] == "Verdict"
        visit(quiet, server, "/sql?query=SELECT+name+FROM+captures+ORDER+BY+name")
        assert cells(quiet, "result") == [[name] for name in sorted([*DUMPS, "rank0", "rank1"])]
        for name in ("mlp_100runs", "rank0"):
            visit(quiet, server, f"/capture/{name}")
            assert text(quiet, "h1") == name and texts(quiet, "section > h2")[:2] == ["Overview", "Advice"]
