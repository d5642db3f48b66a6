"""A small lake of somebody else's doesn't unpack to gigabytes: commands refuse it in little memory, in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lake.test_lake import FLEET, one_of

pytest.importorskip("deltalake", reason="lakes need deltalake: pip install 'etq[lake]'")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system limits no process's memory")

# Prints the most memory that the process had; more addresses than this are refused it, so that the machine survives.
_CHILD = """
import atexit, re, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
atexit.register(lambda: print(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr))
from etq.cli import main
main()
"""
# What any command on a lake takes, and some room.
_MOST = 600_000  # KiB


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("received") / "lake"
    one_of(FLEET[:1], lake)
    return lake


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "lake"))


def answer(*command: str | Path, most: int = _MOST) -> str:
    """The last line of a command that is refused, and takes at most so much memory."""
    arguments = [sys.executable, "-c", _CHILD, *map(str, command)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    *_, line, peak = done.stderr.splitlines()
    assert done.returncode == 1 and int(peak) < most and len(line) < 400, done
    return line


def test_a_gap_of_any_width_in_a_log_is_named(lake: Path) -> None:
    log = lake / "captures/_delta_log"
    (log / f"{10**14 - 1:020}.json").write_bytes(max(log.glob("*.json")).read_bytes())
    for command in ("check", "compact", "add"):
        line = answer("lake", command, lake, *([FLEET[1]] if command == "add" else []))
        assert line == f"Error: {lake}/captures: the log is damaged: version 2 is missing"
