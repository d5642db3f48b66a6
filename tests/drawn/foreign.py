"""Files of other tools, which are no traces of PyTorch: nothing may be said of steps, ops or devices in them."""

from __future__ import annotations

import json
from random import Random
from typing import Any


def _slices(rng: Random, names: tuple[str, ...], **shared: Any) -> list[dict[str, Any]]:
    at, made = rng.randint(0, 5000), []
    for number in range(rng.randint(5, 30)):
        time = rng.randint(5, 900)
        made.append({"name": names[number % len(names)], "ph": "X", "ts": at, "dur": time, **shared})
        at += time + rng.choice((0, 10, 5000))
    return made


def draw(seed: int) -> tuple[str, bytes]:
    """The tool that writes such files, and one of them."""
    rng = Random(f"foreign {seed}")
    kinds: list[tuple[str, Any]] = [
        ("FVP counters", _slices(rng, ("npu_active", "axi_enabled_cycles"), pid="NPU", tid="npu_active")),
        ("TPU", {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": [
            {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:TPU:0"}},
            {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "XLA Ops"}},
            *_slices(rng, ("fusion.1", "copy.2", "dot.3"), pid=1, tid=3)]}),
        ("viztracer", {"viztracer_metadata": {"version": "1.1.1", "overflow": False}, "traceEvents": _slices(rng, ("main (a.py:3)", "f (a.py:9)"), pid=7, tid=7, cat="FEE")}),
        ("DevTools", _slices(rng, ("RunTask", "FunctionCall", "Layout"), pid=5, tid=1, cat="devtools.timeline")),
        ("nsys converter", _slices(rng, ("ampere_sgemm_128x64_tn", "vectorized_elementwise_kernel"), pid="Device 0", tid="CUDA API 7", cat="cuda")),
        ("EventList.export_chrome_trace", _slices(rng, ("aten::mm", "aten::add", "ampere_sgemm_128x64_tn"), pid="CPU functions", tid=1, args={})),
        ("catapult", {"traceEvents": _slices(rng, ("toplevel.flow", "ThreadPool_RunTask"), pid=3, tid=2, cat="toplevel"), "metadata": {"os-name": "Linux"}}),
        ("JSON of no trace", {"model": "resnet", "layers": [{"name": "conv", "ms": 3.2}]}),
        ("an empty list", []),
        ("a table", "name,ms\nconv,3.2\n"),
    ]  # fmt: skip
    what, content = kinds[seed % len(kinds)]
    return what, content.encode() if isinstance(content, str) else json.dumps(content).encode()
