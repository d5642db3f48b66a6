"""Whether the graphs of a program's delegates are those that a capture ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

UNALIGNED: Final = "no event of {} matches the graphs of this program's delegates: is it the program that ran?"


def are_unaligned(warehouse: Warehouse, selector: str) -> bool:
    """Whether a capture has events of delegates whose graphs are read, none of which has an op in them."""
    return bool(warehouse.rows("SELECT _has_unaligned_delegates(_capture_id($capture))", capture=selector)[1][0][0])
