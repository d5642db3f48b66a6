"""What commands print, as rows."""

from __future__ import annotations

import json
from typing import Any

from tests.command_line import run_etq


def rows(*arguments: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    result = run_etq(*arguments, "--format", "json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found
