"""Node data of `etq graph --format model-explorer`, opened in Model Explorer itself, where it is installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import etq.report
from tests.browser.graphs import linked
from tests.parity.oracle import answer

pytest.importorskip("selenium", reason="the browser is driven by the package selenium")
pytest.importorskip("model_explorer", reason="Model Explorer is the package ai-edge-model-explorer")

from selenium.webdriver.chrome.webdriver import WebDriver

pytestmark = pytest.mark.long

# Arguments: port, file of the graphs, files of node data. It prints the page's address.
SERVER = """
import sys
from model_explorer import server
from model_explorer.config import ModelExplorerConfig
config = ModelExplorerConfig()
port, graphs, *data = sys.argv[1:]
config.graphs_list.append(open(graphs).read())
config.model_sources.append({"url": "graphs://net/0"})
for path in data:
    config.add_node_data(path.rpartition("/")[2], open(path).read())
print(f"http://localhost:{port}/?data={config.to_url_param_value()}", flush=True)
server.start(config=config, no_open_in_browser=True, port=int(port))
"""
# The rows of its table "Node data": a label, then a value of each node data.
ROWS = """
    const tables = [...document.querySelectorAll("table")].filter((each) => each.innerText.includes("aten."));
    return tables.map((each) => [...each.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.innerText.trim())));
"""


@contextmanager
def served(folder: Path, graphs: Any, data: list[str]) -> Iterator[str]:
    """Model Explorer with a graph and node data: the page's address."""
    with socket.socket() as chosen:
        chosen.bind(("localhost", 0))
        port = chosen.getsockname()[1]
    paths = [folder / "graphs.json", *(folder / f"data_{at}.json" for at in range(len(data)))]
    for path, text in zip(paths, [json.dumps(graphs), *data], strict=True):
        path.write_text(text, encoding="utf-8")
    arguments = [sys.executable, "-c", SERVER, str(port), *map(str, paths)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://localhost:{port}/check_health", timeout=2).close()
                    break
                except (urllib.error.URLError, TimeoutError):
                    time.sleep(0.2)
            yield address
        finally:
            server.kill()


def test_model_explorer_shows_each_value_at_its_node(browser: WebDriver, tmp_path: Path) -> None:
    """The graph has the ids that Model Explorer's adapter gave the program's nodes."""
    program = answer("mlp_xnn", "model_explorer")["edge_dialect_exported_program/forward"]
    nodes = [{"id": each, "label": label, "namespace": ""} for each, label in program["nodes"].items()]
    with linked("mlp_xnn") as warehouse:
        data = [
            etq.report.graph_node_data_of(warehouse, "run", overlay=each, unit="us")
            for each in ("time", "flops", "backend")
        ]
    titles = [json.loads(each)[program["id"]]["name"] for each in data]
    assert titles == ["run: self time (us)", "run: FLOPs of a call", "run: backend"]
    with served(tmp_path, {"graphs": [{"id": program["id"], "nodes": nodes}]}, data) as address:
        browser.get(address)
        for _ in range(100):
            tables = browser.execute_script(ROWS)
            if tables and any("XnnpackBackend" in row for row in tables[-1]):
                break
            time.sleep(0.2)
    # The last table has values; those before it have shares of their sums.
    rows = [row[1:] for row in tables[-1] if len(row) == 5]
    results = [json.loads(each)[program["id"]]["results"] for each in data]
    expected = [
        [label, *(str(of.get(each, {}).get("value", "-")).removesuffix(".0") for of in results)]
        for each, label in program["nodes"].items()
    ]
    assert [[row[0], *(value.removesuffix(".0") for value in row[1:])] for row in rows[-len(expected) :]] == expected
    assert sum("XnnpackBackend" in row for row in expected) > 10
