"""The samples of a comparison as arrays: a row per item, a column per capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = "npt.NDArray[np.float64]"
Flags: TypeAlias = "npt.NDArray[np.bool_]"


@dataclass(frozen=True)
class Samples:
    """What each capture has of each item: a quantile of its runs. NaN where it doesn't have the item.

    An item of level total is all that a method does, one of level op an op, one of level module a module of the model;
    one of level call is an op per call. A capture is a column also if it is a step of a trace.
    """

    index: int  # of the comparison
    levels: list[str]
    items: list[str]
    scopes: list[str | None]
    ops: list[str | None]
    ticks: Numbers
    logs: Numbers  # NaN also where ticks are 0
    resolutions: Numbers  # what the clock's times are multiples of
    is_coarse: Flags  # whether that is coarse for the time
    calls: Numbers  # in a step; NaN where unknown
    captures: list[tuple[int, int]]  # keys and steps
    sides: list[str]
    positions: Numbers  # in time; NaN where unknown
    slow_ticks: Numbers  # the slowest tenth's quantile; NaN where it isn't judged

    def of_slow_runs(self) -> Samples | None:
        """The same of the slowest tenth of runs; None if these aren't judged."""
        if not np.isfinite(self.slow_ticks).any():
            return None
        return replace(self, ticks=self.slow_ticks, logs=logarithms(self.slow_ticks))

    @property
    def is_base(self) -> Flags:
        return np.array([side == "base" for side in self.sides], np.bool_)

    @property
    def is_new(self) -> Flags:
        return np.array([side == "new" for side in self.sides], np.bool_)

    def of_level(self, level: str) -> Flags:
        return np.array([each == level for each in self.levels], np.bool_)

    @property
    def is_interleaved(self) -> bool:
        """Whether the sides' captures alternate in time at least as often as the smaller side has captures."""
        chosen = self.is_base | self.is_new
        positions, is_new = self.positions[chosen], self.is_new[chosen]
        if np.isnan(positions).any():
            return False
        is_new = is_new[np.argsort(positions, kind="stable")]
        return int((is_new[1:] != is_new[:-1]).sum()) >= min(int(is_new.sum()), int((~is_new).sum()))


def comparisons(columns: Mapping[str, Any]) -> Iterator[Samples]:
    """Yield the comparisons of rows that have the columns of `_comparison_samples`."""
    for index in np.unique(columns["comparison"]):
        chosen = columns["comparison"] == index
        yield _arranged(int(index), {name: values[chosen] for name, values in columns.items()})


def _arranged(index: int, rows: Mapping[str, Any]) -> Samples:
    items = [*zip(rows["level"].tolist(), rows["item"].tolist(), strict=True)]
    captures = [*zip(rows["capture_id"].tolist(), rows["step"].tolist(), strict=True)]
    item_places = {key: place for place, key in enumerate(sorted(set(items)))}
    capture_places = {key: place for place, key in enumerate(sorted(set(captures)))}
    at = [item_places[key] for key in items], [capture_places[key] for key in captures]
    first_of_item, first_of_capture = (
        dict(zip(reversed(each), range(len(each) - 1, -1, -1), strict=True)) for each in at
    )
    item_rows = [first_of_item[place] for place in range(len(item_places))]
    capture_rows = [first_of_capture[place] for place in range(len(capture_places))]

    def placed(name: str, missing: Any) -> Any:
        filled = np.full((len(item_places), len(capture_places)), missing)
        filled[at] = rows[name]
        return filled

    ticks = placed("ticks", np.nan)
    return Samples(
        index,
        [level for level, _ in item_places],
        [item for _, item in item_places],
        rows["scope"][item_rows].tolist(),
        rows["op"][item_rows].tolist(),
        ticks,
        logarithms(ticks),
        placed("resolution", np.nan),
        placed("is_coarse", False),
        placed("calls", np.nan),
        [*capture_places],
        rows["side"][capture_rows].tolist(),
        rows["position"][capture_rows],
        placed("slow_ticks", np.nan),
    )


def logarithms(ticks: Numbers) -> Numbers:
    """Return natural logarithms; NaN of 0."""
    return np.log(ticks, out=np.full_like(ticks, np.nan), where=ticks > 0)


def medians(values: Numbers) -> Numbers:
    """Return the median of each row without its NaN."""
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    ordered, counts = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    low, high = (np.maximum(counts - 1, 0) // 2)[:, None], np.minimum(counts // 2, values.shape[1] - 1)[:, None]
    both = np.take_along_axis(ordered, low, axis=1) + np.take_along_axis(ordered, high, axis=1)
    return np.where(counts > 0, both[:, 0] / 2, np.nan)


def median(values: Any) -> float:
    """Return the median without NaN; NaN of nothing."""
    return float(medians(np.asarray(values, np.float64)[None])[0])
