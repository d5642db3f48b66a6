"""The rule about the critical path: which ops, annotations, calls or times between ops it is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from etq.advice.contract import Claim
from etq.advice.remedies import FOUR_BITS
from etq.advice.trace_evidence import Evidence, OnPath
from etq.advice.trace_idle import CALLS
from etq.advice.words import percent, shortened

RULE: Final = "critical path"
_LEAST: Final = 20.0
# What the host does within an op is the op's.
_OF_OP: Final = ("host", "step", "function")
_TOGETHER: Final = (*CALLS, "data_loading", "compilation")
_NOT_ON_HOST: Final = ("device", "wait", "unknown", "between_steps", "not_recorded")


def critical_path(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each thing that the path is made of."""
    # Less than the recording where it isn't known what the path's first event waited for.
    whole = ("the critical path", sum(part.ticks for part in evidence.path))
    groups: defaultdict[tuple[str, str], list[OnPath]] = defaultdict(list)
    for part in evidence.path:
        if key := _subject(evidence, part):
            groups[key].append(part)
    for (kind, name), parts in groups.items():
        times: Counter[str] = Counter()
        for part in parts:
            times[_cause(evidence, kind, part)] += part.ticks
        cause = times.most_common(1)[0][0]
        share = percent(100 * times.total() / whole[1]) if whole[1] else "0 %"
        text = f"{share} of the critical path is {_words(kind, name, parts)}."
        told = evidence.told_rank()[1] if cause == "rank" else name
        places = evidence.places(parts)
        longest, number = max(part.longest for part in parts), sum(part.parts for part in parts)
        shown = _shown(kind, parts)
        yield Claim(RULE, text, text, cause, (kind, told), times, whole, shown, places, _LEAST, longest, number)


def _subject(evidence: Evidence, part: OnPath) -> tuple[str, str] | None:
    """Return what a part of the path counts for: its kind and name; None for what has no name, and unknown waits.

    Calls in which the host waits, loading and compilation count by what they are for, in all ops together; those of no
    known kind by their name; copies from and to the host by theirs.
    """
    if part.cause in _TOGETHER:
        return "call", part.cause
    if part.cause == "device" and _direction(part):
        return "copy", part.label or ""
    if part.cause == "call":
        first, end = evidence.first_call
        is_first = first <= part.at < end and 2 * part.longest >= part.ticks
        return ("first_call" if is_first else "call", part.label) if part.label else None
    if part.cause in ("between_steps", "not_recorded", "unknown") or part.name is None:
        return None
    if part.kind == "step":
        return "step", "step"
    # The region that torch.compile made is written as an op, and is as large as what it made.
    kind = "annotation" if part.name.startswith("Torch-Compiled Region") else part.kind
    return kind or "function", part.name


def _direction(part: OnPath) -> str | None:
    """Return the direction of a copy from or to the host: those of all ops are one thing."""
    return next((word for word in ("HtoD", "DtoH") if word in (part.label or "")), None)


def _cause(evidence: Evidence, kind: str, part: OnPath) -> str:
    """Return what a part is spent on, in the words of remedies."""
    if part.cause == "device":
        if part.family == "communication":
            return evidence.told_rank()[0]
        if FOUR_BITS.search(part.label or ""):
            return "four_bits"
        return _direction(part) or "device"
    if part.cause == "communication":
        return evidence.told_rank()[0]
    if kind == "first_call":
        return kind
    return "host" if kind == "op" and part.cause in _OF_OP else part.cause


def _words(kind: str, name: str, parts: Sequence[OnPath]) -> str:
    if kind == "step":
        return "on the host, between the ops of steps"
    if kind == "call" and name in _TOGETHER:
        top = max(parts, key=lambda part: part.ticks)
        return (top.label or name.replace("_", " ")) + (f": the host {CALLS[name]}" if name in CALLS else "")
    return f"{name}, the first call of the runtime" if kind == "first_call" else name


def _shown(kind: str, parts: Sequence[OnPath]) -> list[str]:
    """Return where the time is, unless the subject says it, and in which kernel."""
    ticks = sum(part.ticks for part in parts)
    host = sum(part.ticks for part in parts if part.cause not in _NOT_ON_HOST)
    on_devices = [part for part in parts if part.cause == "device"]
    device = sum(part.ticks for part in on_devices)
    top = max(on_devices, key=lambda part: part.ticks, default=None)
    where = f"{percent(100 * device / ticks)} of it on devices, {percent(100 * host / ticks)} on the host"
    return [
        *([where] if device or kind not in ("step", "call", "first_call") else []),
        *([f"mostly the kernel {shortened(top.label or '', 120)}"] if top else []),
        "etq critical-path lists the ops",
    ]
