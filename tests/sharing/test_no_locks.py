"""Folders whose file system has no locks, or grants each: two writers there would overwrite each other's captures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import etq
from tests.processes import ROOT
from tests.sharing import captures

pytestmark = pytest.mark.long

SHIM = "no_locks.c"


def run(shim: Path, locks: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A command on a file system with such locks."""
    settings = {**os.environ, "LD_PRELOAD": str(shim), "ETQ_LOCKS": locks, "ETQ_WAIT": "20"}
    command = [sys.executable, "-m", "etq", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=settings, cwd=ROOT, check=False)


def test_writers_are_refused_without_locks_and_readers_where_none_is_granted(shim: Path, tmp_path: Path) -> None:
    path, new = tmp_path / "lab.duckdb", tmp_path / "new.duckdb"
    captures.write(tmp_path, range(2))
    with etq.open(path) as warehouse:
        warehouse.ingest(tmp_path / "c0.etdp")
    before = path.read_bytes()
    for locks, target in (("all", path), ("all", new), ("none", path)):
        done = run(shim, locks, "ingest", tmp_path / "c1.etdp", "--db", target)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {target}: file locks don't work in its folder, so that writers would ")
        assert len(done.stderr.splitlines()) == 1 and "move the warehouse to a disk of this machine" in done.stderr
    assert path.read_bytes() == before and not new.exists()
    assert not [*tmp_path.glob("*.waiting")]
    done = run(shim, "all", "captures", "--db", path, "--format", "csv")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    # Where no lock is granted, it is refused at once and not waited for.
    done = run(shim, "none", "captures", "--db", path)
    assert done.returncode == 1 and "file locks don't work in its folder" in done.stderr, done.stderr
