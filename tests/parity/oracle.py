"""The answers of `executorch.devtools` that are kept beside the captures."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.conftest import CAPTURES


@lru_cache(maxsize=16)
def answer(name: str, what: str) -> dict[str, Any]:
    """What the oracle says of a capture; not to be changed. `what` is etdump, without_etrecord, time_scales, or empty."""
    with gzip.open(CAPTURES / "expected" / f"{name}{what and '.'}{what}.json.gz", "rt") as file:
        found: dict[str, Any] = json.load(file)
        return found


def names(what: str) -> list[str]:
    """The captures that the oracle was asked this of."""
    return sorted(path.name.split(".")[0] for path in (CAPTURES / "expected").glob(f"*.{what}.json.gz"))


def capture_path(name: str) -> Path:
    """The file of a capture."""
    [path] = [path for path in CAPTURES.glob(f"*/{name}.etdp") if path.parent.name != "malformed"]
    return path
