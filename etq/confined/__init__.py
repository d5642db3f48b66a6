"""Processes of etq that ask what isn't trusted, and may die of it.

DuckDB has functions that crash it, such as `json_contains` of 200,000 brackets, that it can't interrupt, such as
`parse_path` of a long text, and that its own limit of memory doesn't hold, such as `repeat`. A process of its own has
limits of the operating system, and what it dies of is an error of who asked.

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

# What a process may take beside its query, in MB: the libraries 250, the stack of each thread 8. A machine with many
# cores has a thread for each.
_LIBRARIES: Final = 512
_STACK: Final = 16
# Seconds that a process may take beside its query: to start, and to end when its time is over.
_BESIDE: Final = 15

_given: str | None = None


def given() -> str | None:
    """Return the text that this process is to ask; None if it isn't confined."""
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
    """Call the function `main` of a module in a confined process, which finds the text by `given`.

    Return its exit status, and what it writes; nothing of that where it writes to `output` and standard error itself.

    seconds    limit of the query's time
    megabytes  limit of its memory
    beside     what the process may take besides, in MB, as to read files

    Raises `QueryError` if the process dies: of its limits, or by a fault of DuckDB.
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
    """Limit this process. Where the operating system has no such limits, only those of DuckDB hold, and of time."""
    with suppress(ImportError):
        import resource

        cores = os.cpu_count() or 1
        byte_size = (megabytes + _LIBRARIES + _STACK * cores) << 20
        of_time = int(seconds + _BESIDE) * cores + 1
        # Of the memory that is written, also by threads and mappings: reserved addresses are no memory.
        limits = {resource.RLIMIT_DATA: byte_size, resource.RLIMIT_CPU: of_time, resource.RLIMIT_CORE: 0}
        for kind, limit in limits.items():
            with suppress(ValueError, OSError):  # a lower limit is set already
                resource.setrlimit(kind, (limit, limit))
    # What libraries write as they abort isn't for readers.
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def run(seconds: str, megabytes: str, module: str, *arguments: str) -> None:
    """Limit this process, read the text that it is to ask, and call the function `main` of a module."""
    global _given  # noqa: PLW0603 - a process is confined or not
    _enter(float(seconds), int(megabytes))
    end_with_parent()
    _given = sys.stdin.read()
    sys.argv = ["etq", *arguments]
    import_module(module).main()
