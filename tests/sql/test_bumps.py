"""Ops that are slower in some builds and then mended: a real transformer's runs, drawn for each build."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump
from tests.conftest import CAPTURES
from tests.slower import Op, runs_of, slower_run
from tests.warehouses import empty_warehouse

BUILDS, RUNS = 60, 10
FIRST_BAD, MENDED, WILD = 20, 40, 48
SLOWER: set[Op] = {("native_call_permute_copy.out", 1), ("native_call_bmm.out", 15)}


@pytest.fixture(scope="module")
def builds() -> Iterator[Warehouse]:
    """Sixty builds: two ops take half as long again in twenty of them, and one capture does as a whole."""
    runs = runs_of(CAPTURES / "transformer/transformer_100runs.etdp")
    random = np.random.default_rng(4)
    captures = []
    for build in range(BUILDS):
        ops = SLOWER if FIRST_BAD <= build < MENDED else set[Op]()
        drawn = random.choice(len(runs), RUNS, replace=False)
        everything = 1.5 if build == WILD else 1.0
        content = dump(*(slower_run(runs[at], ops, 1.5, everything) for at in drawn))
        captures.append(Labelled(f"b{build}", content, {"build": str(build), "model": "net"}))
    with empty_warehouse() as warehouse:
        ingest_all(warehouse, captures)
        yield warehouse


def test_a_bump_is_two_changes(builds: Warehouse) -> None:
    query = "SELECT op, instruction_id, verdict, first_bad, change_percent FROM regressions() WHERE what = 'op'"
    rows = sorted(builds.rows(query)[1])
    assert [row[:4] for row in rows] == sorted(
        (label.removeprefix("native_call_").removesuffix(".out"), at, verdict, str(build))
        for label, at in SLOWER
        for verdict, build in (("slower", FIRST_BAD), ("faster", MENDED))
    )
    assert [row[4] for row in rows] == pytest.approx([50 if row[2] == "slower" else -100 / 3 for row in rows], abs=3)


def test_a_wild_capture_is_not_a_change(builds: Warehouse) -> None:
    assert str(WILD) not in {row[0] for row in builds.rows("SELECT first_bad FROM regressions()")[1]}
    assert [row[0] for row in builds.rows("SELECT label FROM trend() WHERE change_percent IS NOT NULL")[1]] in (
        [],
        [str(FIRST_BAD), str(MENDED)],
    )


def test_a_trend_shows_the_bump(builds: Warehouse) -> None:
    query = "SELECT label FROM trend('op', 'permute_copy@1') WHERE change_percent IS NOT NULL"
    assert [row[0] for row in builds.rows(query)[1]] == [str(FIRST_BAD), str(MENDED)]
