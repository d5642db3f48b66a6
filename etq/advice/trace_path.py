"""The rule about the critical path: which ops, annotations, calls or times between ops it is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from etq.advice.contract import Claim
from etq.advice.trace_evidence import Evidence, OnPath
from etq.advice.trace_idle import CALLS
from etq.advice.words import counted, percent, shortened, time

RULE: Final = "critical path"
_LEAST: Final = 20.0
# What the host does within an op is the op's.
_OF_OP: Final = ("host", "step", "function")
_NOT_ON_HOST: Final = ("device", "wait", "unknown", "between_steps", "not_recorded")
_DEVICE: Final = ("kernel", "copy", "fill")


def critical_path(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each thing that the path is made of."""
    whole = ("of the critical path", sum(part.ticks for part in evidence.path))
    groups: defaultdict[tuple[str, str], list[OnPath]] = defaultdict(list)
    for part in evidence.path:
        if key := _subject(part):
            groups[key].append(part)
    for (kind, name), parts in groups.items():
        yield (
            _call(name, parts, whole)
            if kind == "call" and name in CALLS
            else _thing(evidence, kind, name, parts, whole)
        )


def _subject(part: OnPath) -> tuple[str, str] | None:
    """Return what a part of the path counts for: its kind and name; None for what has no name, and unknown waits."""
    if part.cause in CALLS:
        return "call", part.cause
    if part.cause in ("between_steps", "unknown", "call") or part.name is None:
        return None
    if part.cause in ("data_loading", "compilation"):
        return part.cause, part.cause
    if part.kind == "step":
        return "step", "step"
    return part.kind or "function", part.name or ""


def _call(cause: str, parts: Sequence[OnPath], whole: tuple[str, int]) -> Claim:
    """Calls in which the host waits count by their purpose, for all ops together."""
    times = {cause: sum(part.ticks for part in parts)}
    label = max(parts, key=lambda part: part.ticks).label or cause
    text = f"{_share(times, whole)} of the critical path is {shortened(label, 120)}: the host {CALLS[cause]}."
    return Claim(RULE, text, None, cause, ("call", label), times, whole, _shown(parts), _LEAST)


def _thing(evidence: Evidence, kind: str, name: str, parts: Sequence[OnPath], whole: tuple[str, int]) -> Claim:
    times: Counter[str] = Counter()
    for part in parts:
        times[_cause(evidence, kind, part)] += part.ticks
    cause = times.most_common(1)[0][0]
    text = f"{_share(times, whole)} of the critical path is {_words(kind, name, cause)}."
    told = evidence.told_rank()[1] if cause == "rank" else name
    return Claim(RULE, text, text, cause, (kind, told), times, whole, _shown(parts), _LEAST)


def _cause(evidence: Evidence, kind: str, part: OnPath) -> str:
    """Return what a part is spent on, in the words of remedies."""
    if part.cause == "device":
        if part.family == "communication":
            return evidence.told_rank()[0]
        direction = next((word for word in ("HtoD", "DtoH") if word in (part.label or "")), None)
        return direction or "device"
    if part.cause == "communication":
        return evidence.told_rank()[0]
    return "host" if kind == "op" and part.cause in _OF_OP else part.cause


def _words(kind: str, name: str, cause: str) -> str:
    if kind == "data_loading":
        return "waiting for input data"
    if kind == "compilation":
        return "compilation"
    if kind == "step":
        return "on the host, between the ops of steps"
    name = shortened(name, 120)
    if kind in ("annotation", "module", "function") and cause == "step":
        return f"on the host, in {name}, between its ops"
    return name


def _shown(parts: Sequence[OnPath]) -> list[str]:
    ticks = sum(part.ticks for part in parts)
    host = sum(part.ticks for part in parts if part.cause not in _NOT_ON_HOST)
    on_devices = [part for part in parts if part.cause == "device"]
    device = sum(part.ticks for part in on_devices)
    top = max(on_devices, key=lambda part: part.ticks, default=None)
    longest = time(max(part.longest for part in parts) / 1e3, "us")
    return [
        f"in {counted(sum(part.parts for part in parts), 'part')}, the longest {longest}, "
        f"{percent(100 * device / ticks)} of it on devices, {percent(100 * host / ticks)} on the host",
        *([f"mostly the kernel {shortened(top.label or '', 120)}"] if top else []),
        "etq critical-path lists the parts",
    ]


def _share(times: Counter[str] | dict[str, int], whole: tuple[str, int]) -> str:
    return percent(100 * sum(times.values()) / whole[1]) if whole[1] else "0 %"
