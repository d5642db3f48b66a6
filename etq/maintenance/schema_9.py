"""Schema 9: comments on changes and the comparisons of overviews are kept; there were none."""

from __future__ import annotations

from typing import Final

from etq.maintenance.migration import Migration

MIGRATION: Final = Migration(tables=frozenset({"change_comments", "overview_comparisons"}))
