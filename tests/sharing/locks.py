"""Whether another process could open a warehouse's file for writing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OPEN = "import sys, duckdb; duckdb.connect(sys.argv[1]).close()"


def can_write(path: Path) -> bool:
    done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "Could not set lock" in done.stderr, done.stderr
    return done.returncode == 0
