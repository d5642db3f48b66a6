"""Processes that run a module of etq."""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter, and imports nothing from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def search_path() -> str:
    """Return the PYTHONPATH with which a process imports the same modules as this one."""
    return os.pathsep.join(each for each in sys.path if each)


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of this process with that search path and other changes."""
    return {**os.environ, "PYTHONPATH": search_path(), **changes}
