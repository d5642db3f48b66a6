"""A DuckDB without etq gives the same answers, of each version that reads warehouses and of this one."""

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

# Pythons that have other versions of DuckDB that are to read warehouses, and nothing of etq; separated by colons.
OLD_PYTHONS = [each for each in os.environ.get("ETQ_OLD_DUCKDB", "").split(os.pathsep) if each]

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


@pytest.mark.skipif(not OLD_PYTHONS, reason="$ETQ_OLD_DUCKDB names no Python that has another DuckDB")
def test_another_duckdb_reads_what_this_one_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ingested(tmp_path, monkeypatch) as warehouse:
        # Views of phases need some.
        warehouse.phase("mlp", "prefill", runs="1")
        warehouse.phase("mlp", "decode", runs="2-")
        assert warehouse.path is not None
    calls = queries()
    assert len(calls) > 60
    # The table macros' rows are in an order of their own; views of all captures have none.
    script = [f"SELECT * FROM ({call}) ORDER BY ALL" for call in calls]
    own, new = answers(sys.executable, warehouse.path, script)
    assert new.count("error") < len(calls) / 4
    found = dict(answers(python, warehouse.path, script) for python in OLD_PYTHONS)
    assert own not in found
    assert {version: differing(calls, new, old) for version, old in found.items()} == {version: [] for version in found}


def differing(calls: Sequence[str], new: Sequence[str], old: Sequence[str]) -> list[str]:
    return [call for call, one, other in zip(calls, new, old, strict=True) if one != other]


def answers(python: str, path: str, queries: Sequence[str]) -> tuple[str, list[str]]:
    """The version of the DuckDB of a Python that has no etq, and the rows of queries as text, or an error."""
    script = "".join(f"{' '.join(query.split()).rstrip(';')}\n" for query in queries)
    done = subprocess.run([python, "-c", COMPARE, path], input=script, capture_output=True, text=True, check=True)
    version, *found = done.stdout.splitlines()
    return version, found


def test_the_questions_page_is_answered_without_etq(tmp_path: Path) -> None:
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        fill(warehouse)
        path = str(warehouse.path)
        with_etq = {question: warehouse.sql(query).fetchall() for question, query in RECIPES.items()}
    needs_etq = "Is build 42 slower than build 41, and in which op?"
    assert with_etq[needs_etq]
    expected = {question: as_text(rows) for question, rows in with_etq.items()} | {needs_etq: "error"}
    for python in (sys.executable, *OLD_PYTHONS):
        version, found = answers(python, path, [*RECIPES.values()])
        assert dict(zip(RECIPES, found, strict=True)) == expected, version


def as_text(rows: Sequence[Sequence[object]]) -> str:
    return str([[f"{value:.10g}" if isinstance(value, float) else repr(value) for value in row] for row in rows])
