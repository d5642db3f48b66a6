"""Processes that tests start. A test that fails leaves none of them, and no open pipe."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    """Wait until a process has used this much more processor time, however busy the machine is."""

    def used() -> int:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        assert fields[0] not in "ZX", "the process has ended"
        return int(fields[11]) + int(fields[12])

    least = used() + seconds * os.sysconf("SC_CLK_TCK")
    while used() < least:
        time.sleep(0.02)
