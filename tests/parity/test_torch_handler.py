"""A real profiler run, straight into a warehouse. Needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import etq

torch = pytest.importorskip("torch", reason="profiling needs torch")


def test_traces_of_a_schedule(tmp_path: Path) -> None:
    db = tmp_path / "lab.duckdb"
    answers: list[Any] = []
    handler = etq.torch_trace_handler(db, labels={"model": "toy"})

    def ready(profiler: Any) -> None:
        handler(profiler)
        answers.append({row.key: row for row in profiler.key_averages()})

    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    schedule = torch.profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, schedule=schedule, on_trace_ready=ready) as profiler:
        for _ in range(10):
            model(torch.randn(4, 8)).sum().backward()
            profiler.step()
    with etq.open(db, read_only=True) as warehouse:
        captures = warehouse.rows("SELECT name, captured_at IS NOT NULL FROM captures ORDER BY capture_id")[1]
        assert [is_dated for _, is_dated in captures] == [True, True] and len(answers) == 2
        steps = "SELECT value FROM labels WHERE key = 'step' ORDER BY capture_id"
        assert warehouse.rows(steps)[1] == [("5",), ("9",)]
        assert warehouse.rows("SELECT count(*) FROM labels WHERE key = 'model' AND value = 'toy'")[1] == [(2,)]
        for (name, _), expected in zip(captures, answers, strict=True):
            rows = warehouse.key_averages(name).project("name, calls, self_cpu_time, cpu_time_total").fetchall()
            assert {row[0] for row in rows} == set(expected)
            for op, calls, own, total in rows:
                assert calls == expected[op].count
                assert own == pytest.approx(expected[op].self_cpu_time_total, rel=1e-9, abs=1e-6)
                assert total == pytest.approx(expected[op].cpu_time_total, rel=1e-9)
