"""The rules about a trace's steps: input data, compilation, devices that run little."""

from __future__ import annotations

from collections.abc import Iterator

from etq.advice.contract import Claim
from etq.advice.trace_evidence import Evidence
from etq.advice.words import counted, percent


def data_loader(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the steps' time in DataLoaders, while devices run nothing."""
    steps = evidence.steps
    if steps:
        word = "of the steps" if steps.are_written else "of the recording"
        times = {"data_loading": steps.data_loading or 0}
        yield Claim(
            "data loader", "Steps wait for input data.", None, "data_loading", ("wait", None), times,
            (word, steps.ticks), ["in DataLoaders, while no device runs anything"],
        )  # fmt: skip


def compilation(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the recording's time in torch.compile."""
    ticks, compilations = evidence.compiled
    if ticks:
        yield Claim(
            "compilation",
            f"torch.compile compiles for {percent(min(100.0, 100 * ticks / max(evidence.traits.ticks, 1)))} of the "
            "recording.",
            None, "compilation", ("function", None), {"compilation": ticks},
            ("of the recording", evidence.traits.ticks), [f"in {counted(compilations or 0, 'part')}"],
        )  # fmt: skip


def gpu_utilization(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each device that runs something for less than half of the time of the steps."""
    has_steps = evidence.traits.steps > 0
    word = "of the steps" if has_steps else "of the recording"
    for use in evidence.use:
        if use.ticks and 2 * use.busy < use.ticks:
            who = "The device" if use.device is None else f"Device {use.device}"
            shown = f"a kernel runs in {percent(100 * use.kernels / use.ticks)} of it"
            text = f"{who} is mostly idle{' within the steps' if has_steps else ''}."
            times = {"low_use": use.ticks - use.busy}
            yield Claim(
                "gpu utilization", text, None, "low_use", ("device", None), times, (word, use.ticks), [shown], 50.0
            )
