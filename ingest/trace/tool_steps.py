"""The steps of a trace by the annotations of any tool."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, numbers, texts
from etq.ingest.trace.launches import Whole, are, is_launch
from etq.ingest.trace.op_work import Kinds
from etq.ingest.trace.scanner import NONE
from etq.ingest.trace.slices import Slices

# Names that torch itself gives to annotations.
_OF_TORCH: Final = re.compile(
    r"Torch(-Compiled|Dynamo)|## |Optimizer\.|autograd::|enumerate\(|(Distributed)?DataParallel|nn\.Module|FSDP"
)


def tool_steps(slices: Slices, of_slices: Kinds, written: Whole, annotation: Whole) -> pa.RecordBatch:
    """Return the table `tool_steps`.

    Without steps that are runs, steps are the outermost annotations that have the same name apart from numbers, repeat,
    and launch at least half of what is launched, or contain at least half of the ops, if nothing is launched.
    `of_slices` has the names and classes of slices; `written` has the starts and ends [2, steps] of the steps that are
    runs; `annotation` [n] has the annotation that contains each slice, or -1.
    """
    starts, ends = written[:, written[1] > written[0]]
    if len(starts):
        if slices.recording is not None:
            first, last = slices.recording
            is_within = (starts < last) & (ends > first)
            starts = np.where(is_within, np.maximum(starts, first), starts)
            ends = np.where(is_within, np.minimum(ends, last), ends)
        return _rows(None, starts, ends)
    rows_of = _outermost(slices, of_slices, annotation)
    moments = np.sort(slices.start[_launching(slices, of_slices)]) if rows_of else starts
    launched: list[tuple[int, str]] = []
    for pattern, rows in rows_of.items():
        before, until = (
            np.searchsorted(moments, ticks) for ticks in (slices.start[rows], slices.start[rows] + slices.elapsed[rows])
        )
        if len(rows) > 1 and 2 * (count := int((until - before).sum())) >= len(moments) > 0:
            launched.append((-count, pattern))
    if not launched:
        return _rows(None, starts, ends)
    pattern = min(launched)[1]
    rows = rows_of[pattern]
    return _rows(pattern, slices.start[rows], slices.start[rows] + slices.elapsed[rows])


def _outermost(slices: Slices, of_slices: Kinds, annotation: Whole) -> dict[str, Whole]:
    """Return the rows of annotations in no other annotation, by their names without numbers."""
    patterns = [
        re.sub("[0-9]+", "*", name)
        if each.activity == "annotation" and each.purpose in (None, "denoising") and _OF_TORCH.match(name) is None
        else None
        for (_, name), each in zip(of_slices.names, of_slices.classes, strict=True)
    ]
    rows = np.flatnonzero(
        are(of_slices.kind, [pattern is not None for pattern in patterns]) & (annotation == NONE) & (slices.elapsed > 0)
    )
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, kind in zip(rows.tolist(), of_slices.kind[rows].tolist(), strict=True):
        rows_of[patterns[kind] or ""].append(row)
    return {pattern: np.array(rows, np.int64) for pattern, rows in rows_of.items()}


def _launching(slices: Slices, of_slices: Kinds) -> Whole:
    """Return the calls that launch; if there are none, all ops."""
    is_launching = are(of_slices.kind, [is_launch(each) for each in of_slices.classes])
    called = slices.call[slices.is_device & (slices.call != NONE)]
    is_call = are(of_slices.kind[called], [each.activity == "call" for each in of_slices.classes])
    is_launching[called[is_call]] = True
    if not is_launching.any():
        is_launching = are(of_slices.kind, [each.activity == "op" for each in of_slices.classes])
    return np.flatnonzero(is_launching)


def _rows(pattern: str | None, starts: Whole, ends: Whole) -> pa.RecordBatch:
    return batch(
        {"pattern": texts([pattern] * len(starts)), "start_ticks": numbers(starts), "end_ticks": numbers(ends)}
    )
