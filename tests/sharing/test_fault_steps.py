"""Each call by which an operation writes fails in turn: what is there then opens, and has what was reported."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sharing.fault_steps import OPERATIONS
from tests.sharing.test_many_at_once import ROOT

# A few of an operation's calls; `python -m tests.sharing.fault_steps` has all of them fail.
EVERY = {"new": 93, "merge": 199, "compact": 89, "lake": 67}


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("to have calls fail takes Linux and a C compiler")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("fault_shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize("goes_on", [False, True], ids=["one call", "all after it"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_call_that_fails(shim: Path, tmp_path: Path, operation: str, goes_on: bool) -> None:
    every = EVERY.get(operation, 13) * (2 if goes_on else 1)
    command = [sys.executable, "-m", "tests.sharing.fault_steps", str(tmp_path / "f"), operation, "--every", str(every)]
    done = subprocess.run(
        [*command, *(["--all-after"] if goes_on else [])],
        cwd=ROOT,
        env=os.environ | {"LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [last] = done.stdout.splitlines()
    assert last.startswith(f"{operation}: ")
