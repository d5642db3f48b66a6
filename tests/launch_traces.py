"""Traces of a host that launches and of devices that run, with their true gaps, queues and communication.

A `Machine` runs on clocks of whole microseconds. Each microsecond is used for one event only, so that programs whose
answers depend on the order of equal times have a single answer.
"""

from __future__ import annotations

import functools
import gzip
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conftest import CAPTURES

LOADER: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
ALL_REDUCE: Final = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COPY: Final = "Memcpy HtoD (Pinned -> Device)"
HOST: Final = 4000


@dataclass
class Machine:
    """A process with a main thread, and the devices it launches work on."""

    rank: int = 0
    world_size: int = 1
    device: int = 0
    now: int = 1000
    correlation: int = 100_000
    events: list[dict[str, Any]] = field(default_factory=list)
    free: dict[int, int] = field(default_factory=dict)
    gaps: list[tuple[int, int, str, str | None]] = field(default_factory=list)  # start, end, cause, host op

    def write(self, category: str, name: str, start: int, end: int, thread: int = 1, **given: Any) -> None:
        process = given.get("device", HOST)
        times = {"ts": start, "dur": end - start}
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, **times, "args": given}
        )

    @contextmanager
    def frame(self, name: str, category: str = "cpu_op", thread: int = 1) -> Iterator[None]:
        start = self.now
        self.now += 1
        yield
        self.now += 1
        self.write(category, name, start, self.now, thread)
        self.now += 1

    def launch(
        self,
        name: str,
        length: int,
        stream: int = 7,
        *,
        delay: int = 6,
        call: str = "cudaLaunchKernel",
        takes: int = 4,
        after: int = 0,
        kind: str = "kernel",
        thread: int = 1,
        overlaps: bool = False,
        **given: Any,
    ) -> tuple[int, int]:
        """Launch an event of the device: it starts `delay` after the call does, when its stream is free, and from `after` on."""
        self.correlation += 1
        ids: dict[str, Any] = {"correlation": self.correlation}
        self.write("cuda_runtime", call, self.now, self.now + takes, thread, **ids)
        start = max(0 if overlaps else self.free.get(stream, 0) + 1, self.now + delay, after)
        self.run(name, start, start + length, stream, kind=kind, **ids, **given)
        self.now += takes + 1
        return start, start + length

    def graph(self, *lengths: int, stream: int = 7, delay: int = 8) -> None:
        """Launch a CUDA graph: one call, a kernel for each length, one after the other."""
        self.correlation += 1
        ids: dict[str, Any] = {"correlation": self.correlation}
        self.write("cuda_runtime", "cudaGraphLaunch", self.now, self.now + 5, **ids)
        at = max(self.free.get(stream, 0) + 1, self.now + delay)
        for number, length in enumerate(lengths):
            self.run(f"graph_kernel_{number}", at, at + length, stream, **ids)
            at += length + 2
        self.now += 6

    def run(self, name: str, start: int, end: int, stream: int, kind: str = "kernel", **given: Any) -> None:
        self.free[stream] = max(end, self.free.get(stream, 0))
        self.write(kind, name, start, end, stream, device=self.device, stream=stream, **given)

    def wait(self, stream: int, for_stream: int) -> None:
        """A stream waits for what was launched in another until now; the trace has a record of it."""
        self.correlation += 2
        record, number = self.correlation - 1, self.correlation
        self.write("cuda_runtime", "cudaEventRecord", self.now, self.now + 2, correlation=record)
        self.write("cuda_runtime", "cudaStreamWaitEvent", self.now + 3, self.now + 5, correlation=number)
        given = {"wait_on_stream": for_stream, "wait_on_cuda_event_record_corr_id": record}
        ids = {"correlation": number, "device": self.device, "stream": stream}
        self.write("cuda_sync", "Stream Wait Event", self.now + 3, self.now + 5, stream, **ids, **given)
        self.now += 6

    def synchronize(self, call: str = "cudaDeviceSynchronize", returns: int = 2) -> None:
        """Wait for all streams."""
        start = self.now
        self.now = max(self.now, *self.free.values()) + returns
        self.correlation += 1
        self.write("cuda_runtime", call, start, self.now, correlation=self.correlation)
        self.now += 1

    def trace(self, **top: Any) -> bytes:
        head = {"schemaVersion": 1, "deviceProperties": [{"id": self.device, "name": "GPU"}]}
        if self.world_size > 1:
            head["distributedInfo"] = {"backend": "nccl", "rank": self.rank, "world_size": self.world_size}
        # HolisticTraceAnalysis takes no event of index 0 for one that launched anything.
        first = {"ph": "M", "name": "process_name", "pid": HOST, "tid": 0, "ts": 0, "args": {"name": "python"}}
        return json.dumps({**head, **top, "traceEvents": [first, *self.events]}).encode()


def planted() -> Machine:
    """One gap of each cause. The true causes are in `gaps`, for stream 7."""
    made = Machine()

    def gap(since: int, until: int, cause: str, op: str | None = None) -> None:
        made.gaps.append((since, until, cause, op))

    with made.frame("ProfilerStep#3", "user_annotation"):
        _, end = made.launch("first", 100)
        # Launched while the device works: it starts as soon as it can.
        start, after = made.launch("queued", 50)
        gap(end, start, "launch_delay")
        made.now = after + 200
        with made.frame("aten::slow"):
            made.now += 300
            start, end = made.launch("late", 40)
        gap(after, start, "host", "aten::slow")
        with made.frame("aten::item"):
            made.synchronize("cudaStreamSynchronize")
        made.now += 80
        with made.frame("aten::add"):
            start, after = made.launch("after_item", 30)
        gap(end, start, "synchronization", "aten::item")
        made.now = after - 10
        with made.frame(LOADER, "user_annotation"):
            made.now += 500
        start, end = made.launch("after_loading", 900)
        gap(after, start, "data_loading", LOADER)
    made.now += 1
    with made.frame("ProfilerStep#4", "user_annotation"):
        # Stream 20 runs for a long time, and the next event of stream 7 waits for it.
        _, other = made.launch("Memcpy DtoD (Device -> Device)", 2000, 20, call="cudaMemcpyAsync", kind="gpu_memcpy")
        start, after = made.launch("needs_copy", 60, after=other + 3)
        gap(end, start, "dependency")
        _, other = made.launch(ALL_REDUCE, 3000, 24)
        start, end = made.launch("needs_gradients", 60, after=other + 4)
        gap(after, start, "communication")
        # Queued for long, and nothing is known that it waited for.
        start, after = made.launch("stuck", 60, after=end + 700)
        gap(end, start, "unknown_wait")
        made.now = after - 20
        with made.frame("nccl:barrier", "user_annotation"):
            made.now += 400
        start, end = made.launch("after_barrier", 20)
        gap(after, start, "communication", "nccl:barrier")
        # The launch itself takes long, as the first of a module does.
        made.now = end - 5
        start, after = made.launch("lazy", 20, takes=5000, delay=5005)
        gap(end, start, "launch", "ProfilerStep*")
        # An event whose launch was not recorded.
        made.run("unlaunched", after + 90, after + 100, 7, correlation=0)
        gap(after, after + 90, "unknown")
        made.now = after + 200
    return made


def recorded() -> Machine:
    """Gaps of stream 7 in a trace that has records of waits. The true causes are in `gaps`."""
    made = Machine()
    with made.frame("ProfilerStep#3", "user_annotation"):
        _, end = made.launch("first", 100)
        _, other = made.launch("side", 2000, 20)
        made.wait(7, 20)
        # It waits for the other stream, and starts 30 us after that has ended.
        start, after = made.launch("waits", 50, after=other + 30)
        made.gaps.append((end, start, "dependency", None))
        _, other = made.launch("unrelated", 3000, 20)
        # It starts when the other stream's event has ended, for which it didn't wait.
        start, end = made.launch("coincides", 40, after=other + 3)
        made.gaps.append((after, start, "unknown_wait", None))
        _, other = made.launch(ALL_REDUCE, 1000, 24, after=end)
        made.wait(7, 24)
        start, after = made.launch("needs_gradients", 60, after=other + 2)
        made.gaps.append((end, start, "communication", None))
        # What it waited for ended early: the rest of the gap has another cause.
        _, other = made.launch("brief", 100, 20, after=after + 50)
        made.wait(7, 20)
        start, end = made.launch("stuck", 40, after=other + 900)
        made.gaps.append((after, start, "unknown_wait", None))
        # It waited for 9 us, most of them for the other stream.
        made.launch("short", 5, 20, after=end + 2)
        made.now = end - 40
        made.wait(7, 20)
        start, _ = made.launch("follows", 40, after=end + 9)
        made.gaps.append((end, start, "dependency", None))
        made.synchronize()
    return made


def training(seed: int, steps: int = 3, rank: int = 0, world_size: int = 1, *, has_graphs: bool = False) -> Machine:
    """Steps of drawn length: ops with launches on three streams, collectives, copies, waits, loading, graphs."""
    draw = random.Random(seed)
    made = Machine(rank, world_size)
    for step in range(steps):
        with made.frame(f"ProfilerStep#{step + 5}", "user_annotation"):
            with made.frame(LOADER, "user_annotation"):
                made.now += draw.randrange(10, 900)
            with made.frame("aten::copy_"):
                length, delay = draw.randrange(5, 300), draw.randrange(5, 12)
                made.launch(COPY, length, 20, delay=delay, call="cudaMemcpyAsync", kind="gpu_memcpy")
            for _ in range(draw.randrange(6, 12)):
                work(made, draw)
            if has_graphs:
                made.graph(*(draw.randrange(3, 40) for _ in range(draw.randrange(2, 6))))
            if draw.random() < 0.7:
                made.synchronize(draw.choice(["cudaDeviceSynchronize", "cudaStreamSynchronize"]), draw.randrange(1, 9))
            made.now += draw.randrange(1, 200)
    return made


def work(made: Machine, draw: random.Random) -> None:
    """An op of a random kind."""
    with made.frame(draw.choice(["aten::mm", "aten::add", "aten::relu"])):
        made.now += draw.randrange(1, 120)
        delay, length = draw.randrange(5, 30), draw.randrange(1, 250)
        chance = draw.random()
        if chance < 0.2:
            after = made.free.get(7, 0) + draw.randrange(1, 9)
            sent: dict[str, Any] = {} if made.world_size == 1 else message(*draw.choice(MESSAGES), made.world_size)
            made.launch(ALL_REDUCE, length, 24, delay=delay, after=after, call="cudaLaunchKernelExC", **sent)
        elif chance < 0.3:
            made.launch("Memset (Device)", 2, call="cudaMemsetAsync", kind="gpu_memset", delay=delay)
        elif chance < 0.4:
            made.launch("elementwise_kernel", length, delay=delay, after=made.free.get(24, 0) + 2)
        elif chance < 0.5:
            # It starts before the call returns.
            made.launch("elementwise_kernel", length, delay=2, takes=9)
        else:
            made.launch("ampere_sgemm_64x64_tn", length, delay=delay)


# Collective, process group, type, elements that are sent and received.
MESSAGES: Final = (
    ("allreduce", "0", "Float", 1 << 20, 1 << 20),
    ("_allgather_base", "1", "BFloat16", 1 << 10, 1 << 11),
    ("_reduce_scatter_base", "1", "Half", 1 << 13, 1 << 12),
    ("broadcast", "0", "Long", 100, 100),
)


def message(collective: str, group: str, dtype: str, sent: int, received: int, size: int) -> dict[str, Any]:
    """The arguments with which kernels of collectives are written."""
    return {
        "Collective name": collective, "Process Group Name": group,
        "Process Group Description": "default_pg" if group == "0" else "mesh_fsdp", "Group size": size, "dtype": dtype,
        "In msg nelems": sent, "Out msg nelems": received,
    }  # fmt: skip


def hostile() -> Machine:
    """Hard cases: overlaps in a stream, no ids, no length, clocks that differ, calls without device events."""
    made = Machine()
    with made.frame("aten::add"):
        made.launch("long", 500)
        made.run("overlaps", made.free[7] - 200, made.free[7] - 100, 7, correlation=0)
        made.run("overlaps_the_end", made.free[7] - 50, made.free[7] + 50, 7)
        start, _ = made.launch("no_length", 0)
        made.run("at_once", start, start, 7, correlation=-1)
        made.now = made.free[7] + 100
        made.correlation += 1
        made.write("cuda_runtime", "cudaLaunchKernel", made.now, made.now + 5, correlation=made.correlation)
        # The device's clock is slow: the event starts before its launch.
        made.run("early", made.now - 40, made.now - 20, 7, correlation=made.correlation)
        made.now += 20
        made.write("cuda_runtime", "cudaLaunchKernel", made.now, made.now + 5, correlation=9999)
        made.now += 20
        made.write("cuda_runtime", "cudaLaunchKernel", made.now, made.now + 5)
        made.run("no_stream", made.now + 60, made.now + 70, 8, correlation=77)
        del made.events[-1]["args"]["stream"]
        made.run("no_device", made.now + 160, made.now + 170, 9, correlation=78)
        del made.events[-1]["args"]["device"]
    made.synchronize()
    return made


def differing() -> Machine:
    """Differences from HolisticTraceAnalysis: an overlap in a stream, clocks that differ, a kernel named as a copy."""
    made = Machine()
    _, end = made.launch("first", 200)
    made.now = end - 60
    made.launch("overlaps", 100, after=end - 50, overlaps=True)
    made.now = made.free[7] + 100
    made.launch("early", 20, delay=-40)
    made.now += 200
    made.launch("fusedMemcpyKernel", 30)
    return made


SHAPES: Final[dict[str, Callable[[], Machine]]] = {
    "planted": planted, "recorded": recorded, "hostile": hostile, "differing": differing,
    **{f"training {seed}": lambda seed=seed: training(seed, has_graphs=seed < 2) for seed in range(4)},  # type: ignore[misc]
    **{f"rank {rank}": lambda rank=rank: training(100 + rank, 4, rank, 2) for rank in range(2)},  # type: ignore[misc]
}  # fmt: skip
# Those, and the programs of `trace_corpus`, whose tests run every time.
FEW: Final = ("planted", "recorded", "hostile", "rank 0", "training")
# HolisticTraceAnalysis fails for kernels without a stream or correlation id.
OF_HTA: Final = tuple(name for name in SHAPES if name not in ("hostile", "differing", "recorded"))


@functools.cache
def _of_hta() -> Any:
    return json.loads(gzip.decompress((CAPTURES / "expected" / "hta.json.gz").read_bytes()))


def hta(name: str) -> Any:
    """HolisticTraceAnalysis's answers on one of these traces, rows by question: made by `tests/parity/make_hta.py`."""
    return _of_hta()[name]
