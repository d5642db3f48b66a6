"""A PyTorch trace in plain Python: its JSON, one object for each slice, parents, and sums with loops."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

WORK: Final = {
    **dict.fromkeys(("kernel", "Kernel", "mtia_ccp_events", "mtia_workloadd", "hpu_op"), "Kernel"),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), "Memcpy"),
    **dict.fromkeys(("gpu_memset", "Memset"), "Memset"),
}
DEVICE: Final = {
    *WORK,
    *("gpu_user_annotation", "cuda_sync", "cuda_event", "cuda_profiler_range", "xpu_scope_profiler"),
    *("mtia_insight", "mtia_counters"),
}
OPERATORS: Final = frozenset(("cpu_op", "Operator"))
OWNERS: Final = {*OPERATORS, "user_annotation"}
WRAPPERS: Final = ("DataParallel.forward", "DistributedDataParallel.forward")
HELPERS: Final = frozenset(
    (
        *("profiler::_record_function_enter", "profiler::_record_function_enter_new"),
        *("profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version"),
    )
)


@dataclass(eq=False)
class Slice:
    """A slice of the trace, in nanoseconds."""

    place: int
    category: str
    name: str
    thread: tuple[str, str]
    start: int
    length: int
    slack: int
    arguments: dict[str, Any]
    parent: Slice | None = None
    children: list[Slice] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + self.length

    @property
    def process(self) -> str:
        return self.thread[0]

    @property
    def stream(self) -> tuple[Any, Any]:
        return self.arguments.get("device"), self.arguments.get("stream")

    @property
    def is_device(self) -> bool:
        return self.category in DEVICE

    @property
    def is_kernel(self) -> bool:
        return WORK.get(self.category) == "Kernel"

    @property
    def is_op(self) -> bool:
        return self.category in OPERATORS and not self.name.startswith("ProfilerStep#")

    @property
    def is_call(self) -> bool:
        """Whether it is a call of a runtime or driver."""
        return self.category == "Runtime" or self.category.endswith(("_runtime", "_driver"))

    @property
    def correlation(self) -> int:
        """The id that a call of the runtime shares with the device events that it launched; 0 if it has none."""
        return int(self.arguments.get("correlation", 0))

    @property
    def external(self) -> int:
        return int(self.arguments.get("External id", self.arguments.get("external id", 0)))

    def above(self) -> list[Slice]:
        """The slices that contain it, innermost first."""
        found, at = [], self.parent
        while at is not None:
            found.append(at)
            at = at.parent
        return found

    @property
    def family(self) -> str:
        return "ProfilerStep*" if self.name.startswith("ProfilerStep#") else self.name

    @property
    def own(self) -> int:
        return self.length - sum(child.length for child in self.children)

    @property
    def call(self) -> Slice | None:
        """The call of which this one is a part, as torch counts: a call and its only child of the same name are one."""
        found: Slice | None = self
        while found is not None and found.is_no_call:
            found = found.parent
        return found

    @property
    def is_no_call(self) -> bool:
        if self.name in HELPERS or self.category == "Trace":
            return True
        above = self.parent
        return (
            above is not None and above.name not in HELPERS and len(above.children) == 1 and above.family == self.family
        )


@dataclass(eq=False)
class Held:
    """An op, module or step in the tree, which has no other slices."""

    slice: Slice
    above: Held | None = None
    within: list[Held] = field(default_factory=list)

    @property
    def is_operator(self) -> bool:
        name = self.slice.name
        return (
            self.slice.category in OPERATORS
            and not name.startswith(("Optimizer.", "ProfilerStep#", "enumerate(Data"))
            and name not in WRAPPERS
        )

    @property
    def only(self) -> Held | None:
        """The only child, if it is an op of the same name: both count as one call."""
        if len(self.within) != 1:
            return None
        [inner] = self.within
        are_ops = {self.slice.category, inner.slice.category} <= OPERATORS
        return inner if are_ops and inner.slice.name == self.slice.name else None

    @property
    def innermost(self) -> Held:
        return self.only.innermost if self.only is not None else self


class Trace:
    """The slices of a trace, in the order of the file."""

    def __init__(self, written: Any) -> None:
        self.entries: list[dict[str, Any]] = written if isinstance(written, list) else written["traceEvents"]
        self.slices = [_slice(at, each) for at, each in enumerate(self.entries) if each.get("ph") == "X"]
        self.by_place = {each.place: each for each in self.slices}
        by_thread: defaultdict[Any, list[Slice]] = defaultdict(list)
        for each in self.host:
            by_thread[each.thread].append(each)
        for slices in by_thread.values():
            _nest(slices)

    @property
    def host(self) -> Iterator[Slice]:
        return (each for each in self.slices if not each.is_device and each.category != "Trace")

    @property
    def device(self) -> Iterator[Slice]:
        return (each for each in self.slices if each.is_device)

    @property
    def kernels(self) -> list[Slice]:
        return [each for each in self.slices if each.is_kernel]

    @property
    def work(self) -> list[Slice]:
        return [each for each in self.slices if each.category in WORK]

    @property
    def by_device(self) -> dict[int, list[Slice]]:
        """The kernels of each device."""
        found: defaultdict[int, list[Slice]] = defaultdict(list)
        for each in self.kernels:
            found[each.arguments["device"]].append(each)
        return dict(found)

    @property
    def steps(self) -> list[Slice]:
        return [each for each in self.host if each.name.startswith("ProfilerStep#")]

    @cached_property
    def launches(self) -> dict[int, Slice]:
        """The runtime's calls by correlation: where several have one, the latest."""
        calls = [each for each in self.slices if each.is_call and each.correlation]
        return {each.correlation: each for each in sorted(calls, key=lambda each: each.start)}

    @cached_property
    def memory(self) -> list[tuple[int, int, dict[str, Any], tuple[str, str]]]:
        """Allocations and releases in order of time: position in the file, time, arguments, thread."""
        found = [
            (at, nanoseconds(each["ts"]), each["args"], (str(each["pid"]), str(each["tid"])))
            for at, each in enumerate(self.entries)
            if each.get("ph") == "i" and each.get("name") == "[memory]"
        ]
        return sorted(found, key=lambda each: (each[1], each[0]))

    def bytes_within(self, types: Iterable[int]) -> dict[int, int]:
        """For each slice, the bytes allocated minus those released between its start and end, by any thread."""
        moments = sorted((at, output["Bytes"]) for _, at, output, _ in self.memory if output["Device Type"] in types)
        times, sums = [at for at, _ in moments], [0, *accumulate(size for _, size in moments)]
        return {
            each.place: sums[bisect_right(times, each.end)] - sums[bisect_left(times, each.start)]
            for each in self.slices
        }  # fmt: skip

    @cached_property
    def tree(self) -> list[Held]:
        """Ops, modules and steps, each within the nearest around it."""
        held = {each.place: Held(each) for each in self.host if _is_held(each)}
        for each in held.values():
            above = each.slice.parent
            while above is not None and above.place not in held:
                above = above.parent
            if above is not None:
                each.above = held[above.place]
                each.above.within.append(each)
        return list(held.values())

    @property
    def calls(self) -> list[Held]:
        """The tree's nodes, without those that are one call with their parent."""
        return [each for each in self.tree if each.above is None or each.above.only is not each]


def union(slices: Iterable[Slice], start: float = -math.inf, end: float = math.inf) -> int:
    """The time between two moments in which at least one of them runs."""
    total, reached = 0, start
    for each in sorted(slices, key=lambda each: each.start):
        begin, until = max(each.start, reached), min(each.end, end)
        if until > begin:
            total += int(until - begin)
            reached = until
    return total


def nanoseconds(microseconds: float) -> int:
    whole = math.floor(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)


def _slice(at: int, each: dict[str, Any]) -> Slice:
    start = float(each["ts"])
    slack = math.ceil(math.ulp(abs(start)) * 1000)
    return Slice(
        *(at, each.get("cat", ""), each["name"], (str(each["pid"]), str(each["tid"])), nanoseconds(start)),
        *(nanoseconds(float(each.get("dur", 0))), slack if slack > 1 else 0, each.get("args") or {}),
    )


def _nest(slices: list[Slice]) -> None:
    """The parent of each: the nearest that began before it and ends no earlier than it."""
    stack: list[Slice] = []
    for each in sorted(slices, key=lambda each: (each.start, -each.end)):
        reach = max(each.start + 1, each.end - each.slack)
        while stack and stack[-1].end < reach:
            stack.pop()
        if stack:
            each.parent = stack[-1]
            stack[-1].children.append(each)
        stack.append(each)


def _is_held(each: Slice) -> bool:
    if each.name.startswith("ProfilerStep#"):
        return each.category in OPERATORS | {"user_annotation"}
    is_module = each.category == "python_function" and each.name.startswith("nn.Module: ")
    is_communication = each.category == "user_annotation" and each.name.startswith(("nccl:", "gloo:"))
    return each.category in OPERATORS or is_module or is_communication or each.category == "Python"
