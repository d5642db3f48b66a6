"""Counters in exported traces, as plain Python finds them in the trace itself."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

from etq.export import parts
from etq.warehouse.ephemeral import open_ephemeral
from tests.benchmarks.make_gpu_trace import make_gpu_trace

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
Series = dict[str, list[tuple[int, float]]]


def nanoseconds(event: dict[str, Any]) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def exported(path: Path, **options: Any) -> list[dict[str, Any]]:
    warehouse, capture = open_ephemeral(str(path))
    events: list[dict[str, Any]] = json.loads("".join(parts(warehouse, capture, "chrome", **options)))["traceEvents"]
    return events


def counters(events: list[dict[str, Any]]) -> Series:
    found: Series = defaultdict(list)
    for each in events:
        if each["ph"] == "C":
            found[each["name"]].append((round(each["ts"] * 1000), each["args"]["value"]))
    return dict(found)


def expected(events: list[dict[str, Any]]) -> Series:
    """Return the counters of a trace in which each device event has a call and starts after it."""
    work = [each for each in events if each.get("cat") in DEVICE]
    calls = {each["args"]["correlation"]: each for each in events if each.get("cat") == "cuda_runtime"}
    found: Series = {}
    changes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for each in work:
        name = f"Queue length, device {each['args']['device']} stream {each['args']['stream']}"
        changes[name] += [(nanoseconds(calls[each["args"]["correlation"]])[0], 1), (nanoseconds(each)[0], -1)]
    for name, of_stream in changes.items():
        length, found[name] = 0, []
        for at, together in groupby(sorted(of_stream), key=lambda change: change[0]):
            length += sum(change for _, change in together)
            found[name].append((at, length))
    copies = [each for each in work if each["cat"] != "kernel"]
    for name in {each["name"] for each in copies}:
        of_name = [
            (*nanoseconds(each), each["args"]["memory bandwidth (GB/s)"]) for each in copies if each["name"] == name
        ]
        moments = sorted({at for start, end, _ in of_name for at in (start, end)})
        found[f"Memory bandwidth (GB/s), device 0 {name}"] = [
            (at, sum(speed for start, end, speed in of_name if start <= at < end)) for at in moments
        ]
    return found


def test_counters_are_those_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    make_gpu_trace(path, 2_000, 3)
    content = json.loads(path.read_text())
    # Two copies of one name, of different bandwidths, which overlap.
    copies = [each for each in content["traceEvents"] if each.get("cat") == "gpu_memcpy"]
    copies[0]["dur"] = copies[1]["ts"] - copies[0]["ts"] + copies[1]["dur"] / 2
    copies[1]["args"]["memory bandwidth (GB/s)"] = 3.25
    path.write_text(json.dumps(content))
    found = counters(exported(path, counters=True))
    assert found == expected(content["traceEvents"])
    assert max(value for _, value in found["Memory bandwidth (GB/s), device 0 Memcpy HtoD (Pinned -> Device)"]) == 15.75
    assert max(value for _, value in found["Queue length, device 0 stream 7"]) > 3
