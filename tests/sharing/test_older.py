"""A DuckDB without etq gives the same answers: of the oldest version that reads warehouses, and of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.test_recipes import RECIPES, fill

pytestmark = pytest.mark.long

# A Python that has the oldest DuckDB that is to read warehouses, and nothing of etq.
OLD_PYTHON = os.environ.get("ETQ_OLD_DUCKDB")

# Views whose argument DuckDB 1.5 can't take from a column: it ends with an error.
NOT_OF_COLUMNS = ("delegate_graph", "node_memory", "time_tree")


def ingested(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """The same captures and records, ingested now."""
    monkeypatch.chdir(CAPTURES)
    warehouse = etq.open(folder / "fresh.duckdb")
    for number, name in enumerate(("mlp", "mlp_alloc")):
        warehouse.ingest(f"mlp/{name}.etdp", labels={"device": "pixel8", "build": str(41 + number)})
    warehouse.ingest("mlp_xnn/mlp_xnn.etdp", name="xnn")
    records = [warehouse.ingest_record(f"{name}/{name}.etrecord") for name in ("mlp", "mlp_xnn")]
    for name, record in zip(("mlp", "mlp_alloc", "xnn"), (records[0], records[0], records[1]), strict=True):
        warehouse.link(name, record)
    return warehouse


def queries() -> list[str]:
    """A query of every view, and of every macro of one capture, of several, of one record or of two captures."""
    arguments = {"capture": ("'mlp'",), "record": ("'mlp'", "'mlp_xnn'"), "base": ("'mlp', 'mlp_alloc'",)}
    calls = []
    for each in catalog.public_objects():
        if each.kind == "view":
            calls.append(f"FROM {each.name}")
        elif each.kind == "table macro" and each.parameters and each.parameters[0].name in arguments:
            calls += [f"FROM {each.name}({argument})" for argument in arguments[each.parameters[0].name]]
            if each.parameters[0].name == "capture" and each.name not in NOT_OF_COLUMNS:
                calls.append(f"FROM captures AS c, LATERAL (FROM {each.name}(c.capture_id)) AS v WHERE c.name <> 'mlp'")
    return calls


# Two databases that count floating-point numbers in another order, and words of errors. DuckDB takes `python -c` for an
# interactive session, and would draw a progress bar between the rows of a query of more than two seconds.
COMPARE = """
import sys, duckdb
path = sys.argv[1]
with duckdb.connect(path, read_only=True) as connection:
    connection.execute("SET enable_progress_bar = false")
    print(duckdb.__version__)
    for query in sys.stdin.read().splitlines():
        try:
            rows = connection.execute(query).fetchall()
            print([[f"{value:.10g}" if isinstance(value, float) else repr(value) for value in row] for row in rows])
        except duckdb.Error as error:
            print("error")
"""


@pytest.mark.skipif(OLD_PYTHON is None, reason="$ETQ_OLD_DUCKDB names no Python that has DuckDB 1.5")
def test_an_older_duckdb_reads_what_this_one_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert OLD_PYTHON is not None
    with ingested(tmp_path, monkeypatch) as warehouse:
        # Views of phases need some.
        warehouse.phase("mlp", "prefill", runs="1")
        warehouse.phase("mlp", "decode", runs="2-")
        assert warehouse.path is not None
    calls = queries()
    assert len(calls) > 60
    # The table macros' rows are in an order of their own; views of all captures have none.
    script = [f"SELECT * FROM ({call}) ORDER BY ALL" for call in calls]
    new, old = (answers(python, warehouse.path, script) for python in (sys.executable, OLD_PYTHON))
    assert new.count("error") < len(calls) / 4
    assert [call for call, one, other in zip(calls, new, old, strict=True) if one != other] == []


def answers(python: str, path: str, queries: Sequence[str]) -> list[str]:
    """The rows of queries as text, or an error, by the DuckDB of a Python that has no etq."""
    script = "".join(f"{' '.join(query.split()).rstrip(';')}\n" for query in queries)
    done = subprocess.run([python, "-c", COMPARE, path], input=script, capture_output=True, text=True, check=True)
    version, *found = done.stdout.splitlines()
    assert version.startswith("2." if python == sys.executable else "1.5.")
    return found


@pytest.mark.parametrize(
    "python",
    [sys.executable, pytest.param(OLD_PYTHON, marks=pytest.mark.skipif(OLD_PYTHON is None, reason="as above"))],
    ids=["this_duckdb", "older_duckdb"],
)
def test_the_questions_page_is_answered_without_etq(tmp_path: Path, python: str) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        fill(warehouse)
        path = str(warehouse.path)
        with_etq = {question: warehouse.sql(query).fetchall() for question, query in RECIPES.items()}
    found = dict(zip(RECIPES, answers(python, path, [*RECIPES.values()]), strict=True))
    needs_etq = "Is build 42 slower than build 41, and in which op?"
    assert found.pop(needs_etq) == "error" and with_etq.pop(needs_etq)
    assert found == {question: as_text(rows) for question, rows in with_etq.items()}


def as_text(rows: Sequence[Sequence[object]]) -> str:
    return str([[f"{value:.10g}" if isinstance(value, float) else repr(value) for value in row] for row in rows])
