"""A commit between DuckDB's reading of a file's headers and its lock on the file is not lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import etq
from tests.sharing import captures
from tests.sharing.test_many_at_once import ROOT, WRITER

pytestmark = pytest.mark.long

SHIM = "held_back.c"


def test_a_commit_before_the_lock_stays(shim: Path, tmp_path: Path) -> None:
    path, held_back = tmp_path / "lab.duckdb", tmp_path / "held_back"
    etq.open(path).close()
    captures.write(tmp_path, range(2))
    command = [sys.executable, "-c", WRITER, str(path), str(tmp_path)]
    environment = os.environ | {"LD_PRELOAD": str(shim), "HELD_BACK": str(held_back)}
    with subprocess.Popen([*command, "0"], cwd=ROOT, env=environment) as late:
        while not held_back.exists():
            assert late.poll() is None
            time.sleep(0.01)
        # The other process has read the headers, and has no lock.
        subprocess.run([*command, "1"], cwd=ROOT, check=True)
        held_back.unlink()
        assert late.wait() == 0
    with etq.open(path, read_only=True) as warehouse:
        assert warehouse.rows("SELECT c.name FROM captures AS c ORDER BY c.capture_id")[1] == [("c1",), ("c0",)]
        assert captures.torn(warehouse) == []
