"""The samples of a comparison as arrays: a row per item, a column per capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from etq.verdicts.arithmetic import Flags, Numbers, Places, Texts

# A change is visible if it is at least this many steps of a coarse clock. It isn't one step, because times of both
# sides are rounded to a step, and then divided by the common shift.
SEEN: Final = 1.5
# A change of 2 % (the smallest that counts) isn't visible in times of fewer steps than the first number. Times of fewer
# than 50 steps don't show the state of the machine.
COARSE, ROUGH = 75, 50


@dataclass(frozen=True)
class Samples:
    """The time of each item in each capture: a quantile over the capture's runs; NaN if the capture lacks the item.

    The levels of items are total (a whole method), op, module (of the model), and call (an op's time per call). Steps
    of a trace count as captures, too.
    """

    index: int  # the number of the comparison
    levels: Texts
    items: Texts
    scopes: Texts
    ops: Texts  # the op whose instance the item is
    ticks: Numbers
    slow_ticks: Numbers  # the quantile of the slowest tenth; NaN if slow runs aren't judged
    resolutions: Numbers  # the step of the clock
    calls: Numbers  # the op's mean calls in a step or execute; NaN if unknown
    is_other_graph: Flags  # by item: whether it is a call of a delegate that runs another graph on one side
    captures: list[tuple[int, int]]  # the key and step of each capture
    sides: Texts
    positions: Numbers  # the place in time; NaN if unknown
    is_trace: bool  # whether the times are those of traces' steps, else of dumps' executes

    def of_slow_runs(self) -> Samples | None:
        """The same samples, but for the slowest tenth of runs; None if slow runs aren't judged."""
        return replace(self, ticks=self.slow_ticks) if np.isfinite(self.slow_ticks).any() else None

    @cached_property
    def logs(self) -> Numbers:
        """Natural logarithms of ticks; NaN if ticks are 0 or NaN."""
        return np.log(self.ticks, out=np.full_like(self.ticks, np.nan), where=self.ticks > 0)

    @cached_property
    def is_rough(self) -> Flags:
        """Whether the clock is too coarse for this time to show the state of the machine."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.ticks < ROUGH * self.resolutions, np.bool_)

    @cached_property
    def is_base(self) -> Flags:
        return np.asarray(self.sides == "base", np.bool_)

    @cached_property
    def is_new(self) -> Flags:
        return np.asarray(self.sides == "new", np.bool_)

    def of_level(self, level: str) -> Flags:
        return np.asarray(self.levels == level, np.bool_)

    @cached_property
    def is_by_step(self) -> bool:
        return any(step > 0 for _, step in self.captures)

    @property
    def has_order(self) -> bool:
        """Whether it is known when the captures of both sides were measured."""
        return not bool(np.isnan(self.positions[self.is_base | self.is_new]).any())

    @property
    def is_apart(self) -> bool:
        """Whether one side was measured after the other."""
        return self.has_order and not self.is_interleaved

    @cached_property
    def is_interleaved(self) -> bool:
        """Whether the sides alternate in time at least as often as the smaller side has captures."""
        chosen = self.is_base | self.is_new
        return self.has_order and alternates(self.positions[chosen], self.is_new[chosen])


def alternates(positions: Numbers, is_new: Flags) -> bool:
    """Whether the sides alternate in time at least as often as the smaller side has captures."""
    sides = is_new[np.argsort(positions, kind="stable")]
    return int((sides[1:] != sides[:-1]).sum()) >= min(int(sides.sum()), int((~sides).sum()))


@dataclass(frozen=True)
class Table:
    """The rows of a comparison as a table: a row per item, in the order of levels and names, a column per capture."""

    index: int  # of the comparison
    columns: Mapping[str, Any]  # those of `_comparison_samples`
    rows: Places  # the row of each item and capture; -1 where the capture lacks the item
    sides: Texts  # of captures

    @cached_property
    def firsts(self) -> Places:
        """The first row of each item."""
        return np.asarray(np.where(self.rows < 0, np.iinfo(np.int64).max, self.rows).min(axis=1))

    @cached_property
    def of_captures(self) -> Places:
        """A row of each capture."""
        return np.asarray(self.rows.max(axis=0))

    def with_sides(self, sides: Texts) -> Table:
        """The table of the captures that have a side (not None), and of their items."""
        kept = np.flatnonzero(sides.astype(np.bool_))
        rows = self.rows[:, kept]
        return replace(self, rows=rows[(rows >= 0).any(axis=1)], sides=sides[kept])

    def samples(self, is_other_graph: Flags) -> Samples:
        """The samples; `is_other_graph` is a property of items, as in `Samples`."""
        has = self.rows >= 0
        of_items = {f"{name}s": self.columns[name][self.firsts] for name in ("level", "item", "scope", "op")}
        ticks, slow_ticks, resolutions, calls = (
            np.where(has, self.columns[name][self.rows], np.nan)
            for name in ("ticks", "slow_ticks", "resolution", "calls")
        )
        keys, steps, positions = (self.columns[name][self.of_captures] for name in ("capture_id", "step", "position"))
        captures = [*zip(keys.tolist(), steps.tolist(), strict=True)]
        return _with_calls(
            Samples(
                self.index,
                **of_items,
                ticks=ticks,
                slow_ticks=slow_ticks,
                resolutions=resolutions,
                calls=calls,
                is_other_graph=is_other_graph,
                captures=captures,
                sides=self.sides,
                positions=positions,
                is_trace=bool(self.columns["is_trace"][self.of_captures[0]]),
            )
        )


def tables(columns: Mapping[str, Any]) -> list[Table]:
    """Return the tables of comparisons, from rows that have the columns of `_comparison_samples`."""
    levels, items = _codes(columns["level"]), _codes(columns["item"])
    pairs = levels * (items.max(initial=0) + 1) + items
    keys = columns["capture_id"] * (columns["step"].max(initial=0) + 1) + columns["step"]
    has_times = columns["level"] != "none"
    found = []
    for index in np.unique(columns["comparison"][has_times]).tolist():
        chosen = np.flatnonzero((columns["comparison"] == index) & has_times)
        _, item_at = np.unique(pairs[chosen], return_inverse=True)
        _, capture_rows, capture_at = np.unique(keys[chosen], return_index=True, return_inverse=True)
        rows = np.full((item_at.max() + 1, len(capture_rows)), -1)
        rows[item_at, capture_at] = chosen
        found.append(Table(index, columns, rows, columns["side"][chosen[capture_rows]]))
    return found


def _codes(texts: Texts) -> Places:
    """Return a number for each text, in the order of the texts."""
    listed = texts.tolist()
    code_of = {text: code for code, text in enumerate(sorted({*listed}))}
    return np.fromiter(map(code_of.__getitem__, listed), np.int64, len(listed))


def _with_calls(samples: Samples) -> Samples:
    """Add rows of the level `call`, with times per call, for ops whose numbers of calls differ clearly. This means that
    every sample of one side calls the op more often than every sample of the other side.
    """
    sides = samples.calls[:, samples.is_base], samples.calls[:, samples.is_new]
    # If a side has no calls, its value is NaN, which is neither more nor less.
    (base_least, new_least), (base_most, new_most) = (
        [found.reduce(calls, axis=1, initial=np.nan) for calls in sides] for found in (np.fmin, np.fmax)
    )
    at = np.flatnonzero(((base_least > new_most) | (new_least > base_most)) & samples.of_level("op"))
    if not len(at):
        return samples
    of_all = ("index", "captures", "sides", "positions", "is_trace")
    of_rows = [field.name for field in fields(Samples) if field.name not in of_all]
    of_calls: dict[str, Any] = {name: getattr(samples, name)[at] for name in of_rows}
    of_calls |= {"levels": np.full(len(at), "call", np.object_), "slow_ticks": np.full(of_calls["ticks"].shape, np.nan)}
    of_calls |= {name: of_calls[name] / of_calls["calls"] for name in ("ticks", "resolutions")}
    joined: dict[str, Any] = {name: np.concatenate([getattr(samples, name), of_calls[name]]) for name in of_rows}
    return replace(samples, **joined)


def is_unseen(difference: float, resolution: float) -> bool:
    """Whether the difference of two times is too small for a clock of this resolution."""
    return abs(difference) < SEEN * resolution
