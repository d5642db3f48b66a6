"""The rule about idle devices: the causes of each gap's time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from etq.advice import idle_evidence
from etq.advice.contract import Claim, parts_of
from etq.advice.remedies import GENERATED
from etq.advice.trace_evidence import CALLS, COPIES, LAUNCHING, STARTING, SYNCHRONIZING, WAITING, Evidence, Idle, Use
from etq.advice.words import counted, percent, shortened, time

RULE: Final = "device idle"
_TEXTS: Final = {
    "data_loading": "waits for input data.",
    "dependency": "waits for events of other streams.",
    **{cause: f"idles while the host {work}." for cause, work in CALLS.items()},
}
_LISTED: Final = "etq show idle_parts lists them"
# What launched kernels may wait for if no recorded event shows it.
_WAITED: Final = {
    "earlier_work": "their streams may still run work launched before the recording",
    "unknown_wait": "what they wait for isn't recorded, as within graphs",
}
# The op by which DistributedDataParallel splits broadcast buffers.
_UNFLATTEN: Final = "aten::unflatten_dense_tensors"
_AHEAD: Final = "this costs time only if a later synchronization waits longer"
# A name with at least this part of the time stands for the whole time.
_ALL: Final = 0.9
# What the host does, in words, if no single name has half of the time.
_SEVERAL: Final = {
    "cpu_op": "runs ops that launch nothing", "function": "runs functions that launch nothing",
    "compilation": "compiles", "call": "is in calls of no known kind",
}  # fmt: skip


def device_idle(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each cause of a device's idle time."""
    for use in evidence.use:
        parts = [part for part in evidence.idle if part.device == use.device]
        who = "The device" if use.device is None else f"Device {use.device}"
        yield from _launching(evidence, use, who, parts)
        for cause, text in _TEXTS.items():
            chosen = [part for part in parts if part.cause == cause]
            name = _top(chosen, lambda part: part.label)[0]
            shown = _within(evidence, use, chosen, cause) if cause in CALLS else []
            # For time in a data loader, also name the function in it, if functions are recorded.
            shown += [] if cause != "data_loading" or "DataLoader" in (name or "") else _mostly(evidence, use, chosen)
            yield _claim(evidence, use, chosen, cause, f"{who} {text}", shown, name=name)
        yield from _synchronizing(evidence, use, who, parts)
        yield from _starting(evidence, use, who, parts)
        yield from _running(evidence, use, who, parts)
        yield from _communicating(evidence, use, who, parts)
        yield from _apart(evidence, use, who, parts)
        yield from _unknown(evidence, use, who, parts)


def missing(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim for each device, for a file that lacks most of the events."""
    for use in evidence.use:
        idle = sum(part.ticks for part in evidence.idle if part.device == use.device)
        who = "The device" if use.device is None else f"Device {use.device}"
        text = f"{who} has no events in the file for this time, and neither has the host."
        whole = ("first to last event of the device", use.span)
        yield Claim(RULE, text, None, "missing", ("wait", None), {"missing": idle}, whole, [_LISTED], is_lost=False)


def _launching(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about time in which the host launches: in ops, between ops, or in functions within ops. None of
    these may have half of the time.
    """
    chosen = [part for part in parts if part.cause in LAUNCHING]
    cause, share = _top(chosen, lambda part: part.cause)
    times: Counter[str] = Counter()
    for part in chosen:
        times[part.cause] += part.ticks
    split = [parts_of(times)] if len(times) > 1 else []
    if cause is None or share < 0.5:
        cause, chosen = "launching", [part._replace(cause="launching") for part in chosen]
    text = f"{who} idles: the host launches kernels too slowly."
    shown = [*split, *_mostly(evidence, use, chosen), _LISTED]
    claim = _claim(evidence, use, chosen, cause, text, shown, kind=_ran(cause, chosen), of=LAUNCHING[0])
    if claim.cause == "first_calls":
        pass
    elif claim.stretch.is_long:
        claim = claim._replace(text=f"{who} idles: the host launches nothing for a long time.")
    elif evidence.traits.has_few_launches:
        does = "records nothing of what it does" if claim.subject[0] == "step" else "launches nothing"
        claim = claim._replace(text=f"{who} idles while the host {does}.")
    yield claim


def _synchronizing(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about time after the host waited for the device: it launches, or does something unknown."""
    chosen = [part for part in parts if part.cause in SYNCHRONIZING]
    cause, _ = _top(chosen, lambda part: part.cause)
    call, share = _top(chosen, lambda part: part.label)
    if cause is None or call is None or 20 * sum(part.ticks for part in chosen) < use.span:
        return
    times = idle_evidence.waits_of(evidence, use.device)
    [(op, ticks)] = times.most_common(1)
    kind, name = ("call", call if share >= 0.5 else None) if op is None else ("op", op)
    name = name if 2 * ticks >= times.total() else None
    shown = [f"the waits are mostly {shortened(name, 120)}{' in no op' if kind == 'call' else ''}"] if name else []
    after = ": the host launched nothing ahead"
    if cause != SYNCHRONIZING[0]:
        after = ", while the host records nothing of what it does"
    text = f"{who} idles after synchronizations{after}."
    shown += [_LISTED]
    yield _claim(evidence, use, chosen, cause, text, shown, name=name, kind=kind, of=SYNCHRONIZING[0])


def _starting(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about launched work that starts late. The host continues meanwhile, so this only costs time if the
    host later waits longer.
    """
    cause = STARTING[0]
    chosen = [part._replace(cause=cause) for part in parts if part.cause in STARTING]
    spent = sum(part.ticks for part in chosen)
    if 20 * spent < use.span:
        return
    copies = sum(part.ticks for part in chosen if COPIES.search(part.label or ""))
    is_copy = 2 * copies >= spent
    awaited = idle_evidence.awaited(evidence, use.device, STARTING)[0].total()
    is_lost = 2 * awaited >= spent
    text = f"{who} waits for launched {'copies' if is_copy else 'kernels'} to start."
    shown = [_LISTED]
    if not is_lost:
        longer = f": at most {time(awaited / 1e3, 'us')}" if awaited else ""
        shown = [f"the host goes on meanwhile, {_AHEAD}{longer}", _LISTED]
    kind = "copy" if is_copy else "wait" if is_lost else "ahead"
    claim = _claim(evidence, use, chosen, cause, text, shown, kind=kind)
    reason = ["why they start so late isn't recorded"] if claim.stretch.is_long else []
    yield claim._replace(evidence=[*reason, *claim.evidence], is_lost=is_lost)


def _running(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about time in which the host runs something that launches nothing: CPU ops, functions, or code of
    torch.compile.
    """
    for cause, does in (("cpu_op", "runs"), ("function", "runs"), ("compilation", "compiles in"), ("call", "is in")):
        chosen = [part for part in parts if part.cause == cause]
        name, share = _top(chosen, lambda part: part.label)
        besides, kind = None, None
        outer = _outer_op(evidence, use, chosen) if cause == "cpu_op" and share < 0.5 else None
        if outer is not None:
            name, kind = (
                outer,
                "buffers" if outer == _UNFLATTEN and idle_evidence.broadcasts_buffers(evidence) else "op",
            )
            text = f"{who} idles while the host runs mostly {shortened(outer, 120)}."
            shown = _first_of(evidence, use, chosen)
        elif name is not None and share >= 0.5:
            mostly = "" if share >= _ALL else "mostly "
            besides = None if share >= _ALL else _second(chosen)
            text = f"{who} idles while the host {does} {mostly}{_named(evidence, use, name, chosen)}."
            shown = [] if share >= _ALL else _first_of(evidence, use, chosen)
        else:
            name, text = None, f"{who} idles while the host {_SEVERAL[cause]}."
            shown = _first_of(evidence, use, chosen)
        if shown and cause == "cpu_op" and 20 * sum(part.ticks for part in chosen) >= use.span:
            around, part = idle_evidence.around(evidence, use.device, cause, (name, besides))
            shown += [f"{percent(100 * part)} in {shortened(around, 120)}"] if around else []
        claim = _claim(evidence, use, chosen, cause, text, [*shown, _LISTED], name=name, kind=kind)
        yield claim._replace(besides=besides)


def _outer_op(evidence: Evidence, use: Use, parts: Sequence[Idle]) -> str | None:
    """Return the outermost op that launches nothing and has half of the time of ops. It is only searched if the claim's
    share is large enough to be worth the query.
    """
    spent = sum(part.ticks for part in parts)
    times = idle_evidence.outermost(evidence, use.device, "cpu_op") if 20 * spent >= use.span else Counter[str]()
    return next((op for op, ticks in times.most_common(1) if 2 * ticks >= spent), None)


def _ran(cause: str, parts: Sequence[Idle]) -> str:
    """Return the kind of thing that the host runs for half of a cause's time: function (Python's), generated (by
    torch.compile) or step; several if none has half.
    """
    spent = sum(part.ticks for part in parts)
    times: Counter[str] = Counter()
    for part in parts:
        if part.cause == cause:
            is_generated = cause == "op_function" and GENERATED.search(part.label or "")
            is_python = part.kind in ("function", "module")
            times["generated" if is_generated else "function" if is_python else "step"] += part.ticks
    kind, ticks = max(times.items(), key=lambda item: item[1], default=("several", 0))
    return kind if 2 * ticks >= spent else "several"


def _unknown(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about time for which no event shows the reason, or for which it is unknown whether the device is
    idle.
    """
    chosen = [part for part in parts if part.cause == "unknown"]
    text = f"{who} idles before work whose launch is not in the trace: it is unknown what the work waited for."
    yield _claim(evidence, use, chosen, "unknown", text, least=20.0)
    waits = [part for part in parts if part.cause in WAITING]
    most, share = _top(waits, lambda part: part.cause)
    cause = "earlier_work" if most == "earlier_work" and share >= 0.5 else "unknown_wait"
    text = f"{who} runs nothing that is recorded while launched kernels wait."
    shown = [f"{_WAITED[cause]}: it is unknown whether it idles"]
    chosen = [part._replace(cause=cause) for part in waits]
    spent, kind = sum(part.ticks for part in chosen), None
    if 5 * spent >= use.span:
        meanwhile = idle_evidence.awaited(evidence, use.device, WAITING)[1]
        for call, ticks in meanwhile.most_common(1):
            if 2 * ticks >= spent:
                kind = "synchronized"
                shown.append(
                    f"the host waits in {call} for {time(ticks / 1e3, 'us')} of it, and launches nothing ahead"
                )
    claim = _claim(evidence, use, chosen, cause, text, shown, least=20.0, kind=kind, of=WAITING[0])
    yield claim._replace(is_lost=False)


def _communicating(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    cause, rank = evidence.told_rank()
    text = f"{who} waits for other processes."
    chosen = [part._replace(cause=cause) for part in parts if part.cause == "communication"]
    yield _claim(evidence, use, chosen, cause, text, unexplained=text, name=rank, of="communication")


def _apart(evidence: Evidence, use: Use, who: str, parts: Sequence[Idle]) -> Iterator[Claim]:
    """Yield claims about time between steps, and about time for which nothing is recorded."""
    chosen = [part for part in parts if part.cause == "between_steps"]
    text = f"{who} idles outside of steps, where nothing of a step is recorded."
    yield _claim(evidence, use, chosen, "between_steps", text, _mostly(evidence, use, chosen))
    chosen = [part for part in parts if part.cause == "not_recorded"]
    text = f"{who} idles where the host records nothing, and the trace has no steps."
    yield _claim(evidence, use, chosen, "not_recorded", text)


def _claim(
    evidence: Evidence, use: Use, parts: Sequence[Idle], cause: str, text: str, shown: Sequence[str] = (), *,
    least: float = 5.0, unexplained: str | None = None, name: str | None = None, kind: str | None = None,
    of: str | None = None,
) -> Claim:  # fmt: skip
    """Return a claim about parts of idle time (the chosen ones).

    `of` is the cause whose gaps are counted, by default the claim's cause.
    """
    times: Counter[str] = Counter()
    for part in parts:
        times[part.cause] += part.ticks
    kind = kind or next((part.kind for part in parts if part.label == name and part.kind), "wait")
    named = of or cause
    places, seen = "", (0, 0, 0)
    for found in evidence.gaps if 100 * times.total() >= least * use.span else ():
        if (found.device, found.cause) == (use.device, named):
            seen = (found.longest, found.at - evidence.traits.start_ticks, found.in_long)
            most = f", {time(found.longest / 1e3, 'us')} of it in one" if found.gaps > 1 else ""
            places = f"{counted(found.gaps, 'gap')}{most}, from {evidence.since_start(found.at)}"
    whole = ("first to last event of the device", use.span)
    claim = Claim(RULE, text, unexplained, cause, (kind, name), times, whole, shown, places, least, *seen)
    who = "The device" if use.device is None else f"Device {use.device}"
    first = f"{who} idles while the host is in first calls, which take much longer than later ones."
    subject = (use.device, named, None)
    return idle_evidence.with_firsts(evidence, claim, subject, first if named == LAUNCHING[0] else None)


def _within(evidence: Evidence, use: Use, parts: Sequence[Idle], cause: str) -> list[str]:
    """Return text about the op in which the host is for most of the time, if the claim's share is large enough to be
    worth the query.
    """
    spent = sum(part.ticks for part in parts)
    if 20 * spent < use.span:
        return []
    op, ticks = idle_evidence.op_of(evidence, use.device, cause)
    within = [f"the host was mostly in {shortened(op, 120)}"] if op is not None and 2 * ticks >= spent else []
    return [*within, _LISTED]


def _top(parts: Sequence[Idle], of: Callable[[Idle], str | None]) -> tuple[str | None, float]:
    """Return the word with the most time, and its part of the time of all words."""
    times: Counter[str | None] = Counter()
    for part in parts:
        times[of(part)] += part.ticks
    return (times.most_common(1)[0][0], times.most_common(1)[0][1] / times.total()) if times else (None, 0.0)


def _first_of(evidence: Evidence, use: Use, parts: Sequence[Idle]) -> list[str]:
    """Return the two names that have most of the time, with their shares."""
    times: Counter[str] = Counter()
    for part in parts:
        times[part.label or "an unnamed one"] += part.ticks
    shares = [
        f"{_named(evidence, use, name, parts)} ({percent(100 * ticks / times.total())})"
        for name, ticks in times.most_common(2)
    ]
    return [f"most in {' and '.join(shares)}"] if shares else []


def _named(evidence: Evidence, use: Use, name: str, parts: Sequence[Idle]) -> str:
    """Return the name of what the host runs, with its caller if the claim's share is large enough to be worth the
    query.
    """
    if 20 * sum(part.ticks for part in parts) < use.span:
        return shortened(name, 120)
    return idle_evidence.with_caller(evidence, name)


def _second(parts: Sequence[Idle]) -> str | None:
    """Return the name with the second most time."""
    times: Counter[str] = Counter()
    for part in parts:
        times[part.label or "an unnamed one"] += part.ticks
    return times.most_common(2)[1][0] if len(times) > 1 else None


def _mostly(evidence: Evidence, use: Use, parts: Sequence[Idle]) -> list[str]:
    """Return text about the thing in which the host was for most of the time, if there is one."""
    name, share = _top(parts, lambda part: part.label)
    if name is None or share < 0.5:
        return []
    return [f"the host was mostly in {_named(evidence, use, name, parts)}"]
