"""Concatenated rows of numbers and lists, as columns."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.integer[Any]]


def as_columns(rows: array[int] | list[int], width: int) -> Whole:
    """Return concatenated rows of `width` numbers as columns, of shape [width, rows]."""
    columns: Whole = np.array(rows, np.int32).reshape(-1, width).T
    return columns


def places_in_lists(lengths: Whole) -> Whole:
    """Return the position of each value within its list, for concatenated lists of these lengths."""
    starts = np.cumsum(lengths) - lengths
    return (np.arange(lengths.sum()) - np.repeat(starts, lengths)).astype(np.int32)


def spread_lists(lengths: list[int], codes: Whole) -> tuple[npt.NDArray[np.int64], Whole, Whole]:
    """Select lists by their numbers. Return the length of each selected list, and the position of each of its values in
    the list and in the input.

    `lengths` has the lengths of the input's lists, whose values are concatenated; `codes` the numbers of the lists to
    select, which may repeat.
    """
    of_lists = np.array(lengths, np.int64)
    starts = np.cumsum(of_lists) - of_lists
    of_codes = of_lists[codes]
    places = places_in_lists(of_codes)
    return of_codes, places, np.repeat(starts[codes], of_codes) + places
