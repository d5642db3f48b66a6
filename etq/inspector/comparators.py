"""Distances between a program's values and their references: a base class and three implementations.

They compute in doubles, on numpy arrays or values that numpy converts to arrays; NaN counts as 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from etq.errors import ArgumentError, ArgumentTypeError

# The debug handles of the ops that share one value.
DebugHandle = tuple[int, ...]
# A mapping from (debug handles, value) of the reference to (debug handles, value) of the runtime.
IntermediateOutputMapping = dict[tuple[DebugHandle, Any], tuple[DebugHandle, Any]]


class Comparator(Protocol):
    """A distance for `Inspector.calculate_numeric_gap`: `NumericalComparatorBase`, executorch's, or any other class
    with this method; `preprocessing` and `inspector` are used if it has them.
    """

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the distance between two values: `a` of the reference, `b` of the runtime."""


class NumericalComparatorBase(ABC):
    """A distance between two values, for `Inspector.calculate_numeric_gap`; users may derive classes from it.

    inspector  the Inspector whose data `preprocessing` needs; set by the Inspector if not given
    """

    def __init__(self, inspector: Any = None) -> None:
        self._inspector = inspector

    @property
    def inspector(self) -> Any:
        """The Inspector that calls the comparator."""
        return self._inspector

    @inspector.setter
    def inspector(self, value: Any) -> None:
        self._inspector = value

    def preprocessing(self, mapping: IntermediateOutputMapping) -> IntermediateOutputMapping:
        """Return the pairs to compare; a derived class may change their layout or dequantize them."""
        return mapping

    @abstractmethod
    def element_compare(self, a: Any, b: Any) -> float:
        """Return the distance between two values: `a` of the reference, `b` of the runtime."""


class MSEComparator(NumericalComparatorBase):
    """Mean squared error."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the mean of the squared differences. Raises `ArgumentError` (a ValueError) if shapes differ."""
        one, other = _doubles(a, b)
        return float(np.mean((one - other) ** 2))


class L1Comparator(NumericalComparatorBase):
    """Sum of absolute differences."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return the sum of the absolute differences. Raises `ArgumentError` (a ValueError) if shapes differ."""
        one, other = _doubles(a, b)
        return float(np.sum(np.abs(one - other)))


class SNRComparator(NumericalComparatorBase):
    """Signal-to-noise ratio in dB: the larger it is, the closer the values are."""

    def element_compare(self, a: Any, b: Any) -> float:
        """Return ten times the decimal logarithm of the reference's power over the difference's; infinite if they are
        equal.

        Raises `ArgumentError` (a ValueError) if shapes differ.
        """
        one, other = _doubles(a, b)
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(10 * np.log10(np.mean(one**2) / np.mean((one - other) ** 2)))


def _doubles(a: Any, b: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return two values as arrays. Raises `ArgumentError` if their shapes differ: they are not broadcast."""
    one, other = (_array(each) for each in (a, b))
    if one.shape != other.shape:
        raise ArgumentError(f"values of shapes {one.shape} and {other.shape} can't be compared")
    return one, other


def _array(value: Any) -> npt.NDArray[np.float64]:
    if isinstance(value, Sequence):
        raise ArgumentTypeError(f"expected a tensor or a number to compare, not a {type(value).__name__}")
    try:
        return np.nan_to_num(np.asarray(value, np.float64), posinf=np.inf, neginf=-np.inf)
    except (TypeError, ValueError) as error:
        what = f"a value of type {type(value).__name__} is neither a tensor nor a number"
        raise ArgumentError(f"{what}: {error}") from error
