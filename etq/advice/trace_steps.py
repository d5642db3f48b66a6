"""The rules about a trace's steps: input data, compilation, devices that run little."""

from __future__ import annotations

from collections.abc import Iterator

from etq.advice.contract import Claim
from etq.advice.idle_evidence import Outside, outside
from etq.advice.trace_evidence import WAITING, Evidence, LoaderCalls
from etq.advice.words import counted, percent, shortened, time


def data_loader(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the steps' time in DataLoaders, while devices run nothing."""
    steps = evidence.steps
    if steps:
        word, who = ("step time", "Steps wait") if steps.are_known else ("recording", "The host waits")
        loading = steps.data_loading or 0
        shown = [f"{percent(100 * loading / steps.ticks)} of the {word} is in DataLoader"]
        loader = evidence.loader_calls if loading else LoaderCalls()
        if loader.are_at_ends:
            share = percent(100 * (loader.ticks - loader.middle) / loader.ticks)
            shown.append(f"{share} of that is in the first and the last quarter of {loader.calls} calls")
        yield Claim(
            "data loader", f"{who} for input data.", None, "data_loading", ("wait", None),
            {"data_loading": loading}, (word, steps.ticks), shown, part="call",
            longest=loader.longest if loader.longest <= loading else 0,
            before=loader.at - evidence.traits.start_ticks,
        )  # fmt: skip


def compilation(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the time of steps in which torch.compile compiles; without steps, about the time of the
    recording.
    """
    ticks, whole, has_steps = evidence.compiled
    if ticks and whole:
        word = "step time" if has_steps else "recording"
        share = percent(100 * ticks / whole)
        again = evidence.recompilations
        shown = f"; {counted(again, 'recompilation')}: etq show compilations" if again else ""
        yield Claim(
            "compilation", f"torch.compile compiles in {share} of the {word}.", None, "compilation",
            ("function", None), {"compilation": ticks}, (word, whole),
            [f"etq show compilation lists the steps{shown}"],
        )  # fmt: skip


def gpu_utilization(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each device that is busy for less than half of the time of the steps."""
    has_steps = evidence.traits.steps > 0
    word = "recorded part of the steps" if evidence.is_clipped else "steps" if has_steps else "recording"
    of = word if evidence.is_clipped else "steps' time" if has_steps else "recording"
    for use in evidence.use:
        # If launched kernels wait for something that isn't recorded, the device may be busy with it.
        waits = (part.ticks for part in evidence.idle if part.device == use.device and part.cause in WAITING)
        if 2 * (idle := use.ticks - use.busy - sum(waits)) > use.ticks:
            side = next((each for each in outside(evidence, use.device) if 2 * each.ticks >= idle), None)
            within = " within the steps" if has_steps else ""
            where = f", most of it {side.side}" if side else ""
            who = "The device" if use.device is None or len(evidence.use) == 1 else f"Device {use.device}"
            yield Claim(
                "gpu utilization", f"{who} is mostly idle{within}{where}.", None, "low_use",
                ("outside" if side else "device", None), {"low_use": idle}, (word, use.ticks),
                [
                    *([_of_side(side)] if side else []),
                    f"a kernel ran in {percent(100 * use.kernels / use.ticks)} of the {of}",
                    "etq critical-path shows what takes the rest of the time",
                ],
                least=50.0,
            )  # fmt: skip


def _of_side(outside: Outside) -> str:
    """Return text about the idle time before or after all events of a device, and about what the host does then."""
    does = f", the host mostly in {shortened(outside.host, 120)}" if outside.host else ""
    return f"{time(outside.ticks / 1e3, 'us')} of it {outside.side}{does}"
