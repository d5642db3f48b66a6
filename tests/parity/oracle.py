"""The recorded answers of `executorch.devtools`, which are stored with the captures."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.conftest import CAPTURES


def read(path: Path) -> Any:
    """The JSON of a packed file."""
    return json.loads(gzip.decompress(path.read_bytes()))


@lru_cache(maxsize=16)
def answer(name: str, what: str) -> dict[str, Any]:
    """The oracle's answer for a capture; tests must not change it. `what` is the suffix of its file, or empty."""
    found: dict[str, Any] = read(CAPTURES / "expected" / f"{name}{what and '.'}{what}.json.gz")
    return found


def names(what: str) -> list[str]:
    """The captures for which this answer was recorded."""
    return sorted(path.name.split(".")[0] for path in (CAPTURES / "expected").glob(f"*.{what}.json.gz"))


def events(name: str, what: str) -> list[dict[str, Any]]:
    """The Inspector's events, in order."""
    return [event for block in answer(name, what)["blocks"] for event in block["events"]]


def frame(name: str, what: str) -> list[dict[str, Any]]:
    """The rows of the Inspector's DataFrame, by columns without their units."""
    return rows(answer(name, what)["dataframe"]["value"])


def rows(dataframe: dict[str, Any]) -> list[dict[str, Any]]:
    columns = [column.split(" ")[0] for column in dataframe["columns"]]
    return [dict(zip(columns, row, strict=True)) for row in dataframe["rows"]]


def capture_path(name: str) -> Path:
    """The file of a capture."""
    [path] = [path for path in CAPTURES.glob(f"*/{name}.etdp") if path.parent.name != "malformed"]
    return path
