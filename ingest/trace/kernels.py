"""Classifies kernels whose names don't determine their family: by the communication backend or the op (convolution,
attention) that launches them. Also makes a finding about kernels of unknown families.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class
from etq.ingest.trace.scanner import NONE

_COMMUNICATION = "communication"
# Rules: the family of a kernel by its name, or None; a pattern of the ops that launch it; the resulting family.
# Libraries also compute convolutions by products: of unfolded images, of Fourier transforms, of filters of one pixel.
_BY_OP: Sequence[tuple[str | None, re.Pattern[str], str]] = (
    ("GEMM", re.compile("[cC]onv(?:olution|_|[1-3]d)"), "convolution"),
    (None, re.compile("flash_attn|[aA]ttention|fmha"), "attention"),
)


def with_communication(
    classes: Sequence[Class], is_launched_within: Callable[[int, npt.NDArray[np.bool_]], bool]
) -> list[Class]:
    """Return the classes of a trace's kinds of slices. If a communication backend launched all kernels of a kind, and
    their family is unknown, their family is communication.

    `is_launched_within` returns whether all events of a kind were launched within slices of other kinds.
    """
    around = np.array([each.purpose == _COMMUNICATION for each in classes], np.bool_)
    if not around.any():
        return [*classes]
    return [
        each._replace(kernel_family=_COMMUNICATION, uses_matrix_units=False)
        if is_unknown(each) and is_launched_within(place, around)
        else each
        for place, each in enumerate(classes)
    ]


def with_ops(
    kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: npt.NDArray[np.int64], op: npt.NDArray[np.int64]
) -> tuple[Sequence[tuple[str, str]], Sequence[Class], npt.NDArray[np.int64]]:
    """Return the kinds of slices, their classes, and the kind of each slice. Kernels whose family the op determines get
    kinds of their own.

    `op` [n] is the innermost op that launched each slice.
    """
    of_slices = kind.copy()
    all_kinds, all_classes = [*kinds], [*classes]
    launched = np.flatnonzero(op != NONE)
    for family, pattern, of_op in _BY_OP:
        named = [each.activity == "kernel" and each.kernel_family == family for each in classes]
        tells = [each.activity == "op" and pattern.search(name) for each, (_, name) in zip(classes, kinds, strict=True)]
        rows = launched[np.array(named, np.bool_)[kind[launched]]]
        rows = rows[np.array(tells, np.bool_)[kind[op[rows]]]]
        apart, place = np.unique(kind[rows], return_inverse=True)
        of_slices[rows] = len(all_kinds) + place
        all_kinds += [kinds[each] for each in apart]
        all_classes += [classes[each]._replace(kernel_family=of_op) for each in apart]
    return all_kinds, all_classes, of_slices


def is_unknown(each: Class) -> bool:
    """Whether a class has kernels of an unknown family."""
    return each.activity == "kernel" and each.kernel_family is None


def unknown_kernels(
    kinds: Sequence[tuple[str, str]],
    classes: Sequence[Class],
    kind: npt.NDArray[np.int64],
    ticks: npt.NDArray[np.int64],
) -> str | None:
    """Return a finding about kernels of unknown families; None if they take less than a hundredth of the time of all
    kernels.

    `kind` [n] is the kind of each slice, `ticks` [n] its duration.
    """
    unknown = [place for place, each in enumerate(classes) if is_unknown(each)]
    if not unknown:
        return None
    times = np.bincount(kind, np.maximum(ticks, 0), len(kinds))
    every = [place for place, each in enumerate(classes) if each.activity == "kernel"]
    taken, total = times[unknown].sum(), times[every].sum()
    if not taken or taken < total / 100:
        return None
    by_name: Counter[str] = Counter()
    for place in unknown:
        by_name[kinds[place][1]] += int(times[place])
    first, *others = sorted(by_name, key=lambda name: (-by_name[name], name))
    where = f"most in {first[:200]}"
    if others and by_name[others[0]] == by_name[first]:
        where = f"as much in {first[:200]} as in {others[0][:200]}"
    names = f"{len(by_name)} unknown name{'' if len(by_name) == 1 else 's'}"
    return f"{100 * taken / total:.1f} % of the time of kernels is in kernels of {names}, {where}"
