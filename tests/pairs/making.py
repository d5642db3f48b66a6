"""Captures, records and traces made by hypothesis: programs of several kinds, run in several ways."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tests import builders, trace_builders
from tests.builders import AllocationEvent, Event, ProfileEvent, Run
from tests.records import EDGE, Maps, node, record, tensor

OPS: Final = ("add", "mm", "relu", "permute_copy")
WITHIN: Final = ("Fully Connected (NC, F32) GEMM #1", "Transpose (ND, X32) #1", "Copy (NC, X32) #2", "op")
# What runs on the host and on a device.
FUNCTIONS: Final = ("nn.Module: Net_0", "nn.Module: Act_1", "net.py(7): forward", "torch/nn/modules/act.py(3): forward")
NAMES: Final = ("aten::linear", "aten::addmm", "aten::relu", *FUNCTIONS)
RAN: Final = (("kernel", "gemm"), ("kernel", "relu_kernel"), ("gpu_memcpy", "Memcpy HtoD"))
gaps = st.integers(0, 30)
lengths = st.integers(0, 400)


@dataclass(frozen=True)
class Made:
    """A dump and the record of the program that it ran."""

    dump: bytes
    record: bytes


@dataclass
class Clock:
    """Ticks that only go forward."""

    draw: Any
    now: int = 1000

    def go(self, ticks: st.SearchStrategy[int] = gaps) -> int:
        self.now += self.draw(ticks)
        return self.now


@st.composite
def captures(draw: Any, *, outlasting: bool = False) -> Made:
    """Runs of one or two programs: kernels, operators without one, delegates, delegates within these, control flow.

    outlasting  whether events of delegates end after their call, as for a backend that doesn't wait
    """
    instructions = draw(
        st.lists(st.sampled_from(("kernel", "operator", "delegate", "nested", "control")), min_size=1, max_size=6)
    )
    if outlasting:
        instructions.append("delegate")
    ops = [draw(st.sampled_from(OPS)) for _ in instructions]
    inner = [draw(st.lists(st.sampled_from(WITHIN), max_size=3, unique=True)) for _ in instructions]
    branches = draw(st.lists(st.sets(st.integers(0, len(ops) - 1)), min_size=1, max_size=3))
    if outlasting:
        branches = [{*branch, len(ops) - 1} for branch in branches]
        inner[-1] = ["op"]
    clock = Clock(draw)
    runs = [_loading(clock)] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 9))):
        branch = sorted(draw(st.sampled_from(branches)))
        name = draw(st.sampled_from(("Execute", "Execute", "other")))
        step = draw(st.sampled_from(("Method::execute", "Method::execute", "both")))
        runs.append(
            _executing(clock, name, step, [(at, instructions[at], ops[at], inner[at]) for at in branch], outlasting)
        )
    return Made(builders.dump(*runs), draw(records(ops, instructions, inner)))


def _loading(clock: Clock) -> Run:
    begin, init = clock.now, clock.go()
    ready = clock.go(lengths)
    return builders.run(
        "Default", builders.framework("Method::init", init, ready), builders.framework("Program::load_method", begin, clock.go())
    )  # fmt: skip


def _executing(clock: Clock, name: str, step: str, parts: Sequence[tuple[int, str, str, list[str]]], late: bool) -> Run:
    events: list[Event] = []
    outer, begin = clock.go(), clock.go()
    if clock.draw(st.booleans()):
        events.append(AllocationEvent(1, clock.draw(st.integers(0, 1000))))
    for at, kind, op, inner in parts:
        for _ in range(clock.draw(st.sampled_from((1, 1, 1, 2)))):
            events += _instruction(clock, at, kind, op, inner, late)
    if clock.draw(st.booleans()):
        started = clock.go()
        events.append(builders.framework("mine", started, clock.go(lengths)))
    # An event that outlasts its call still ends within the execute.
    clock.now += 1000 if late else 0
    events.append(builders.execute(begin, clock.go()))
    if step == "both":
        events.append(builders.framework("Method::step", outer, clock.go()))
    return builders.run(name, *events, allocators=["planned"])


def _instruction(clock: Clock, at: int, kind: str, op: str, inner: Sequence[str], late: bool) -> list[Event]:
    call = clock.go()
    if kind == "control":
        return [ProfileEvent("MOVE_CALL", 0, at, start_time=call, end_time=clock.go())]
    events: list[Event] = []
    if kind in ("delegate", "nested"):
        for label in inner:
            started = clock.go()
            ended = clock.go(lengths)
            events.append(builders.delegated(label, started, ended + (900 if late else 0), at))
        if kind == "nested":
            # The delegate runs a kernel of the program.
            started = clock.go()
            events.append(builders.kernel(op, started, clock.go(lengths), at))
        return [*events, builders.delegate_call(call, clock.go(), at)]
    if kind == "kernel":
        started = clock.go()
        events.append(builders.kernel(op, started, clock.go(lengths), at))
    return [*events, builders.operator_call(call, clock.go(), at)]


@st.composite
def records(draw: Any, ops: Sequence[str], kinds: Sequence[str], inner: Sequence[Sequence[str]]) -> bytes:
    """A record of these instructions: handles that several nodes share, delegates with a map, modules in each other."""
    # Nodes that a delegate and a kernel share are those of real records, in tests/captures/delegation: here each
    # delegate has handles of its own, each as often as there are nodes with it.
    pools = {
        at: (10 + 2 * at, 11 + 2 * at) if kind in ("delegate", "nested") else tuple(range(1, 6))
        for at, kind in enumerate(kinds)
    }
    handles = {at: draw(st.lists(st.sampled_from(pools[at]), min_size=1, max_size=3)) for at in range(len(ops))}
    used = sorted({handle for listed in handles.values() for handle in listed} | set(range(1, 6)))
    of_nodes = draw(st.lists(st.sampled_from(used), min_size=1, max_size=8))
    delegates = {
        at: {label: draw(st.lists(st.sampled_from(handles[at]), min_size=1, max_size=2)) for label in inner[at]}
        or {"none": handles[at][:1]}
        for at, kind in enumerate(kinds)
        if kind in ("delegate", "nested")
    }
    for at in delegates:
        handles[at] = [handle for handle in dict.fromkeys(handles[at]) for _ in range(max(1, of_nodes.count(handle)))]
    nodes = [
        node(f"aten.{draw(st.sampled_from(OPS))}.default", tensor(f"v{at}", 2, 2), handle, self=tensor("x", 2, 2))
        for at, handle in enumerate(of_nodes)
    ]
    written = record(*nodes, maps=Maps(handles, delegates))
    places = [
        (draw(st.sampled_from(("", "a", "a.b", "a.c", "d"))), draw(st.integers(1, 3))) for _ in nodes
    ]  # fmt: skip
    return _with_places(written, places)


def _with_places(written: bytes, places: Sequence[tuple[str, int]]) -> bytes:
    """The same with the module and the line of each node."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(written)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.startswith(EDGE):
                graph = json.loads(content)
                for each, (path, line) in zip(graph["graph_module"]["graph"]["nodes"], places, strict=True):
                    parts = path.split(".") if path else []
                    paths = [".".join(parts[:depth]) for depth in range(len(parts) + 1)]
                    stack = ";".join(f"L__self__{each},{each},torch.M" for each in paths)
                    frame = f'  File "model.py", line {line}, in forward\n    x'
                    each["metadata"] |= {"nn_module_stack": stack, "stack_trace": frame}
                content = json.dumps(graph).encode()
            new.writestr(name, content)
    return file.getvalue()


@st.composite
def traces(draw: Any, *, ids: str = "ops") -> bytes:
    """Threads of ops within ops, what they launch on streams of devices, steps, modules, memory; of one rank of two.

    ids  external ids of launches and what they ran: `ops`, those of the ops that they are in; `correlation`, their
         own; `zero`; `none`
    """
    events: list[dict[str, Any]] = []
    state = _Trace(draw, ids, events)
    end = 0
    for thread in range(1, draw(st.integers(1, 2)) + 1):
        at = draw(st.integers(10, 20))
        for _ in range(draw(st.integers(1, 4))):
            at = state.op(at + draw(st.integers(0, 5)), thread, draw(st.integers(0, 3)))
        end = max(end, at)
    steps = draw(st.integers(0, 2))
    for number in range(steps):
        begin, until = (5 + number * end // steps, 5 + (number + 1) * end // steps)
        until += 5 * (number + 1 == steps)
        events.append(trace_builders.event("user_annotation", f"ProfilerStep#{number + 3}", begin, until))
    rank = {"backend": "nccl", "rank": 1, "world_size": 2}
    ranks: dict[str, Any] = {"distributedInfo": rank} if draw(st.booleans()) else {}
    return trace_builders.trace(*draw(st.permutations(events)), **ranks)


class _Trace:
    """The parts of a trace while it is made."""

    def __init__(self, draw: Any, ids: str, events: list[dict[str, Any]]) -> None:
        self.draw, self.ids, self.events = draw, ids, events
        self.number = 0
        self.correlation = 100
        self.free = dict.fromkeys((7, 20, 21), 15)
        self.allocated = 0

    def op(self, start: int, thread: int, depth: int) -> int:
        """Write an op and its children; return its end."""
        at: int
        draw = self.draw
        name = draw(st.sampled_from(NAMES))
        self.number += 1
        number, at = self.number, start + draw(st.integers(1, 3))
        is_function = name in FUNCTIONS
        if not is_function and draw(st.booleans()):
            at = self.launch(at, thread, number)
        if draw(st.booleans()):
            size = draw(st.sampled_from((64, 256, -64)))
            self.allocated += size
            self.events.append(trace_builders.memory(at, size, self.allocated, thread=thread))
        for _ in range(draw(st.integers(0, 2)) if depth else 0):
            at = self.op(at + draw(st.integers(1, 3)), thread, depth - 1)
        at += draw(st.integers(1, 4))
        category = "python_function" if is_function else "cpu_op"
        external = {} if is_function else {"external": number}
        self.events.append(trace_builders.event(category, name, start, at, thread, **external))
        return at

    def launch(self, at: int, thread: int, op: int) -> int:
        """Write a call of the runtime and what it runs on a stream; return its end."""
        draw = self.draw
        self.correlation += 1
        external = {"ops": op, "correlation": self.correlation, "zero": 0}.get(self.ids)
        ids: dict[str, Any] = {"correlation": self.correlation, "external": external}
        until: int = at + draw(st.integers(1, 3))
        self.events.append(trace_builders.event("cuda_runtime", "cudaLaunchKernel", at, until, thread, **ids))
        stream = draw(st.sampled_from(sorted(self.free)))
        begin = max(self.free[stream], at) + draw(st.integers(0, 5))
        self.free[stream] = begin + draw(st.integers(1, 30))
        category, name = draw(st.sampled_from(RAN))
        given = {"device": int(stream >= 20), "stream": stream, **ids}
        if category == "kernel":
            given |= {"blocks": draw(st.sampled_from((0.5, 2.0))), "occupancy": draw(st.sampled_from((0, 40)))}
        self.events.append(trace_builders.event(category, name, begin, self.free[stream], stream, **given))
        return until
