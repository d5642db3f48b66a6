"""The order in which two builds are measured, and `etq bench --order`, which prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etq
from etq.bench.order import order
from tests.command_line import run_etq


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_order_that_the_default_seed_gives() -> None:
    assert "".join("A" if side == "base" else "B" for side in order(10)) == "ABBAABBABAABBAABABBA"
    assert len({tuple(order(10, seed)) for seed in range(100)}) > 20
    with pytest.raises(etq.EtqError, match="at least 1 is needed"):
        order(0)


@given(captures=st.integers(1, 60), seed=st.integers(0, 2**64))
def test_the_order_interleaves(captures: int, seed: int) -> None:
    sides = order(captures, seed)
    assert sides.count("base") == sides.count("new") == captures
    assert all(set(sides[at : at + 2]) == {"base", "new"} for at in range(0, len(sides), 2))
    assert sides == order(captures, seed) == order(captures + 1, seed)[:-2]
    for at in range(0, len(sides) - 3, 4):  # a steady drift affects both sides of each four equally
        assert sides[at : at + 4] == sides[at : at + 4][::-1]


def test_the_order_is_printed_and_nothing_is_measured() -> None:
    asked = ("bench", "v1", "v/2", "--order", "--rounds", "1", "--name", "p")
    result = run_etq(*asked)
    assert result.exit_code == 0
    assert result.stdout == (
        "number  side  file\n"
        "------  ----  ---------------------\n"
        "     1  v1    bench-p/01-1-v1.etdp\n"
        "     2  v/2   bench-p/01-2-v_2.etdp\n"
        "     3  v/2   bench-p/01-3-v_2.etdp\n"
        "     4  v1    bench-p/01-4-v1.etdp\n"
    )
    assert "--label bench=p --label side=SIDE --label position=NUMBER --captured-at TIME" in result.stderr
    assert [row["side"] for row in json.loads(run_etq(*asked, "--format", "json").stdout)] == ["v1", "v/2", "v/2", "v1"]
    assert list(Path().iterdir()) == []
