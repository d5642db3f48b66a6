"""Traces of one made-up program with planted differences, so that the differences of two of them are known."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# Ops of a step in their order, with the time in nanoseconds that each takes itself, on the host, and the kernel that it
# launches with its time, if any.
OPS: Final = (
    ("aten::linear", 20_000, None, 0), ("aten::addmm", 60_000, "gemm_kernel", 300_000),
    ("aten::relu", 15_000, "relu_kernel", 40_000), ("aten::conv2d", 45_000, "conv_kernel", 500_000),
    ("aten::batch_norm", 35_000, "norm_kernel", 120_000), ("aten::softmax", 25_000, "softmax_kernel", 60_000),
    ("aten::mul", 12_000, "mul_kernel", 30_000), ("aten::add_", 10_000, "add_kernel", 25_000),
    ("aten::sum", 18_000, "sum_kernel", 45_000), ("aten::cat", 22_000, "cat_kernel", 70_000),
)  # fmt: skip
PAUSE: Final = 5_000
LAUNCH: Final = 4_000


@dataclass(frozen=True)
class Planted:
    """The differences of a trace: factors of times and numbers of calls by op, kernels that other ops launch."""

    host: dict[str, float] = field(default_factory=dict)
    device: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, str | None] = field(default_factory=dict)
    shapes: dict[str, list[list[int]]] = field(default_factory=dict)
    # The step that takes this many times as long.
    slow_step: tuple[int, float] | None = None
    # A factor of all times of the capture.
    state: float = 1.0


def trained(
    seed: int,
    planted: Planted | None = None,
    *,
    steps: int = 10,
    has_steps: bool = True,
    has_device: bool = True,
    has_modules: bool = False,
    name: str = "train",
    noise: float = 0.01,
) -> bytes:
    """A trace of steps, each with the annotation `name` around its ops, in which times vary by `noise` at random.

    With modules, a Net is around all ops of a step, and in it a Conv2d around each convolution.
    """
    made = _Made(random.Random(seed), planted or Planted(), noise, has_device, has_modules)
    for step in range(steps):
        made.step(step, f"ProfilerStep#{step}" if has_steps else None, name)
    return json.dumps({"schemaVersion": 1, "traceEvents": made.events}).encode()


def served(seed: int, steps: Sequence[tuple[str, Planted]], *, noise: float = 0.01) -> bytes:
    """A trace of a server: each step has an annotation of its name around its ops, and differences of its own."""
    made = _Made(random.Random(seed), Planted(), noise, has_device=True, has_modules=False)
    for number, (name, planted) in enumerate(steps):
        made.planted = planted
        made.step(number, None, name)
    return json.dumps({"schemaVersion": 1, "traceEvents": made.events}).encode()


class _Made:
    """Events in the order of their starts, with the clocks of the host and of the device's stream, in nanoseconds."""

    def __init__(
        self, random: random.Random, planted: Planted, noise: float, has_device: bool, has_modules: bool
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.random = random
        self.planted = planted
        self.noise = noise
        self.has_device = has_device
        self.has_modules = has_modules
        self.now = 1_000_000
        self.stream = 0
        self.correlation = 0

    def step(self, number: int, title: str | None, name: str) -> None:
        slow = self.planted.slow_step
        factor = self.planted.state * (slow[1] if slow is not None and slow[0] == number else 1)
        began, at = self.now, len(self.events)
        self.now += PAUSE
        began_inside = self.now
        for op, host, kernel, device in OPS:
            for _ in range(self.planted.calls.get(op, 2)):
                self.op(op, host * factor, self.planted.kernels.get(op, kernel), device * factor)
        ended_inside = self.now
        self.now += PAUSE
        inserted = [_slice("user_annotation", name, began_inside, ended_inside, 1)]
        if title is not None:
            inserted.insert(0, _slice("user_annotation", title, began, self.now, 1))
        if self.has_modules:
            inserted.append(_slice("python_function", "nn.Module: Net_0", began_inside, ended_inside, 1))
        self.events[at:at] = inserted
        self.now += PAUSE

    def op(self, name: str, host: float, kernel: str | None, device: float) -> None:
        began = self.now
        took = round(host * self.planted.host.get(name, 1) * self.varied())
        self.now += took // 2
        launch = None
        if kernel is not None and self.has_device:
            self.correlation += 1
            launched = self.now + round(LAUNCH * self.planted.state * self.varied())
            launch = _slice("cuda_runtime", "cudaLaunchKernel", self.now, launched, 1)
            launch["args"] = {"correlation": self.correlation}
            self.stream = max(self.stream, launched)
            self.now = launched
        self.now += took - took // 2
        if self.has_modules and name == "aten::conv2d":
            self.events.append(_slice("python_function", "nn.Module: Conv2d_0", began, self.now, 1))
        shapes = self.planted.shapes.get(name, [[64, 128], [128, 256]])
        self.events.append(_slice("cpu_op", name, began, self.now, 1) | {"args": {"Input Dims": shapes}})
        if launch is not None:
            ended = self.stream + round(device * self.planted.device.get(str(kernel), 1) * self.varied())
            ran = _slice("kernel", str(kernel), self.stream, ended, 7) | {"pid": 0}
            ran["args"] = {"correlation": self.correlation, "device": 0, "stream": 7}
            self.stream = ended
            self.events += [launch, ran]
        self.now += 1_000

    def varied(self) -> float:
        return self.random.lognormvariate(0, self.noise)


def _slice(category: str, name: str, start: int, end: int, thread: int) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 100, "tid": thread,
        "ts": start / 1000, "dur": (end - start) / 1000,
    }  # fmt: skip


def main() -> None:
    """Write the traces of the documentation's example: `python -m tests.trace_pairs`."""
    folder = Path(__file__).parent / "captures" / "torch_steps"
    folder.mkdir(exist_ok=True)
    after = Planted(host={"aten::conv2d": 1.2}, device={"conv_kernel": 1.2}, calls={"aten::relu": 3})
    for name, content in (("before", trained(1)), ("after", trained(2, after))):
        (folder / f"{name}.pt.trace.json.gz").write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
