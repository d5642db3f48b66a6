"""The rule about idle devices: what each gap's time is spent on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from etq.advice.contract import Claim
from etq.advice.trace_evidence import LAUNCHING, Evidence, Idle, Use
from etq.advice.words import percent, shortened, time

RULE: Final = "device idle"
# What the host does in a call, by its purpose.
CALLS: Final = {
    "allocation": "allocates memory",
    "free": "frees memory",
    "pinned_memory": "allocates, releases or registers pinned memory",
    "module_load": "loads kernels",
    "graph_instantiation": "captures or instantiates graphs",
    "creation": "creates streams, events or contexts",
}
_TEXTS: Final = {
    "data_loading": "waits for input data.",
    "synchronization": "idles after synchronizations: the host launched nothing ahead.",
    "compilation": "idles while the host compiles.",
    "launch_delay": "waits for launched kernels to start.",
    "dependency": "waits for events of other streams.",
    **{cause: f"idles while the host {work}." for cause, work in CALLS.items()},
}
_UNKNOWN: Final = ("unknown", "unknown_wait", "call")


def device_idle(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each cause of a device's idle time."""
    for use in evidence.use:
        parts = [part for part in evidence.idle if part.device == use.device]
        who = "The device" if use.device is None else f"Device {use.device}"
        yield from _launching(evidence, use, who, parts)
        for cause, text in _TEXTS.items():
            yield _claim(evidence, use, [part for part in parts if part.cause == cause], cause, f"{who} {text}")
        yield from _running(evidence, use, who, parts)
        yield from _communicating(evidence, use, who, parts)
        yield from _apart(evidence, use, who, parts)
        unknown = [part for part in parts if part.cause in _UNKNOWN]
        text = f"{who} idles for a reason that the trace does not show."
        yield _claim(evidence, use, unknown, "unknown", text, least=20.0, unexplained=text)


def _launching(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """The host launches: in ops, or in what is between them."""
    chosen = [part for part in parts if part.cause in LAUNCHING]
    if chosen:
        cause = Counter({word: _ticks(chosen, word) for word in LAUNCHING}).most_common(1)[0][0]
        text = f"{who} idles: the host launches kernels too slowly."
        yield _claim(evidence, use, chosen, cause, text, [*_mostly(chosen), "etq idle --each lists the gaps"])


def _running(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """The host runs what launches nothing: ops of the CPU, functions."""
    for cause, what in (("cpu_op", "ops that launch nothing"), ("function", "functions that launch nothing")):
        chosen = [part for part in parts if part.cause == cause]
        name, share = _top(chosen, lambda part: part.label)
        named = name if name is not None and share >= 0.5 else None
        yield _claim(
            evidence, use, chosen, cause,
            f"{who} idles while the host runs {shortened(named, 120) if named else what}.",
            [] if named else _mostly(chosen, least=0.0), name=named,
        )  # fmt: skip


def _communicating(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    cause, rank = evidence.told_rank()
    text = {
        "rank": f"{who} waits for other processes: rank {rank} comes last to collectives.",
        "transfer": f"{who} waits for transfers between processes.",
        "unknown": f"{who} waits for other processes.",
    }[cause]
    chosen = [part._replace(cause=cause) for part in parts if part.cause == "communication"]
    yield _claim(evidence, use, chosen, cause, text, unexplained=text, name=rank)


def _apart(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Between steps, and without any record."""
    chosen = [part for part in parts if part.cause == "between_steps"]
    label, share = _top(chosen, lambda part: part.label)
    did, part_of = _top(chosen, lambda part: part.did)
    if share >= 0.5 and label is None:
        where = ", where the host records nothing"
    elif part_of >= 0.5 and did == "data_loading":
        where = ", where the host waits for input data"
    elif share >= 0.5:
        where = f", where the host is mostly in {shortened(str(label), 120)}"
    else:
        where = ""
    yield _claim(evidence, use, chosen, "between_steps", f"{who} idles between steps{where}.")
    chosen = [part for part in parts if part.cause == "not_recorded"]
    text = f"{who} idles where the host records nothing, and the trace has no steps."
    yield _claim(evidence, use, chosen, "not_recorded", text)


def _claim(
    evidence: Evidence, use: Use, parts: Sequence[Idle], cause: str, text: str, shown: Sequence[str] = (), *,
    least: float = 5.0, unexplained: str | None = None, name: str | None = None,
) -> Claim:  # fmt: skip
    times: Counter[str] = Counter()
    for part in parts:
        times[part.cause] += part.ticks
    longest = max(parts, key=lambda part: part.longest, default=None)
    where = []
    if longest:
        at = time((longest.at - evidence.traits.start_ticks) / 1e3, "us")
        where = [f"the longest part {time(longest.longest / 1e3, 'us')}, in the gap at {at}"]
    kind = longest.kind if longest and longest.kind else "wait"
    whole = ("from first to last event of the device", use.span)
    return Claim(RULE, text, unexplained, cause, (kind, name), times, whole, [*shown, *where], least)


def _ticks(parts: Sequence[Idle], cause: str) -> int:
    return sum(part.ticks for part in parts if part.cause == cause)


def _top(parts: Sequence[Idle], of: Callable[[Idle], str | None]) -> tuple[str | None, float]:
    """Return the word with most of the time, and its part of it."""
    times: Counter[str | None] = Counter()
    for part in parts:
        times[of(part)] += part.ticks
    return (times.most_common(1)[0][0], times.most_common(1)[0][1] / times.total()) if times else (None, 0.0)


def _mostly(parts: Sequence[Idle], least: float = 0.5) -> list[str]:
    """Return what the host was in for most of the time, if it is so for a part of it."""
    name, share = _top(parts, lambda part: part.label)
    if name is None or share < least:
        return []
    return [f"the host was in {shortened(name, 120)} for {percent(100 * share)} of it"]
