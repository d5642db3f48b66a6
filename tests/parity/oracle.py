"""The recorded answers of `executorch.devtools`, which are stored with the captures."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.conftest import CAPTURES


@lru_cache(maxsize=16)
def answer(name: str, what: str) -> dict[str, Any]:
    """The oracle's answer for a capture; tests must not change it. `what` is the suffix of its file, or empty."""
    with gzip.open(CAPTURES / "expected" / f"{name}{what and '.'}{what}.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
        return found


def names(what: str) -> list[str]:
    """The captures for which this answer was recorded."""
    return sorted(path.name.split(".")[0] for path in (CAPTURES / "expected").glob(f"*.{what}.json.gz"))


def capture_path(name: str) -> Path:
    """The file of a capture."""
    [path] = [path for path in CAPTURES.glob(f"*/{name}.etdp") if path.parent.name != "malformed"]
    return path
