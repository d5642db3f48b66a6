"""A trace with CUPTI's counters, as Kineto's profiler of ranges writes it: no kernels, but a range for each launch.

The ranges have the kernels' names and counters, and divide the time of the recording evenly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.launch_traces import Machine

STEPS: Final = 3
# Operations by type of element, as `kineto__cuda_core_flops` stands for.
INSTRUCTIONS: Final = tuple(
    f"smsp__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum" for kind in "dhf" for op in ("add", "fma", "mul")
)
OTHERS: Final = ("dram__bytes.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed")
NAMES: Final = ("ampere_sgemm_128x64_tn", "void at::native::vectorized_elementwise_kernel<4>(int)", "reduce_kernel")


@dataclass
class Counted(Machine):
    """A machine whose kernels are counted, not timed."""

    seed: int = 0
    kernels: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def run(self, name: str, start: int, end: int, stream: int, kind: str = "kernel", **given: Any) -> None:
        del start, end, stream, given
        if kind == "kernel":
            self.kernels.append(name)

    def op(self, depth: int, thread: int) -> None:
        """An op that calls others, or launches kernels: some within an annotation or a Python function."""
        category = self.random.choices(("cpu_op", "user_annotation", "python_function"), (8, 1, 1 + (depth == 1)))[0]
        name = {"cpu_op": "aten::op_{}", "user_annotation": "part {}", "python_function": "model.py({}): run"}[category]
        with self.frame(name.format(self.random.randint(0, 4)), category, thread):
            if depth == 0 or (category == "cpu_op" and self.random.random() < 0.3):
                with self.frame(f"aten::leaf_{self.random.randint(0, 2)}", "cpu_op", thread):
                    for _ in range(self.random.randint(0, 2)):
                        call = self.random.choice(("cudaLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC"))
                        self.launch(self.random.choice(NAMES), 5, call=call, thread=thread)
                    if self.random.random() < 0.3:
                        self.launch("Memcpy", 5, call="cudaMemcpyAsync", kind="gpu_memcpy", thread=thread)
                return
            for _ in range(self.random.randint(1, 3)):
                self.op(depth - 1, thread)

    def ranges(self) -> list[dict[str, Any]]:
        """A range for each kernel, with random counters."""
        begin = min(each["ts"] for each in self.events)
        length = (self.now - begin) // len(self.kernels)
        return [
            {
                "ph": "X", "cat": "cuda_profiler_range", "name": name, "pid": self.device, "tid": 0,
                "ts": begin + length * place, "dur": length,
                "args": {
                    **{counter: float(self.random.randint(0, 10**6)) for counter in INSTRUCTIONS},
                    **{counter: self.random.random() * 100 for counter in OTHERS},
                },
            }
            for place, name in enumerate(self.kernels)
        ]  # fmt: skip


def counted(seed: int = 5) -> bytes:
    """Some steps, each with ops of two threads."""
    made = Counted(seed=seed)
    for step in range(STEPS):
        with made.frame(f"ProfilerStep#{step}", "user_annotation"):
            for thread in (1, 1, 2):
                made.op(3, thread)
    made.events += made.ranges()
    return made.trace()
