"""Each writing call of an operation fails in turn: the files then open and contain everything reported as done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.sampling import IS_WHOLE
from tests.sharing.fault_steps import OPERATIONS

pytestmark = pytest.mark.long

# A few of an operation's calls; `python -m tests.sharing.fault_steps` has all of them fail.
EVERY = {"new": 279, "merge": 599, "compact": 269, "lake": 199, "compact lake": 211, "prune": 97}
SHIM = "fault_shim.c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.mark.parametrize("operation", OPERATIONS if IS_WHOLE else ["prune", "compact lake"])
def test_calls_that_fail(shim: Path, folder: Path, operation: str) -> None:
    every = EVERY.get(operation, 41)
    command = [sys.executable, "-m", "tests.sharing.fault_steps", str(folder), operation, "--every", str(every)]
    environment = os.environ | {"LD_PRELOAD": str(shim)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [last] = done.stdout.splitlines()
    assert last.startswith(f"{operation}: ")
