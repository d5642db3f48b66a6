"""Make a large PyTorch trace of training on a GPU: `make_gpu_trace.py OUT EVENTS [SEED [RANK WORLD_SIZE]]`.

Training steps are simulated: modules and Python functions with their calls, ops of a forward and a backward thread,
launches, kernels and copies on three streams, allocations, annotations. What each part of a step takes is drawn. One
annotation and two Python functions are around all steps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

LAYERS = 12
HOST, FORWARD, BACKWARD = 4000, 4000, 4321
COMPUTE, COPIES, COMMUNICATION = 7, 20, 24
BEGIN = 4_303_857_000_000_000  # ns
# What the kernels of collectives are written with.
MESSAGE: dict[str, Any] = {
    "Collective name": "allreduce", "Process Group Name": "0", "Process Group Description": "default_pg",
    "dtype": "Float", "In msg nelems": 1 << 18, "Out msg nelems": 1 << 18,
}  # fmt: skip
# Ids by their key in `args`; smaller ones are those of what is around all steps.
IDS = ("External id", "correlation", "Python id", "Ev Idx")


def microseconds(at: int) -> float:
    return at / 1000


@dataclass
class Job:
    """The events of the present step, and the clocks that it runs on, in ns."""

    random: Random
    world_size: int
    events: list[dict[str, Any]] = field(default_factory=list)
    now: int = BEGIN
    steps: int = 0
    thread: int = FORWARD
    free: dict[int, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=lambda: dict.fromkeys(IDS, 100))
    open_ops: list[int] = field(default_factory=list)
    open_functions: list[int] = field(default_factory=list)
    allocated: int = 0

    def next(self, kind: str) -> int:
        self.last[kind] += 1
        return self.last[kind]

    def drawn(self, ticks: int) -> int:
        return round(ticks * self.random.lognormvariate(0, 0.1))

    def go(self, ticks: int) -> None:
        """Let about so many ns pass on the host."""
        self.now += self.drawn(ticks)

    def write(self, category: str, name: str, begin: int, end: int, at: tuple[int, int], given: dict[str, Any]) -> None:
        times = {"ts": microseconds(begin), "dur": microseconds(end - begin)}
        slice = {"ph": "X", "cat": category, "name": name, "pid": at[0], "tid": at[1]}
        self.events.append({**slice, **times, "args": given})

    @contextmanager
    def op(self, name: str, shapes: Any = (), category: str = "cpu_op") -> Iterator[None]:
        begin, external = self.now, self.next("External id")
        given: dict[str, Any] = {"External id": external, "Ev Idx": self.next("Ev Idx")}
        if category == "cpu_op":
            types = {"Input type": ["float"] * len(shapes), "Input Dims": shapes}
            given |= {**types, "Concrete Inputs": [""] * len(shapes)}
        self.open_ops.append(external)
        self.go(1500)
        yield
        self.go(1000)
        self.open_ops.pop()
        self.write(category, name, begin, self.now, (HOST, self.thread), given)
        self.go(500)

    @contextmanager
    def function(self, name: str) -> Iterator[None]:
        begin, number = self.now, self.next("Python id")
        parent: Any = self.open_functions[-1] if self.open_functions else 2
        self.open_functions.append(number)
        self.go(800)
        yield
        self.go(700)
        self.open_functions.pop()
        given = {"Python id": number, "Python parent id": parent, "Ev Idx": self.next("Ev Idx")}
        self.write("python_function", name, begin, self.now, (HOST, self.thread), given)
        self.go(300)

    def launch(self, name: str, ticks: int, stream: int = COMPUTE, category: str = "kernel") -> tuple[int, int]:
        """Let the device run a kernel or a copy, by a call of the runtime; when it begins and ends."""
        call = {"gpu_memcpy": "cudaMemcpyAsync", "gpu_memset": "cudaMemsetAsync"}.get(category, "cudaLaunchKernel")
        ids = {"External id": self.open_ops[-1], "correlation": self.next("correlation")}
        called, begin = self.now, max(self.free.get(stream, 0), self.now + self.drawn(6000))
        end = self.free[stream] = begin + self.drawn(ticks)
        self.go(4000)
        self.write("cuda_runtime", call, called, self.now, (HOST, self.thread), {"cbid": 211, **ids})
        given: dict[str, Any] = {**ids, "device": 0, "context": 1, "stream": stream}
        if category == "kernel":
            given |= {"registers per thread": 64, "shared memory": 0, "blocks per SM": 1.5, "warps per SM": 12}
            given |= {"grid": [120, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 37}
            given |= MESSAGE | {"Group size": self.world_size} if stream == COMMUNICATION else {}
        else:
            given |= {"bytes": 1 << 20, "memory bandwidth (GB/s)": 12.5}
        self.write(category, name, begin, end, (0, stream), given)
        arrow = {"cat": "ac2g", "name": "ac2g", "id": ids["correlation"]}
        self.events.append({"ph": "s", **arrow, "pid": HOST, "tid": self.thread, "ts": microseconds(called)})
        self.events.append({"ph": "f", **arrow, "pid": 0, "tid": stream, "ts": microseconds(begin), "bp": "e"})
        self.go(1000)
        return begin, end

    def allocate(self, size: int) -> None:
        """An allocation of the device; a release if the size is negative."""
        self.allocated += size
        given: dict[str, Any] = {"Total Reserved": 1 << 30, "Total Allocated": self.allocated, "Bytes": size}
        given |= {"Ev Idx": self.next("Ev Idx"), "Addr": 4096 + abs(size), "Device Id": 0, "Device Type": 1}
        at = {"pid": HOST, "tid": self.thread, "ts": microseconds(self.now)}
        self.events.append({"ph": "i", "s": "t", "name": "[memory]", **at, "args": given})
        self.go(200)


def simulate(step: Job) -> None:
    """One step of training a network of some layers on one of several devices."""
    step.events, step.allocated = [], 1 << 20
    name, around_it = f"ProfilerStep#{step.steps}", step.last["External id"] + 1
    step.steps += 1
    with step.op(name, category="user_annotation"), step.function("train.py(31): train_step"):
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        with step.op(loading, category="user_annotation"), step.op("aten::stack", [[64, 512]]):
            step.go(20_000)
        shapes = [[64, 512]]
        with step.op("aten::to", shapes), step.op("aten::_to_copy", shapes), step.op("aten::copy_", shapes):
            step.allocate(1 << 17)
            step.launch("Memcpy HtoD (Pinned -> Device)", 30_000, COPIES, "gpu_memcpy")
        for layer in range(LAYERS):
            forward(step, layer)
        step.thread = BACKWARD
        around = step.open_functions
        step.open_functions = []
        for layer in reversed(range(LAYERS)):
            backward(step, layer)
        step.thread, step.open_functions = FORWARD, around
        with step.op("Optimizer.step#SGD.step", category="user_annotation"):
            for _ in range(LAYERS // 4):
                with step.op("aten::_foreach_add_", [[512, 512]]):
                    update = step.launch("multi_tensor_apply_kernel", 40_000)
            annotation = {"External id": step.open_ops[-1]}
            step.write("gpu_user_annotation", "Optimizer.step#SGD.step", *update, (0, COMPUTE), annotation)
        with step.op("aten::zero_", [[512, 512]]):
            step.launch("Memset (Device)", 2_000, COMPUTE, "gpu_memset")
        begin, ids = step.now, {"External id": around_it, "correlation": step.next("correlation")}
        step.now = max(step.now, *step.free.values()) + 2000
        step.write("cuda_runtime", "cudaDeviceSynchronize", begin, step.now, (HOST, FORWARD), {"cbid": 165, **ids})
        step.go(1000)
    step.go(3000)


def forward(step: Job, layer: int) -> None:
    width = 512 + 64 * (layer % 3)
    with (
        step.function(f"nn.Module: Block_{layer}"),
        step.function(f"model.py({40 + layer}): forward"),
        step.function(f"nn.Module: Linear_{layer}"),
        step.function("torch/nn/modules/linear.py(114): forward"),
        step.op("aten::linear", [[64, width], [width, width], [width]]),
    ):
        with step.op("aten::t", [[width, width]]), step.op("aten::transpose", [[width, width], [], []]):
            pass
        with step.op("aten::addmm", [[width], [64, width], [width, width], [], []]):
            step.allocate(4 * 64 * width)
            step.launch(f"ampere_sgemm_{64 * (1 + layer % 2)}x64_tn", 60_000)
    with step.op("aten::relu", [[64, width]]), step.op("aten::clamp_min", [[64, width], []]):
        step.allocate(4 * 64 * width)
        step.launch("void at::native::vectorized_elementwise_kernel<4, at::native::relu>", 8_000)


def backward(step: Job, layer: int) -> None:
    width = 512 + 64 * (layer % 3)
    name = "AddmmBackward0"
    with step.op(f"autograd::engine::evaluate_function: {name}"), step.op(name, [[64, width]]):
        for other in ([64, width], [width, width]):
            with step.op("aten::mm", [[width, 64], other]):
                step.launch("ampere_sgemm_64x64_nt", 70_000)
        step.allocate(-4 * 64 * width)
    with step.op("autograd::engine::evaluate_function: ReluBackward0"), step.op("ReluBackward0", [[64, width]]):
        with step.op("aten::threshold_backward", [[64, width], [64, width], []]):
            step.launch("void at::native::vectorized_elementwise_kernel<4, at::native::threshold>", 9_000)
        step.allocate(-4 * 64 * width)
    if layer % 4 == 0:
        with step.op("c10d::allreduce_", [[width, width]]), step.op("record_param_comms", [[width, width]]):
            begin, end = step.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 90_000, COMMUNICATION)
            annotation = {"External id": step.open_ops[-1]}
            step.write("gpu_user_annotation", "nccl:all_reduce", begin, end, (0, COMMUNICATION), annotation)


def make_gpu_trace(target: Path, wanted: int, seed: int = 1, rank: int = 0, world_size: int = 4) -> int:
    """Write a trace of about that many events (whole steps), flows between launches and kernels not counted."""
    job = Job(Random(seed), world_size)
    simulate(job)
    counted = sum("args" in each for each in job.events)
    steps = max(1, -(-(wanted - 3) // counted))
    top: dict[str, Any] = {"schemaVersion": 1, "with_stack": 1, "record_shapes": 1, "profile_memory": 1}
    top["deviceProperties"] = [{"id": 0, "name": "GPU", "totalGlobalMem": 1 << 34, "numSms": 80}]
    top["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
    names = [
        {"ph": "M", "name": f"process_{name}", "pid": process, "tid": 0, "ts": 0, "args": {name: value}}
        for name, of_host, of_device in (("name", "python", "python"), ("labels", "CPU", "GPU 0"))
        for process, value in ((HOST, of_host), (0, of_device))
    ]
    # It is known only at the end how long these are; steps differ by few percent.
    length = microseconds(round(1.1 * steps * (job.now - BEGIN)))
    outer = [
        {"ph": "X", "cat": category, "name": name, "pid": HOST, "tid": FORWARD, "ts": microseconds(BEGIN) - depth}
        | {"dur": length + 2 * depth, "args": given}
        for depth, category, name, given in (
            (3, "python_function", "train.py(1): <module>", {"Python id": 1, "Python parent id": None, "Ev Idx": 1}),
            (2, "python_function", "train.py(80): main", {"Python id": 2, "Python parent id": 1, "Ev Idx": 2}),
            (1, "user_annotation", "epoch 0", {"External id": 1, "Ev Idx": 3}),
        )
    ]
    with target.open("w") as file:
        file.write(json.dumps(top)[:-1] + ', "traceEvents": [\n' + ",\n".join(map(json.dumps, [*names, *outer])))
        while True:
            file.write("".join(f",\n{json.dumps(each)}" for each in job.events))
            if job.steps == steps:
                break
            simulate(job)
        file.write("\n]}\n")
    return steps * counted + len(outer)


if __name__ == "__main__":
    print(make_gpu_trace(Path(sys.argv[1]), int(sys.argv[2]), *map(int, sys.argv[3:])))
