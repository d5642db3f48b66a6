"""`outliers`: each device against all others, on a fleet with planted faults."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from etq.errors import QueryError
from etq.warehouse.warehouse import Warehouse
from tests.batches import ingest_all
from tests.fleet_captures import DEVICES, FAULTS, OPS, fleet, ingest_fleet
from tests.warehouses import empty_warehouse

# The devices that are slower, with the factor of their ops.
PLANTED = {"pixel8-13": ("all ops", 1.28), "pixel8-07": ("addmm", 1.4)}


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """The fleet with its faults; not to be written to."""
    with empty_warehouse() as warehouse:
        ingest_fleet(warehouse)
        yield warehouse


def asked(warehouse: Warehouse, query: str, **parameters: Any) -> list[dict[str, Any]]:
    names, rows = warehouse.rows(query, **parameters)
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.long
def test_both_slow_devices_are_found_and_no_other(lab: Warehouse) -> None:
    rows = asked(lab, "FROM outliers('model=mlp')")
    assert {row["value"] for row in rows} == set(DEVICES) and len(rows) == 20
    assert {row["value"]: row["in_ops"] for row in rows if row["verdict"] != "~" or row["in_ops"]} == {
        device: where for device, (where, _) in PLANTED.items()
    }
    total, addmm = (sum(time for op, time in OPS["mlp"] if of in (None, op)) for of in (None, "addmm"))
    outside = 1_000 + 700 + 300 * len(OPS["mlp"])
    factors = {"pixel8-13": total * 1.28, "pixel8-07": total + 0.4 * addmm}
    for row in rows[:2]:
        assert row["verdict"] == "slower" and row["captures"] == 4 and row["other_captures"] == 18 * 4
        expected = 100 * ((factors[row["value"]] + outside) / (total + outside) - 1)
        assert row["low_percent"] < expected < row["high_percent"]
    assert rows[0]["common_percent"] == pytest.approx(28, abs=1)


def test_the_ops_of_a_slow_device(lab: Warehouse) -> None:
    rows = asked(lab, "FROM outliers('model=mlp', what := 'op')")
    assert len(rows) == 20 * 4
    both = asked(lab, "FROM outliers('model=mlp', what := NULL)")
    assert [row for row in both if row["instances"] is not None] == rows
    assert [row for row in both if row["instances"] is None] == asked(lab, "FROM outliers('model=mlp')")
    [slower] = [row for row in rows if row["verdict"] in ("slower", "faster")]
    assert (slower["value"], slower["op"], slower["instances"], slower["slower_instances"]) == (
        "pixel8-07",
        "addmm",
        4,
        4,
    )
    assert slower["low_percent"] < 40 < slower["high_percent"]


@pytest.mark.long
def test_rows_are_those_of_comparisons(lab: Warehouse) -> None:
    """Each device with those that don't differ, and a twentieth of alpha."""
    others = "|".join(sorted(PLANTED))
    rows = {row["value"]: row for row in asked(lab, "FROM outliers('model=mlp')")}
    for device in (*PLANTED, "pixel8-01", "pixel8-20"):
        [compared] = asked(
            lab,
            "FROM compare_captures($base, $new, alpha := 0.0025) WHERE what = 'total'",
            base=f"model=mlp,device!={device}|{others}",
            new=f"model=mlp,device={device}",
        )
        row, same = (
            rows[device],
            ("verdict", "change_percent", "low_percent", "high_percent", "base", "new", "unit", "note"),
        )
        assert {name: row[name] for name in same} == {name: compared[name] for name in same}
        assert row["q"] == pytest.approx(min(1, 20 * compared["p"]))


@pytest.mark.long
def test_a_device_with_another_condition_is_not_judged(warehouse: Warehouse) -> None:
    captures = [each for each in fleet(FAULTS[1:2]) if each.labels["device"] in DEVICES[9:14]]
    ingest_all(warehouse, [each for each in captures if each.labels["model"] == "mlp"])
    for each in captures:
        if each.labels["model"] == "mlp":
            warehouse.metric(each.name, "temperature", 60 if each.labels["device"] == "pixel8-13" else 30)
    verdicts = {row["value"]: row["verdict"] for row in asked(warehouse, "FROM outliers()")}
    assert verdicts.pop("pixel8-13") == "conditions differ" and set(verdicts.values()) <= {"~", "not decided"}
    [(verdict,)] = warehouse.rows("SELECT verdict FROM outliers(allow_mismatch := true) WHERE value = 'pixel8-13'")[1]
    assert verdict == "slower"


ERRORS = {
    "outliers()": "the captures are of 5 models, convnet, embedder, lstm, ...: choose one, as model=convnet",
    "outliers('model=mlp', by := 'soc')": "no capture of model=mlp has a label soc; labels are commit, commit_time, ",
    "outliers('model=lstm')": "all captures with a label device have device=pixel8-01: there is no other to compare",
    "outliers('model=mlp', what := 'module')": "what must be 'total' or 'op', not module",
    "outliers('model=x')": "no capture matches model=x: none has model=x",
    "outliers('model=mlp', alpha := 2)": "alpha must be",
}


@pytest.mark.long
@pytest.mark.parametrize("call", ERRORS)
def test_errors(lab: Warehouse, call: str) -> None:
    with pytest.raises(QueryError) as raised:
        lab.rows(f"FROM {call}")
    assert ERRORS[call] in str(raised.value)
