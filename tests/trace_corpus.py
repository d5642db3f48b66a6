"""Traces of programs on devices with the device times that views should return: known from making them.

A `Program` runs on made-up clocks: ops, annotations and steps are frames on a thread, `launch` lets a device work. What is
written of ids is then as good or as bad as real profilers write it; the truth is what the program did.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.device_times import DeviceTimes
from tests.trace_builders import OLDER, memory


@dataclass(frozen=True)
class Vendor:
    """How a vendor's launches and devices are written."""

    runtime: str
    call: str
    graph: str
    kernel: str = "kernel"
    is_older: bool = False


VENDORS: Final = {
    "cuda": Vendor("cuda_runtime", "cudaLaunchKernel", "cudaGraphLaunch"),
    "driver": Vendor("cuda_driver", "cuLaunchKernel", "cuGraphLaunch"),
    "rocm": Vendor("cuda_runtime", "hipLaunchKernel", "hipGraphLaunch"),
    "hip": Vendor("hip_runtime", "hipExtModuleLaunchKernel", "hipGraphLaunch"),
    "xpu": Vendor("xpu_runtime", "urEnqueueKernelLaunch", "urCommandBufferEnqueueExp"),
    "xpu_driver": Vendor("xpu_driver", "zeCommandListAppendLaunchKernel", "zeCommandQueueExecuteCommandLists"),
    "mtia": Vendor("mtia_runtime", "runFunction", "runGraph", "mtia_ccp_events"),
    "hpu": Vendor("privateuse1_driver", "synLaunch", "synGraphLaunch", "hpu_op"),
    "privateuse1": Vendor("privateuse1_runtime", "launchKernel", "launchGraph"),
    "older": Vendor("cuda_runtime", "cudaLaunchKernel", "cudaGraphLaunch", is_older=True),
}
# What external ids of calls and of what they launched are.
IDS: Final = ("op", "correlation", "zero", "older op", "none")


@dataclass(frozen=True)
class Style:
    """How a trace is written."""

    vendor: str = "cuda"
    ids: str = "op"
    has_text_threads: bool = False  # calls and ops of a thread write its number otherwise
    is_bare: bool = False  # annotations have no `args`
    skew: int = 0  # how much the devices' clock is behind
    names_processes: bool = False  # a device's events are of the process that launched them


@dataclass(eq=False)
class Frame:
    """An op, annotation, step or Python function while it runs, and afterwards."""

    name: str
    category: str
    start: int
    external: int
    around: Frame | None
    inside: list[Frame | None] = field(default_factory=list)  # None for a call of the runtime
    ticks: int = 0  # of what was launched while it ran
    end: int = -1

    @property
    def shown(self) -> str:
        return "ProfilerStep*" if self.name.startswith("ProfilerStep#") else self.name


class Thread:
    """A thread of the program: its clock in nanoseconds, and what runs on it."""

    def __init__(self, program: Program, number: int, process: int) -> None:
        self.program, self.number, self.process = program, number, process
        self.now = program.began
        self.open: list[Frame] = []

    @property
    def innermost(self) -> Frame | None:
        return self.open[-1] if self.open else None

    @property
    def op(self) -> Frame | None:
        """The innermost op that runs."""
        return next((each for each in reversed(self.open) if self.program.is_op(each)), None)

    def wait(self, ticks: int = 1000) -> None:
        self.now += ticks

    def begin(self, name: str, category: str) -> Frame:
        self.wait()
        frame = Frame(name, category, self.now, self.program.next_external(), self.innermost)
        if frame.around is not None:
            frame.around.inside.append(frame)
        self.open.append(frame)
        self.wait()
        return frame

    def finish(self, frame: Frame) -> None:
        self.wait()
        frame.end = self.now
        self.open.remove(frame)
        self.program.write_frame(self, frame)
        self.wait()

    @contextmanager
    def frame(self, name: str, category: str = "cpu_op") -> Iterator[Frame]:
        opened = self.begin(name, category)
        yield opened
        self.finish(opened)

    def launch(
        self, *kernels: str, stream: int = 7, ticks: int = 5000, kind: str = "kernel", is_recorded: bool = True
    ) -> None:
        """Let the device run these, by one call; unless the profiler was not yet there to see it."""
        self.wait()
        program, start = self.program, self.now
        program.correlation += 1
        self.wait(2000)
        if self.innermost is not None and is_recorded:
            self.innermost.inside.append(None)
        if is_recorded:
            program.write_call(self, start, self.now, len(kernels) > 1)
        for place, kernel in enumerate(kernels):
            program.work(self, kernel, kind, stream, ticks + 10 * place, is_recorded)
        self.wait()


class Program:
    """Makes the events and the truth."""

    def __init__(self, style: Style) -> None:
        self.style, self.vendor = style, VENDORS[style.vendor]
        self.events: list[dict[str, Any]] = []
        self.frames: list[Frame] = []
        self.truth = DeviceTimes()
        self.began = 1_000_000
        self.free: Counter[tuple[int, int]] = Counter()
        self.external = 0
        # Ids of ops and correlation ids are the same numbers where external ids are correlation ids: worst so.
        self.first_correlation = 0 if style.ids == "correlation" else 50_000
        self.worked: list[tuple[list[Frame], int]] = []
        self.correlation = self.first_correlation

    def is_op(self, frame: Frame) -> bool:
        """Annotations are written as ops in the older layout."""
        is_annotation = frame.category == "user_annotation" and frame.shown == frame.name
        return frame.category == "cpu_op" or (is_annotation and self.vendor.is_older)

    def next_external(self) -> int:
        self.external += 1
        return self.external

    def thread(self, number: int, process: int = 100) -> Thread:
        return Thread(self, number, process)

    def settle(self, *threads: Thread) -> None:
        """Let devices finish, and count correlation ids anew."""
        self.began = max([thread.now for thread in threads] + [*self.free.values()]) + 1_000_000
        for thread in threads:
            thread.now = self.began
        self.correlation = self.first_correlation

    def write(self, category: str, name: str, start: int, end: int, at: tuple[Any, Any], given: Any) -> None:
        shown = OLDER.get(category, category) if self.vendor.is_older else category
        written = {"ph": "X", "cat": shown, "name": name, "pid": at[0], "tid": at[1]}
        written |= {"ts": start / 1000, "dur": (end - start) / 1000}
        self.events.append(written if given is None else written | {"args": given})

    def write_frame(self, thread: Thread, frame: Frame) -> None:
        self.frames.append(frame)
        given: dict[str, Any] | None = {"External id": frame.external}
        if frame.category == "python_function" or (self.style.is_bare and frame.category == "user_annotation"):
            given = None
        elif frame.category == "cpu_op":
            # A list of tensors, a scalar, and a list of numbers among the arguments.
            given = {**(given or {}), "Input Dims": [[[2, 3], [4]], [], [1]], "Concrete Inputs": ["", "1", "[1, 2]"]}
        self.write(frame.category, frame.name, frame.start, frame.end, (thread.process, thread.number), given)

    def ids(self, thread: Thread, is_recorded: bool = True) -> dict[str, Any]:
        """The ids that connect a call, the events that it launched, and their op."""
        op = thread.op
        external = {
            "op": op.external if op is not None else 0,
            "correlation": self.correlation,
            "zero": 0,
            # Without its call, a wrong id could not be recognised.
            "older op": (max(op.external - 3, 1) if op is not None else 1) if is_recorded else 0,
        }.get(self.style.ids)
        key = "external id" if self.vendor.is_older else "External id"
        return {"correlation": self.correlation} | ({} if external is None else {key: external})

    def write_call(self, thread: Thread, start: int, end: int, is_graph: bool) -> None:
        number: Any = str(thread.number) if self.style.has_text_threads else thread.number
        name = self.vendor.graph if is_graph else self.vendor.call
        self.write(self.vendor.runtime, name, start, end, (thread.process, number), self.ids(thread))

    def work(self, thread: Thread, name: str, kind: str, stream: int, ticks: int, is_recorded: bool) -> None:
        """The device's part, and what is true of it."""
        device = thread.process - 100
        start = max(self.free[device, stream], thread.now + 500)
        self.free[device, stream] = start + ticks
        given = {"device": device, "stream": stream, **self.ids(thread, is_recorded)}
        process = thread.process if self.style.names_processes else device
        start -= self.style.skew
        category = self.vendor.kernel if kind == "kernel" else kind
        self.write(category, name, start, start + ticks, (process, stream), given)
        # Without its call an event is known by its op's id alone.
        op = thread.op if is_recorded or self.style.ids == "op" else None
        frames = thread.open if is_recorded else thread.open[: thread.open.index(op) + 1] if op is not None else []
        truth = self.truth
        truth.device_total += ticks
        truth.streams[device, stream] += ticks
        if kind == "kernel":
            truth.kernels[name].append(ticks)
        owner = next((each for each in reversed(frames) if each.category != "python_function"), None)
        if owner is None:
            truth.without_op += ticks
        else:
            truth.own[owner.shown] += ticks
        if op is not None:
            truth.own_of_ops[op.name] += ticks
        self.worked.append(([*frames], ticks))
        truth.once_of_ops.update(dict.fromkeys({each.name for each in frames if self.is_op(each)}, ticks))
        for each in frames:
            each.ticks += ticks

    def idle(self, thread: Thread, stream: int = 7) -> None:
        """A wait for the device, with an event of the device that is not work."""
        self.correlation += 1
        self.write_call(thread, thread.now, thread.now + 1000, False)
        at = (thread.process - 100, stream)
        self.write("cuda_sync", "Stream Sync", thread.now, thread.now + 900, at, {"stream": stream, **self.ids(thread)})
        thread.wait(2000)

    def finished(self) -> tuple[bytes, DeviceTimes]:
        for frame in self.frames:
            if not is_merged(frame):
                self.truth.total[frame.shown] += frame.ticks
        # An annotation, as in torch, and a Python function have other rows than an op of their name. Older traces don't
        # tell annotations from ops.
        written = OLDER if self.vendor.is_older else {}
        for frames, ticks in self.worked:
            rows = {(each.shown, written.get(each.category, each.category)) for each in frames if not is_merged(each)}
            for shown, _ in rows:
                self.truth.once[shown] += ticks
        return json.dumps({"schemaVersion": 1, "traceEvents": self.events}).encode(), self.truth


def is_merged(frame: Frame) -> bool:
    """Whether it is one call with the one around it, which has nothing else in it, and the same name."""
    around = frame.around
    return around is not None and around.shown == frame.shown and len(around.inside) == 1


def training(style: Style, has_steps: bool = True) -> tuple[bytes, DeviceTimes]:
    """All at once: steps, modules, annotations, merged ops, a graph, two streams, and a backward pass of another thread."""
    program = Program(style)
    main, backward = program.thread(1), program.thread(2)
    main.launch("before", is_recorded=False)
    for number in range(2):
        step = main.begin(f"ProfilerStep#{number}", "user_annotation") if has_steps else None
        main.launch("of_a_step")
        with main.frame("nn.Module: Net_0", "python_function"), main.frame("aten::linear"), main.frame("aten::addmm"):
            main.launch("gemm", ticks=40_000)
            program.idle(main)
        with main.frame("aten::cudnn_convolution"), main.frame("aten::cudnn_convolution"):
            main.launch("conv", stream=20)
        with main.frame("aten::mm"):
            main.launch("outer")
            with main.frame("aten::mm"):
                main.launch("inner")
        with main.frame("replay", "user_annotation"):
            main.launch("one", "two", "three", stream=20)
            with main.frame("nested", "user_annotation"), main.frame("aten::copy_"):
                main.launch("Memcpy HtoD", kind="gpu_memcpy")
                main.launch("Memset", kind="gpu_memset", stream=20)
                main.launch("lost", is_recorded=False)
        backward.now = main.now
        with backward.frame("autograd::engine::evaluate_function: MmBackward0"), backward.frame("MmBackward0"):
            backward.launch("gemm", stream=20)
            with main.frame("aten::add"):
                main.launch("elementwise")
        if step is not None:
            main.finish(step)
    program.write("gpu_user_annotation", "replay", main.now, main.now + 10_000, (0, 7), {"External id": 3})
    main.launch("behind")
    program.events.append(memory(main.now / 1000, 64, 64))
    return program.finished()


def overlapping_steps(style: Style) -> tuple[bytes, DeviceTimes]:
    """A step begins before the one before it ends, on one thread: what is launched meanwhile is within both."""
    program = Program(style)
    main = program.thread(1)
    first = main.begin("ProfilerStep#1", "user_annotation")
    with main.frame("aten::add"):
        main.launch("of_one")
    second = main.begin("ProfilerStep#2", "user_annotation")
    with main.frame("aten::mul"):
        main.launch("of_both")
    main.launch("of_the_later")
    main.finish(first)
    with main.frame("aten::relu"):
        main.launch("of_two")
    main.finish(second)
    # It stands in no step but in time: to be one, it would have to end before the other does.
    second.around = None
    first.inside.remove(second)
    return program.finished()


def several_ranks(style: Style) -> tuple[bytes, DeviceTimes]:
    """Two processes in one file, at the same time and with the same correlation ids."""
    program = Program(replace(style, names_processes=True))
    for process in (100, 101):
        program.correlation = program.first_correlation
        rank = program.thread(1, process)
        rank.wait(process)
        for op in ("aten::mm", "aten::add", "aten::mul"):
            with rank.frame(f"{op} of {process}"):
                rank.launch(f"{op} of {process}", f"more of {process}")
    return program.finished()


def twice(style: Style) -> tuple[bytes, DeviceTimes]:
    """Two recordings of one process, one behind the other: correlation ids come again."""
    program = Program(style)
    main = program.thread(1)
    for op in ("aten::mm", "aten::add"):
        with main.frame(op):
            main.launch(op)
            main.launch(f"{op} again")
        program.settle(main)
    return program.finished()


SHAPES: Final = {
    "training": training, "without steps": lambda style: training(style, has_steps=False),
    "overlapping steps": overlapping_steps, "several ranks": several_ranks, "twice": twice,
}  # fmt: skip
