"""What helps against a cause, for a kind of thing, as the facts about a trace allow."""

from __future__ import annotations

from typing import Final, NamedTuple


class Traits(NamedTuple):
    """What kind of program a trace is of, as in `trace_traits`; the rank that collectives wait for, where known."""

    is_training: bool | None
    is_compiled: bool
    has_workers: bool | None
    steps: int
    step_ticks: int | None
    ticks: int
    start_ticks: int


_REMEDIES: Final = {
    "allocation": "Reuse memory by the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, and record steps after "
    "a warm-up.",
    "free": "Keep memory in the caching allocator: unset PYTORCH_NO_CUDA_MEMORY_CACHING, no torch.cuda.empty_cache() "
    "within steps.",
    "pinned_memory": "Reuse pinned buffers.",
    "module_load": "Record steps after a warm-up: the first use of a kernel loads it; CUDA_MODULE_LOADING=EAGER loads "
    "all at the start.",
    "graph_instantiation": "Capture and instantiate graphs once, before the steps.",
    "creation": "Create streams, events and contexts once, before the steps; record steps after a warm-up.",
    "compilation": "It compiles: record steps after a warm-up, and mark changing sizes as dynamic.",
    "data_loading": "Set num_workers and pin_memory of DataLoader.",
    "synchronization": "Avoid .item(), .cpu() and printing of tensors within steps.",
    "dependency": "Let streams wait for fewer events of others.",
    "launch_delay": "Launch larger kernels, or replay CUDA graphs.",
    "function": "Run it in other processes or threads, or before the steps.",
    "HtoD": "Copy less, or from pinned memory with non_blocking=True, ahead of its use.",
    "DtoH": "Copy results less often, or into pinned memory with non_blocking=True.",
    "wait": "Let it wait less: launch ahead, synchronize less often.",
    "four_bits": "Make kernels of this op faster or fewer: fusion.",
    "device": "Make kernels of this op faster or fewer: smaller types, fusion.",
    "transfer": "Overlap communication and computation.",
    "low_use": "Try a larger batch, if the model converges as well with it.",
}  # fmt: skip


def remedy(cause: str, kind: str, name: str | None, traits: Traits) -> str:
    """Return what helps against a cause for a thing of a kind; '' if nothing is known that does."""
    match cause:
        case "host":
            text = _fewer_launches(traits)
        case "cpu_op" if (name or "").startswith("aten::empty"):
            text = ""
        case "cpu_op":
            text = f"{name} runs on the CPU and launches nothing: move it to the device, or out of the steps."
        case "step":
            text = _less_between_ops(traits, is_python=kind in ("function", "module"))
        case "data_loading" if traits.has_workers is None:
            text = "Load data ahead of its use, in more worker processes."
        case "data_loading" if traits.has_workers:
            text = "Its workers are too slow: more of them, less work per sample, or a greater prefetch_factor."
        case "rank":
            text = f"Find what makes rank {name} late: compare its steps with the others (etq show stragglers)."
        case "transfer" if traits.is_training:
            text = f"{_REMEDIES[cause]} If the bytes matter, gradient accumulation or compression."
        case "device" | "four_bits" if kind != "op":
            text = ""
        case "low_use" if not traits.is_training:
            text = ""
        case _:
            text = _REMEDIES.get(cause, "")
    return text


def _less_between_ops(traits: Traits, *, is_python: bool) -> str:
    """What helps where the host is between the ops of a step; `is_python`: functions of Python are recorded there."""
    whole = "let CUDA graphs" if traits.is_compiled else "let torch.compile or CUDA graphs"
    if is_python:
        return f"Python between the ops takes it: do less there, or {whole} run the step as one."
    return f"The host runs nothing that is recorded between the ops: {whole} run the step as one."


def _fewer_launches(traits: Traits) -> str:
    if traits.is_compiled:
        return 'Launch fewer and larger ops: CUDA graphs; torch.compile makes them with mode="reduce-overhead".'
    return "Launch fewer and larger ops: torch.compile, CUDA graphs."
