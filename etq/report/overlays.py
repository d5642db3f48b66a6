"""Overlays: values that colour the boxes of a graph, numbers or words; one overlay is shown at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Overlay:
    """One value that ops and modules of a graph have.

    key    its name in options
    title  its name for people
    node   the column of nodes that has it
    group  the column of groups that has it; None for words, as a group has the word of its nodes
    kind   time (in the unit of the page), percent, number, bytes, gap, decibels, or word
    none   for words: the word for a node without a value
    scale  how badness grows. With greater values: by factors of 2 (halves) or 10 (tenths). With fewer decibels: by 10
           dB. With the distance of a cosine from 1: by factors of 10
    needs  the condition for a graph to have the overlay; empty if there is none
    """

    key: str
    title: str
    node: str
    group: str | None
    kind: Literal["time", "percent", "number", "bytes", "gap", "decibels", "word"]
    none: str = ""
    scale: Literal["halves", "tenths", "decibels", "cosine"] = "halves"
    needs: str = ""

    def badness(self, value: float) -> float:
        """Return how bad a value is, from 0 on; infinity for NaN."""
        if math.isnan(value):
            return math.inf
        if self.scale == "decibels":
            return 0.0 if value > 3000 else math.inf if value < -3000 else 10 ** (-value / 10)
        return max(1 - value, 0.0) if self.scale == "cosine" else value

    @property
    def heat(self) -> tuple[float, ...]:
        """The lower bounds of the colours, as shares of the worst badness, for the darkest colour first. Boxes below
        all bounds have the palest colour.
        """
        step = 2 if self.scale == "halves" else 10
        return tuple(step**-power for power in (1, 2, 3, 4))


_PROGRAM: Final = "a linked program (etq link CAPTURE PROGRAM, or --pte with a file)"
_PEAKS: Final = "the device's peaks (--peak-flops and --peak-bandwidth, or metrics of these names)"
_BASE: Final = "values of another capture (--gap BASE)"

OVERLAYS: Final = (
    Overlay("time", "self time in an execute", "per_execute", "per_execute", "time"),
    Overlay("share", "share of the executes", "share_percent", "share_percent", "percent"),
    Overlay("calls", "calls", "calls", "calls", "number"),
    Overlay("flops", "FLOPs of a call", "flops", "flops", "number"),
    Overlay("bytes", "bytes of a call", "bytes", "bytes", "bytes"),
    Overlay("roof", "time above the roofline", "roof_per_execute", "roof_per_execute", "time", needs=_PEAKS),
    Overlay("memory", "planned memory", "planned_bytes", "planned_bytes", "bytes", needs=_PROGRAM),
    Overlay("peak", "planned memory at the peak", "peak_bytes", "peak_bytes", "bytes", needs=_PROGRAM),
    Overlay("mse", "gap: mean squared error", "mse", "mse", "gap", scale="tenths", needs=_BASE),
    Overlay("max_abs", "gap: largest difference", "max_abs", "max_abs", "gap", scale="tenths", needs=_BASE),
    Overlay("max_rel", "gap: largest relative difference", "max_rel", "max_rel", "gap", scale="tenths", needs=_BASE),
    Overlay("l1", "gap: sum of absolute differences", "l1", "l1", "gap", scale="tenths", needs=_BASE),
    Overlay("snr", "gap: signal-to-noise ratio", "snr", "snr", "decibels", scale="decibels", needs=_BASE),
    Overlay("cosine", "gap: cosine similarity", "cosine", "cosine", "gap", scale="cosine", needs=_BASE),
    Overlay("backend", "backend", "backend", None, "word", "no delegate"),
    Overlay("dtype", "data type", "dtype", None, "word", "unknown"),
    Overlay("op", "op type", "op_type", None, "word", "unknown"),
)
# The overlays that are metrics of numeric gaps.
METRICS: Final = tuple(each.key for each in OVERLAYS if each.needs == _BASE)
# The five most frequent words have colours of their own; all others share one.
WORDS: Final = 5
