"""`etq export --to replay`: a script that measures one op of a trace."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.sql.test_op_efficiency import H100, launched, op
from tests.trace_builders import trace

CALLS = str(CAPTURES / "torch_costs/calls.trace.json.gz")
EVIL = "'\"\"\"\\\n__import__('os').system('touch evil')#\x1b[2J\u202e"


def call_of(script: str) -> dict[str, Any]:
    """The call that a script has, without running it."""
    [assigned] = [
        node
        for node in ast.parse(script).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "CALL"
    ]
    assert isinstance(assigned.value, ast.Call)
    found: dict[str, Any] = json.loads(ast.literal_eval(assigned.value.args[0]))
    return found


@pytest.mark.long
def test_the_call_of_most_time_or_the_one_that_is_named() -> None:
    call = call_of(run_etq("export", CALLS, "--to", "replay", "--op", "aten::mm").stdout)
    rows = json.loads(run_etq("roofline", CALLS, "--format", "json").stdout)
    longest = max((row for row in rows if row["op"] == "aten::mm"), key=lambda row: row["total"])
    assert (call["inputs"], call["calls"], call["flops"]) == (longest["inputs"], longest["calls"], longest["flops"])
    for named in ("bf16[7,64] bf16[64,10]", "[[7,64],[64,10]]"):
        call = call_of(run_etq("export", CALLS, "--to", "replay", "--op", "aten::mm", "--shapes", named).stdout)
        assert (call["shapes"], call["flops"]) == ([[7, 64], [64, 10]], 2 * 7 * 64 * 10)


def test_what_the_trace_has_is_data(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt.trace.json"
    events = [op("aten::mm", 0, 9, ([4, 4], "float"), ([4, 4], "float"), inputs=[EVIL]), *launched("gemm", 1, 5, 1)]
    path.write_bytes(trace(*events, **H100))
    script = run_etq("export", str(path), "--to", "replay", "--op", "aten::mm").stdout
    assert call_of(script)["values"] == ["", "", EVIL]
    assert script.isascii() and script.isprintable() == "\n".isprintable()
    assert {type(node) for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call | ast.Import)}
    names = {node.id for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Name)}
    assert "__import__" not in names and "os" not in names


@pytest.mark.long
@pytest.mark.parametrize("name", ["aten::mm", "aten::addmm", "aten::convolution", "aten::mul", "aten::embedding"])
def test_the_script_runs(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch", reason="the script needs torch")
    path = tmp_path / "replay.py"
    assert run_etq("export", CALLS, "--to", "replay", "--op", name, "-o", str(path)).exit_code == 0
    ran = subprocess.run([sys.executable, str(path), "--rounds", "3"], check=True, capture_output=True, text=True)
    assert f"{name} " in ran.stdout and " us a call on " in ran.stdout
