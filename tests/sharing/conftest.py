"""Warehouses as users make them, because these tests are about files; and libraries that replace calls."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from etq.database import connection as connecting
from etq.warehouse import warehouse


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warehouse, "connect", connecting.connect)


@pytest.fixture(scope="module")
def shim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the C file that the test module names in `SHIM`, for LD_PRELOAD."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("calls are replaced by a library, on Linux and by a C compiler")
    source, library = Path(__file__).with_name(request.module.SHIM), tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
