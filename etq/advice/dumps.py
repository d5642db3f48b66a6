"""The rules about dumps. Each is a function of evidence that yields findings, with its thresholds and their reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import ceil, fsum, log
from typing import Final

from etq.advice.evidence import Evidence, Op, Part, Run, quantile
from etq.advice.finding import Finding, severity_of
from etq.advice.words import counted, digits, percent

Rule = Callable[[Evidence], Iterator[Finding]]
RULES: Final[list[Rule]] = []
_AVERAGE: Final = "the average run"
_ALL: Final = "all runs"
# How many ops a finding lists.
_LISTED: Final = 4

# Severity and remedy of findings by ingest that numbers may mislead.
_MISLEADING: Final = {
    "foreign record": (
        "high",
        "Link the record that was written with this program: etq link. Until then, the ops, modules and lines shown "
        "are wrong.",
    ),
    "foreign program": ("high", "Link the file of the program that ran: etq ingest --pte."),
    "failed runs": (
        "high",
        "Look for the error of these runs in the runtime's log. The other runs are complete.",
    ),
    "impossible times": (
        "high",
        "If the counter has 32 bits, set --clock-bits 32; if not, the clock differs between cores: pin the thread to "
        "one core, or use a steady clock.",
    ),
    "detached events": (
        "high",
        "Time one operator at a time, in one thread, with one steady clock: times of parallel events cannot be added.",
    ),
    "detached delegate events": (
        "medium",
        "For a breakdown, make the backend finish within its call while it is profiled (wait for its results, one "
        "queue, one thread), and log times of the host's clock. Until then, use the total times of the calls, and "
        "compare the events within them only with each other.",
    ),
    "method unknown": (
        "medium",
        "Capture each method separately, or give their runs different names: runs of unknown methods have no ops and "
        "modules.",
    ),
    "short debug buffer": (
        "medium",
        "Give the runtime a larger debug buffer, and pass the debug buffer that the same run wrote as the dump.",
    ),
    "half-written": (
        "medium",
        "Write the record again with generate_etrecord from a complete export: without its graph and maps, events have "
        "no ops and modules.",
    ),
    "wrapped clock": (
        "low",
        "None is needed if no event lasts longer than the counter's range (2**32 ticks). Otherwise, make the platform "
        "count in 64 bits or coarser ticks.",
    ),
}


def findings_of(evidence: Evidence) -> list[Finding]:
    """Return the findings of all rules about a dump, unordered."""
    return [finding for rule in RULES for finding in rule(evidence)]


def _rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


@_rule
def misleading(evidence: Evidence) -> Iterator[Finding]:
    """Findings of ingest about the capture or its record."""
    for rule, detail, where in evidence.found:
        if rule in _MISLEADING:
            severity, remedy = _MISLEADING[rule]
            yield Finding(rule, severity, f"{detail[:1].upper()}{detail[1:]}.", where, remedy)


@_rule
def logged_values(evidence: Evidence) -> Iterator[Finding]:
    if evidence.logged_values:
        yield Finding(
            "logged values",
            "medium",
            "The runtime logged values. The times of this capture include copying them and are not judged here.",
            "profiling_level debug in captures",
            "Take times from a capture that logs only events, and values from this one.",
        )


@_rule
def framework_tax(evidence: Evidence) -> Iterator[Finding]:
    """A run spends much of its time, at least a tenth, outside of kernels and delegates; half of that is worth a
    comparison.

    In a traced run, this tax includes the time of tracing. Logging one event took 0.29 us on the machine of the
    captures in tests/ (transformer: 114 events, 223 us traced, 190 us not). So a tax of up to 1 us per event comes from
    tracing rather than from the framework, and severity is then at most medium.
    """
    runs = [run for run in evidence.runs if run.is_steady and run.tax is not None]
    share = _median(run.tax_percent for run in runs)
    tax, execute, events = (
        _median(values)
        for values in ((run.tax for run in runs), (run.execute for run in runs), (run.events for run in runs))
    )
    if share is None or tax is None or execute is None or share < 10:
        return
    each = tax / events if events else None
    nanoseconds = None if each is None else evidence.scale.nanoseconds(each)
    is_tracing = nanoseconds is not None and nanoseconds <= 1000
    scale, why = evidence.scale, "."
    if each is not None:
        reason = "more than the cost of logging one: tracing alone does not explain it."
        if is_tracing:
            reason = "about the cost of logging one: tracing is the likely reason."
        elif nanoseconds is None:
            reason = "and this clock does not show how much of it is tracing."
        which = "its event" if events == 1 else f"each of its {counted(events or 0, 'event')}"
        why = f": {scale.words(each)} for {which}, {reason}"
    yield Finding(
        "framework tax",
        "medium" if is_tracing and share >= 20 else severity_of(share),
        f"Outside of kernels and delegates, the median run takes {scale.words(tax)} of {scale.words(execute)} "
        f"({percent(share)}), tracing included{why}",
        f"framework_tax over {counted(len(runs), 'run')}; operator-call overhead and rest in execute_breakdown",
        "Capture the program at level method_only too, and give it to etq show framework_tax as --baseline: the rest "
        "is the framework itself. Fewer and larger ops (delegating, fusing) lower both.",
        ticks=tax,
        whole="the median run",
        percent=share,
    )


@_rule
def nothing_delegated(evidence: Evidence) -> Iterator[Finding]:
    """No delegate runs anything, although much of the time, enough for high severity, is spent in ops that backends are
    made for. The names of kernels don't show whether these are the portable ones.
    """
    heavy = [op for op in evidence.ops if op.is_heavy]
    spent, share = _sum(heavy), _share(evidence, _sum(heavy))
    if share < 20 or any(op.kind in ("delegate_call", "delegate") for op in evidence.ops):
        return
    names = ", ".join(sorted({op.name.split(".")[0] for op in heavy}))
    yield Finding(
        "nothing delegated",
        severity_of(share),
        f"No delegate runs anything: convolutions and matrix products ({names}), which backends are made for, take "
        f"{evidence.scale.words(spent)} of the average run ({percent(share)}) in kernels.",
        _listed(evidence, heavy),
        "Lower the model with a partitioner for the device (XnnpackPartitioner on CPUs) by "
        "to_edge_transform_and_lower. If none fits, link optimized kernels if these are the portable ones.",
        ticks=spent,
        whole=_AVERAGE,
        whole_ticks=evidence.average,
    )


@_rule
def fallback_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Some ops run as kernels although there are delegates. This is reported from 2 % of the time on, because each such
    op also splits the graph, so that delegates are called more often.
    """
    kernels = [op for op in evidence.ops if op.kind == "kernel"]
    spent, share = _sum(kernels), _share(evidence, _sum(kernels))
    if evidence.delegate_calls <= 0 or share < 2:
        return
    # If a delegate runs an op, the op's time includes the copies of its weights.
    to_delegate = [op.name for op in kernels[:3] if not op.is_copy] or [kernels[0].name]
    yield Finding(
        "fallback kernels",
        severity_of(share),
        f"Next to {counted(evidence.delegate_calls, 'delegate call')}, the average run has "
        f"{counted(fsum(op.calls for op in kernels), 'kernel')} for ops that no delegate took: "
        f"{evidence.scale.words(spent)} ({percent(share)}), most of it in {kernels[0].name}.",
        _listed(evidence, kernels[:3]),
        f"List the nodes left over: etq coverage. Have the partitioner take {', '.join(to_delegate)} (needs a "
        "supported data type, a static shape or a newer backend), or rewrite it with ops that the backend supports.",
        ticks=spent,
        whole=_AVERAGE,
        whole_ticks=evidence.average,
    )


@_rule
def small_delegate_calls(evidence: Evidence) -> Iterator[Finding]:
    """A run calls delegates often, and at least a quarter of the calls' time is overhead.

    A graph in one piece has one call. Overhead is copies, changes of layout, and time that the delegate's events leave
    unaccounted.

    Unaccounted time isn't counted as overhead if the clock of these events is too coarse, or if a call has no events or
    detached ones. Such calls are reported if they are short, because a call's fixed cost is some microseconds.
    """
    calls = [op for op in evidence.ops if op.kind == "delegate_call"]
    inner = [op for op in evidence.ops if op.kind == "delegate"]
    number, total = evidence.delegate_calls, _sum([*calls, *inner])
    if number < 5 or total <= 0:
        return
    is_explained = bool(inner) and not any(clock.is_delegate and clock.is_coarse for clock in evidence.clocks)
    unaccounted = fsum(op.opened for op in calls) if is_explained else 0.0
    costs = _sum([op for op in inner if op.is_copy]) + unaccounted
    is_costly = 4 * costs >= total
    nanoseconds = evidence.scale.nanoseconds(total / number)
    if not is_costly and (is_explained or nanoseconds is None or nanoseconds >= 50_000):
        return
    what = "and the delegates' events do not show how much of it is overhead."
    if is_costly:
        part = percent(100 * costs / total)
        what = f"{part} of it copies, layout and time that the delegates' events leave unaccounted."
        if not is_explained:
            rest = "and the delegates' events do not show how much of the rest is overhead."
            what = f"{part} of it copies and layout, {rest}"
    yield Finding(
        "small delegate calls",
        severity_of(_share(evidence, costs)) if is_costly else "low",
        f"The average run calls delegates {counted(number, 'time')}, {evidence.scale.words(total / number)} each, "
        f"{what}",
        _listed(
            evidence,
            [op for op in evidence.ops if op.kind == "delegate_call" or (op.kind == "delegate" and op.is_copy)],
        ),
        "Join the parts: etq coverage lists the ops between them that were not delegated. Have the partitioner take "
        "these, or leave out parts that are too small to save time.",
        ticks=costs if is_costly else None,
        whole=_AVERAGE if is_costly else None,
        whole_ticks=evidence.average,
    )


@_rule
def copies(evidence: Evidence) -> Iterator[Finding]:
    """Much of the time, enough for medium severity, is spent in ops that compute nothing: changes of layout, type
    conversions and copies, in kernels and delegates.
    """
    moved = [op for op in evidence.ops if op.is_copy]
    spent, share = _sum(moved), _share(evidence, _sum(moved))
    if share < 5:
        return
    parts = [part for op in moved for part in op.parts]
    constant = 100 * (fsum(part.ticks for part in parts if part.is_of_constant) / fsum(part.ticks for part in parts))
    is_constant = constant >= 1
    yield Finding(
        "copies",
        severity_of(share),
        f"Ops that compute nothing, but move or convert data, take {evidence.scale.words(spent)} of the average run "
        f"({percent(share)})"
        + (f", {percent(constant)} of it on weights or inputs of the model." if is_constant else "."),
        _listed(evidence, moved[:4]),
        " ".join(_less_copying(evidence, moved, is_constant)),
        ticks=spent,
        whole=_AVERAGE,
        whole_ticks=evidence.average,
    )


def _less_copying(evidence: Evidence, moved: Sequence[Op], is_constant: bool) -> Iterator[str]:
    """Yield the remedies for copying kernels, for changes of layout in delegates, and for copies in and out of
    delegates.
    """
    kernels = [op for op in moved if op.kind == "kernel"]
    has_layouts = any(op.is_of_layout for op in moved)
    if is_constant:
        yield (
            "Work on a weight is the same in every run: fold it before lowering ends (constant_prop_pass), or delegate "
            "the whole op, such as linear, to a backend that packs weights when loading. Inputs can be given in the "
            "layout that the model needs."
        )
    if any("quantize" in op.name for op in kernels):
        yield (
            "Remaining quantize and dequantize pairs are parts of patterns that no backend took as a whole: quantize "
            "with the quantizer of the backend that runs the model."
        )
    if any(word in op.name for op in kernels for word in ("dim_order", "clone", "contiguous")):
        yield "Export with inputs in the memory format that the ops need, so that dim orders do not change between ops."
    if has_layouts:
        yield (
            "Give the delegate its inputs in the layout that it computes in (channels last for convolutions of "
            "XNNPACK)."
        )
    if kernels or has_layouts:
        yield (
            "Look for permute, transpose, expand and contiguous in the model, and for ops that can be delegated "
            "together with their neighbours."
        )
    if len(kernels) < len(moved) and evidence.delegate_calls > 1:
        yield "With fewer and larger delegated parts, delegate calls copy and convert less."


@_rule
def dominating_op(evidence: Evidence) -> Iterator[Finding]:
    """One op takes more than all others together. This isn't a fault, but shows where to optimize, so severity is at
    most medium. Copies have their own rule; a model of one or two ops is not reported.
    """
    ops = [op for op in evidence.ops if op.kind in ("kernel", "delegate") and not op.is_copy]
    if len(ops) >= 3 and ops[0].name:
        yield from _dominating(evidence, "op", ops[0].name, ops[0].ticks, ops[0].words(evidence.scale))


@_rule
def dominating_module(evidence: Evidence) -> Iterator[Finding]:
    """One module takes more than all others together; the rule is like `dominating_op`."""
    modules: defaultdict[str, list[Part]] = defaultdict(list)
    for part in evidence.parts:
        if part.module is not None:
            modules[part.module].append(part)
    for name, parts in modules.items():
        if name and len(modules) >= 3:
            words = f"events: {', '.join(sorted({part.op for part in parts}))}"
            yield from _dominating(evidence, "module", name, fsum(part.ticks for part in parts), words)


def _dominating(evidence: Evidence, what: str, name: str, ticks: float, words: str) -> Iterator[Finding]:
    share = _share(evidence, ticks)
    if share >= 50:
        parts = ", etq ops --by module its parts" if what == "module" else ""
        yield Finding(
            f"dominating {what}",
            "medium",
            f"The {what} {name} takes {evidence.scale.words(ticks)} of the average run ({percent(share)}): making all "
            f"else faster gains at most {percent(100 - share)}.",
            words,
            f"Optimize this first: etq ops --by instance lists its instructions{parts}; a smaller shape or type, a "
            "backend, or a faster kernel saves most here.",
            ticks=ticks,
            whole=_AVERAGE,
            whole_ticks=evidence.average,
        )


@_rule
def first_run(evidence: Evidence) -> Iterator[Finding]:
    """The first run is an outlier: caches, pages and clocks are cold.

    Its excess is at least a fifth of the median of the later runs, and more than chance explains, see `_is_warm_up`. A
    slow first run is normal: severity is at most medium. The share is the excess in percent of the time of all runs.
    """
    excess = {load.run: load.ticks for load in evidence.loads if load.component == "first run excess"}
    warm_ups = []
    for run in evidence.runs:
        over = excess.get(run.index)
        if over is not None and run.middle and 5 * over >= run.middle and _is_warm_up(evidence, run):
            warm_ups.append((over, run))
    if not warm_ups:
        return
    _, worst = max(warm_ups, key=lambda each: (each[0], -each[1].index))
    after = len(evidence.later[worst.block])
    spent, whole = fsum(over for over, _ in warm_ups), fsum(evidence.executes)
    scale, execute, middle = evidence.scale, worst.execute or 0.0, worst.middle or 0.0
    yield Finding(
        "first run",
        "low" if 20 * spent < whole else "medium",
        f"The first run takes {scale.words(execute)}, {digits(execute / middle)} times the median of the "
        f"{counted(after, 'run')} after it ({scale.words(middle)}): it is a warm-up.",
        f"{', '.join(f'run {run.index}' for _, run in warm_ups)}; first run excess in load_breakdown",
        "Leave it out of averages and totals, as shares here do: --skip-first 1 (steps := 'skip_first=1').",
        ticks=spent / len(evidence.runs),
        whole=_ALL,
        whole_ticks=whole / len(evidence.runs),
    )


@_rule
def slow_runs(evidence: Evidence) -> Iterator[Finding]:
    """Slow runs took so much longer than typical ones, enough for medium severity, that totals and averages over all
    runs represent neither.
    """
    slow = [
        (run.execute, run.middle, run.index)
        for run in evidence.runs
        if run.is_outlier and run.execute is not None and run.middle is not None and run.execute > run.middle
    ]
    slow.sort(key=lambda run: (-run[0], run[2]))
    excess, whole = fsum(execute - middle for execute, middle, _ in slow), fsum(evidence.executes)
    if not slow or 20 * excess < whole:
        return
    scale, share, (slowest, middle, _) = evidence.scale, 100 * excess / whole, slow[0]
    yield Finding(
        "slow runs",
        severity_of(share),
        f"Without the first, {len(slow)} of {counted(len(evidence.runs), 'run')} took longer than typical, the slowest "
        f"{scale.words(slowest)} against {scale.words(middle)}: this excess is {percent(share)} of the time of all "
        "runs.",
        ", ".join(f"run {index} {scale.words(execute)}" for execute, _, index in slow[:5]),
        "See whether some ops or all of them grow in the slow runs: etq show slow_runs. If all grow equally, measure "
        "again with nothing else on the device.",
        ticks=excess / len(evidence.runs),
        whole=_ALL,
        whole_ticks=whole / len(evidence.runs),
    )


@_rule
def variance(evidence: Evidence) -> Iterator[Finding]:
    """Runs of the same events vary much: (p90 - p10) / p50 is a fifth or more. On a quiet machine, it is 5 to 11 % in
    most captures, and more than 20 % in one of ten.

    To show a change of 5 %, n = 2 (1.96 + 0.84)^2 s^2 / ln(1.05)^2 captures per side are needed. This is the usual
    sample size for 5 % false alarms and 80 % power; a sample is a capture's p25, and s is its spread between captures.
    In 60 real captures of 3 models on a shared machine, s was 0.15 of the spread within a capture (0.13 to 0.15 by
    model, robustly). 5 captures per side is the smallest number that detected 94 % or more there. Above 50 captures,
    the estimate is not meaningful.

    If the runs' times follow their order, they drift: the spread isn't noise. This is so if their order explains half
    of the variance of 20 runs or more. Of 20 independent runs, it explains half by chance in 1 of 2,000 captures.
    """
    varying = []
    for block in {run.block for run in evidence.runs}:
        later = _later(evidence, block)
        p10, p50, p90 = (quantile(later, at) or 0.0 for at in (0.1, 0.5, 0.9))
        if len(later) >= 10 and p50 and 5 * (p90 - p10) >= p50:
            varying.append((-fsum(later), block, len(later), p10, p50, p90))
    for _, block, number, p10, p50, p90 in sorted(varying)[:1]:
        if number >= 20 and (later := _later(evidence, block)) and _explained_by_order(later) >= 0.5:
            yield _drift(evidence, block, later)
            continue
        spread, scale = (p90 - p10) / p50, evidence.scale
        captures = max(5, ceil(2 * (1.96 + 0.84) ** 2 * (0.15 * spread / log(1.05)) ** 2))
        yield Finding(
            "variance",
            "high" if spread >= 1 else "medium" if spread >= 0.5 else "low",
            f"Runs that log the same events, without the first, take {scale.words(p10)} (p10) to {scale.words(p90)} "
            f"(p90), a spread of {percent(100 * spread)} around the median of {scale.words(p50)}: to detect a change "
            f"of 5 %, {'more than 50' if captures > 50 else f'about {captures}'} captures per side are needed.",
            f"{counted(number, 'run')} of block {block}, without the first run",
            "Check that these runs had the same method and inputs. Fix the clock and pin the threads to cores, let the "
            "device cool and rest, and compare percentiles of several captures taken in turns, not averages of one.",
        )


def _drift(evidence: Evidence, block: int, times: Sequence[float]) -> Finding:
    """Return the finding about runs whose times follow their order."""
    tenth, scale = len(times) // 10, evidence.scale
    first, last = (quantile(part, 0.5) or 0.0 for part in (times[:tenth], times[-tenth:]))
    than = "more" if last > first else "less"
    change = f", {percent(100 * abs(last - first) / first)} {than}" if first else ""
    return Finding(
        "drift",
        "medium",
        f"Later runs that log the same events take {than} time: the first tenth of them {scale.words(first)}, the "
        f"last tenth {scale.words(last)}{change}.",
        f"medians; {counted(len(times), 'run')} of block {block}, without the first run; their order explains "
        f"{percent(100 * _explained_by_order(times))} of their variance",
        "If the work of runs differs, as by the length of a context, compare runs with the same work: etq label "
        "--phase. Otherwise the device's state changes, such as its clock and temperature: fix the clock, let the "
        "device cool and rest, and compare percentiles of several captures taken in turns.",
    )


def _explained_by_order(times: Sequence[float]) -> float:
    """Return the share of the times' variance that a line through them explains."""
    middle, mean = (len(times) - 1) / 2, fsum(times) / len(times)
    joint = fsum((at - middle) * (time - mean) for at, time in enumerate(times))
    squares = fsum((at - middle) ** 2 for at in range(len(times))) * fsum((time - mean) ** 2 for time in times)
    return joint**2 / squares if squares else 0.0


def _span_of_runs(first: int, last: int) -> str:
    return f"run {first}" if first == last else f"runs {first} to {last}"


@_rule
def few_runs(evidence: Evidence) -> Iterator[Finding]:
    """With fewer than ten runs, p10 and p90 are the fastest and the slowest."""
    if 1 <= len(evidence.runs) <= 9:
        yield Finding(
            "few runs",
            "low",
            f"The capture has {counted(len(evidence.runs), 'run')}, warm-up included: too few for percentiles, or to "
            "separate noise from change.",
            _span_of_runs(evidence.runs[0].index, evidence.runs[-1].index),
            "Record about 40 runs in a capture, and at least five captures of each build if builds are to be compared.",
        )


@_rule
def loading(evidence: Evidence) -> Iterator[Finding]:
    """Loading took longer than all runs of the capture together. Severity is low, because a user's session may have
    more runs than a capture. It is medium if loading takes longer than a hundred runs.
    """
    parts: defaultdict[str, list[float]] = defaultdict(list)
    for load in evidence.loads:
        parts[load.component].append(load.ticks or 0.0)
    spent, runs = fsum(parts["Program::load_method"]), fsum(evidence.executes)
    middle = quantile(evidence.executes, 0.5)
    if not evidence.executes or not spent or spent < runs:
        return
    scale, share, delegates = evidence.scale, 100 * spent / (spent + runs), fsum(parts["delegate init"])
    # With a coarse clock, most runs may have a time of 0.
    many = f"as much as {digits(spent / middle)} median runs" if middle else "more than all runs together"
    yield Finding(
        "loading",
        "medium" if spent > 100 * (middle or 0) else "low",
        f"Loading took {scale.words(spent)}, {many}: {percent(share)} of the time in this capture.",
        f"{counted(len(parts['Program::load_method']), 'Program::load_method')}, of it Method::init "
        f"{scale.words(fsum(parts['Method::init']))}"
        + (f", in it delegates {scale.words(delegates)}" if delegates > 0 else ""),
        "Where sessions are short, load a method once and keep it for all runs; the delegates' work at init, such as "
        "packing weights, can often be cached or done ahead.",
        whole="loading and all runs",
        percent=share,
    )


@_rule
def coarse_clock(evidence: Evidence) -> Iterator[Finding]:
    """A clock's step is too large for the times that it measures, of 20 events or more. For the runtime's clock,
    severity is high, because all times are then unreliable. For the clock of delegates' events, it is medium if a
    quarter of the events have duration zero.
    """
    for clock in evidence.clocks:
        if clock.events < 20 or not clock.is_coarse:
            continue
        scale, is_delegate = evidence.scale, clock.is_delegate
        zeros = 100 * clock.zeros / clock.events
        step = "too coarsely" if clock.step is None else f"in steps of {scale.words(clock.step)}"
        half = f", and half of them take at most {scale.words(clock.middle)}" if clock.middle else ""
        yield Finding(
            "coarse clock",
            "high" if not is_delegate else "medium" if zeros >= 25 else "low",
            f"Events {'within delegates ' if is_delegate else ''}are timed {step}{half}: {percent(zeros)} have a time "
            "of 0.",
            f"{counted(clock.events, 'event')} over all runs, {clock.zeros:,} of them 0",
            "Use the time of each DELEGATE_CALL as a whole: more runs do not restore the lost precision. Use the "
            "backend's own profiler for more detail."
            if is_delegate
            else "Make the platform's clock finer (et_pal_current_ticks), or measure several runs as one event.",
        )


def _is_warm_up(evidence: Evidence, run: Run) -> bool:
    """Whether a first run took longer than variation explains. It must exceed p90 of the later runs of its block, and
    also either the fences of `typical_runs` or twice the slowest typical run.

    Error rates, if the logarithms of runs are normally distributed with s = 0.1 to 0.6: the rule takes at most 0.5 % of
    first runs for warm-ups with 20 later runs, and 5 % with 5 later runs. With the first condition alone, it would be
    14 and 20 %.
    """
    p90 = quantile(_later(evidence, run.block), 0.9) if run.is_first else None
    if run.execute is None or p90 is None or run.execute <= p90:
        return False
    typical = [other.execute for other in evidence.later[run.block] if other.is_typical and other.execute is not None]
    return not run.is_typical or run.execute > 2 * max(typical, default=run.execute)


def _later(evidence: Evidence, block: int) -> list[float]:
    """Return the known times of a block's runs, without the first run."""
    return [run.execute for run in evidence.later[block] if run.execute is not None]


def _sum(ops: Sequence[Op]) -> float:
    return fsum(op.ticks for op in ops)


def _share(evidence: Evidence, ticks: float) -> float:
    """Return ticks in percent of the average run."""
    return 100 * ticks / evidence.average if evidence.average else 0.0


def _listed(evidence: Evidence, ops: Sequence[Op], most: int = _LISTED) -> str:
    """Return the ops of most time, and how many more there are."""
    more = [f"{len(ops) - most:,} more"] if len(ops) > most else []
    return ", ".join([*(op.words(evidence.scale) for op in ops[:most]), *more])


def _median(values: Iterator[float | None]) -> float | None:
    return quantile((value for value in values if value is not None), 0.5)
