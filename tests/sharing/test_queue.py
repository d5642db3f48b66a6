"""Processes that open one warehouse take turns in the order in which they come, whatever happens to those that wait."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock, patch

import duckdb
import pytest

import etq
from etq.database import locking, waiting
from etq.errors import WarehouseError
from tests.sampling import whole
from tests.sharing import captures
from tests.sharing.test_many_at_once import READER, WRITER, hold, started

# Opens a warehouse so many times, to write a label or to read, and prints when it asked for it and when it got it.
TURNS = """
import json, sys, time
import etq
path, is_reader, times, name = sys.argv[1], sys.argv[2] == "reader", int(sys.argv[3]), sys.argv[4]
turns = []
etq.open(path, read_only=True).close()
sys.stdin.readline()
for number in range(times):
    asked = time.monotonic_ns()
    with etq.open(path, read_only=is_reader) as warehouse:
        turns.append((asked, time.monotonic_ns()))
        if is_reader:
            warehouse.rows("FROM capture_summary")
        else:
            warehouse.label("c0", **{name: str(number)})
print(json.dumps(turns))
"""


class Turn(NamedTuple):
    """When a process asked for a warehouse, and when it got it, on a clock that all processes share."""

    asked: int
    got: int
    process: int


def turns_of(path: Path, kinds: list[str], times: int) -> list[Turn]:
    """The turns of processes that all begin together."""
    processes = [started(TURNS, path, kind, times, f"w{number}", wait=120) for number, kind in enumerate(kinds)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    turns = []
    for number, process in enumerate(processes):
        printed = process.communicate()[0]
        assert process.returncode == 0
        turns += [Turn(asked, got, number) for asked, got in json.loads(printed)]
    return turns


def most_before(turns: list[Turn]) -> int:
    """The most turns that others began while one waited for its turn."""
    return max(sum(each.asked < other.got < each.got for other in turns) for each in turns)


@pytest.mark.parametrize(("writers", "times"), [(4, 6), pytest.param(8, 20, marks=whole)], ids=["few", "many"])
def test_writers_and_readers_take_turns(tmp_path: Path, writers: int, times: int) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        captures.ingest_one(warehouse, 0)
    kinds = ["writer"] * writers + ["reader"] * 2
    turns = turns_of(path, kinds, times)
    assert len(turns) == len(kinds) * times
    # In a fair queue, each of the others has one turn before.
    assert most_before(turns) <= 3 * (len(kinds) - 1)
    with etq.open(path, read_only=True) as warehouse:
        labels = dict(warehouse.rows("SELECT key, value FROM labels WHERE key LIKE 'w%'")[1])
    assert labels == {f"w{number}": str(times - 1) for number in range(writers)}
    assert [each.name for each in tmp_path.iterdir()] == ["lab.duckdb"]


# Writes its number into a file as soon as it has the warehouse.
ONE_TURN = """
import os, sys
import etq
path, order, number = sys.argv[1:]
with etq.open(path):
    file = os.open(order, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, number.encode())
"""


def places(path: Path) -> int:
    """How many processes wait for a file: the system lists locks by the file's number."""
    shown = Path(f"{path}{waiting.WAITING}")
    try:
        number = f":{shown.stat().st_ino}"
    except FileNotFoundError:
        return 0
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(each[-3].endswith(number) and each[-2] == each[-1] for each in locks)


def waiting_in_turn(path: Path, order: Path, count: int) -> list[subprocess.Popen[str]]:
    """Processes that wait for a file, in their order, which is held."""
    processes = []
    end = time.monotonic() + 60
    for number in range(count):
        processes.append(started(ONE_TURN, path, order, number))
        while places(path) <= number and time.monotonic() < end:
            time.sleep(0.01)
    assert places(path) == count
    return processes


def release(path: Path, holder: subprocess.Popen[str]) -> None:
    """End the process that holds a file; however long it took to get here, it is the turn of who is first."""
    os.utime(f"{path}{waiting.WAITING}")
    holder.communicate()


def test_killed_processes_lose_their_place(tmp_path: Path) -> None:
    path, order = tmp_path / "lab.duckdb", tmp_path / "order"
    etq.open(path).close()
    with hold(path, read_only=False) as holder:
        processes = waiting_in_turn(path, order, 5)
        for each in (processes[0], processes[2]):
            each.kill()
            each.communicate()
        release(path, holder)
        for each in (processes[1], processes[3], processes[4]):
            each.communicate()
            assert each.returncode == 0
    assert order.read_text() == "134"
    assert {each.name for each in tmp_path.iterdir()} == {"lab.duckdb", "order"}


def test_a_stopped_process_holds_up_nobody(tmp_path: Path) -> None:
    path, order = tmp_path / "lab.duckdb", tmp_path / "order"
    etq.open(path).close()
    with hold(path, read_only=False) as holder:
        first, *others = waiting_in_turn(path, order, 3)
        first.send_signal(signal.SIGSTOP)
        holder.communicate()
        for each in others:
            each.communicate()
            assert each.returncode == 0
        first.send_signal(signal.SIGCONT)
        first.communicate()
    assert sorted(order.read_text()[:2]) == ["1", "2"] and order.read_text()[2:] == "0"


def test_names_of_one_file_have_one_queue(tmp_path: Path) -> None:
    path, order = tmp_path / "lab.duckdb", tmp_path / "order"
    (tmp_path / "elsewhere").mkdir()
    linked = tmp_path / "elsewhere" / "linked.duckdb"
    linked.symlink_to(path)
    etq.open(path).close()
    with hold(path, read_only=False) as holder:
        first = waiting_in_turn(path, order, 2)
        last = started(ONE_TURN, linked, order, 2)
        while places(path) < 3:
            time.sleep(0.01)
        release(path, holder)
        for each in (*first, last):
            each.communicate()
    assert order.read_text() == "012"
    assert not [*linked.parent.glob("*.waiting")]


def test_who_has_the_file_open_does_not_wait_for_those_who_wait_for_it(tmp_path: Path) -> None:
    path, order = tmp_path / "lab.duckdb", tmp_path / "order"
    for read_only in (False, True):
        etq.open(path).close()
        with etq.open(path, read_only=read_only):
            [process] = waiting_in_turn(path, order, 1)
            with patch("etq.database.locking.time.sleep", side_effect=AssertionError("it waits")):
                etq.open(path, read_only=read_only).close()
        process.communicate()
        assert process.returncode == 0


def test_readers_join_one_that_has_the_file_open_for_long(tmp_path: Path) -> None:
    """A writer that waits for a notebook keeps out other readers for a while only."""
    path, order = tmp_path / "lab.duckdb", tmp_path / "order"
    etq.open(path).close()
    with hold(path, read_only=True) as holder:
        [writer] = waiting_in_turn(path, order, 1)
        shown = Path(f"{path}{waiting.WAITING}")
        held = duckdb.IOException('Could not set lock on file "lab.duckdb": held')
        opening = Mock(side_effect=held)
        with pytest.raises(WarehouseError, match="held by"), patch.object(waiting, "LONGEST_FIRST", 1000):
            locking.retry_while_locked(str(path), opening, wait=0.5)
        assert opening.call_count == 1, "it tries only when its time is over"
        long_ago = time.time() - waiting.LONGEST_FIRST - 1
        os.utime(shown, (long_ago, long_ago))
        with patch("etq.database.locking.time.sleep", side_effect=AssertionError("it waits")):
            etq.open(path, read_only=True).close()
        assert writer.poll() is None
        holder.communicate()
        writer.communicate()
        assert writer.returncode == 0


def test_compacting_waits_for_readers_and_keeps_writers_out(tmp_path: Path) -> None:
    path = tmp_path / "lab.duckdb"
    with etq.open(path) as warehouse:
        for number in range(3):
            captures.ingest_one(warehouse, number)
    readers = [started(READER, path) for _ in range(3)]
    captures.write(tmp_path, range(10, 15))
    writer = started(WRITER, path, tmp_path, *range(10, 15))
    for _ in range(5):
        with etq.open(path, wait=120) as warehouse:
            warehouse.remove("c0")
            captures.ingest_one(warehouse, 0)
            warehouse.compact()
    writer.communicate()
    assert writer.returncode == 0
    for reader in readers:
        times, wrong = reader.communicate("end\n")[0].split(" ", 1)
        assert reader.returncode == 0 and int(times) > 0 and wrong == "[]\n"
    with etq.open(path, read_only=True) as warehouse:
        assert len(warehouse.captures().fetchall()) == 8
        assert captures.torn(warehouse) == []


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "file without rights"])
def test_what_else_has_the_name_of_the_queue(tmp_path: Path, kind: str) -> None:
    """It is left alone, and processes wait without a queue."""
    path, other = tmp_path / "lab.duckdb", tmp_path / "other"
    etq.open(path).close()
    shown = Path(f"{path}{waiting.WAITING}")
    other.write_text("mine")
    if kind in ("link", "dangling link"):
        shown.symlink_to(other if kind == "link" else tmp_path / "none")
    elif kind == "pipe":
        os.mkfifo(shown)
    elif kind == "folder":
        shown.mkdir()
    else:
        shown.touch(0)
    before = shown.lstat() if kind != "file without rights" else None
    with hold(path, read_only=False) as holder:
        processes = [started(ONE_TURN, path, tmp_path / "order", number) for number in range(2)]
        time.sleep(0.3)
        holder.communicate()
        for each in processes:
            each.communicate()
            assert each.returncode == 0
    etq.open(path, read_only=True).close()
    if before is not None:
        assert (shown.lstat().st_ino, shown.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert other.read_text() == "mine" and not (tmp_path / "none").exists()
    assert sorted((tmp_path / "order").read_text()) == ["0", "1"]
