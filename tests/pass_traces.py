"""Traces of training with known truth: what each pass, op and module costs is counted while the trace is made."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

from tests.trace_builders import event

ENGINE = "autograd::engine::evaluate_function: "
FORWARD_THREAD, BACKWARD_THREAD = 1, 2


class Training:
    """Steps of training: input, a net of blocks of which some are computed again in the backward pass, an optimizer.

    events      the trace's events, times in whole microseconds
    passes      (step, pass): time on the host, device time, device events; in microseconds
    ops         (op, function of autograd): forward calls, backward calls, and the times of `backward_times`
    modules     module path, None for what belongs to none: the same
    """

    def __init__(self, seed: int, steps: int = 2) -> None:
        self.random = Random(seed)
        self.events: list[dict[str, Any]] = []
        self.passes: defaultdict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.ops: defaultdict[Any, list[int]] = defaultdict(lambda: [0] * 6)
        self.modules: defaultdict[Any, list[int]] = defaultdict(lambda: [0] * 6)
        self.now = self.device_free = 1000
        self.numbers = {FORWARD_THREAD: 0, BACKWARD_THREAD: 0}
        self.correlation = 0
        self.launched = 0
        for step in range(steps):
            self.step(step + 3)

    def wait(self, most: int = 9) -> None:
        self.now += self.random.randint(1, most)

    def slice(self, category: str, name: str, start: int, thread: int, **arguments: Any) -> int:
        """Add an event from `start` to now, and return its length."""
        self.events.append(event(category, name, start, self.now, thread, **arguments))
        return self.now - start

    def launch(self, thread: int) -> None:
        start = self.now
        self.wait()
        self.correlation += 1
        self.slice("cuda_runtime", "cudaLaunchKernel", start, thread, correlation=self.correlation)
        begin = max(self.now, self.device_free) + self.random.randint(0, 3)
        length = self.random.randint(1, 60)
        self.device_free = begin + length
        self.events.append(
            event("kernel", "some_kernel", begin, begin + length, 7, correlation=self.correlation, device=0)
        )
        self.launched += length

    def op(self, name: str, thread: int, number: int | None, launches: int = 1) -> tuple[str, int | None, int, int]:
        """Add an op, and return it with its number, time and device time."""
        start, launched = self.now, self.launched
        self.wait()
        for _ in range(launches):
            self.launch(thread)
            self.wait()
        numbers = {} if number is None else {"Sequence number": number, "Fwd thread id": 0}
        return name, number, self.slice("cpu_op", name, start, thread, **numbers), self.launched - launched

    def next_number(self, thread: int) -> int:
        self.numbers[thread] += 1
        return self.numbers[thread] - 1

    def linear(self, thread: int) -> list[Any]:
        """An op that calls two others: the numbers are those of the functions that these create."""
        start = self.now
        number = self.next_number(thread)
        self.wait()
        transposed = self.op("aten::t", thread, number, 0)
        product = self.op("aten::addmm", thread, self.next_number(thread))
        self.wait()
        self.slice("cpu_op", "aten::linear", start, thread, **{"Sequence number": number, "Fwd thread id": 0})
        return [(*transposed, "TBackward0"), (*product, "AddmmBackward0")]

    def module(self, name: str, path: str, thread: int, is_recorded: bool, body: Any) -> list[Any]:
        """Call a module; `body` returns what the backward pass has to do, to which its path is added."""
        start, launched = self.now, self.launched
        inner = f"{path}/{name}" if path else name
        self.wait()
        found: list[Any] = body(inner)
        self.wait()
        length = self.slice("python_function", f"nn.Module: {name}", start, thread, **{"Python id": 1})
        if is_recorded:
            row = self.modules[inner]
            row[0], row[2], row[4] = row[0] + 1, row[2] + length, row[4] + self.launched - launched
        return found

    def block(self, place: int, path: str, thread: int, is_recorded: bool = True) -> list[Any]:
        def body(inner: str) -> list[Any]:
            found = self.module(f"Linear_{place}", inner, thread, is_recorded, lambda at: self.pathed(at, thread))
            activation = (*self.op("aten::relu", thread, self.next_number(thread)), "ReluBackward0")
            return [*found, (*activation, inner)]

        return self.module(f"Block_{place}", path, thread, is_recorded, body)

    def pathed(self, path: str, thread: int) -> list[Any]:
        return [(*each, path) for each in self.linear(thread)]

    def checkpoint(self, place: int, path: str) -> list[Any]:
        """A block that autograd doesn't record: its ops have no numbers, and the backward pass computes it again."""

        def body(inner: str) -> list[Any]:
            start, launched, number = self.now, self.launched, self.next_number(FORWARD_THREAD)
            self.wait()
            self.op("aten::addmm", FORWARD_THREAD, None)
            self.wait()
            name = "CheckpointFunction"
            length = self.slice(
                "cpu_op", name, start, FORWARD_THREAD, **{"Sequence number": number, "Fwd thread id": 0}
            )
            return [(name, number, length, self.launched - launched, "CheckpointFunctionBackward", inner)]

        return self.module(f"Block_{place}", path, FORWARD_THREAD, True, body)

    def backward(self, task: Any, thread_number: int, is_counted: bool = True) -> None:
        op, number, forward_time, forward_device_time, function, path = task
        start, launched = self.now, self.launched
        numbers = {} if number is None else {"Sequence number": number, "Fwd thread id": thread_number}
        self.wait()
        inner = self.now
        self.wait()
        if function == "CheckpointFunctionBackward":
            tasks = self.block(9, path or "", BACKWARD_THREAD, is_recorded=False)
            for each in reversed(tasks):
                self.backward(each, 2, is_counted=False)
        else:
            self.op("aten::mm", BACKWARD_THREAD, None)
        self.slice("cpu_op", function, inner, BACKWARD_THREAD, **numbers)
        self.wait()
        length = self.slice("cpu_op", ENGINE + function, start, BACKWARD_THREAD, **numbers)
        if not is_counted:
            return
        device = self.launched - launched
        row = self.ops[op, function]
        if op is not None:
            row[0], row[2], row[4] = row[0] + 1, row[2] + forward_time, row[4] + forward_device_time
        names = path.split("/") if path else []
        paths: list[str | None] = ["/".join(names[: depth + 1]) for depth in range(len(names))]
        for each in (row, *(self.modules[path] for path in paths or [None])):
            each[1], each[3], each[5] = each[1] + 1, each[3] + length, each[5] + device
        self.count("backward", start, launched)

    def count(self, what: str, start: int, launched: int) -> None:
        row = self.passes[self.number, what]
        row[0] += self.now - start
        row[1] += self.launched - launched

    def step(self, number: int) -> None:
        self.number = number
        begin, before = self.now, self.launched
        self.wait()
        start = self.now
        self.wait(40)
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        self.slice("user_annotation", name, start, FORWARD_THREAD)
        self.count("data_loading", start, self.launched)
        self.wait()

        tasks: list[Any] = []

        def body(path: str) -> list[Any]:
            for place in range(self.random.randint(1, 4)):
                is_checkpoint = self.random.random() < 0.3
                made = self.checkpoint(place, path) if is_checkpoint else self.block(place, path, FORWARD_THREAD)
                tasks.extend(made)
                self.wait()
            return tasks

        start, launched = self.now, self.launched
        self.module("Net_0", "", FORWARD_THREAD, True, body)
        self.count("forward", start, launched)
        self.wait()
        start, launched = self.now, self.launched
        loss = (*self.op("aten::mse_loss", FORWARD_THREAD, self.next_number(FORWARD_THREAD)), "MseLossBackward0", None)
        self.count("forward", start, launched)
        self.wait()
        for each in reversed([*tasks, loss]):
            self.backward(each, 1)
            self.wait()
            if self.random.random() < 0.4:
                self.backward((None, None, 0, 0, "torch::autograd::AccumulateGrad", None), 1)
        self.wait()
        start, launched = self.now, self.launched
        self.wait()
        self.op("aten::_foreach_add_", FORWARD_THREAD, None)
        self.slice("user_annotation", "Optimizer.step#SGD.step", start, FORWARD_THREAD)
        self.count("optimizer", start, launched)
        self.wait()
        self.op("aten::item", FORWARD_THREAD, None)
        self.wait()
        self.slice("user_annotation", f"ProfilerStep#{number}", begin, FORWARD_THREAD)
        counted = [row for (step, _), row in self.passes.items() if step == number]
        self.passes[number, "other"] = [
            self.now - begin - sum(row[0] for row in counted),
            self.launched - before - sum(row[1] for row in counted),
            0,
        ]
        self.now = max(self.now, self.device_free)
