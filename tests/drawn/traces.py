"""PyTorch traces drawn with planted problems, and the same as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests.drawn.schedule import LAG, Action, Call, Frame, Kernel, Launch, On, Pause, Run, Slice, Spend, recorded, run

# Runtimes: category of calls, then a launch, a copy, a graph's launch, and prefix of other calls.
RUNTIMES: Final = {
    "cuda": ("cuda_runtime", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaGraphLaunch", "cuda"),
    "hip": ("cuda_runtime", "hipLaunchKernel", "hipMemcpyAsync", "hipGraphLaunch", "hip"),
    "xpu": ("xpu_runtime", "urEnqueueKernelLaunch", "urEnqueueUSMMemcpy", "urEnqueueCommandBufferExp", "ur"),
}
SIMPLE: Final = "ampere_sgemm_128x64_tn"


@dataclass(frozen=True)
class Device:
    """A device: whether it has matrix units, and the products with and without them."""

    name: str
    runtime: str
    major: int | None
    has_units: bool
    gemm: str


DEVICES: Final = (
    Device("NVIDIA H100 80GB HBM3", "cuda", 9, True, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"),
    Device("NVIDIA A100-SXM4-40GB", "cuda", 8, True, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"),
    Device("Tesla P100-PCIE-16GB", "cuda", 6, False, "maxwell_sgemm_128x64_tn"),
    Device("NVIDIA GeForce GTX 1080 Ti", "cuda", 6, False, "maxwell_sgemm_128x64_tn"),
    Device("AMD Instinct MI300X", "hip", 9, True, "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1"),
    Device("Intel(R) Data Center GPU Max 1550", "xpu", None, True, "gemm_kernel"),
)  # fmt: skip
# Op, kernel, family, relative time.
OTHERS: Final = (
    ("aten::add", "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)", "elementwise", 0.4),
    ("aten::native_layer_norm", "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float, float const*)", "normalization", 0.3),
    ("aten::sum", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float> > >(at::native::ReduceOp<float>)", "reduction", 0.3),
    ("aten::_flash_attention_forward", "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(pytorch_flash::Flash_fwd_params)", "attention", 0.8),
    ("aten::embedding", "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>(int)", "embedding", 0.2),
)  # fmt: skip
TRITON: Final = ("triton_poi_fused_add_gelu_0", "triton_poi_fused_add_gelu_0", "elementwise", 0.4)
# Names of steps by the tool that writes them, and whether they tell training (None: no).
TOOLS: Final = {
    "ProfilerStep#{}": None, "step[DECODE bs=8]": False, "execute_context_1(128)_generation_8(8)": False,
    "denoise_step_{}": False, "my_iteration": None, "train_batch_{}": True, "execute_diffusion_{}_1024x1024": False, "": None,
}  # fmt: skip
# Calls that take time on the host, by their cause; those that wait for devices.
CALLS: Final = {
    "allocation": ("Malloc", False), "free": ("Free", True), "pinned_memory": ("HostAlloc", False),
    "module_load": ("ModuleLoadData", False), "graph_instantiation": ("GraphInstantiateWithFlags", False),
    "creation": ("StreamCreateWithPriority", False),
}  # fmt: skip
PROBLEMS: Final = (
    "none", "pause", "pause", "pause", "sync", "sync", "item", "slow host", "slow host", "step", "function", "cpu op",
    "load", "load", "workers", "capture", "capture", "repeats", "repeats", "compile", "compile", "hooks", "nested",
    "call", "call", "copies", "copies", "no tensor cores", "lost", "lost", "delay", "stream", "straggler", "straggler",
    "straggler", "transfer", "merged", "idle server",
)  # fmt: skip


@dataclass
class Drawn:
    """A drawn trace, or one of each rank: its programs and what they are."""

    problems: tuple[str, ...]
    device: Device | None
    tool: str
    is_training: bool
    is_compiled: bool = False
    has_workers: bool = False
    repeats: bool = False
    is_merged: bool = False
    clock: int = 1
    late: int | None = None
    programs_wait: bool = False  # each step ends in a synchronization
    programs: list[list[Action]] = field(default_factory=list)

    def runs(self, without: Sequence[str] = ()) -> list[Run]:
        return run(self.programs, without)


class Drawing:
    """A draw: what it has chosen so far, and how steps are made of that."""

    def __init__(self, rng: Random, drawn: Drawn) -> None:
        self.rng, self.drawn = rng, drawn
        self.problems = set(drawn.problems)
        self.has_modules = rng.random() < 0.4
        self.call, self.steps = rng.choice(list(CALLS)), rng.randint(3, 6)
        self.scale = rng.randint(40, 300) * 1000
        self.overhead = rng.randint(3, 9) * 1000
        if {"slow host", "idle server", "delay"} & self.problems:
            self.scale = rng.randint(4, 12) * 1000
        if {"sync", "item"} & self.problems:
            self.scale = rng.randint(10, 40) * 1000
        if {"slow host", "delay"} & self.problems:
            self.overhead = rng.randint(15, 40) * 1000
        self.lag = rng.randint(100, 400) * 1000 if "delay" in self.problems else LAG
        gemm = drawn.device.gemm if drawn.device else ""
        if "no tensor cores" in self.problems:
            gemm = SIMPLE
        first: tuple[Any, ...] = ("aten::addmm", gemm, "GEMM", 1.0)
        if drawn.is_compiled:
            first = rng.choice((first, TRITON))
        self.ops = [
            first,
            *rng.choices([first, *OTHERS, *([TRITON] * 3 if drawn.is_compiled else [])], k=rng.randint(3, 8)),
        ]

    @property
    def runtime(self) -> tuple[str, ...]:
        return RUNTIMES[self.drawn.device.runtime if self.drawn.device else "cuda"]

    def about(self, ticks: float) -> int:
        return max(1, round(ticks * self.rng.uniform(0.85, 1.15)))

    def kernel(self, name: str, family: str, part: float) -> Kernel:
        is_lost = "lost" in self.problems and self.rng.random() < 0.3
        return Kernel(name, self.about(part * self.scale), family, is_lost=is_lost)

    def op(self, what: tuple[Any, ...], name: str | None = None, **options: Any) -> Frame:
        """An op that launches a kernel; without a device, it runs on the CPU."""
        if self.drawn.device is None:
            return Frame(name or what[0], [Spend(self.about(what[3] * self.scale), "cpu op")])
        launch = Launch([self.kernel(*what[1:])], self.runtime[1], lag=self.lag, **options)
        return Frame(name or what[0], [Spend(self.overhead, "host"), launch, Spend(self.overhead // 4 + 1, "host")])

    def copy(self, name: str, part: float) -> Frame:
        kernel = Kernel(f"Memcpy {name}", self.about(part * self.scale), "memcpy", "copy")
        return Frame("aten::copy_", [Spend(self.overhead, "host"), Launch([kernel], self.runtime[2])])

    def sync(self, is_item: bool) -> list[Action]:
        name = "urQueueFinish" if self.runtime[4] == "ur" else f"{self.runtime[4]}StreamSynchronize"
        wait = Call(name, 1500, "sync", True)
        if not is_item:
            return [wait]
        copy = Launch([Kernel("Memcpy DtoH (Device -> Pageable)", 1500, "memcpy", "copy")], self.runtime[2])
        return [Frame("aten::item", [Frame("aten::_local_scalar_dense", [Spend(2000, "host"), copy, wait])])]

    def planted(self, amount: int) -> list[Action]:
        """What a step has once or twice of its problem, of about that time."""
        made: list[Action] = []
        ticks = self.about(amount * self.rng.uniform(1.5, 5))
        plain: dict[str, Action] = {
            "function": Frame(self.rng.choice(("tokenize.py(12): encode", "data.py(40): decode_jpeg")), [Spend(ticks, "function")], "python_function"),
            "cpu op": Frame(self.rng.choice(("aten::sort", "aten::nonzero", "aten::unique")), [Spend(ticks, "cpu op")]),
            "load": Frame("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", [Spend(ticks, "load")], "user_annotation"),
            "workers": Frame("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", [Spend(ticks, "load")], "user_annotation"),
            "step": Spend(ticks, "step"),
        }  # fmt: skip
        made += [plain[each] for each in self.drawn.problems if each in plain]
        if "compile" in self.problems and self.rng.random() < 0.7:
            inner = Frame("_compile.compile_inner (dynamo_timed)", [Spend(3 * ticks, "compile")])
            made.append(Frame("Torch-Compiled Region: 0/0", [Frame("entire_frame_compile", [inner])]))
        if "call" in self.problems:
            name, waits = CALLS[self.call]
            made.append(Call(self.runtime[4] + name, ticks, self.call, waits))
        if "copies" in self.problems and self.drawn.device:
            way = self.rng.choice(("HtoD (Pageable -> Device)", "HtoD (Pinned -> Device)", "DtoH (Device -> Pageable)"))
            made.append(self.copy(way, 6))
        return made

    def ops_once(self) -> list[Action]:
        """The ops of a step, forward."""
        made: list[Action] = []
        is_item, syncs = "item" in self.problems, bool({"sync", "item"} & self.problems)
        every = self.rng.choice((1, 2))
        for place, what in enumerate(self.ops):
            made.append(self.op(what))
            if syncs and self.drawn.device and place % every == 0:
                made += self.sync(is_item)
        if "stream" in self.problems:
            long = Launch([self.kernel(self.ops[0][1], self.ops[0][2], 4)], self.runtime[1], stream=20, after=7)
            name = "aten::mm" if self.ops[0][2] == "GEMM" else self.ops[0][0]
            made.append(Frame(name, [Spend(self.overhead, "host"), long]))
            made.append(self.op(self.ops[0], after=20))
        amount = int(sum(what[3] for what in self.ops) * self.scale)
        for each in self.planted(amount):
            comes_first = isinstance(each, Frame) and "Loader" in each.name
            made.insert(0 if comes_first else self.rng.randrange(len(made) + 1), each)
        return made

    def backward(self) -> Action:
        """The backward pass, on a thread of its own."""
        done: list[Action] = []
        for what in self.ops[:4]:
            name = f"{what[0].removeprefix('aten::').title()}Backward0"
            if "hooks" in self.problems:
                done += [Frame("aten::detach", [Spend(400, "host")]) for _ in range(self.rng.randint(2, 8))]
            inner = self.op(what, "aten::mm" if what[2] == "GEMM" else what[0])
            body: list[Action] = [Spend(1500, "host"), Frame(name, [Spend(500, "host"), inner])]
            done.append(Frame(f"autograd::engine::evaluate_function: {name}", body))
        if "straggler" in self.problems or "transfer" in self.problems:
            done.append(self.collective())
        annotated = Frame("## backward ##", [Spend(1000, "host"), On(2, done)], "user_annotation")
        return annotated if self.rng.random() < 0.5 else On(2, done)

    def collective(self) -> Action:
        ticks = int(self.scale * (12 if "transfer" in self.problems else 0.5))
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        kernel = Kernel(name, ticks, "communication", is_collective=True)
        launch = Launch([kernel], "cudaLaunchKernelExC", stream=20, after=7)
        return Frame("nccl:all_reduce", [Spend(2000, "host"), launch], "user_annotation")

    def step(self, number: int) -> list[Action]:
        drawn = self.drawn
        body = self.ops_once()
        if self.has_modules:
            name = "train.py(30): one_step" if drawn.is_training else "serve.py(30): one_step"
            module = Frame("nn.Module: Net_0", body, "python_function")
            body = [Frame(name, [Spend(1000, "step"), module], "python_function")]
        if drawn.is_training:
            body.append(self.backward())
            update = self.op(OTHERS[0], "aten::_foreach_add_")
            body.append(Frame("Optimizer.step#SGD.step", [update], "user_annotation"))
        elif {"straggler", "transfer"} & self.problems:
            body.append(self.collective())
        if drawn.programs_wait and drawn.device:
            body += self.sync(False)
        made: list[Action] = [Spend(1000, "step"), *body, Spend(2000, "step")]
        if "nested" in self.problems:
            made = [Frame("my_region", made, "user_annotation"), Spend(800, "step")]
        name = drawn.tool.format(number)
        return [Frame(name, made, "user_annotation", True)] if name else [Spend(500, "step"), *body]

    def program(self, late: int = 0) -> list[Action]:
        """The program of a rank that is late by a time in each step."""
        made: list[Action] = []
        if "capture" in self.problems:
            made += self.capture()
        between = int(sum(what[3] for what in self.ops) * self.scale)
        for number in range(self.steps):
            step = self.replay(number) if "capture" in self.problems else self.step(number)
            if late and isinstance(step[0], Frame):
                busy = Frame("data.py(7): augment", [Spend(late, "function")], "python_function")
                step = [replace(step[0], body=[busy, *step[0].body])]
            made += step
            gap = self.about(between * self.rng.uniform(3, 20))
            gap *= "pause" in self.problems or 10 * ("idle server" in self.problems)
            made.append(Pause(gap + self.rng.randint(100, 400)))
        return made

    def capture(self) -> list[Action]:
        """Launches that are recorded into a graph."""
        prefix = self.runtime[4]
        ops = [self.op(what, is_captured=True) for what in self.ops]
        return [
            Call(f"{prefix}StreamBeginCapture", 3000, "graph_instantiation"), *ops,
            Call(f"{prefix}StreamEndCapture", 5000, "graph_instantiation"),
            Call(f"{prefix}GraphInstantiate", 30_000, "graph_instantiation"), Pause(20_000),
        ]  # fmt: skip

    def replay(self, number: int) -> list[Action]:
        kernels = [self.kernel(*what[1:]) for what in self.ops]
        body: list[Action] = [Spend(3000, "step"), Launch(kernels, self.runtime[3], ticks=9000), Spend(4000, "step")]
        name = self.drawn.tool.format(number) or "replay"
        return [Frame(name, body, "user_annotation", bool(self.drawn.tool))]


def draw(seed: int) -> Drawn:
    """A drawn trace."""
    rng = Random(f"trace {seed}")
    first = PROBLEMS[seed % len(PROBLEMS)]
    second = rng.choice(("pause", "function", "sync", "copies", "none", "step"))
    problems = (first,) if rng.random() < 0.6 else (first, second)
    device: Device | None = rng.choice(DEVICES)
    is_job = bool({"straggler", "transfer"} & set(problems))
    if first == "no tensor cores" or first in ("straggler", "transfer", "merged"):
        device = rng.choice(DEVICES[:2])
    if first == "capture":
        device = rng.choice(DEVICES[:5])
    if first in ("compile", "load", "function") and rng.random() < 0.35:
        device = None
    if "call" in problems and device and device.runtime == "xpu":
        device = DEVICES[0]
    tool = rng.choice(list(TOOLS))
    is_training = rng.random() < 0.5 if TOOLS[tool] is None else bool(TOOLS[tool])
    if first in ("hooks", "straggler") and (first == "hooks" or rng.random() < 0.8):
        tool, is_training = rng.choice(("ProfilerStep#{}", "my_iteration", "train_batch_{}")), True
    if tool == "" and is_job:
        tool = "ProfilerStep#{}"
    drawn = Drawn(problems, device, tool, is_training and first != "capture")
    drawn.is_compiled = first == "compile" or rng.random() < 0.25
    drawn.has_workers = "workers" in problems
    drawn.repeats = first == "repeats"
    drawn.programs_wait = rng.random() < 0.3
    if first in ("none", "pause", "load", "sync"):
        drawn.clock = rng.choice((1, 1, 1, 1, 1000, 100, 10_000, 15_625, 50_000))
    drawing = Drawing(rng, drawn)
    ranks = rng.randint(2, 4) if is_job else 2 if first == "merged" else 1
    drawn.late = rng.randrange(ranks) if "straggler" in problems else None
    drawn.is_merged = first == "merged"
    wait = int(sum(what[3] for what in drawing.ops) * drawing.scale * rng.uniform(2, 4)) if is_job else 0
    state = rng.getstate()
    for rank in range(ranks):
        rng.setstate(state)
        drawn.programs.append(drawing.program(wait if rank == drawn.late else 0))
    return drawn


def documents(drawn: Drawn) -> list[bytes]:
    """The files of a drawn trace: one, or one of each rank."""
    runs = drawn.runs()
    events = [_events(drawn, each, rank) for rank, each in enumerate(runs)]
    if drawn.is_merged:
        return [_document(drawn, [event for each in events for event in each], 0, len(runs))]
    return [_document(drawn, each, rank, len(runs)) for rank, each in enumerate(events)]


def _document(drawn: Drawn, events: list[dict[str, Any]], rank: int, ranks: int) -> bytes:
    device = drawn.device
    properties = {} if device is None else {
        "name": device.name, "totalGlobalMem": 45097156608, "numSms": 108, "warpSize": 32,
        **({} if device.major is None else {"computeMajor": device.major, "computeMinor": 0}),
    }  # fmt: skip
    top: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": rank, **properties}] if properties else []}
    if drawn.is_merged:
        top["deviceProperties"] = [{"id": each, **properties} for each in range(ranks)]
    elif ranks > 1:
        top["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": ranks}
    return json.dumps({**top, "traceEvents": events}).encode()


def _events(drawn: Drawn, happened: Run, rank: int) -> list[dict[str, Any]]:
    """The events of a rank."""

    def times(start: int, end: int) -> dict[str, float]:
        start, end = start // drawn.clock * drawn.clock, end // drawn.clock * drawn.clock
        return {"ts": start / 1000, "dur": (end - start) / 1000}

    process, category = 100 + rank, RUNTIMES[drawn.device.runtime if drawn.device else "cuda"][0]
    offset = 100_000 * rank if drawn.is_merged else 0
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_labels", "pid": process, "tid": 0, "ts": 0, "args": {"labels": "CPU"}},
    ]
    for each in happened.slices:
        arguments: dict[str, Any] = {"External id": each.external + offset}
        if each.correlation is not None:
            arguments["correlation"] = each.correlation + offset
        if each.category == "python_function":
            arguments = {"Python id": each.external, "Python parent id": None, "Ev Idx": each.external}
        made.append(
            {"ph": "X", "cat": category if each.category == "runtime" else each.category, "name": each.name,
             "pid": process, "tid": process + each.thread, **times(each.start, each.end), "args": arguments}
        )  # fmt: skip
    made += _work(drawn, happened, rank, offset, times)
    return sorted(made, key=lambda each: float(each["ts"]))


def _work(
    drawn: Drawn, happened: Run, rank: int, offset: int, times: Callable[[int, int], dict[str, float]]
) -> list[dict[str, Any]]:
    made = []
    previous: Slice | None = None
    for number, each in enumerate(recorded(happened)):
        call = previous if drawn.repeats and number % 3 == 2 and previous else each.call
        previous = each.call
        arguments: dict[str, Any] = {
            "External id": call.external + offset, "device": rank, "stream": each.stream,
            "correlation": call.correlation + offset if call.correlation else 0,
        }  # fmt: skip
        if each.kernel.kind == "copy":
            arguments["bytes"] = each.kernel.ticks * 12
        elif each.kernel.is_collective:
            ranks = len(drawn.programs)
            arguments |= {
                "Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576, "Group size": ranks,
                "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0",
                "Process Group Description": "default_pg", "Process Group Ranks": str(list(range(ranks))),
            }  # fmt: skip
        if "GraphLaunch" in each.call.name or "CommandBuffer" in each.call.name:
            arguments["graph node id"] = 20 + number
        made.append(
            {"ph": "X", "cat": "gpu_memcpy" if each.kernel.kind == "copy" else "kernel", "name": each.kernel.name,
             "pid": rank, "tid": each.stream, **times(each.start, each.end), "args": arguments}
        )  # fmt: skip
    return made
