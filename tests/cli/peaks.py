"""The peak memory of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ON_LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")
# The peak of this process alone: `ru_maxrss` includes that of the process from which it was forked.
_SCRIPT: Final = """
import re, sys
from pathlib import Path
from click.testing import CliRunner
from etq.cli import main
result = CliRunner().invoke(main, sys.argv[1:])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(result.exit_code, len(result.stdout.splitlines()), peak)
"""


def lines_and_peak(folder: Path, *arguments: str | Path) -> tuple[int, int, int]:
    """A command's status, the number of lines that it prints, and its peak of memory in kilobytes."""
    script = folder / "script.py"
    script.write_text(_SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    status, lines, kilobytes = map(int, done.stdout.split())
    return status, lines, kilobytes
