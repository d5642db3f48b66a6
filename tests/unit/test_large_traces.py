"""Large traces generated for benchmarks are valid output of profilers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import etq
from tests.benchmarks.make_gpu_trace import make_gpu_trace

HOST = 4000


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    path = tmp_path_factory.mktemp("traces") / "made.json"
    count = make_gpu_trace(path, 2000)
    written: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    assert count == sum(each["ph"] in "Xi" for each in written) >= 2000
    return written


def slices(events: list[dict[str, Any]], *categories: str) -> list[dict[str, Any]]:
    return [each for each in events if each["ph"] == "X" and each["cat"] in categories]


def test_generated_traces_have_the_fields_of_real_ones(events: list[dict[str, Any]]) -> None:
    categories = Counter(each["cat"] for each in events if each["ph"] == "X")
    assert set(categories) == {
        "cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "cuda_runtime", "kernel", "gpu_memcpy",
        "gpu_memset",
    }  # fmt: skip
    assert sum(each["name"] == "[memory]" for each in events) > 100
    names = [each["name"] for each in slices(events, "user_annotation")]
    assert [name for name in names if name.startswith("ProfilerStep#")] == [
        f"ProfilerStep#{step}" for step in range(len([each for each in names if each.startswith("ProfilerStep#")]))
    ]


def test_devices_work_after_their_launch_and_one_thing_at_a_time(events: list[dict[str, Any]]) -> None:
    calls = {each["args"]["correlation"]: each for each in slices(events, "cuda_runtime")}
    ends: dict[int, float] = {}
    for each in sorted(slices(events, "kernel", "gpu_memcpy", "gpu_memset"), key=lambda event: float(event["ts"])):
        assert calls[each["args"]["correlation"]]["ts"] < each["ts"]
        assert ends.get(each["tid"], 0) <= each["ts"] + 0.01
        ends[each["tid"]] = each["ts"] + each["dur"]
    assert len(ends) == 3


def test_frames_of_a_thread_nest(events: list[dict[str, Any]]) -> None:
    frames = slices(events, "cpu_op", "user_annotation", "python_function", "cuda_runtime")
    for thread in {each["tid"] for each in frames}:
        ends: list[float] = []
        own = [each for each in frames if each["tid"] == thread]
        for each in sorted(own, key=lambda event: (event["ts"], -event["dur"])):
            while ends and ends[-1] <= each["ts"] + 0.01:
                ends.pop()
            assert not ends or each["ts"] + each["dur"] <= ends[-1] + 0.01
            ends.append(each["ts"] + each["dur"])


@pytest.mark.long
def test_a_large_trace_is_ingested_with_its_rollups(tmp_path: Path) -> None:
    """300 MB: sorting the times of its ops takes more memory than inserting its events."""
    count = make_gpu_trace(tmp_path / "large.pt.trace.json", 1_000_000)
    with etq.open(tmp_path / "lab.duckdb") as warehouse:
        capture = warehouse.ingest(tmp_path / "large.pt.trace.json")
        [(slices,)] = warehouse.rows("SELECT count(*) FROM event_ticks")[1]
        [(memory,)] = warehouse.rows("SELECT count(*) FROM trace_memory")[1]
        assert slices + memory == count
        assert warehouse.rows("SELECT max(t.calls) FROM key_averages($c) AS t", c=capture.name)[1][0][0] > 10_000
