"""`etq plan`: the order in which two builds are measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq.bench import order as plan
from tests.command_line import run_etq


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def etq_plans(*arguments: str) -> Result:
    return run_etq("plan", "--plan", "p", "--captures", "2", *arguments)


def test_the_order_that_the_default_seed_gives() -> None:
    assert "".join("A" if side == "base" else "B" for side in plan.order(10)) == "ABBAABBABAABBAABABBA"
    assert len({tuple(plan.order(10, seed)) for seed in range(100)}) > 20
    with pytest.raises(etq.EtqError, match="at least 1 is needed"):
        plan.order(0)


@given(captures=st.integers(1, 60), seed=st.integers(0, 2**64))
def test_the_order_interleaves(captures: int, seed: int) -> None:
    sides = plan.order(captures, seed)
    assert sides.count("base") == sides.count("new") == captures
    assert all(set(sides[at : at + 2]) == {"base", "new"} for at in range(0, len(sides), 2))
    assert sides == plan.order(captures, seed) == plan.order(captures + 1, seed)[:-2]
    for at in range(0, len(sides) - 3, 4):  # a steady drift affects both sides of each four equally
        assert sides[at : at + 4] == sides[at : at + 4][::-1]


def test_without_a_command_the_order_is_printed() -> None:
    result = run_etq("plan", "--base", "v1", "--new", "v/2", "--captures", "2", "--plan", "p", "--out-dir", "d")
    assert result.exit_code == 0
    assert result.stdout == (
        "number  side  file\n"
        "------  ----  ---------------\n"
        "     1  v1    d/p-01-v1.etdp\n"
        "     2  v/2   d/p-02-v_2.etdp\n"
        "     3  v/2   d/p-03-v_2.etdp\n"
        "     4  v1    d/p-04-v1.etdp\n"
    )
    assert "--label plan_position=NUMBER --captured-at TIME" in result.stderr
    assert list(Path().iterdir()) == []


def test_the_order_in_other_formats() -> None:
    rows = json.loads(etq_plans("--format", "json", "--seed", "1").stdout)
    assert [row["side"] for row in rows] == ["B", "A", "A", "B"]
    assert rows[0] == {"number": 1, "side": "B", "file": "plan-p/p-01-B.etdp"}
