"""Schema 8: overviews are kept; there were none."""

from __future__ import annotations

from typing import Final

from etq.maintenance.migration import Migration

MIGRATION: Final = Migration(tables=frozenset({"overview_items"}))
