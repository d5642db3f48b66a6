"""Named views: `@NAME` stands for a selector, wherever one is taken; commands and pages have its order and columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import ArgumentError, QueryError, WarehouseError
from etq.warehouse.warehouse import Warehouse
from tests.asserts import csv_rows
from tests.batches import ingest_all
from tests.command_line import run_etq
from tests.serve.server import serving
from tests.sql.test_selectors import LAB, matches

HOSTILE = {
    "<b>x</b>": "can't have '<'", "a\x1b[31m": "\\\\x1b\\[31m: has a character", "a b": "can't have ' '",
    "a,b": "can't have ','", "x" * 81: "1 to 80 characters", "": "1 to 80 characters", "latest": "is a word of selectors",
    "'; DROP TABLE captures": "can't have",
}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The captures of `LAB`: c0 and c1 are of devices a and b, c1 and c2 of builds 10 and 9, these three of mlp; and a
    view of each kind.
    """
    path = tmp_path_factory.mktemp("views") / "lab.duckdb"
    with etq.open(path) as warehouse:
        ingest_all(warehouse, LAB)
        warehouse.save_view("of.mlp", "model=cnn")
        warehouse.save_view("of.mlp", "model=mlp", sort_by="build", columns=["runs", "name", "runs", "total"])
        warehouse.save_view("ü", "@of.mlp,device=b")
        warehouse.remove_view("ü")
        warehouse.save_view("ü", "@of.mlp,device=b", columns=["nothing"], sort_by="nothing")
    return path


@pytest.fixture(scope="module")
def lab(path: Path) -> Iterator[Warehouse]:
    with etq.open(path, read_only=True) as warehouse:
        yield warehouse


def test_a_name_stands_for_its_selector(lab: Warehouse) -> None:
    saved = lab.rows("SELECT v.name, v.selector, v.sort_by, v.shown FROM named_views AS v ORDER BY v.name")[1]
    assert saved == [
        ("of.mlp", "model=mlp", "build", ["runs", "name", "total"]), ("ü", "model=mlp,device=b", "nothing", ["nothing"]),
    ]  # fmt: skip
    selected = {"@of.mlp": "c0 c1 c2", "@of.mlp,build>9": "c1", "@of.mlp,@latest": "c2", "@ü": "c1", "@latest": "c2"}
    assert {selector: " ".join(matches(lab, selector)) for selector in selected} == selected
    assert [name for (name,) in lab.captures("@of.mlp").select("name").fetchall()] == ["c0", "c1", "c2"]
    assert lab.capture("@ü").name == "c1" == lab.op_totals(["@ü"]).fetchall()[0][0]
    assert lab.series(selector="@ü").fetchall() == lab.series(selector="device=b,model=mlp").fetchall() != []
    with pytest.raises(QueryError, match="@of.ml is not a selector: .* a view that etq db view lists"):
        matches(lab, "@of.ml")


def test_what_is_no_name_is_refused_and_read_only_says_so(lab: Warehouse) -> None:
    with etq.open() as warehouse:
        for name, error in HOSTILE.items():
            with pytest.raises(ArgumentError, match=error):
                warehouse.save_view(name, "model=mlp")
        long: list[dict[str, Any]] = [{"selector": " "}, {"selector": "a" * 2001}, {"selector": "a=\x1b"}]
        for given in (*long, {"selector": "a=1", "columns": ["\n"]}, {"selector": "a=1", "sort_by": "a" * 2001}):
            with pytest.raises(ArgumentError):
                warehouse.save_view("x", **given)
        with pytest.raises(ArgumentError, match="no view has the name x"):
            warehouse.remove_view("x")
        assert warehouse.rows("FROM named_views")[1] == []
    with pytest.raises(WarehouseError, match=r"read-only|reading only"):
        lab.save_view("x", "a=1")
    with pytest.raises(WarehouseError, match=r"read-only|reading only"):
        lab.remove_view("ü")


def test_commands_save_list_open_and_remove(path: Path, tmp_path: Path) -> None:
    """The order is that of --sort-by, largest build first; what a table lacks, or an option says, is as without a view."""
    db = tmp_path / "lab.duckdb"
    db.write_bytes(path.read_bytes())

    def asked(*arguments: str) -> list[dict[str, str]]:
        return csv_rows(run_etq(*arguments, "--db", str(db), "--format", "csv").stdout)

    told = run_etq("db", "view", "@two", "@of.mlp,build>=9", "--sort-by", "build", "--db", str(db))
    assert told.stderr == "@two saved: etq captures @two\n"
    assert [(row["name"], row["selector"], row["columns"]) for row in asked("db", "view")] == [
        ("@of.mlp", "model=mlp", "runs,name,total"), ("@two", "model=mlp,build>=9", ""),
        ("@ü", "model=mlp,device=b", "nothing"),
    ]  # fmt: skip
    assert asked("captures", "@of.mlp") == [{"runs": "1", "name": f"c{number}"} for number in (1, 2, 0)]
    assert [row["name"] for row in asked("captures", "@two", "--sort-by", "name", "--columns", "name")] == ["c1", "c2"]
    assert [*asked("ops", "@of.mlp,@latest")[0]] == ["total"] and len(asked("ops", "@ü")[0]) > 5
    assert run_etq("db", "view", "two", "--remove", "--db", str(db)).stderr == "@two removed\n"
    assert "is not a selector" in run_etq("captures", "@two", "--db", str(db)).stderr
    for wrong in (["x"], ["x", "a=1", "--remove"], ["--sort-by", "x"], ["--remove"]):
        assert "give NAME and SELECTOR to save a view" in run_etq("db", "view", *wrong, "--db", str(db)).stderr


def test_pages_open_it(path: Path) -> None:
    with serving(path) as server:
        views = server.data("captures")["views"]
        assert views[0] == {"name": "of.mlp", "sort_by": "build", "shown": ["runs", "name", "total"]}
        assert server.data("matches?selector=@of.mlp,device=b") == {
            "places": [1],
            "pairs": {"model": "mlp", "device": "b"},
        }
        # The whole first page is about the captures that are chosen.
        assert server.data("overview?selector=@of.mlp")["text"].startswith("3 captures of 1 model on 2 devices")
        assert server.data("overview")["text"].startswith("4 captures of 2 models on 2 devices")
        assert server.data("series?selector=@of.mlp")["executes"]["length"] == 3
        assert server.get("/data/trends?selector=@nothing").status == 400
