"""A folder with two programs and a runner that stands in for executor_runner."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.conftest import CAPTURES

RUNNER = Path(__file__).with_name("executor_runner.py")
OPS = {"addmm": 60, "relu": 30, "add": 20, "mul": 25}


@dataclass
class Lab:
    """The folder: `base.pte` and `new.pte` are programs; what their runs do is set by `does`."""

    folder: Path

    def does(self, side: str, ops: Mapping[str, float] = OPS, **failing: Any) -> None:
        """State what a run of a program does."""
        (self.folder / f"{side}.pte.json").write_text(json.dumps({"ops": ops, **failing}))

    def calls(self, side: str) -> list[dict[str, str]]:
        """The options of each call of the runner for a program."""
        path = self.folder / f"{side}.pte.calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def rows(self, query: str, db: str = "bench-b/bench.duckdb") -> list[tuple[Any, ...]]:
        """Rows of the benchmark's warehouse."""
        with etq.open(self.folder / db, read_only=True) as warehouse:
            return warehouse.rows(query)[1]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETQ_DB", raising=False)
    program = (CAPTURES / "mlp/mlp.pte").read_bytes()
    for side in ("base", "new"):
        # The same program; its last bytes, which no reader reads, tell the sides apart.
        (tmp_path / f"{side}.pte").write_bytes(program + side.encode())
    runner = tmp_path / "bin/executor_runner"
    runner.parent.mkdir()
    runner.write_text(
        f"#!{sys.executable}\n{RUNNER.read_text()}".replace("Path(__file__).parents[2]", repr(str(RUNNER.parents[2])))
    )
    runner.chmod(0o755)
    monkeypatch.setenv("ETQ_RUNNER", str(runner))
    assert shutil.which(str(runner))
    made = Lab(tmp_path)
    made.does("base")
    made.does("new")
    return made
