"""A process that ingests is killed at any moment: reported captures are there and whole, and ingesting continues."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import etq
from etq import processes
from tests.command_line import run_etq
from tests.sampling import IS_WHOLE
from tests.sharing import captures

pytestmark = pytest.mark.long


def killed_once(path: Path, first: int, delay: float) -> set[int]:
    """The captures that a process reported that ingests from a number on and is killed after a delay."""
    context = multiprocessing.get_context("forkserver")
    # Readers of files are imported once, not by each process that is killed.
    context.set_forkserver_preload(["etq.storage.capture", "etq.warehouse.warehouse", "tests.sharing.captures"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=captures.ingest_until_killed, args=(str(path), first, sending))
    process.start()
    sending.close()
    assert receiving.recv() == -1
    time.sleep(delay)
    process.kill()
    process.join()
    heard = set()
    with suppress(EOFError):
        while True:
            heard.add(receiving.recv())
    receiving.close()
    return heard


def check_kills(folder: Path, kills: int, each_file: int) -> tuple[Path, int]:
    """Kill so often, at random moments, beginning a new file each so many times; the last file, and its captures."""
    chosen = random.Random(5)
    path, there = folder / "none", 0
    for kill in range(kills):
        if kill % each_file == 0:
            path, there = folder / f"lab{kill}.duckdb", 0
        # Some while the file is made.
        committed = killed_once(path, there, chosen.uniform(0, 0.1 if kill % each_file == 0 else 0.5))
        with etq.open(path) as warehouse:
            names = {name for (name,) in warehouse.rows("SELECT name FROM captures")[1]}
            # The earlier captures, those that were reported, and perhaps one that was not reported before the kill.
            last = max((int(name[1:]) + 1 for name in names), default=0)
            assert names == {f"c{number}" for number in range(last)}
            assert {f"c{number}" for number in committed} <= names and last <= max([there - 1, *committed]) + 2
            assert captures.torn(warehouse) == []
        there = last
    return path, there


def test_kills(tmp_path: Path) -> None:
    path, there = check_kills(tmp_path, *((60, 30) if IS_WHOLE else (5, 3)))
    if not IS_WHOLE:
        return
    quiet = tmp_path / "quiet.duckdb"
    for start in range(0, there, 3):
        with etq.open(quiet) as warehouse:
            for number in range(start, min(start + 3, there)):
                captures.ingest_one(warehouse, number)
    # A killed checkpoint leaves blocks that the next one uses: some, and not some for each kill.
    assert path.stat().st_size < 1.5 * quiet.stat().st_size
    assert not path.with_name(f"{path.name}.wal").exists()


KILLED = """
import os, sys
import etq
from etq.database import schema

schema.publish_new = lambda *_: os._exit(9)
etq.open(sys.argv[1])
"""


def test_a_process_killed_before_it_made_the_file_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, env=processes.environment())
    assert done.returncode == 9 and not path.exists()
    assert run_etq("captures", "--db", str(path)).exit_code == 1
    with etq.open(path) as warehouse:
        assert warehouse.ingest("tests/captures/mlp/mlp.etdp").is_new
    with etq.open(path, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 1


def test_an_empty_file_becomes_a_warehouse(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    path.touch()
    with etq.open(path) as warehouse:
        assert warehouse.ingest("tests/captures/mlp/mlp.etdp").is_new
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]


def test_the_log_of_a_killed_process_is_written_to_the_file_once(tmp_path: Path) -> None:
    """By whoever opens it first: readers would replay it each time, within their limit of memory."""
    path, left = tmp_path / "lab.duckdb", tmp_path / "left.duckdb"
    with etq.open(path) as warehouse:
        captures.ingest_one(warehouse, 1)
        for ending in ("", ".wal"):
            shutil.copy(f"{path}{ending}", f"{left}{ending}")
    with etq.open(left, read_only=True) as warehouse:
        assert warehouse.rows("SELECT name FROM captures")[1] == [("c1",)]
        assert not Path(f"{left}.wal").exists()
