"""The linear model of series: a level, steps, and bends (from a bend on, the series grows), under white and slow noise.

Many series of one length are fitted at once. Rows of an array are series; a column of `Basis` is a step or a bend at a
place. The columns that are chosen for a series are given as a row of their numbers; -1 stands for none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from etq.verdicts.arithmetic import DEVIATION, Flags, Numbers, medians

# The fewest builds of a level (fewer builds are outliers), and of growth that begins later than the series.
LEAST: Final = 3
LONG: Final = 8
# The probability that a step or bend is found in a series without changes is less than this.
CHANCE: Final = 0.01
# The number of further builds with which a prediction is made: the change that they would show.
NEW: Final = 5
# Prices in -2 log likelihood: of a step or bend; of its place, times ln(n) as in Schwarz's criterion; of anything but a
# bend of the whole series; of slow noise.
PRICE: Final = 6.0
PLACE: Final = 2.5
ANYWHERE: Final = 4.0
SLOW: Final = 6.0
# The most steps and bends.
MOST: Final = 12
# The prior degrees of freedom of the noise.
PRIOR: Final = 2.0
# The limit, in standard deviations, at which deviations of builds from their neighbours are clipped.
CLIP: Final = 3.0
# Slow noise: its share of the variance, and the correlation of neighbours.
SHAPES: Final = ((0.0, 0.0), *((share, r) for share in (0.4, 0.9) for r in (0.7, 0.95)))
# The number of rows that are fitted at once, so that their arrays fit into the processor's cache.
ROWS: Final = 512

Places = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


class Columns(NamedTuple):
    """The steps and bends of a length: first all steps, then all bends."""

    places: Places
    is_bend: Flags
    prices: Numbers
    is_free: Flags  # whether the place is far enough from the ends
    near: Flags  # pairs of columns that are too near to each other to be chosen both


class Basis(NamedTuple):
    """The matrices that rows of one length, noise, errors and period share."""

    precision: Numbers  # the inverse of the noise's covariance, after removing the part that levels explain
    gram: Numbers  # products of columns under that inverse
    price: float  # the logarithm of the determinant, and the prices of slow noise and of a period


@lru_cache(maxsize=256)
def columns_of(n: int) -> Columns:
    places, is_bend = np.r_[1:n, 0 : n - 1], np.arange(2 * n - 2) >= n - 1
    whole, apart = is_bend & (places == 0), np.where(is_bend, LONG, LEAST)
    near = (np.abs(places[:, None] - places) < apart[:, None]) & (is_bend[:, None] == is_bend)
    prices = PRICE + PLACE * math.log(n) + ANYWHERE * ~whole
    return Columns(places, is_bend, prices, whole | (np.minimum(places, n - places) >= apart), near)


@lru_cache(maxsize=32)
def noise_of(n: int, shape: tuple[float, float], errors: bytes | None) -> Basis:
    """Return the basis of series without a level; `errors` are the variances of the builds in units of their mean, None
    if they are equal.
    """
    (share, r), t = shape, np.arange(n)
    own = np.ones(n) if errors is None else np.frombuffer(errors)
    precision = np.linalg.inv((1 - share) * np.diag(own) + share * r ** np.abs(t[:, None] - t))
    price = math.log(precision.sum()) - float(np.linalg.slogdet(precision)[1]) + SLOW * (share > 0)
    return Basis(precision, _products(_products(precision).T), price)


@lru_cache(maxsize=96)
def basis_of(n: int, shape: tuple[float, float], errors: bytes | None, period: int) -> Basis:
    """Return the basis of series with a level, or one for each phase of a period."""
    precision, gram, price = noise_of(n, shape, errors)
    of_levels = np.stack([precision[phase::period].sum(axis=0) for phase in range(period)])
    inner = np.stack([of_levels[:, phase::period].sum(axis=1) for phase in range(period)])
    explaining, products = np.linalg.solve(inner, of_levels), _products(of_levels)
    price += (period > 1) * ((period - 1) * math.log(n) + PRICE)
    explained = products.T @ np.linalg.solve(inner, products)
    return Basis(precision - of_levels.T @ explaining, gram - explained, price)


def _products(values: Numbers) -> Numbers:
    """Return the products of rows with all columns. The product with a step is the sum from its place on; the product
    with a bend is the sum of the products with later steps.
    """
    rows, n = values.shape
    found = np.empty((rows, 2 * n - 2))
    backwards = found[:, n - 2 :: -1], found[:, : n - 2 : -1]
    np.cumsum(values[:, :0:-1], axis=1, out=backwards[0])
    np.cumsum(backwards[0], axis=1, out=backwards[1])
    return found


@dataclass
class Rows:
    """Rows of series under one kind of noise, and the columns chosen for them."""

    columns: Columns
    gram: Numbers  # rows of each basis
    basis: Places  # the basis of each row
    price: Numbers
    cross: Numbers
    squares: Numbers
    prior: Numbers
    period: int
    chosen: Places
    score: Numbers

    @classmethod
    def of(
        cls, y: Numbers, floor: Numbers, shape: tuple[float, float], errors: Sequence[bytes | None], period: int
    ) -> Rows:
        numbers = {each: number for number, each in enumerate(dict.fromkeys(errors))}
        bases = [basis_of(y.shape[1], shape, each, period) for each in numbers]
        basis, z = np.array([numbers[each] for each in errors], np.intp), np.empty_like(y)
        for number, each in enumerate(bases):
            rows = basis == number if len(bases) > 1 else slice(None)
            z[rows] = y[rows] @ each.precision
        squares = (y * z).sum(axis=1)
        grams = np.stack([each.gram for each in bases]) if len(bases) > 1 else bases[0].gram[None]
        made = cls(
            columns_of(y.shape[1]), grams, basis,
            np.array([each.price for each in bases])[basis], _products(z), squares, PRIOR * floor**2, period,
            np.full((len(y), 0), -1), squares,
        )  # fmt: skip
        made.score = made.scored(squares, made.chosen)
        return made

    @property
    def length(self) -> int:
        return len(self.columns.places) // 2 + 1

    @property
    def freedom(self) -> float:
        return self.length - 1 + PRIOR

    def at(self, rows: Places | Flags) -> Rows:
        """Return some of the rows."""
        names = ("basis", "price", "cross", "squares", "prior", "chosen", "score")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def scored(self, squares: Numbers, chosen: Places) -> Numbers:
        """Return -2 log likelihood with its penalties."""
        paid = np.where(chosen >= 0, self.columns.prices[chosen], 0).sum(axis=1)
        return np.asarray(self.freedom * np.log(np.maximum(squares, 0) + self.prior) + self.price + paid)

    def lengths(self) -> Numbers:
        """The squared lengths of columns."""
        return np.asarray(np.einsum("bcc->bc", self.gram)[self.basis])

    def beside(self, chosen: Places) -> tuple[Numbers, Numbers, Numbers]:
        """Return cross products, squared lengths of columns and squares of rows, after removing the part that chosen
        columns explain.

        `found` has the products of the chosen columns with all columns; the chosen columns were made orthonormal one
        after the other.
        """
        rows = np.arange(len(chosen))
        cross, squares = self.cross.copy(), self.squares.copy()
        lengths = self.lengths()
        found: list[Numbers] = []
        for column in chosen.T:
            at = np.maximum(column, 0)
            product = self.gram[self.basis, at]
            for other in found:
                product -= other * other[rows, at][:, None]
            size = (column >= 0) / np.sqrt(np.maximum(lengths[rows, at], 1e-12))
            product *= size[:, None]
            explained = cross[rows, at] * size
            cross -= product * explained[:, None]
            lengths -= product**2
            squares -= explained**2
            found.append(product)
        return cross, lengths, squares

    def best(self, chosen: Places, has_bends: bool = True) -> tuple[Places, Numbers, Numbers]:
        """Return the best further column of each row, the score with that column, and the score without it."""
        columns = self.columns
        cross, lengths, squares = self.beside(chosen)
        can = columns.is_free & (has_bends | ~columns.is_bend) & (lengths > 1e-7 * self.lengths() + 1e-12)
        for column in chosen.T:
            can &= ~(columns.near[np.maximum(column, 0)] & (column >= 0)[:, None])
        left = np.where(can, np.maximum(squares[:, None] - cross**2 / np.maximum(lengths, 1e-12), 0), np.inf)
        # All columns have one price but the bend of the whole series.
        rows, whole = np.arange(len(left)), self.length - 1
        left_by_whole, left[:, whole] = left[:, whole].copy(), np.inf
        column = left.argmin(axis=1)
        scores = [
            self.freedom * np.log(each + self.prior) + columns.prices[at]
            for each, at in ((left[rows, column], column), (left_by_whole, whole))
        ]
        without = self.scored(squares, chosen)
        paid = without - self.freedom * np.log(np.maximum(squares, 0) + self.prior)
        return np.where(scores[1] < scores[0], whole, column), np.minimum(*scores) + paid, without

    def grown(self, has_bends: bool = True) -> Rows:
        """Choose steps and bends one by one while the score falls."""
        active = np.arange(len(self.chosen))
        while len(active) and self.chosen.shape[1] < min(MOST, self.length // 3):
            part = self.at(active)
            column, score, _ = part.best(part.chosen, has_bends)
            is_better = score < part.score - 1e-9
            active = active[is_better]
            if len(active):
                more = np.full((len(self.chosen), 1), -1)
                more[active, 0] = column[is_better]
                self.chosen, self.score[active] = np.hstack([self.chosen, more]), score[is_better]
        return self

    def moved(self) -> Rows:
        """Move each step and bend, one at a time, to a place where it explains more, or drop it."""
        for place in range(self.chosen.shape[1]):
            if len(rows := np.flatnonzero(self.chosen[:, place] >= 0)):
                part = self.at(rows)
                part.chosen[:, place] = -1
                column, score, without = part.best(part.chosen)
                self.chosen[rows, place] = np.where(score < without, column, -1)
                self.score[rows] = np.minimum(score, without)
        return self

    def tested(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return the coefficients of the chosen columns, their standard errors, and their p-values: the probability of
        such a column at any of n places.
        """
        at, is_there = np.maximum(self.chosen, 0), self.chosen >= 0
        gram = self.gram[self.basis[:, None, None], at[:, :, None], at[:, None, :]]
        unit = np.eye(self.chosen.shape[1])
        inverse = np.linalg.pinv(np.where(is_there[:, :, None] & is_there[:, None, :], gram, unit), hermitian=True)
        cross = np.where(is_there, np.take_along_axis(self.cross, at, axis=1), 0)
        b = (inverse @ cross[:, :, None])[:, :, 0]
        freedom = np.maximum(1.0, self.freedom - is_there.sum(axis=1) - self.period)[:, None]
        left = np.maximum(self.squares - (cross * b).sum(axis=1), 0) + self.prior
        errors = np.sqrt(left[:, None] / freedom * np.einsum("rkk->rk", inverse))
        z = np.sqrt(freedom * np.log1p((b / errors) ** 2 / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)  # Wallace
        p = [[math.erfc(each / math.sqrt(2)) for each in row] for row in z.tolist()]
        return b, errors, np.minimum(1, self.length * np.reshape(p, z.shape))

    def error_of_last(self) -> Numbers:
        """Return the standard error that a step of the last five builds would have."""
        freedom = np.maximum(1.0, self.freedom - (self.chosen >= 0).sum(axis=1) - self.period)
        length = self.lengths()[:, self.length - 1 - NEW]
        return np.asarray(np.sqrt((np.maximum(self.beside(self.chosen)[2], 0) + self.prior) / freedom / length))

    def pruned(self, least: Numbers) -> Rows:
        """Remove the least clear step or bend and move the others, until all are clear and all steps are at least
        `least`.
        """
        active = np.flatnonzero((self.chosen >= 0).any(axis=1))
        while len(active):
            part = self.at(active)
            b, _, p = part.tested()
            is_small = ~self.columns.is_bend[part.chosen] & (np.abs(b) < least[active][:, None])
            failed = (part.chosen >= 0) & ((p >= CHANCE) | is_small)
            worst, failing = np.where(failed, p - 1e-9 * np.abs(b), -1).argmax(axis=1), np.asarray(failed.any(axis=1))
            part.chosen[failing, worst[failing]] = -1
            part, active = part.at(failing).moved(), active[failing]
            self.chosen[active], self.score[active] = part.chosen, part.score
        return self


class Column(NamedTuple):
    """A step or bend of a series: from build `place` on, the series is higher by `size`, or grows by `size` per
    build.
    """

    place: int
    is_bend: bool
    size: float
    error: float
    p: float


class Model(NamedTuple):
    """The model found for a series: its columns, and for each build the growth and the effect of a period or a
    state.
    """

    columns: list[Column]
    slopes: Numbers
    other: Numbers
    seen: float  # the error of a step of the last five builds


# Rows of series, and their fits under one noise.
Fits = list[tuple[Places, Rows]]


def trimmed_sd(differences: Numbers) -> Numbers:
    """Return the standard deviation of the values of each row, estimated from the differences between neighbours. The
    largest fifth of the differences is left out.
    """
    kept = max(1, math.ceil(0.8 * differences.shape[1]))
    return np.asarray(np.sqrt(np.partition(differences**2, kept - 1, axis=1)[:, :kept].mean(axis=1) / 2 / 0.438))


def modelled(y: Numbers, errors: Sequence[bytes | None], floor: Numbers, least: Numbers) -> list[Model]:
    """Return the model of each row of series.

    errors  the errors of the builds, as in `basis_of`
    floor   the noise that is assumed initially
    least   the smallest step that counts
    """
    return [
        model
        for at in range(0, len(y), ROWS)
        for model in _modelled(y[at : at + ROWS], errors[at : at + ROWS], floor[at : at + ROWS], least[at : at + ROWS])
    ]


def _modelled(y: Numbers, errors: Sequence[bytes | None], floor: Numbers, least: Numbers) -> list[Model]:
    fits, states = _with_states(y, errors, floor)
    fits = [(rows, fit.pruned(least[rows])) for rows, fit in fits]
    _, growth, phases = _parts(fits, y - states)
    slopes = np.diff(growth, axis=1, prepend=growth[:, :1])
    # After growth has ended, a small slope may remain.
    size = np.abs(slopes)
    most = size.max(axis=1, keepdims=True)
    slopes[(size < most) & ((size * y.shape[1] < least[:, None]) | (size < most / 4))] = 0
    other = states + phases - phases.mean(axis=1, keepdims=True)
    columns: list[list[Column]] = [[] for _ in y]
    seen = np.zeros(len(y))
    for rows, fit in fits:
        seen[rows] = fit.error_of_last()
        parts = (fit.chosen, fit.columns.places[fit.chosen], fit.columns.is_bend[fit.chosen], *fit.tested())
        for row, *each in zip(rows.tolist(), *(part.tolist() for part in parts), strict=True):
            columns[row] = sorted(Column(*column) for chosen, *column in zip(*each, strict=True) if chosen >= 0)
    return [Model(*each) for each in zip(columns, slopes, other, seen.tolist(), strict=True)]


def _with_states(y: Numbers, errors: Sequence[bytes | None], floor: Numbers) -> tuple[Fits, Numbers]:
    """Return fits of series, and the effect of two states on each build. The effect is removed before fitting if the
    states make the fit likelier.
    """
    rows = every = np.arange(len(y))
    states, best = np.zeros_like(y), fitted(y, every, errors, floor)
    last, score = best, _scores(best, len(y))
    for _ in range(2 if y.shape[1] >= 12 else 0):
        found, price, has_states = states_of((y - sum(_parts(last, y)))[rows], floor[rows])
        rows, found, price = rows[has_states], found[has_states], price[has_states]
        if not len(rows):
            break
        rest = y.copy()
        rest[rows] -= found
        last = fitted(rest, rows, errors, floor)
        new = _scores(last, len(y))[rows] + price
        is_better = new < score[rows]
        at = rows[is_better]
        score[at], states[at] = new[is_better], found[is_better]
        best = _only(best, ~np.isin(every, at)) + _only(last, np.isin(every, at))
    return best, states


def _only(fits: Fits, chosen: Flags) -> Fits:
    """Return the fits of chosen rows."""
    return [(rows[chosen[rows]], fit.at(chosen[rows])) for rows, fit in fits if chosen[rows].any()]


def _scores(fits: Fits, count: int) -> Numbers:
    scores = np.full(count, np.inf)
    for rows, fit in fits:
        scores[rows] = fit.score
    return scores


def _parts(fits: Fits, y: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return the fitted parts of each build: its steps, its growth, and its level (with a period, the level of its
    phase).
    """
    steps, growth, phases = np.zeros_like(y), np.zeros_like(y), np.zeros_like(y)
    t = np.arange(y.shape[1])
    for rows, fit in fits:
        sizes = np.where(fit.chosen >= 0, fit.tested()[0], 0)
        for column, size in zip(fit.chosen.T, sizes.T, strict=True):
            after, is_bend = t - fit.columns.places[column][:, None], fit.columns.is_bend[column][:, None]
            steps[rows] += np.where(is_bend, 0, after >= 0) * size[:, None]
            growth[rows] += np.where(is_bend, np.maximum(0, after), 0) * size[:, None]
        rest = y[rows] - steps[rows] - growth[rows]
        for phase in range(fit.period):
            phases[rows, phase :: fit.period] = medians(rest[:, phase :: fit.period])[:, None]
    return steps, growth, phases


def fitted(y: Numbers, rows: Places, errors: Sequence[bytes | None], floor: Numbers) -> Fits:
    """Return fits of some rows, each under the likeliest noise, with or without a period."""
    z = y[rows]
    sd = np.maximum(trimmed_sd(np.diff(z)), floor[rows])
    middle = running_medians(z)
    z = middle + np.clip(z - middle, -CLIP * sd[:, None], CLIP * sd[:, None])
    periods, fits = periods_of(z, sd), []
    for period in np.unique(np.r_[1, periods]):
        at = np.flatnonzero((periods == period) | (period == 1))
        for shape in SHAPES:
            fit = Rows.of(z[at], floor[rows[at]], shape, [errors[row] for row in rows[at]], int(period)).grown()
            fits.append((at, fit))
            # Several steps in one direction look like growth at first.
            has_bends = np.asarray((fit.columns.is_bend[fit.chosen] & (fit.chosen >= 0)).any(axis=1))
            if has_bends.any():
                of_steps = replace(fit.at(has_bends), chosen=np.full((has_bends.sum(), 0), -1))
                of_steps.score = of_steps.scored(of_steps.squares, of_steps.chosen)
                fits.append((at[has_bends], of_steps.grown(has_bends=False)))
    owner = np.stack([_scores([each], len(z)) for each in fits]).argmin(axis=0)
    of_best = [(at[owner[at] == place], fit.at(owner[at] == place)) for place, (at, fit) in enumerate(fits)]
    return [(rows[at], fit.moved()) for at, fit in of_best if len(at)]


def running_medians(y: Numbers) -> Numbers:
    """Return the running medians of five neighbours; near an end, the median of the five values at that end."""
    a, b, c, d, e = (y[:, at : y.shape[1] - 4 + at] for at in range(5))
    low = np.maximum(np.minimum(a, b), np.minimum(c, d))
    high = np.minimum(np.maximum(a, b), np.maximum(c, d))
    middle = np.maximum(np.minimum(low, high), np.minimum(np.maximum(low, high), e))
    return np.pad(middle, ((0, 0), (2, 2)), mode="edge")


def periods_of(y: Numbers, sd: Numbers) -> Places:
    """Return the period of a regular load in each row; 1 without such a load. Differences are used because steps and
    growth hardly affect them.
    """
    d, n = np.clip(np.diff(y), -CLIP * sd[:, None], CLIP * sd[:, None]), y.shape[1]
    d -= d.mean(axis=1, keepdims=True)
    best, found, squares = np.zeros(len(y)), np.ones(len(y), np.intp), np.maximum((d**2).sum(axis=1), 1e-300)
    for period in range(2, min(14, n // 4) + 1):
        explained = sum(
            d[:, phase::period].sum(axis=1) ** 2 / len(range(phase, n - 1, period)) for phase in range(period)
        )
        score = n * np.log(np.maximum(1 - explained / squares, 1e-9)) + (period - 1) * math.log(n) + PRICE
        best, found = np.minimum(best, score), np.where(score < best, period, found)
    return found


def states_of(rest: Numbers, floor: Numbers) -> tuple[Numbers, Numbers, Flags]:
    """Find the rows that often alternate between two states. Return how far each build is above the lower state, the
    price, and which rows these are.
    """
    n, order = rest.shape[1], np.sort(rest, axis=1)
    k, sums = np.arange(1, n), np.cumsum(order, axis=1)
    apart = (sums[:, :-1] / k - (sums[:, -1:] - sums[:, :-1]) / (n - k)) ** 2 * k * (n - k)
    apart[:, np.minimum(k, n - k) < max(4, n / 10)] = 0
    at, rows = apart.argmax(axis=1), np.arange(len(rest))
    upper = rest > (order[rows, at] + order[rows, at + 1])[:, None] / 2
    low, high = (medians(np.where(side, rest, np.nan)) for side in (~upper, upper))
    spread = DEVIATION * medians(np.abs(rest - np.where(upper, high[:, None], low[:, None])))
    share = np.clip(upper.mean(axis=1), 1 / n, 1 - 1 / n)
    price = PRICE - 2 * n * (share * np.log(share) + (1 - share) * np.log(1 - share))
    has_states = (np.diff(upper, axis=1).sum(axis=1) >= 6) & (high - low >= 4 * np.maximum(spread, floor))
    return (high - low)[:, None] * upper, price, has_states
