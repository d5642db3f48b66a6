"""Selectors of captures, as SQL reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# The label of a job's ranks.
JOB: Final = "job"
# Values that contain one of these characters, or have a space at an end, are written in quotation marks.
_QUOTED: Final = re.compile(r"[,\"|]|^ | $")


def selector_of(labels: Mapping[str, str]) -> str:
    """Return the selector of captures with these labels, in their order, as SQL's `_selector_value` writes values."""
    return ",".join(f"{key}={_in_selector(key, value)}" for key, value in labels.items())


def _in_selector(key: str, value: str) -> str:
    if key != "since" and not _QUOTED.search(value):
        return value
    return '"' + value.replace('"', '""') + '"'
