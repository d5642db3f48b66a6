"""The rule about the critical path, which consists of ops, annotations, calls and times between ops."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from etq.advice.contract import Claim
from etq.advice.idle_evidence import with_caller, with_firsts
from etq.advice.trace_evidence import CALLS, COPIES, TOGETHER, Evidence, Intervals, OnPath
from etq.advice.words import counted, percent, shortened, time

RULE: Final = "critical path"
_LEAST: Final = 20.0
_NO_THREAD: Final = "the thread that runs the backward pass, for which it waits, isn't in the file"
# Causes of the host within an op. Their time is attributed to the op.
_OF_OP: Final = ("host", "step", "op_function", "function")
_NOT_ON_HOST: Final = ("device", "wait", "unknown", "between_steps", "not_recorded")


def critical_path(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each thing on the path."""
    # If it is unknown what the path's first event waited for, the path is shorter than the recording.
    whole = ("the critical path", sum(part.ticks for part in evidence.path))
    groups: defaultdict[tuple[str, str], list[OnPath]] = defaultdict(list)
    for part in evidence.path:
        if key := _subject(evidence, part):
            groups[key].append(part)
    for (kind, name), parts in groups.items():
        times: Counter[str] = Counter()
        for part in parts:
            times[_cause(evidence, kind, part)] += part.ticks
        if 100 * times.total() < _LEAST * whole[1]:
            continue
        cause = times.most_common(1)[0][0]
        # Without devices, the host's time isn't lost: it is the program's work.
        is_lost = evidence.has_work or cause in TOGETHER
        share = percent(100 * times.total() / whole[1]) if whole[1] else "0 %"
        beside, label = evidence.beside.get(parts[0].subject or "", (0, ""))
        communicates = "communication" not in times and 2 * beside >= times.total()
        if communicates:
            times = Counter({evidence.told_rank()[0]: beside, cause: times.total() - beside})
            cause = evidence.told_rank()[0]
        while_ = f", while {label} runs" if communicates else ""
        words = with_caller(evidence, name) if kind == "function" else _words(evidence, kind, name, parts)
        text = f"{share} of the critical path is {words}{while_}."
        told = evidence.told_rank()[1] if cause == "rank" else name
        found = evidence.intervals[parts[0].subject or ""]
        places = _places(evidence, found)
        shown = [*_shown(evidence, kind, parts), *_reach(evidence, whole[1])]
        if cause == "blocking" and evidence.traits.runtime == "CUDA":
            shown.append("launches of CUDA do so where CUDA_LAUNCH_BLOCKING=1 is set")
        yield with_firsts(
            evidence,
            Claim(
                RULE,
                text,
                text,
                cause,
                (kind, told),
                times,
                whole,
                shown,
                places,
                _LEAST,
                found.longest,
                found.at - evidence.traits.start_ticks,
                found.in_long,
                "interval",
                evidence.traits.ticks,
                is_lost,
            ),
            (None, None, parts[0].subject),
        )


def _subject(evidence: Evidence, part: OnPath) -> tuple[str, str] | None:
    """Return the thing that a part of the path belongs to: its kind and name."""
    if part.subject is None:
        return None
    if part.cause in TOGETHER:
        kind = "call"
    elif part.cause == "device" and _direction(part):
        kind = "copy"
    elif part.cause == "call":
        first, end = evidence.first_call
        kind = "first_call" if first <= part.at < end and 2 * part.longest >= part.ticks else "call"
    elif part.kind == "step":
        kind = "step"
    else:
        # A compiled region of torch.compile is recorded as an op that spans all of its code.
        is_region = part.subject.startswith("Torch-Compiled Region")
        kind = "annotation" if is_region else part.kind or "function"
    return kind, part.subject


def _direction(part: OnPath) -> str | None:
    """Return the direction of a copy from or to the host. Copies in one direction are one thing, across all ops."""
    return next((word for word in ("HtoD", "DtoH") if word in (part.label or "")), None)


def _cause(evidence: Evidence, kind: str, part: OnPath) -> str:
    """Return a part's cause, in the words of remedies."""
    if part.cause == "communication" or (part.cause == "device" and part.family == "communication"):
        return evidence.told_rank()[0]
    if part.cause == "device":
        return _direction(part) or _of_kernels(evidence, part)
    if part.cause == "launch" and evidence.blocks:
        return "blocking"
    if kind == "first_call":
        return kind
    if not evidence.has_work and part.cause not in TOGETHER:
        return "on_host"
    return "host" if kind == "op" and part.cause in _OF_OP else part.cause


def _of_kernels(evidence: Evidence, part: OnPath) -> str:
    """Return the kind of an op's kernels: attention in single ops, kernels on wide numbers, products, or other
    kernels.
    """
    if any(row.op == part.name for row in evidence.unfused_attention):
        return "unfused"
    is_wide, is_product = evidence.is_wide(op=part.name), part.family in ("GEMM", "convolution", "MoE")
    if is_product:
        return "wide_product" if is_wide else "product"
    return "wide" if is_wide else "device"


def _words(evidence: Evidence, kind: str, name: str, parts: Sequence[OnPath]) -> str:
    if kind == "step":
        return "on the host, between the ops of steps"
    if kind == "call" and name in TOGETHER:
        times: Counter[str] = Counter()
        for part in parts:
            times[part.label or name.replace("_", " ")] += part.ticks
        [(top, ticks)] = times.most_common(1)
        does = f": the host {CALLS[name]}" if name in CALLS else ""
        if name == "launch" and evidence.blocks:
            does = ": the host waits in it until what it launches has ended"
        if 100 * ticks >= 99 * times.total():
            return top + does
        return f"{name.replace('_', ' ')}, most in {top} ({percent(100 * ticks / times.total())}){does}"
    return f"{name}, the first call of the runtime" if kind == "first_call" else shortened(name, 120)


def _places(evidence: Evidence, found: Intervals) -> str:
    """Return the number of intervals, with the length and start of the longest, as text."""
    most = f", the longest {time(found.longest / 1e3, 'us')}" if found.number > 1 else ""
    return f"{counted(found.number, 'interval')}{most} from {evidence.since_start(found.at)}"


def _reach(evidence: Evidence, ticks: int) -> list[str]:
    """Return text about the part of the recording that the path covers, if it isn't nearly all."""
    whole = evidence.traits.ticks
    if 20 * ticks >= 19 * whole:
        return []
    missing = (
        "earlier waits are not recorded"
        if evidence.is_path_cut
        else "the rest is before the first op, step or call, or after the last"
    )
    return [f"the path is {time(ticks / 1e3, 'us')} of {time(whole / 1e3, 'us')} recorded; {missing}"]


def _within(kind: str, parts: Sequence[OnPath]) -> list[str]:
    """Return the op in which most of a call's time is."""
    if kind not in ("call", "first_call"):
        return []
    times: Counter[str | None] = Counter()
    for part in parts:
        times[part.name if part.kind == "op" else None] += part.ticks
    [(op, ticks)] = times.most_common(1)
    return [f"mostly in {shortened(op, 120)}"] if op is not None and 2 * ticks >= times.total() else []


def _waits_for_autograd(evidence: Evidence, parts: Sequence[OnPath]) -> bool:
    """Whether the host is in torch's annotation of the backward pass, and no other thread has ops, although other
    threads usually run that pass.
    """
    return (parts[0].subject or "").startswith("## backward") and evidence.lacks_autograd


def _shown(evidence: Evidence, kind: str, parts: Sequence[OnPath]) -> list[str]:
    """Return text about where the time is, unless the subject or the trace implies it, and about the kernel, copy or
    fill with most of it.
    """
    ticks = sum(part.ticks for part in parts)
    host = sum(part.ticks for part in parts if part.cause not in _NOT_ON_HOST)
    on_devices = [part for part in parts if part.cause == "device"]
    device = sum(part.ticks for part in on_devices)
    kernels: Counter[str] = Counter()
    for part in on_devices:
        kernels[part.label or ""] += part.ticks
    where = f"{percent(100 * device / ticks)} of it on devices, {percent(100 * host / ticks)} on the host"
    return [
        *_within(kind, parts),
        *([_NO_THREAD] if _waits_for_autograd(evidence, parts) else []),
        *([where] if device or (evidence.has_work and kind not in ("step", "call", "first_call")) else []),
        *(
            f"{percent(100 * most / ticks)} in {'' if COPIES.search(top) else 'the kernel '}{shortened(top, 120)}"
            for top, most in kernels.most_common(1)
        ),
        "etq critical-path lists the ops",
    ]
