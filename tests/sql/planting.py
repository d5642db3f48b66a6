"""A warehouse of the fleet, and changes planted in it, which comparisons must find."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import etq
from etq.advice.filling import fill_rollups
from etq.storage.inserting import settle
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.conftest import CAPTURES

START = datetime(2026, 1, 1)


def make_lab(path: Path, model: str, captures: int) -> Path:
    """A file of captures of one model."""
    with etq.open(path) as warehouse:
        fill_lab(warehouse, model, captures)
    return path


def fill_lab(warehouse: Warehouse, model: str, captures: int, *, linked: bool = True) -> None:
    """Ingest captures of one model, linked to their record. Their sides alternate: base, new, new, base."""
    record = warehouse.ingest_record(CAPTURES / model / f"{model}.etrecord", name=model)
    made = [
        Labelled(
            f"{model}{number:02}",
            CAPTURES / "fleet" / model / f"{number:02}.etdp",
            {"side": ("base", "new", "new", "base")[number % 4], "model": model},
            START + timedelta(minutes=number),
        )
        for number in range(captures)
    ]
    ingest_all(warehouse, made, link_to=[record] if linked else [])


def keys_of(warehouse: Warehouse, selector: str) -> list[int]:
    query = "SELECT m.capture_id FROM _matching_captures($selector) AS m ORDER BY ALL"
    return [key for (key,) in warehouse.rows(query, selector=selector)[1]]


def refill(warehouse: Warehouse, keys: Sequence[int]) -> None:
    """Compute own times and rollups again of all captures from the first of these to the last, at once."""
    settle(warehouse.connection, min(keys), max(keys))
    fill_rollups(warehouse.connection, min(keys), max(keys))


def plant(warehouse: Warehouse, selector: str, factor: float, instruction: int | None = None) -> None:
    """Multiply the time of an instruction's kernel by `factor` and extend its parents; without one, slow everything."""
    keys = keys_of(warehouse, selector)
    assert keys
    if instruction is None:
        warehouse.connection.execute(
            "UPDATE event_ticks SET elapsed_ticks = round(elapsed_ticks * ?)::BIGINT WHERE list_contains(?, capture_id)",
            [factor, keys],
        )
        return refill(warehouse, keys)
    # The kernel's OPERATOR_CALL and its Method::execute become longer by as much as the kernel.
    warehouse.connection.execute(
        """
        CREATE OR REPLACE TEMP TABLE added AS
        SELECT e.capture_id, e.run_index, e.event_index, e.parent_index, e.execute_index,
            round(e.duration_ticks * (? - 1))::BIGINT AS ticks
        FROM events AS e
        WHERE e.kind IN ('kernel', 'delegate') AND e.instruction_id = ? AND list_contains(?, e.capture_id)
        """,
        [factor, instruction, keys],
    )
    warehouse.connection.execute(
        """
        UPDATE event_ticks SET elapsed_ticks = elapsed_ticks + a.ticks FROM added AS a
        WHERE event_ticks.capture_id = a.capture_id AND event_ticks.run_index = a.run_index
            AND event_ticks.event_index IN (a.event_index, a.parent_index, a.execute_index)
        """
    )
    return refill(warehouse, keys)


def rows_of(warehouse: Warehouse, view: str, base: str = "side=base", new: str = "side=new", **given: Any) -> list[Any]:
    """The rows of a comparing view as dictionaries."""
    arguments = "".join(f", {name} := ${name}" for name in given)
    columns, rows = warehouse.rows(f"FROM {view}($base, $new{arguments})", base=base, new=new, **given)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def rules(warehouse: Warehouse, **given: Any) -> dict[str, str]:
    """The findings of a comparison: the last detail of each rule."""
    return {row["rule"]: row["detail"] for row in rows_of(warehouse, "compare_findings", **given)}


def judged(rows: list[Any], *verdicts: str) -> list[Any]:
    return [row for row in rows if row["verdict"] in (verdicts or ("slower", "faster"))]
