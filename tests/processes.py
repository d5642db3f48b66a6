"""Processes that tests start. A test that fails leaves none of them, and no open pipe."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@contextmanager
def process(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process. The block's end waits for the process; an error in the block kills it first."""
    with subprocess.Popen([*map(str, command)], **options) as started:
        try:
            yield started
        except BaseException:
            started.kill()
            raise


@contextmanager
def held(path: Path, *, read_only: bool = False, seconds: float | None = None) -> Iterator[subprocess.Popen[Any]]:
    """A process that has a DuckDB file open: for some time, or until the block's end."""
    wait = "sys.stdin.read()" if seconds is None else f"time.sleep({seconds})"
    code = f"connection = duckdb.connect(sys.argv[1], read_only={read_only}); print('held', flush=True); {wait}"
    command = [sys.executable, "-c", f"import duckdb, sys, time; {code}", path]
    with process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield holder


def wait_for_work(pid: int, seconds: float) -> None:
    """Wait until a process and those that it started have used this much more processor time, however busy the machine
    is. An ended process is waited for no longer.
    """
    if not Path("/proc/self/stat").exists():
        pytest.skip("the processor time of a process is read from /proc")
    least = _used(pid) + seconds * os.sysconf("SC_CLK_TCK")
    while _stat(pid)[0] not in "ZX" and _used(pid) < least:
        time.sleep(0.02)


def command_lines() -> Iterator[list[str]]:
    """The words of each process that runs. They are read from /proc, as small images have no `ps`."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # it has ended
            yield Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1]


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _used(pid: int) -> int:
    """The processor time of a process and those that it started, in ticks; 0 if it is no longer there."""
    try:
        state = _stat(pid)
        children = " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return 0
    return int(state[11]) + int(state[12]) + sum(map(_used, map(int, children.split())))
