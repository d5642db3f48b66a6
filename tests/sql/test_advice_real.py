"""Advice on real captures: its numbers equal those of the views."""

from __future__ import annotations

from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.sampling import thinned
from tests.sql.test_advice import advice_of
from tests.sql.test_real_captures import NAMES


@pytest.mark.long
def test_numbers_are_those_of_the_views(linked_captures: Warehouse) -> None:
    """Advice, tables and medians use the same runs: the typical ones, 4 of 5 in both captures."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        return linked_captures.rows(query)[1]

    ops = rows("SELECT o.op, o.total, o.share_percent FROM op_totals('transformer', unit := 'ns') AS o")
    copies = ("permute_copy", "expand_copy", "split_with_sizes_copy", "_clone_dim_order", "view_copy")
    row = advice_of(linked_captures, "transformer")["copies"]
    assert row["time_at_stake"] == pytest.approx(sum(op[1] for op in ops if op[0] in copies) / 4)
    assert row["share_percent"] == pytest.approx(sum(op[2] for op in ops if op[0] in copies))
    tax = rows("SELECT median(tax) FROM framework_tax('transformer', unit := 'ns', runs := 'typical')")
    assert advice_of(linked_captures, "transformer")["framework tax"]["time_at_stake"] == tax[0][0]
    coverage = rows(
        "SELECT c.total, c.share_percent, c.worst_source FROM delegate_coverage('demo_int', unit := 'ns') AS c"
    )
    row = advice_of(linked_captures, "demo_int")["fallback kernels"]
    assert row["time_at_stake"] == pytest.approx(sum(each[0] for each in coverage) / 4)
    assert row["share_percent"] == pytest.approx(sum(each[1] for each in coverage))
    assert coverage[0][2] in row["evidence"]
    [act] = rows(
        "SELECT m.self_time, m.share_percent FROM module_totals('demo_int', unit := 'ns') AS m WHERE m.module_path = 'act'"
    )
    row = advice_of(linked_captures, "demo_int")["dominating module"]
    assert (row["time_at_stake"], row["share_percent"]) == pytest.approx((act[0] / 4, act[1]))


@pytest.mark.long
def test_transposed_weights_are_distinguished_from_other_copies(linked_captures: Warehouse) -> None:
    """The mlp permutes only weights; the transformer's attention also permutes results of other ops."""
    assert "100 % of it on weights" in advice_of(linked_captures, "mlp")["copies"]["finding"]
    finding = advice_of(linked_captures, "transformer")["copies"]["finding"]
    assert "% of it on weights" in finding and "100 % of it" not in finding


@pytest.mark.parametrize("name", thinned(NAMES, ["multimethod_interleave", "twins"]))
def test_every_real_capture_gets_sentences(all_captures: Warehouse, name: str) -> None:
    previous = 0
    for row in advice_of(all_captures, name, unit=None).values():
        assert row["finding"].endswith(".") and row["remedy"].endswith(".") and row["evidence"], row
        assert row["unit"] in ("us", "cycles")
        assert row["share_percent"] is None or 0 <= row["share_percent"] <= 100
        assert row["time_at_stake"] is None or row["time_at_stake"] >= 0
        severity = ["high", "medium", "low"].index(row["severity"])
        assert severity >= previous, "the worst first"
        previous = severity
