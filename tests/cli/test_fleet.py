"""`etq fleet`: which devices are slower, in a sentence, and the rows of `outliers`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import etq
from tests.cli.test_report import data_of
from tests.command_line import run_etq
from tests.fleet_captures import COMMITS, ingest_fleet

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("lab") / "lab.duckdb"
    with etq.open(path) as warehouse:
        ingest_fleet(warehouse)
    yield path


FIRST = {
    "model=mlp": "2 of 20 devices are slower: pixel8-13 (all ops), pixel8-07 (addmm)",
    "model=mlp,device!=pixel8-13": "1 of 19 devices is slower: pixel8-07 (addmm)",
    "model=mlp,device!=pixel8-13|pixel8-07": "None of 18 devices is slower",
    f"model=mlp,commit={COMMITS[38]}|{COMMITS[39]}": "No device is judged; 20 with too few captures to tell",
}


@pytest.mark.parametrize("selector", FIRST)
def test_the_first_line_says_which_devices_are_slower(lab: Path, selector: str) -> None:
    shown = run_etq("fleet", selector, "--db", str(lab))
    assert shown.exit_code == 0 and shown.output.splitlines()[0] == FIRST[selector]


def test_rows_for_programs_have_no_sentence(lab: Path) -> None:
    rows = json.loads(run_etq("fleet", "model=mlp", "--db", str(lab), "--format", "json").output)
    assert [(row["value"], row["verdict"]) for row in rows[:3]] == [
        ("pixel8-13", "slower"), ("pixel8-07", "slower"), (rows[2]["value"], "~"),
    ]  # fmt: skip
    ops = json.loads(run_etq("fleet", "model=mlp", "--ops", "--db", str(lab), "--format", "json").output)
    assert len(ops) == 80 and ops[0]["op"] == "addmm"


def test_errors(lab: Path) -> None:
    assert "choose one, as model=convnet" in run_etq("fleet", "--db", str(lab)).output
    assert "has a label soc" in run_etq("fleet", "model=mlp", "--by", "soc", "--db", str(lab)).output


def test_a_report_of_a_fleet(lab: Path, tmp_path: Path) -> None:
    path = tmp_path / "fleet.html"
    made = run_etq("report", "--fleet", "model=mlp", "--db", str(lab), "-o", str(path))
    assert made.exit_code == 0, made.output
    report = data_of(path.read_text())
    assert (report["kind"], report["title"]) == ("fleet", "model=mlp")
    [section] = report["sections"]
    assert section["facts"]["sentence"] == f"{FIRST['model=mlp']}."
    assert [grid["rows"]["length"] for grid in section["grids"]] == [20, 80]
    both = run_etq("report", "--fleet", "--trend", "--db", str(lab))
    assert both.exit_code == 2 and "give one of --trend and --fleet" in both.output
    of_ranks = run_etq("report", "--home", "--by", "model", "--db", str(lab))
    assert of_ranks.exit_code == 2 and "--by is not for a report of what is slower (--home)" in of_ranks.output


def test_what_is_slower_in_a_warehouse(lab: Path) -> None:
    """On its screen, the most costly first, and as Markdown of what was recorded since."""
    lines = run_etq(str(lab)).output.splitlines()
    at = lines.index("3 findings")
    titles = ["pixel8-13: all ops", "pixel8-07: addmm", "permute_copy since commit 21c0ffeec0ff"]
    assert [line.split(" %  ")[1] for line in lines[at:] if " %  " in line] == titles
    judged = "4 of 24 series judged over time; not judged: 20 (too few builds)"
    assert f"  {judged}. Devices compared in 1 of 1 group of captures" in lines
    [first] = run_etq("show", "causes", "--db", str(lab), "--limit", "1").output.split("\n\n")[:1]
    # The unit is that of the cost, not of a count.
    assert re.search(r"number of series 1  share \S+ %  cost \S+ us .*is accepted: no$", first, re.DOTALL), first
    every = run_etq("comment", "--since", "99999d", "--db", str(lab)).output.splitlines()
    assert every[0].startswith("### 3 findings since ") and every[-1].startswith("4 of 24 series judged")
    assert [line.partition(" % ")[2].partition("**")[0] for line in every[2:5]] == titles
    oldest = run_etq("comment", "--since", "999999w", "--db", str(lab)).output
    assert oldest.startswith("### 3 findings since 1970-01-01")
    assert "No findings since" in run_etq("comment", "--since", "1h", "--db", str(lab)).output
    wrong = run_etq("comment", "--since", "soon", "--db", str(lab))
    assert wrong.exit_code == 2 and "12h, 7d or 2w" in wrong.output
