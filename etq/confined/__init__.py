"""Processes of etq that run untrusted queries, which may end the process. Some functions crash DuckDB, such as
`json_contains` with 200,000 brackets; some can't be interrupted, such as `parse_path` with a long text; some exceed
DuckDB's memory limit, such as `repeat`. A separate process has the limits of the operating system, and its death
becomes an error of the query.

`python -m etq.confined SECONDS MEGABYTES MODULE [ARGUMENT]...` is such a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, TextIO

from etq.errors import QueryError
from etq.processes import command, end_with_parent, environment

# Memory that a process needs besides its query, in MB: 250 for the libraries, 8 for the stack of each thread. A machine
# with many cores has a thread for each.
_LIBRARIES: Final = 512
_STACK: Final = 16
# Seconds that a process may take besides its query: to start, and to end when its time is over.
_BESIDE: Final = 15

_given: str | None = None


def given() -> str | None:
    """Return the text that this process was given to run; None if it isn't confined."""
    return _given


def ask(
    module: str,
    arguments: Sequence[str],
    text: str,
    *,
    seconds: float,
    megabytes: int,
    beside: int = 0,
    output: TextIO | None = None,
) -> subprocess.CompletedProcess[str]:
    """Call the function `main` of a module in a confined process, which gets the text from `given`.

    Return its exit status and its output; the output is empty if the process writes directly to `output` and standard
    error.

    seconds    limit of the query's time
    megabytes  limit of its memory
    beside     what the process may take besides, in MB, for example to read files

    Raises `QueryError` if the process dies, because of its limits or because of a fault in DuckDB.
    """
    process = subprocess.Popen(
        command("etq.confined", str(seconds), str(megabytes + beside), module, *arguments),
        stdin=subprocess.PIPE, stdout=output or subprocess.PIPE, stderr=None if output else subprocess.PIPE,
        env=environment(), encoding="utf-8",
    )  # fmt: skip
    with process:
        try:
            written = process.communicate(text, seconds + _BESIDE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise QueryError(f"the query took longer than {seconds:g} s") from None
        except BaseException:
            process.kill()
            raise
    if process.returncode < 0:
        raise QueryError(_death(-process.returncode, seconds, megabytes))
    return subprocess.CompletedProcess(process.args, process.returncode, *written)


def _death(number: int, seconds: float, megabytes: int) -> str:
    if number in (signal.SIGXCPU, signal.SIGKILL):
        return f"the query took longer than {seconds:g} s, or more than {megabytes} MB of memory"
    name = signal.Signals(number).name
    return f"the query ended its process ({name}): DuckDB can't run it; write it in another way"


def _enter(seconds: float, megabytes: int) -> None:
    """Limit this process. If the operating system has no such limits, only DuckDB's limits and the time limit apply."""
    with suppress(ImportError):
        import resource

        cores = os.cpu_count() or 1
        byte_size = (megabytes + _LIBRARIES + _STACK * cores) << 20
        of_time = int(seconds + _BESIDE) * cores + 1
        # The limit counts writable memory, including that of threads and mappings: reserved addresses aren't memory.
        limits = {resource.RLIMIT_DATA: byte_size, resource.RLIMIT_CPU: of_time, resource.RLIMIT_CORE: 0}
        for kind, limit in limits.items():
            with suppress(ValueError, OSError):  # a lower limit is set already
                resource.setrlimit(kind, (limit, limit))
    # Messages of aborting libraries aren't for users.
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def run(seconds: str, megabytes: str, module: str, *arguments: str) -> None:
    """Limit this process, read the text to run, and call the function `main` of a module."""
    global _given  # noqa: PLW0603 - a process is confined or not
    _enter(float(seconds), int(megabytes))
    end_with_parent()
    _given = sys.stdin.read()
    sys.argv = ["etq", *arguments]
    import_module(module).main()
