"""The steps of a trace: their times on the host, their times with the work that they launched, and the time in each
category.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, numbers
from etq.ingest.trace.classes import Class
from etq.ingest.trace.launches import Flags, Whole, are
from etq.ingest.trace.scanner import NONE

# The categories of `step_breakdown`: each moment is assigned to the first category that applies.
_CATEGORIES: Final = ("kernel", "communication", "memcpy", "memset", "runtime", "data_loader", "cpu_exec")
_OF_ACTIVITIES: Final = {
    **{"kernel": "kernel", "copy": "memcpy", "fill": "memset", "call": "runtime"},
    **{"op": "cpu_exec", "python": "cpu_exec"},
}
_NUMBER: Final = re.compile(r"[^#]*#\s*([+-]?[0-9]{1,10})\s*(?:#|$)|[^#]*[^#\d]([0-9]{1,10})$")
# The placeholder for a step's number that is unknown or has more than 32 bits.
_UNKNOWN: Final = 2**31


class _Slices(NamedTuple):
    """Slices as arrays [n], and the class of each kind."""

    classes: Sequence[Class]
    kind: Whole
    start: Whole
    end: Whole

    def are(self, *activities: str) -> Flags:
        return are(self.kind, [_activity(each) in activities for each in self.classes])


class _Steps(NamedTuple):
    """Steps in the order of their starts, as arrays [steps]."""

    run: Whole
    number: Whole
    start: Whole
    end: Whole


def step_rows(
    kinds: Sequence[tuple[str, str]],
    classes: Sequence[Class],
    kind: Whole,
    run: Whole,
    start: Whole,
    elapsed: Whole,
    call: Whole,
    origin: Whole,
    is_lost: Flags,
    *,
    is_served: bool = False,
    is_denoised: bool = False,
) -> pa.RecordBatch:
    """Return the table `trace_steps`. Steps of a server (`is_served`) are numbered in order. So are steps of a
    diffusion model (`is_denoised`) if the numbers in their names don't count up.

    Each array has one entry per slice. `kind` is the index of the slice's category and name in `kinds`, and of its
    class in `classes`. `start` and `elapsed` are in ticks. `call` is the row of the call that launched the slice.
    `origin` is that call, or, without one, the slice's owner. -1 stands for none. `run` is the run in which the slice's
    origin begins. `is_lost` says whether the slice is a launch whose work was not recorded.
    """
    if (elapsed < 0).any():  # slices of unknown time are in no category
        classes, kind = [*classes, Class("")], np.where(elapsed < 0, len(classes), kind)
    slices = _Slices(classes, kind, start, start + elapsed)
    names = zip(kinds, slices.classes, strict=False)
    number = np.array([*(_number(name) if each.activity == "step" else 0 for (_, name), each in names), 0], np.int64)
    is_step = slices.are("step")
    if is_step.any():
        host = steps = _steps(slices, number, is_step, run)
        is_rising = not (host.number == _UNKNOWN).any() and bool((host.number[1:] > host.number[:-1]).all())
        if is_served or (is_denoised and not is_rising):
            host = steps = steps._replace(number=steps.run)
    else:
        run = np.zeros(len(run), np.int64)
        host, steps = (_steps(slices, number, slices.are(*these), run) for these in (("op",), ("op", "python")))
    start, end, is_whole = _with_work(slices, steps, run, call, origin, is_lost)
    no_host = np.full(len(steps.run), not len(host.run))
    if no_host.any():
        host = steps
    return batch(
        {
            "run_index": numbers(steps.run.astype(np.int32)),
            "step": numbers(steps.number.astype(np.int32), steps.number == _UNKNOWN),
            "host_start_ticks": numbers(host.start, no_host),
            "host_end_ticks": numbers(host.end, no_host),
            "start_ticks": numbers(start, ~is_whole),
            "end_ticks": numbers(end, ~is_whole),
            **{f"{name}_ticks": numbers(ticks, ~is_whole) for name, ticks in _categories(slices, start, end)},
        }
    )


def _activity(each: Class) -> str:
    return "module" if each.purpose == "module" else each.activity


def _number(name: str) -> int:
    """Return the number in the name of a step, such as `ProfilerStep#3` and `denoise_step_3`."""
    found = _NUMBER.match(name)
    number = _UNKNOWN if found is None else int(found[1] or found[2])
    return number if -_UNKNOWN <= number < _UNKNOWN else _UNKNOWN


def _steps(slices: _Slices, number: Whole, are_within: Flags, run: Whole) -> _Steps:
    """Return the steps that these slices [n] make up, one for each run. A step has the smallest number among its
    slices' kinds.
    """
    rows = np.flatnonzero(are_within)
    rows = rows[np.argsort(run[rows], kind="stable")]
    runs, first = np.unique(run[rows], return_index=True)
    if not len(rows):
        return _Steps(runs, runs, runs, runs)
    found = _Steps(
        runs,
        np.minimum.reduceat(number[slices.kind[rows]], first),
        np.minimum.reduceat(slices.start[rows], first),
        np.maximum.reduceat(slices.end[rows], first),
    )
    order = np.lexsort((runs, found.start))
    return _Steps(*(each[order] for each in found))


def _with_work(
    slices: _Slices, steps: _Steps, run: Whole, call: Whole, origin: Whole, is_lost: Flags
) -> tuple[Whole, Whole, Flags]:
    """Return the start and end of each step, as in torch-tb-profiler, and whether its work was recorded.

    A step lasts from the end of the previous step to the end of the last event of a device that it launched. Steps at
    the end of the trace that launched nothing were cut off. Another step lacks work if a fifth or more of its launches
    have none. If all steps lack work, none is left out.
    """
    count = len(steps.run)
    is_work = slices.are("kernel", "copy", "fill")
    order = np.argsort(steps.run)
    launched = np.flatnonzero(is_work & (origin != NONE) & np.isin(run, steps.run))
    at = order[np.searchsorted(steps.run[order], run[launched])]
    moment = slices.start[origin[launched]]
    is_within = (moment >= steps.start[at]) & (moment <= steps.end[at])
    launched, at = launched[is_within], at[is_within]
    if not len(launched):
        return steps.start, steps.end, np.ones(count, np.bool_)
    start, end = steps.start.copy(), steps.end.copy()
    np.maximum.at(end, at, slices.end[launched])
    is_called = call[launched] != NONE
    if len(of_first := launched[is_called & (at == 0)]):
        # Work launched before the steps may still run when they begin.
        is_work[launched] = False
        before = slices.end[is_work & (slices.end < slices.start[of_first].min())]
        if len(before):
            start = np.maximum(start, before.max())
    end = np.maximum.accumulate(end)
    start[1:] = np.maximum(start[1:], end[:-1])
    launches = np.bincount(at[np.unique(origin[launched], return_index=True)[1]], minlength=count)
    last = int(at.max())
    lost = run[is_lost & np.isin(run, steps.run)]
    without = np.bincount(order[np.searchsorted(steps.run[order], lost)], minlength=count)
    is_whole = (np.arange(count) <= last) & ((without == 0) | (4 * without < launches))
    return start, end, is_whole if is_whole.any() else np.ones(count, np.bool_)


def _categories(slices: _Slices, start: Whole, end: Whole) -> Iterator[tuple[str, Whole]]:
    """Yield the categories, and the ticks of each within these steps [steps]."""
    has_kernels = bool(slices.are("kernel").any())
    places = {name: place for place, name in enumerate((*_CATEGORIES, None))}
    place = np.array([places[_category(each, has_kernels)] for each in slices.classes], np.int8)[slices.kind]
    starts = ends = np.zeros(0, np.int64)
    before = np.zeros(len(start), np.int64)
    for number, name in enumerate(_CATEGORIES):
        rows = place == number
        starts, ends = joined(np.concatenate([starts, slices.start[rows]]), np.concatenate([ends, slices.end[rows]]))
        so_far = ticks_until(starts, ends, end) - ticks_until(starts, ends, start)
        yield name, so_far - before
        before = so_far
    yield "other", end - start - before


def _category(each: Class, has_kernels: bool) -> str | None:
    """Return the category of the slices of a class; None if they have none."""
    activity = _activity(each)
    if activity == "kernel" and each.kernel_family == "communication":
        return "communication"
    if activity in ("op", "python", "annotation"):
        if each.purpose == "data_loading":
            return "data_loader"
        # Communication on the host counts only if no device communicates.
        if each.purpose == "communication" and not has_kernels:
            return "communication"
    return _OF_ACTIVITIES.get(activity)


def joined(starts: Whole, ends: Whole) -> tuple[Whole, Whole]:
    """Return the ordered starts and ends of the periods in which any of these slices [n] runs."""
    starts, ends = np.sort(starts), np.sort(ends)
    # A gap is where all slices that have started have ended.
    is_gap = starts[1:] > ends[:-1]
    return starts[np.concatenate([[True], is_gap])[: len(starts)]], ends[np.concatenate([is_gap, [True]])[: len(ends)]]


def ticks_until(starts: Whole, ends: Whole, moments: Whole) -> Whole:
    """Return how much of the periods between these ordered starts and ends lies before each moment."""
    if not len(starts):
        return np.zeros(len(moments), np.int64)
    lengths = ends - starts
    at = np.searchsorted(starts, moments, side="right") - 1
    found = (np.cumsum(lengths) - lengths)[at] + np.minimum(moments, ends[at]) - starts[at]
    return np.where(at == NONE, 0, found)
