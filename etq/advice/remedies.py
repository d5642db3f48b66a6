"""Remedies for a cause and a kind of thing, if the facts about a trace allow them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from etq.advice.words import percent


class Traits(NamedTuple):
    """The kind of program that a trace shows, as in `trace_traits`. `replays`: whether it launches graphs. `runtime`:
    whose calls it has (CUDA, HIP), or None. `launches`: how many launches a step has, or, without steps, the recording;
    None if unknown. `has_functions`: whether Python's functions are recorded. `has_pageable`: whether it copies from
    pageable memory. `loads_at_ends`: whether DataLoaders have most of their time in their first and last calls;
    `loads_anew`: in such calls of epochs.
    """

    is_training: bool | None
    is_compiled: bool
    has_workers: bool | None
    steps: int
    ticks: int
    start_ticks: int
    replays: bool
    runtime: str | None
    launches: float | None = None
    has_functions: bool = False
    has_pageable: bool = False
    loads_at_ends: bool = False
    loads_anew: bool = False

    @property
    def has_few_launches(self) -> bool:
        """Whether a step has about one launch, so that fewer or larger launches change nothing."""
        return self.launches is not None and self.launches < _FEW

    def placed(self, text: str, **names: str | None) -> str:
        """Return a remedy with its names filled in. If there are steps, it also says where the place is relative to
        steps.
        """
        places = _PLACES if self.steps else dict.fromkeys(_PLACES, "")
        return text.format(**places, **names)

    @property
    def graphs(self) -> str:
        """The kind of graphs that the program could replay; '' if it already replays some, or if the runtime isn't
        known to have graphs.
        """
        return graphs(self.runtime, replays=self.replays)


class Stretch(NamedTuple):
    """Whether half of a time is in long parts (gaps or intervals). Also the share of the longest part, in percent, if
    it is long, has half of the time, and may be at the start of the program.
    """

    is_long: bool
    in_one: float | None = None
    part: str = "gap"


def graphs(runtime: str | None, *, replays: bool) -> str:
    """Return the name of a runtime's graphs; '' if the program already replays some, or the runtime has none."""
    return f"{runtime} graphs" if runtime and not replays else ""


# A step with at least this many launches has several.
_FEW: Final = 1.5
# Causes that also occur at the start of a program, and may have most of their time there.
_AT_START: Final = (
    "allocation", "free", "pinned_memory", "module_load", "graph_instantiation", "creation", "synchronization",
    "launch", "copy", "call", "host", "step", "op_function", "launching",
)  # fmt: skip
# Ops that copy; ops that copy or allocate, which moving to a device wouldn't help; torch's own annotations around its
# work.
_COPIES: Final = re.compile(r"aten::(.*copy|to$|item$|_local_scalar_dense$)")
_MOVES: Final = re.compile(rf"aten::empty|{_COPIES.pattern}")
_TORCHS: Final = re.compile(r"## |Optimizer\.|autograd::|Torch-Compiled|(Distributed)?DataParallel|FSDP")
# Ops that wait for a value because they give it to the host: .item(), .cpu() and printing.
_ASKS: Final = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|equal|.*copy.*|to)$")
# The parts of remedies that name a place relative to steps.
_PLACES: Final = {
    "within": " within steps", "before": ", before the steps", "or_before": ", or before the steps",
    "or_out": ", or out of the steps",
}  # fmt: skip
# Part of the names of ops that compute attention by one kernel.
_ATTENTION: Final = re.compile("attention|flash|fmha", re.IGNORECASE)
# Parts of the names of generated code of torch.compile, and of the regions around it.
GENERATED: Final = re.compile("torchinductor|Torch-Compiled|CompiledFunction|CompiledFx")
# Copies by their direction, as runtimes name them.
_DIRECTIONS: Final = (
    ("HtoD", re.compile("HtoD|HostToDevice")), ("DtoH", re.compile("DtoH|DeviceToHost")),
    ("DtoD", re.compile("DtoD|DeviceToDevice")),
)  # fmt: skip
# The functions of torch that make synchronizing calls outside ops.
_SYNCHRONIZED: Final = {
    "DeviceSynchronize": "torch.cuda.synchronize()", "StreamSynchronize": "Stream.synchronize()",
    "EventSynchronize": "Event.synchronize()",
}  # fmt: skip
CHANNELS_LAST: Final = (
    "Convert model and inputs to memory_format=torch.channels_last: convolutions then need no transposes if their "
    "kernels take it."
)
UNFUSED: Final = "Call scaled_dot_product_attention, which keeps the scores out of memory."
COPYING: Final = "Copies compute nothing: keep one memory format and type, and avoid contiguous() and cat."
_LATER: Final = "Synchronize less{within}, or launch first what can be launched."
_ONCE: Final = "{} is in one {}: if that is the start of the program, record steps after a warm-up."
_REMEDIES: Final = {
    "first_call": "If nothing before the recording started the device, this call does: record steps after a warm-up.",
    "allocation": "Reuse memory with the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, and record steps "
    "after a warm-up.",
    "free": "Keep memory in the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, no "
    "torch.cuda.empty_cache(){within}.",
    "pinned_memory": "Reuse pinned buffers.",
    "module_load": "Record steps after a warm-up: the first use of a kernel loads it; CUDA_MODULE_LOADING=EAGER loads "
    "all at the start.",
    "graph_instantiation": "Capture and instantiate graphs once{before}.",
    "creation": "Create streams, events and contexts once{before}; record steps after a warm-up.",
    "compilation": "It compiles: record steps after a warm-up; if sizes change, mark them as dynamic.",
    "data_loading": "Set num_workers of DataLoader.",
    "persistent": "Its workers may start and end in its first and last calls: persistent_workers=True of DataLoader "
    "keeps them.",
    "anew": "Its workers are too slow, or start again in each epoch: use more workers, or keep them with "
    "persistent_workers=True of DataLoader.",
    "synchronization": "Avoid .item(), .cpu() and printing of tensors{within}.",
    "unrecorded": "Record with with_stack=True, which shows Python's functions.",
    "dependency": "Let streams wait for fewer events of other streams.",
    "function": "Run it in other processes or threads{or_before}.",
    "HtoD": "Copy less, or from pinned memory with non_blocking=True, ahead of its use.",
    "DtoH": "Copy results less often, or into pinned memory with non_blocking=True.",
    "DtoD": COPYING,
    "wait": "Let it wait less: launch ahead, synchronize less often.",
    "buffers": "DistributedDataParallel broadcasts buffers in each forward pass: if ranks may have different "
    "buffers, broadcast_buffers=False saves this.",
    "device": "Make kernels of this op faster or fewer by fusion.",
    "wide": "Make kernels of this op faster or fewer by smaller types or fusion.",
    "unfused": UNFUSED,
    "product": "Make its kernels faster: etq roofline shows how near those with known costs are to the device's peak "
    "rates.",
    "wide_product": "Make its kernels faster by smaller types, where accuracy allows.",
    "blocking": "Make these kernels faster: etq kernels lists them.",
    "attention": "Try another kernel of attention.",
    "wide_attention": "Try another kernel of attention, or smaller types where accuracy allows.",
    "first_calls": "Record steps after a warm-up: first calls load, compile or tune what later calls reuse.",
    "small": "Join small collectives: larger buckets, or one call for several tensors.",
    "transfer": "Overlap communication and computation.",
    "earlier_work": "Wait for the device before the recording starts, as with torch.cuda.synchronize().",
    "low_use": "Try a larger batch, if the model converges as well with it.",
}  # fmt: skip


def remedy(
    cause: str, kind: str, name: str | None, traits: Traits, stretch: Stretch, besides: str | None = None
) -> str:
    """Return the remedy for a cause and a thing of a kind; '' if none is known. `besides` is a second thing of the
    kind, if the first doesn't have nearly all of the time.
    """
    once = _of_start(stretch)
    if once and cause in _AT_START:
        return once
    # What takes so long is not known.
    if stretch.is_long and cause in ("host", "step", "op_function", "launching", "launch_delay"):
        return ""
    match cause:
        case "function" if not name and not stretch.is_long:  # many short calls; also for functions of libraries
            text = "Call these functions less often, or keep what they return."
        case "host" | "launching" | "op_function" | "step" | "launch_delay":
            text = _of_launching(cause, kind, name or "", traits)
        case "after_synchronization":
            ways = ["" if traits.has_functions else _REMEDIES["unrecorded"]]
            ways += [traits.placed(_REMEDIES["synchronization"])] if kind == "op" and _ASKS.match(name or "") else []
            text = " ".join(filter(None, ways))
        case "device" | "wide" | "product" if kind != "op":  # only ops have sizes and costs
            text = _REMEDIES["blocking"] if cause == "product" else ""
        case "cpu_op" | "function" | "synchronization" | "HtoD" | "DtoH" | "device" | "wide":
            text = _of_name(cause, kind, name or "", traits, besides) or (once if cause == "cpu_op" else "")
        case "data_loading":
            text = f"{once} If it isn't: {_of_loading(traits)}" if once else _of_loading(traits)
        case "rank":
            late = f"rank {name}" if name else "those that come last"
            text = f"Find what makes {late} late: compare the ranks' steps (etq show stragglers)."
        case "communication" | "transfer":
            text = _of_transfer(cause, kind, traits)
        case "low_use" if kind == "outside" or not traits.is_training:
            text = ""
        case _:
            text = traits.placed(_REMEDIES.get(cause, ""))
    return f"{text} {traits.placed(_LATER)}".strip() if kind == "synchronized" else text


def _of_start(stretch: Stretch) -> str:
    """The remedy if most of a time is at the start of the program."""
    if stretch.in_one is None:
        return ""
    share = "It" if stretch.in_one == 100 else f"{percent(stretch.in_one).capitalize()} of it"
    return _ONCE.format(share, stretch.part)


def without_stack(remedy: str) -> str:
    """Return the remedy if much of a time may be spent on recording Python's functions: to record without them. The
    given remedy, if there is one, follows.
    """
    after = f" If much does: {remedy}" if remedy else ""
    return f"Record without with_stack, which slows the host, to see what remains.{after}"


def copying(name: str) -> str:
    """Return the remedy for copies with this name; '' if the name has no direction."""
    found = next((direction for direction, pattern in _DIRECTIONS if pattern.search(name)), None)
    return "" if found is None else _of_copies(found, name)


def _of_copies(direction: str, name: str) -> str:
    if "Pinned" in name and direction != "DtoD":
        return "Copy less, or ahead of its use." if direction == "HtoD" else "Copy results less often."
    return _REMEDIES[direction]


def _of_name(cause: str, kind: str, name: str, traits: Traits, besides: str | None) -> str:
    """The remedy for a certain op, function, call or copy."""
    text = traits.placed(_REMEDIES.get(cause, ""))
    match cause:
        case "cpu_op":
            return _REMEDIES["buffers"] if kind == "buffers" else _of_cpu_ops(name, traits, besides)
        case "synchronization":
            return _of_synchronization(kind, name, traits)
        case "device" | "wide" if _ATTENTION.search(name):
            text = _REMEDIES["attention" if cause == "device" else "wide_attention"]
        case "function" if _TORCHS.match(name):
            text = ""
        case "function" if not name or besides:
            text = traits.placed("Run them in other processes or threads{or_before}.")
        case "HtoD" | "DtoH":
            text = _of_copies(cause, name)
    return text


def _of_cpu_ops(name: str, traits: Traits, besides: str | None) -> str:
    named = [op for op in (name, besides) if op and not _MOVES.match(op)]
    if not name or len(named) < 1 + bool(besides):
        return ""
    if besides:
        text = "{name} and {besides} run on the CPU and launch nothing: move them to the device{or_out}."
    else:
        text = "{name} runs on the CPU and launches nothing: move it to the device{or_out}."
    return traits.placed(text, name=name, besides=besides)


def _of_synchronization(kind: str, name: str, traits: Traits) -> str:
    """The remedy for a wait for a device in an op, or outside ops in a call of this name."""
    if kind == "op":
        asks = traits.placed(_REMEDIES["synchronization"])
        return asks if _ASKS.match(name) else f"{name} waits for the device: call it less often."
    made = next((way for call, way in _SYNCHRONIZED.items() if call in name), None)
    return traits.placed("Avoid {made}{within}.", made=made) if made else ""


def _of_transfer(cause: str, kind: str, traits: Traits) -> str:
    if kind == "small":
        return _REMEDIES["small"]
    more = " If the bytes matter, use gradient accumulation or compression." if traits.is_training else ""
    return f"{_REMEDIES[cause]}{more}" if cause == "transfer" else ""


def _of_loading(traits: Traits) -> str:
    if traits.loads_at_ends:
        return _REMEDIES["persistent" if traits.has_workers else "first_calls"]
    if traits.has_workers is None:
        return "Load data ahead of its use, in more worker processes."
    if traits.has_workers and traits.loads_anew:
        return _REMEDIES["anew"]
    if traits.has_workers:
        return "Its workers are too slow: use more workers, less work per sample, or a greater prefetch_factor."
    return "Set num_workers and pin_memory of DataLoader." if traits.has_pageable else _REMEDIES["data_loading"]


def _of_launching(cause: str, kind: str, name: str, traits: Traits) -> str:
    """The remedy if the host launches kernels for long, or if they start late. `kind` is the kind of thing to which the
    time belongs.
    """
    if cause == "launch_delay":
        is_many = kind not in ("copy", "ahead") and not traits.has_few_launches
        return f"Launch larger kernels{f', or replay {traits.graphs}' if traits.graphs else ''}." if is_many else ""
    if traits.has_few_launches:
        return _REMEDIES["unrecorded"] if kind == "step" and not traits.has_functions else ""
    if cause == "host" and kind == "op" and _COPIES.match(name):
        return "Copy less often, or more at once."
    return _fewer_launches(traits) if cause == "host" else _as_one(cause, kind, traits)


def _as_one(cause: str, kind: str, traits: Traits) -> str:
    """The remedy for time outside of ops. It depends on `kind`, which has half of the time: Python's functions, or a
    step's own time.
    """
    if kind == "generated":
        ways = f'Let {traits.graphs} run it as one: torch.compile makes them with mode="reduce-overhead".'
        return ways if traits.graphs else ""
    compiling = [] if traits.is_compiled or traits.replays else ["torch.compile"]
    ways = " or ".join(filter(None, [*compiling, traits.graphs]))
    whole = f"let {ways} run the {'step' if traits.steps else 'ops'} as one." if ways else ""
    if kind == "function" and cause != "launching":
        where = "between the ops" if cause == "step" else "within ops"
        return f"Python {where} takes this time: do less there{f', or {whole}' if whole else '.'}"
    if kind == "step" and cause == "step":
        return f"The host runs nothing that is recorded between the ops: {whole}" if whole else ""
    return f"L{whole[1:]}" if whole else "Launch fewer and larger ops."


def _fewer_launches(traits: Traits) -> str:
    if traits.replays or (traits.is_compiled and not traits.graphs):
        return "Launch fewer and larger ops."
    if traits.is_compiled:
        return f'Launch fewer and larger ops: {traits.graphs}; torch.compile makes them with mode="reduce-overhead".'
    return f"Launch fewer and larger ops: {', '.join(filter(None, ['torch.compile', traits.graphs]))}."
