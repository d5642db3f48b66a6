"""What changed in a lake between two of its versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from etq.lake.tables import Lake, read


@dataclass(frozen=True)
class Change:
    """A capture that was added, removed or replaced: its name now, or the last one that it had."""

    name: str
    sha256: str
    what: Literal["added", "removed", "replaced"]


def changes(
    path: str | os.PathLike[str],
    since: int,
    *,
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> list[Change]:
    """The captures that changed from version `since` to now, or to `version`, by name. Compacting changes none.

    Raises `WarehouseError` for what isn't a lake, and for versions that it doesn't have.
    """
    lake = Lake.at(path, storage_options)
    before, after = _captures(lake, since), _captures(lake, version)
    found = [Change(after[each]["name"], each, "added") for each in after.keys() - before.keys()]
    found += [Change(before[each]["name"], each, "removed") for each in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    found += [Change(after[each]["name"], each, "replaced") for each in both if _differ(before[each], after[each])]
    return sorted(found, key=lambda each: (each.name, each.sha256))


def _captures(lake: Lake, version: int | None) -> dict[str, dict[str, Any]]:
    """The captures at a version, by SHA-256."""
    columns = ["sha256", "name", "ingested_at", "record_id", "program_id"]
    return {row["sha256"]: row for row in read(lake, version).captures.to_pyarrow_table(columns=columns).to_pylist()}


def _differ(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return {**before, "name": ""} != {**after, "name": ""}
