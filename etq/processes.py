"""Processes that run a module of etq.

`concurrent.futures` would run the script of whoever imports etq again in each process, unless it has a guard.
"""

from __future__ import annotations

import os
import sys


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter, and imports nothing from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def search_path() -> str:
    """Return the PYTHONPATH with which a process imports the same modules as this one."""
    return os.pathsep.join(folder for folder in sys.path if folder)


def environment() -> dict[str, str]:
    """Return the environment of this process with that search path."""
    return {**os.environ, "PYTHONPATH": search_path()}
