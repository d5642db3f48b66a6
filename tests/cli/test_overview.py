"""`etq overview`, and overviews as Python and other commands have them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

import etq
from etq.errors import EtqError, QueryError, WarehouseError
from tests.batches import Labelled, ingest_all
from tests.command_line import run_etq
from tests.sql.test_trends import capture

SLOW_FROM = 18


@pytest.fixture
def lab(tmp_path: Path) -> str:
    """Thirty builds, one a day up to today; one op is slower from the 18th on."""
    path = tmp_path / "lab.duckdb"
    now = datetime.now(UTC)
    made = []
    for build in range(1, 31):
        content = capture(build, {"addmm": 1.2} if build >= SLOW_FROM else None)
        labels = {"build": str(build), "model": "net", "captured_at": (now - timedelta(days=30 - build)).isoformat()}
        made.append(Labelled(f"b{build}", content, labels))
    with etq.open(path) as warehouse:
        ingest_all(warehouse, made)
    return str(path)


def shown(lab: str, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run_etq("overview", *arguments, "--format", "json", "--db", lab).stdout)
    return found


def test_the_command(lab: str) -> None:
    added = run_etq("overview", "it's ours", "--add", "model=net", "--op", "addmm@0", "--over", "build", "--db", lab)
    assert (added.exit_code, added.stderr) == (0, "it's ours: watches it, number 1\n")
    assert run_etq("overview", "it's ours", "--add", "--db", lab).stderr == "it's ours: watches it, number 2\n"
    assert shown(lab) == [{"overview": "it's ours", "watched": 2, "comparisons": 0}]
    with etq.open(lab, read_only=True) as warehouse:
        [(last,)] = warehouse.rows("SELECT normalized FROM trend('op', 'addmm@0') WHERE label = '30'")[1]
    first, second = shown(lab, "it's ours")
    assert first == {"number": 1, "series": "model=net", "of": "addmm@0", "value": pytest.approx(last), "unit": "us",
                     "label": "30", "captures": 30}  # fmt: skip
    assert (second["number"], second["of"]) == (2, "total")
    [change] = [row for row in shown(lab, "it's ours", "--since", "13d") if row["what"] == "op"]
    found = [change[name] for name in ("number", "op", "instruction_id", "verdict", "last_good", "first_bad")]
    assert found == [1, "addmm", 0, "slower", "17", "18"], "once, though it is watched twice"
    assert shown(lab, "it's ours", "--since", "18") == [change] and shown(lab, "it's ours", "--since", "19") == []
    assert shown(lab, "it's ours", "--since", "11d") == []
    twice = run_etq("overview", "two", "--add", "model=net", "--add", "--add-comparison", "build=1", "build=2",
                    "--add-comparison", "build=2", "build=3", "--db", lab)  # fmt: skip
    assert twice.stderr.count("two: watches it, number ") == twice.stderr.count("two: shows that comparison") == 2
    gone = [*("--remove", "1", "--remove", "2"), *("--remove-comparison", "1", "--remove-comparison", "2")]
    assert run_etq("overview", "two", *gone, "--db", lab).exit_code == 0
    removed = run_etq("overview", "it's ours", "--remove", "1", "--remove", "2", "--db", lab)
    assert removed.stderr == "it's ours: number 1 removed\nit's ours: number 2 removed\n"
    assert shown(lab) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["team"], "overview team: there is none; add what it watches: etq overview NAME --add"),
        (["team", "--remove", "1"], "overview team: nothing has the number 1; etq overview lists them"),
        (["team", "--add", "--over", "commit"], "no capture has a label 'commit'"),
        (["team", "--add", "model=nett"], "the nearest are"),
        (["team", "--op", "addmm"], "go with --add"),
        (["--add"], "go with the name of an overview"),
        (["team", "--add", "--op", "addmm", "--metric", "heat"], "give one of --op, --module and --metric"),
        (["team", "--since", "yesterday"], "'yesterday' is neither a time nor a label of captures; write week, 7d,"),
        (["team", "--since", "999999w"], "is too long ago"),
    ],
)
def test_errors(lab: str, arguments: list[str], error: str) -> None:
    done = run_etq("overview", *arguments, "--db", lab)
    assert done.exit_code != 0 and error in done.stderr


def test_what_is_gone_is_named_and_the_rest_shown(lab: str) -> None:
    with etq.open(lab) as warehouse:
        warehouse.label("b30", rare="yes")
        assert warehouse.watch("team", "rare=yes") == 1
        assert warehouse.watch("team", "model=net") == 2
        warehouse.label("b30", rare=None)
    done = run_etq("overview", "team", "--format", "json", "--db", lab)
    assert [row["number"] for row in json.loads(done.stdout)] == [2]
    assert done.stderr.startswith("Note: number 1: no capture matches rare=yes")


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "a\nb", "a\x1b[31m", "a\u202eb", "a\ud800", "n" * 121])
def test_names_that_cannot_be_shown(lab: str, name: str) -> None:
    with etq.open(lab) as warehouse, pytest.raises(EtqError, match="^overview "):
        warehouse.watch(name)


@pytest.mark.parametrize("name", ["'; DROP TABLE overview_items; --", "<b>", "..", "a/b?c#d%20", "\N{SNOWMAN}"])
def test_other_names_are_kept_as_they_are(lab: str, name: str) -> None:
    with etq.open(lab) as warehouse:
        warehouse.watch(name)
        assert warehouse.rows("SELECT overview, item_index, what FROM overview_items")[1] == [(name, 1, "total")]
        warehouse.unwatch(name, 1)
        assert warehouse.rows("FROM overview_items")[1] == []


def test_numbers_stay(lab: str) -> None:
    with etq.open(lab) as warehouse:
        assert [warehouse.watch("team", f"model=net,build={build}") for build in (1, 2, 3)] == [1, 2, 3]
        warehouse.unwatch("team", 2)
        assert warehouse.watch("other", "build=1") == 1
        assert warehouse.watch("team", "model=net,build=4") == 4
        assert warehouse.watch("team", "model=net,build=1") == 1
        with pytest.raises(QueryError, match="no op gone in these captures"):
            warehouse.watch("team", what="op", item="gone")
    with etq.open(lab, read_only=True) as warehouse:
        with pytest.raises(WarehouseError, match="opened read-only"):
            warehouse.watch("team")
        with pytest.raises(WarehouseError, match="opened read-only"):
            warehouse.unwatch("team", 1)


def test_merging_keeps_the_first_of_a_name(lab: str, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    with etq.open(other) as warehouse:
        warehouse.ingest(capture(500), name="c", labels={"build": "1"})
        warehouse.watch("team", "build=1")
        warehouse.watch("theirs")
    with etq.open(lab) as warehouse:
        warehouse.watch("team", "model=net")
    etq.merge([lab, other], tmp_path / "both.duckdb")
    with etq.open(tmp_path / "both.duckdb", read_only=True) as both:
        found = both.rows("SELECT overview, item_index, selector FROM overview_items ORDER BY ALL")[1]
    assert found == [("team", 1, "model=net"), ("theirs", 1, None)]


def test_a_damaged_overview_is_refused(lab: str) -> None:
    with etq.open(lab) as warehouse:
        warehouse.watch("team")
    with duckdb.connect(lab) as plain:
        plain.execute("INSERT INTO overview_items FROM overview_items")
    with pytest.raises(WarehouseError, match=re.escape("rows of overview_items have the same overview, item_index")):
        etq.open(lab, read_only=True)


def test_a_lake_has_those_of_its_warehouse_and_its_own(lab: str, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="lakes are tables of deltalake")
    from etq.lake import export

    with etq.open(lab) as warehouse:
        warehouse.watch("team")
    export(tmp_path / "lake", lab)
    lake = str(tmp_path / "lake")
    done = run_etq("overview", "team", "--add", "model=net", "--db", lake)
    assert done.stderr == "team: watches it, number 2\n"
    run_etq("overview", "team", "--add-comparison", "build<18", "build>=18", "--db", lake)
    assert shown(lake) == [{"overview": "team", "watched": 2, "comparisons": 1}]
    assert run_etq("overview", "team", "--remove", "1", "--db", lake).stderr == "team: number 1 removed\n"
    assert {row["number"] for row in shown(lake, "team")} == {2}
    with etq.open(lab) as warehouse:
        warehouse.watch("team", "model=net")
        warehouse.unwatch("team", 1)
    assert shown(lake, "team") == shown(lab, "team")
