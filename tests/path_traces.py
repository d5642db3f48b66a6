"""Traces whose critical path is known, because they are made along it: each part of the path is drawn, then written.

Everything else finishes earlier than necessary: kernels of other streams, ops of other threads, earlier launches.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from tests.trace_builders import event

FORWARD, BACKWARD, LOADER = 1, 2, 3
NO_EVENT: Final = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1}
STEP: Final = "ProfilerStep#1"
ENGINE: Final = "autograd::engine::evaluate_function: MmBackward0"
# Kind, name, op, start and end in microseconds.
Part = tuple[str, str | None, str | None, int, int]


class Path:
    """A recording made along its critical path."""

    def __init__(self, seed: int, parts: int = 30, *, for_hta: bool = False) -> None:
        """With what HolisticTraceAnalysis needs, and without a backward pass, as it knows no waits of threads: `for_hta`."""
        self.for_hta = for_hta
        self.random = Random(seed)
        self.events: list[dict[str, Any]] = []
        self.parts: list[Part] = []
        self.now, self.correlation = 1000, 0
        self.op("aten::first", FORWARD)
        kinds = [self.host, self.synchronized, self.queue, self.chain, *([] if for_hta else [self.backward])]
        for _ in range(parts):
            self.random.choice(kinds)()
        self.op("aten::last", FORWARD)
        self.begin, self.until = self.parts[0][3], self.now
        if for_hta:
            self.events.append(event("user_annotation", STEP, self.begin, self.until, FORWARD))

    def length(self, most: int = 90) -> int:
        return self.random.randint(3, most)

    def on_path(self, kind: str, name: str | None, op: str | None, until: int) -> None:
        if until > self.now:
            self.parts.append((kind, name, op, self.now, until))
        self.now = until

    def op(self, name: str, thread: int, **arguments: Any) -> None:
        """An op of the host that calls nothing."""
        start = self.now
        self.on_path("op", name, name, start + self.length())
        self.events.append(event("cpu_op", name, start, self.now, thread, **arguments))

    def outside(self) -> None:
        """The host is in no event: Python that is not recorded."""
        kind, name = ("annotation", STEP) if self.for_hta else ("host", None)
        self.on_path(kind, name, None, self.now + self.length(20))

    def host(self) -> None:
        self.outside()
        self.op(self.random.choice(("aten::view", "aten::empty")), FORWARD)
        if self.random.random() < 0.5:
            # A thread that loads input is busy meanwhile, and nothing waits for it.
            self.events.append(event("cpu_op", "aten::pin_memory", self.now - 2, self.now + 1, LOADER))

    def call(self, at: int, name: str, length: int = 2) -> int:
        self.correlation += 1
        self.events.append(event("cuda_runtime", name, at, at + length, FORWARD, correlation=self.correlation))
        return self.correlation

    def kernel(self, name: str, start: int, end: int, stream: int, correlation: int) -> None:
        ids = {"correlation": correlation, "device": 0, "stream": stream}
        self.events.append(event("kernel", name, start, end, stream, **ids))

    def launch(self) -> tuple[int, int, int]:
        """An op launches a kernel, which the path follows: when op and call end, and the stream."""
        self.outside()
        start, stream = self.now, self.random.choice((7, 20))
        self.on_path("op", "aten::mm", "aten::mm", start + self.length(20))
        call = self.call(self.now, "cudaLaunchKernel")
        returned = self.now + 2
        op_end = returned + 3
        self.events.append(event("cpu_op", "aten::mm", start, op_end, FORWARD))
        # Streams are free: all work before was waited for.
        self.on_path("launch_delay", "gemm", "aten::mm", self.now + self.random.randint(3, 9))
        begin = self.now
        self.on_path("kernel", "gemm", "aten::mm", begin + self.length(200) + 60)
        self.kernel("gemm", begin, self.now, stream, call)
        return op_end + 1, begin, stream

    def wait(self, since: int) -> None:
        """The host waits from `since` on for all streams."""
        name = "cudaDeviceSynchronize"
        until = self.now + self.random.randint(1, 9)
        self.on_path("synchronization", name, "aten::item", until)
        call = self.call(since + 1, name, until - since - 1)
        self.synchronize("Context Sync", since + 1, until, -1, call)
        self.on_path("op", "aten::item", "aten::item", until + 2)
        self.events.append(event("cpu_op", "aten::item", since, self.now, FORWARD))

    def synchronize(self, name: str, start: int, end: int, stream: int, call: int, **waited: int) -> None:
        """The entry that CUPTI records for a synchronization."""
        ids = {"correlation": call, "device": 0, "stream": stream, "cuda_sync_kind": name, **waited}
        given = {**NO_EVENT, **ids}
        if self.for_hta:
            self.events.append(event("cuda_sync", name, start, end, stream, **given))

    def synchronized(self) -> None:
        """A kernel, and work of another stream that is done before."""
        free, begin, _ = self.launch()
        call = self.call(free, "cudaLaunchKernelExC")
        self.kernel("side", begin + 15, self.now - self.random.randint(3, 9), 24, call)
        self.wait(free + 5)

    def queue(self) -> None:
        """Kernels that are launched while the one before runs: each starts when that has ended."""
        free, begin, stream = self.launch()
        # HolisticTraceAnalysis takes a kernel for one that waits in its stream if another is launched before it starts.
        free = max(free, begin + 1) if self.for_hta else free
        for _ in range(self.random.randint(1, 4)):
            call = self.call(free, "cudaLaunchKernel")
            free += 3
            self.on_path("stream_delay", "queued", None, self.now + self.random.randint(int(self.for_hta), 3))
            begin = self.now
            self.on_path("kernel", "queued", None, begin + self.length(40))
            self.kernel("queued", begin, self.now, stream, call)
        self.wait(free)

    def chain(self) -> None:
        """A kernel of another stream is launched early, and starts when the first has ended."""
        free, _, stream = self.launch()
        record = self.call(free, "cudaEventRecord")
        waits = self.call(free + 3, "cudaStreamWaitEvent")
        waited = {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": record}
        self.synchronize("Stream Wait Event", free + 4, free + 5, 24, waits, **waited)
        free += 6
        call = self.call(free, "cudaLaunchKernel")
        self.on_path("dependency", "dependent", None, self.now + self.random.randint(1, 5))
        start = self.now
        self.on_path("kernel", "dependent", None, start + self.length(40))
        self.kernel("dependent", start, self.now, 24, call)
        self.wait(free + 4)

    def backward(self) -> None:
        """The thread of the backward pass runs, for which the thread of the forward pass waits."""
        for place in range(self.random.randint(1, 4)):
            if place:
                self.on_path("host", None, None, self.now + self.length(9))
            else:
                self.on_path("handover", ENGINE, ENGINE, self.now + self.length(9))
            # It launches as well: what is done long before anybody waits.
            start = self.now
            call_at = start + 1
            self.correlation += 1
            self.events.append(
                event("cuda_runtime", "cudaLaunchKernel", call_at, call_at + 1, BACKWARD, correlation=self.correlation)
            )
            end = start + 2 + self.length()
            self.on_path("op", ENGINE, ENGINE, call_at)
            self.on_path("call", "cudaLaunchKernel", ENGINE, call_at + 1)
            self.on_path("op", ENGINE, ENGINE, end)
            numbers = {"Sequence number": 1, "Fwd thread id": 1}
            self.events.append(event("cpu_op", ENGINE, start, end, BACKWARD, **numbers))
            self.kernel("tiny", call_at + 1, call_at + 2, 24, self.correlation)
        self.on_path("handover", "aten::after", "aten::after", self.now + self.length(9))
        self.op("aten::after", FORWARD)

    def trace(self) -> bytes:
        return written(self.events)


def late_launch() -> bytes:
    """A kernel that starts long after the one before it ended, as it was launched late; another is launched before it starts."""
    made = [
        event("user_annotation", STEP, 0, 500, FORWARD),
        event("cpu_op", "aten::mm", 3, 20, FORWARD),
        event("cpu_op", "aten::add", 295, 320, FORWARD),
        event("cpu_op", "aten::item", 330, 480, FORWARD),
        event("cuda_runtime", "cudaDeviceSynchronize", 331, 475, FORWARD, correlation=9),
        event("cuda_sync", "Context Sync", 331, 475, -1, correlation=9, device=0, stream=-1, **NO_EVENT),
    ]
    for number, (launch, start, end) in enumerate(((5, 12, 110), (300, 310, 400), (305, 402, 470)), 1):
        ids = {"correlation": number}
        made.append(event("cuda_runtime", "cudaLaunchKernel", launch, launch + 4, FORWARD, **ids))
        made.append(event("kernel", f"kernel_{number}", start, end, 7, device=0, stream=7, **ids))
    return written(made)


def recorded_waits() -> bytes:
    """A kernel waits for one of two other streams, and that of the other one ends later; the next waits for 4 us only."""
    made = [
        event("user_annotation", STEP, 0, 500, FORWARD),
        event("cpu_op", "aten::mm", 3, 24, FORWARD),
        event("cpu_op", "aten::item", 30, 220, FORWARD),
        event("cpu_op", "aten::add", 230, 290, FORWARD),
        event("cpu_op", "aten::item", 300, 480, FORWARD),
    ]
    launched = (
        (1, 5, "first", 7, 12, 100), (2, 8, "other", 20, 15, 103), (5, 17, "waits", 24, 105, 200),
        (7, 232, "second", 7, 240, 300), (10, 296, "waits_briefly", 24, 304, 400),
    )  # fmt: skip
    for number, launch, name, stream, start, end in launched:
        ids = {"correlation": number}
        made.append(event("cuda_runtime", "cudaLaunchKernel", launch, launch + 2, FORWARD, **ids))
        made.append(event("kernel", name, start, end, stream, device=0, stream=stream, **ids))
    for record, number, at in ((3, 4, 11), (8, 9, 240)):
        waits = {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": record}
        made.append(event("cuda_runtime", "cudaEventRecord", at, at + 1, FORWARD, correlation=record))
        made.append(event("cuda_runtime", "cudaStreamWaitEvent", at + 3, at + 4, FORWARD, correlation=number))
        ids = {"correlation": number, "device": 0, "stream": 24}
        made.append(event("cuda_sync", "Stream Wait Event", at + 4, at + 5, 24, **ids, **waits))
    for number, start, end in ((6, 31, 215), (11, 301, 475)):
        made.append(event("cuda_runtime", "cudaDeviceSynchronize", start, end, FORWARD, correlation=number))
        ids = {"correlation": number, "device": 0, "stream": -1}
        made.append(event("cuda_sync", "Context Sync", start, end, -1, **ids, **NO_EVENT))
    return written(made)


def written(events: list[dict[str, Any]]) -> bytes:
    # HolisticTraceAnalysis takes no event of index 0 for one that launched anything.
    first = {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python"}}
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}]}
    return json.dumps({**head, "traceEvents": [first, *events]}).encode()


OF_HTA: Final[dict[str, bytes]] = {
    **{f"path {seed}": Path(seed, for_hta=True).trace() for seed in range(6)},
    "without cuda_sync": written([each for each in Path(0, for_hta=True).events if each["cat"] != "cuda_sync"]),
    "late launch": late_launch(),
    "recorded waits": recorded_waits(),
}
