"""Kernels whose names tell too little: those that backends of communication or ops of convolution launch, and a finding
about those of unknown names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import Class
from etq.ingest.trace.scanner import NONE

_COMMUNICATION = "communication"
# Libraries compute convolutions by products, too: of unfolded images, of Fourier transforms, of filters of one pixel.
_PRODUCT = "GEMM"
_CONVOLUTION = "convolution"
_CONVOLVES = re.compile("[cC]onv(?:olution|_|[1-3]d)")


def with_communication(
    classes: Sequence[Class], is_launched_within: Callable[[int, npt.NDArray[np.bool_]], bool]
) -> list[Class]:
    """Return the classes of a trace's kinds of slices; kernels of unknown families communicate if a backend of
    communication launched them all.

    `is_launched_within` states whether all events of a kind were launched within slices of other kinds.
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


def with_convolutions(
    kinds: Sequence[tuple[str, str]], classes: Sequence[Class], kind: npt.NDArray[np.int64], op: npt.NDArray[np.int64]
) -> tuple[Sequence[tuple[str, str]], Sequence[Class], npt.NDArray[np.int64]]:
    """Return the kinds of slices, their classes, and the kind of each slice, with kinds apart for the products that ops
    of convolution launched.

    `op` [n] is the op that launched each slice, the innermost.
    """
    is_product = np.array([each.kernel_family == _PRODUCT for each in classes], np.bool_)
    convolves = [
        each.activity == "op" and _CONVOLVES.search(name) for each, (_, name) in zip(classes, kinds, strict=True)
    ]
    rows = np.flatnonzero(is_product[kind] & (op != NONE))
    rows = rows[np.array(convolves, np.bool_)[kind[op[rows]]]]
    apart, place = np.unique(kind[rows], return_inverse=True)
    of_slices = kind.copy()
    of_slices[rows] = len(kinds) + place
    as_convolution = [classes[each]._replace(kernel_family=_CONVOLUTION) for each in apart]
    return [*kinds, *(kinds[each] for each in apart)], [*classes, *as_convolution], of_slices


def is_unknown(each: Class) -> bool:
    """Whether a class is that of kernels of an unknown family."""
    return each.activity == "kernel" and each.kernel_family is None


def unknown_kernels(
    kinds: Sequence[tuple[str, str]],
    classes: Sequence[Class],
    kind: npt.NDArray[np.int64],
    ticks: npt.NDArray[np.int64],
) -> str | None:
    """Return a finding about kernels of unknown families, if they take a hundredth of the time of all kernels, else
    None.

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
    most = max(unknown, key=lambda place: (times[place], kinds[place][1]))
    names = "1 unknown name" if len(unknown) == 1 else f"{len(unknown)} unknown names"
    return (
        f"{100 * taken / total:.1f} % of the time of kernels is in kernels of {names}, most in {kinds[most][1][:200]}"
    )
