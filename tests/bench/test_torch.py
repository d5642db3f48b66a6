"""`etq bench` with the executorch wheel's runtime, and with scripts of PyTorch. Both need torch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import etq
from tests.bench.conftest import Lab
from tests.command_line import run_etq
from tests.conftest import CAPTURES

TRAIN = """
import sys, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).sum().backward()
    optimizer.step()
print("trained")
"""
INFER = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU())
with torch.no_grad():
    for _ in range(12):
        model(torch.randn(16, 64))
"""


@pytest.mark.long
@pytest.mark.parametrize("inputs", ["random", "file"])
def test_the_runtime_of_the_wheel(lab: Lab, monkeypatch: pytest.MonkeyPatch, inputs: str) -> None:
    pytest.importorskip("executorch", reason="running a program needs executorch")
    monkeypatch.delenv("ETQ_RUNNER")
    program = CAPTURES / "mlp/mlp.pte"
    given = inputs
    if inputs == "file":
        np.savez("x.npz", np.ones((4, 64), np.float32))
        given = "x.npz"
    result = run_etq("bench", str(program), "--inputs", given, "--name", "b", "--until", "1", "--runs", "7")
    assert result.exit_code == 0, result.stderr
    assert "that runtime has no event tracer" in result.stderr
    query = "SELECT e.name, count(*), min(e.duration_ticks) > 0 FROM events AS e GROUP BY e.name ORDER BY e.name"
    assert lab.rows(query) == [("Method::execute", 14, True), ("Program::load_method", 2, True)]
    assert lab.rows("SELECT DISTINCT profiling_level FROM captures") == [("method_only",)]


@pytest.mark.long
@pytest.mark.parametrize(("code", "steps"), [(TRAIN, "optimizer"), (INFER, "modules")])
def test_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, steps: str) -> None:
    """A step is that of an optimizer, or an outermost call of a module; those of the warm-up are left out."""
    pytest.importorskip("torch", reason="profiling needs torch")
    monkeypatch.chdir(tmp_path)
    Path("run.py").write_text(code)
    words = ("--name", "b", "--until", "1", "--runs", "5", "--warmup", "3")
    result = run_etq("bench", "--script", "run.py", *words)
    assert result.exit_code == 0, result.stderr
    [trace, _] = sorted(Path("bench-b").glob("*.pt.trace.json"))
    events = json.loads(trace.read_text())["traceEvents"]
    names = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
    assert names == {f"ProfilerStep#{number}" for number in range(3, 8)}, steps
    calls = sum(event.get("name") == "aten::addmm" for event in events if event.get("ph") == "X")
    assert calls == 5 * code.count("Linear")


@pytest.mark.long
def test_two_commits_of_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="profiling needs torch")
    monkeypatch.chdir(tmp_path)

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        return subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "--initial-branch", "main")
    Path("run.py").write_text(TRAIN)
    git("add", "run.py")
    git("commit", "--quiet", "-m", "one")
    more = "    torch.mm(torch.ones(300, 300), torch.ones(300, 300))\n    optimizer.step()"
    Path("run.py").write_text(TRAIN.replace("    optimizer.step()", more))
    words = ("--name", "b", "--until", "2", "--runs", "5", "--warmup", "3", "--base-git", "main")
    result = run_etq("bench", "--script", "run.py", *words)
    assert result.exit_code == 3, result.stderr
    assert "aten::mm" in result.stdout
    with etq.open("bench-b/bench.duckdb", read_only=True) as warehouse:
        query = "SELECT s.value, l.value FROM labels AS l JOIN labels AS s USING (capture_id) WHERE l.key = 'dirty' AND s.key = 'side' GROUP BY ALL ORDER BY ALL"
        assert warehouse.rows(query)[1] == [("base", "false"), ("new", "true")]
    assert git("worktree", "list").count("\n") == 0
