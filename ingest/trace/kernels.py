"""What kernels are, by their names: the family, and whether they use matrix units."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

_COMMUNICATION: Final = "communication"
# Ops and annotations of the host that launch what communicates, by the prefix of their backend.
_COMMUNICATING: Final = re.compile("(nccl|rccl|gloo|xccl|hccl|ucc|mpi):")
# Categories of kernels, in newer and older layouts.
_CATEGORIES: Final = frozenset(("kernel", "Kernel", "mtia_ccp_events", "mtia_workloadd", "hpu_op"))
# Kernels of these families are products, which matrix units can compute; those of the other families aren't.
_PRODUCTS: Final = frozenset(("GEMM", "convolution", "attention", "MoE"))
# How much of a name is read: demangled names of templates have thousands of characters.
_MOST_CHARACTERS: Final = 4_000


class Kernel(NamedTuple):
    """What a kernel is; None where its name is unknown."""

    family: str | None
    uses_matrix_units: bool | None


class _Rules(NamedTuple):
    families: tuple[tuple[str, re.Pattern[str]], ...]
    matrix_units: tuple[tuple[bool, re.Pattern[str]], ...]


def kernel_of(name: str) -> Kernel:
    """Return what the kernel of a name is, by the entries of `kernels.toml`."""
    rules = _rules()
    name = name[:_MOST_CHARACTERS]
    family = next((family for family, pattern in rules.families if pattern.search(name)), None)
    if family is not None and family not in _PRODUCTS:
        return Kernel(family, False)
    return Kernel(family, next((uses for uses, pattern in rules.matrix_units if pattern.search(name)), None))


def kernels_of(
    kinds: Sequence[tuple[str, str]], is_launched_within: Callable[[int, npt.NDArray[np.bool_]], bool]
) -> dict[int, Kernel]:
    """Return what the kernels among a trace's kinds of slices are, by the place of the kind.

    `kinds` are categories and names. `is_launched_within` states whether all events of a kind were launched within
    slices of other kinds: a kernel of an unknown name communicates if a backend of communication launched it.
    """
    found = {place: kernel_of(name) for place, (category, name) in enumerate(kinds) if category in _CATEGORIES}
    unknown = [place for place, kernel in found.items() if kernel.family is None]
    if unknown:
        communicates = np.array([_COMMUNICATING.match(name) is not None for _, name in kinds], np.bool_)
        launched = [place for place in unknown if communicates.any() and is_launched_within(place, communicates)]
        found |= dict.fromkeys(launched, Kernel(_COMMUNICATION, False))
    return found


def unknown_kernels(
    kinds: Sequence[tuple[str, str]],
    found: dict[int, Kernel],
    kind: npt.NDArray[np.int32],
    ticks: npt.NDArray[np.int64],
) -> str | None:
    """Return a finding about kernels of unknown names, if they take a hundredth of the time of all kernels, else None.

    `kind` [n] is the kind of each slice, `ticks` [n] its duration.
    """
    unknown = [place for place, kernel in found.items() if kernel.family is None]
    if not unknown:
        return None
    times = np.bincount(kind, np.maximum(ticks, 0), len(kinds))
    taken, total = times[unknown].sum(), times[[*found]].sum()
    if not taken or taken < total / 100:
        return None
    most = max(unknown, key=lambda place: (times[place], kinds[place][1]))
    names = "1 unknown name" if len(unknown) == 1 else f"{len(unknown)} unknown names"
    return (
        f"{100 * taken / total:.1f} % of the time of kernels is in kernels of {names}, most in {kinds[most][1][:200]}"
    )


@cache
def _rules() -> _Rules:
    written = tomllib.loads(resources.files(__package__).joinpath("kernels.toml").read_text(encoding="utf-8"))
    return _Rules(
        tuple((entry["name"], _any_of(entry["patterns"])) for entry in written["family"]),
        tuple((entry["uses"], _any_of(entry["patterns"])) for entry in written["matrix_units"]),
    )


def _any_of(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))
