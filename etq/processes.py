"""Processes that run a module of etq.

`concurrent.futures` would run the user's main script again in each process, unless the script has a guard.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Final

# The interval, in seconds, in which a process checks whether its parent is alive.
_LOOK: Final = 0.2


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module with this interpreter, and imports nothing from the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def search_path() -> str:
    """Return the PYTHONPATH with which a process imports the same modules as this one."""
    return os.pathsep.join(folder for folder in sys.path if folder)


def environment() -> dict[str, str]:
    """Return the environment of this process with that search path."""
    return {**os.environ, "PYTHONPATH": search_path()}


def end_with_parent() -> None:
    """End this process when its parent has ended, even if the parent was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()
