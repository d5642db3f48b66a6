"""Advice on real captures, and its numbers beside those of the views."""

from __future__ import annotations

from typing import Any

import pytest

import etq
from etq.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.sql.test_advice import said


@pytest.fixture(scope="module")
def linked() -> Any:
    """Real captures with their records."""
    with etq.open() as warehouse:
        for model in ("mlp", "mlp_xnn", "convnet", "convnet_xnn", "transformer", "demo_int", "maploop", "cond"):
            record = warehouse.ingest_record(CAPTURES / f"{model}/{model}.etrecord")
            for stem in (model, f"{model}_100runs"):
                warehouse.link(warehouse.ingest(CAPTURES / f"{model}/{stem}.etdp"), record)
        yield warehouse


@pytest.mark.parametrize(
    ("capture", "rules"),
    [
        ("mlp_100runs", ["copies high", "nothing delegated high", "first run low"]),
        (
            "mlp_xnn_100runs",
            ["framework tax medium", "first run medium", "coarse clock medium", "fallback kernels low"],
        ),
        ("convnet_100runs", ["nothing delegated high", "dominating op medium"]),
        ("convnet_xnn_100runs", ["outlier runs high", "coarse clock medium", "variance medium", "first run low"]),
        (
            "transformer_100runs",
            ["nothing delegated high", "copies high", "framework tax medium", "outlier runs medium", "first run low"],
        ),
        (
            "demo_int_100runs",
            ["outlier runs high", "fallback kernels high", "copies high", "dominating module medium", "first run low"],
        ),
        ("maploop_100runs", ["framework tax medium", "half-written medium", "first run low"]),
    ],
)
def test_real_captures(linked: Warehouse, capture: str, rules: list[str]) -> None:
    rows = said(linked, capture, unit=None)
    assert sorted(f"{rule} {row['severity']}" for rule, row in rows.items()) == sorted(rules)


def test_numbers_are_those_of_the_views(linked: Warehouse) -> None:
    """These captures have no outliers, so that steady runs are those that --skip-first 1 leaves: 4."""
    ops = linked.op_totals("transformer", skip_first=1, unit="ns").fetchall()
    copies = ("permute_copy", "expand_copy", "split_with_sizes_copy", "_clone_dim_order", "view_copy")
    row = said(linked, "transformer")["copies"]
    assert row["time_at_stake"] == pytest.approx(sum(op[4] for op in ops if op[0] in copies) / 4)
    assert row["share_percent"] == pytest.approx(sum(op[8] for op in ops if op[0] in copies))
    tax = linked.sql("SELECT median(tax) FROM framework_tax('transformer', unit := 'ns', skip_first := 1)")
    assert said(linked, "transformer")["framework tax"]["time_at_stake"] == tax.fetchall()[0][0]
    coverage = linked.delegate_coverage("demo_int", skip_first=1, unit="ns").fetchall()
    row = said(linked, "demo_int")["fallback kernels"]
    assert row["time_at_stake"] == pytest.approx(sum(each[4] for each in coverage) / 4)
    assert row["share_percent"] == pytest.approx(sum(each[5] for each in coverage))
    assert coverage[0][7] in row["evidence"]
    modules = linked.module_totals("demo_int", skip_first=1, unit="ns").fetchall()
    [act] = [each for each in modules if each[0] == "act"]
    row = said(linked, "demo_int")["dominating module"]
    assert (row["time_at_stake"], row["share_percent"]) == pytest.approx((act[4] / 4, act[6]))


def test_transposed_weights_are_told_from_other_copies(linked: Warehouse) -> None:
    """The mlp permutes nothing but weights; the transformer's attention permutes what other ops gave, too."""
    assert "100 % of it on weights" in said(linked, "mlp")["copies"]["finding"]
    finding = said(linked, "transformer")["copies"]["finding"]
    assert "% of it on weights" in finding and "100 % of it" not in finding


def test_every_real_capture_gets_sentences(all_captures: Warehouse) -> None:
    names = [name for (name,) in all_captures.sql("SELECT name FROM captures ORDER BY name").fetchall()]
    for name in names:
        previous = 0
        for row in said(all_captures, name, unit=None).values():
            assert row["finding"].endswith(".") and row["remedy"].endswith(".") and row["evidence"], (name, row)
            assert row["unit"] in ("us", "cycles")
            assert row["share_percent"] is None or 0 <= row["share_percent"] <= 100
            assert row["time_at_stake"] is None or row["time_at_stake"] >= 0
            severity = ["high", "medium", "low"].index(row["severity"])
            assert severity >= previous, "the worst first"
            previous = severity
    assert said(all_captures, "mlp_0runs") == {} and set(said(all_captures, "mlp_debug")) == {"logged values"}
