"""Series of captures: the labels that separate and order them, what is judged, and changes in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.database.nearest import unknown_key
from etq.errors import ArgumentError

if TYPE_CHECKING:
    from etq.database.handles import Answers

# The default of `by` of views over series.
BY: Final = "model,device,backend"
# The stages of changes, as `regressions` has them.
KEPT, OPEN, REVERTED, STATE = "kept", "not kept yet", "reverted", "one of two levels"


class Judged(NamedTuple):
    """The captures of a series, and how many of its builds have a value."""

    series: str
    ordered_by: str
    captures: int
    unordered: int
    lacking: int  # captures with an order, but without a value
    few: int  # captures with a value, in a series of too few builds
    mixed: str | None  # a build whose captures have different ops
    beside: int = 0  # captures with a value, among too few builds before or after an accepted change


@dataclass(frozen=True)
class Series:
    """The series that a selector chooses, and what captures without a value lack."""

    over: str | None
    rows: Sequence[Judged]
    lack: str

    @property
    def captures(self) -> int:
        return sum(row.captures for row in self.rows)

    @property
    def orders(self) -> dict[str, str]:
        """What orders each series."""
        return {row.series: row.ordered_by for row in self.rows}

    @property
    def order(self) -> str:
        """What orders captures: the key of a label, captured_at, or several of these."""
        known = {row.ordered_by for row in self.rows if row.captures > row.unordered}
        return " or ".join(sorted(known) or [self.over or "captured_at"])

    def of_trend(self, item: str | None, captures: Iterable[Mapping[str, Any]]) -> Series:
        """Return the series of an item, or of totals, with the captures of `trend`."""
        from etq.verdicts.fits import LONG

        found: dict[str, list[Mapping[str, Any]]] = {row.series: [] for row in self.rows}
        for capture in captures:
            if (capture["normalized"] or 0) > 0:
                found[capture["series"]].append(capture)
        rows = []
        for row in self.rows:
            known = found[row.series]
            short = sum(capture["shown_percent"] is None for capture in known)
            is_short = len({capture["label"] for capture in known}) < LONG
            few, beside = (short, 0) if is_short else (0, short)
            lacking = row.captures - row.unordered - len(known)
            rows.append(row._replace(lacking=lacking, few=few, beside=beside))
        return Series(self.over, rows, self.lack if item is None else f"no value of {item} above 0")

    @property
    def not_judged(self) -> dict[str, int]:
        """The numbers of captures that are not judged, by reason."""
        from etq.verdicts.fits import LONG

        order = "order" if self.over is None else "captured_at" if self.over == "captured_at" else f"label {self.over}"
        given = "the label build: a number, version or date" if self.over is None else "it"
        counts = {
            f"no {order} (etq label adds {given})": sum(row.unordered for row in self.rows),
            self.lack: sum(row.lacking for row in self.rows),
            f"in series of fewer than {LONG} builds": sum(row.few for row in self.rows),
            f"in fewer than {LONG} builds before or after an accepted change": sum(row.beside for row in self.rows),
        }
        return {why: count for why, count in counts.items() if count}

    @property
    def missing(self) -> str | None:
        """A sentence on which captures are not judged, and why; None if all are."""
        counts = self.not_judged
        reasons = [*counts] if len(counts) == 1 else [f"{count:,} {why}" for why, count in counts.items()]
        if not counts:
            return None
        return f"{sum(counts.values()):,} of {self.captures:,} captures not judged: {', '.join(reasons)}"

    @property
    def judged(self) -> int:
        """How many captures are judged."""
        return self.captures - sum(self.not_judged.values())

    @property
    def mixed(self) -> str | None:
        """A sentence on the first series in which captures of one build have different ops; None if none has."""
        mixed = ((row.series, row.ordered_by, row.mixed) for row in self.rows if row.mixed is not None)
        return next((of_mixed(*each) for each in mixed), None)

    def unchanged(self, what: str = "change") -> str:
        """Return a sentence that says that judged captures show no change; it says nothing about other captures."""
        if self.missing is None:
            return f"no {what} in {self.judged:,} captures"
        return f"no {what} in the {self.judged:,} captures judged; {self.missing}" if self.judged else self.missing


def of_mixed(series: str, key: str, label: str) -> str:
    """That captures of one build of a series, the label of a key, have different ops."""
    return (
        f"captures of {key} {label} in the series {series or '(all)'} have different ops: if they ran different "
        "programs, add a label that tells them apart, such as model"
    )


def check_keys(warehouse: Answers, options: Mapping[str, Any]) -> None:
    """Raise `EtqError` for a key in the options `over` and `by` that isn't the key of a label."""
    keys = [each for (each,) in warehouse.rows("SELECT DISTINCT l.key FROM labels AS l ORDER BY 1")[1]]
    given = [*([options["over"]] if options.get("over") not in (None, "captured_at") else [])]
    given += [key.strip() for key in (options.get("by") or "").split(",") if key.strip()]
    for key in given:
        if key not in keys:
            raise ArgumentError(unknown_key(key, keys))


def series_of(
    warehouse: Answers, selector: str | None, over: str | None, by: str | None, phase: str | None = None
) -> Series:
    """Return the series of captures. A capture has a value if it has a total, of runs of the phase if one is given.

    Raises `QueryError` if captures have nothing to order by, or none matches the selector.
    """
    from etq.verdicts.fits import LONG

    query = """
        WITH placed AS MATERIALIZED (FROM _series_labels($selector, $over, $by)),
        mixed AS (SELECT b.series, min(b.label) AS label FROM _builds_of_programs('placed') AS b GROUP BY b.series)
        SELECT s.series, any_value(s.ordered_by), count(*), count(*) FILTER (WHERE s.label IS NULL),
            count(*) FILTER (WHERE s.label IS NOT NULL AND t.capture_id IS NULL),
            CASE
                WHEN count(DISTINCT s.label) FILTER (WHERE t.capture_id IS NOT NULL) < $long
                THEN count(*) FILTER (WHERE s.label IS NOT NULL AND t.capture_id IS NOT NULL)
                ELSE 0
            END,
            any_value(m.label)
        FROM placed AS s
        LEFT JOIN mixed AS m USING (series)
        LEFT JOIN (
            SELECT DISTINCT o.capture_id FROM op_times AS o
            WHERE o.op_index = 0 AND o.p25 > 0 AND o.phase IS NOT DISTINCT FROM _checked_phase($phase)
        ) AS t USING (capture_id)
        GROUP BY s.series
        ORDER BY s.series
    """
    given = {"selector": selector, "over": over, "by": BY if by is None else by, "phase": phase, "long": LONG}
    rows = [Judged(*row) for row in warehouse.rows(query, **given)[1]]
    return Series(over, rows, "no times" if phase is None else f"no times of phase {phase}")


def counted(changes: Sequence[Mapping[str, Any]]) -> str:
    """How many changes there are of each verdict and stage: of totals and ops, not of single instances."""
    counts: dict[str, int] = {}
    for change in changes:
        if change["what"] != "instance" and not change["is_accepted"]:
            name = change["verdict"] if change["stage"] == KEPT else change["stage"]
            counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def is_part(op: Mapping[str, Any], total: Mapping[str, Any]) -> bool:
    """Whether a change of an op may be a part of the total's: steps within 2 captures of each other, and all changes
    during a creep of the total, as in `causes`. Both are rows of `regressions`.
    """
    if op["series"] != total["series"]:
        return False
    if total["kind"] != "creep":
        return bool(abs(op["position"] - total["position"]) <= 2)
    last, end = (row["position"] + (row["captures_after"] - 1) * (row["kind"] == "creep") for row in (total, op))
    return bool(op["position"] <= last + 2 and end >= total["position"] - 2)


def change_text(change: Mapping[str, Any], label: str, capture: str | None, p: str) -> str | None:
    """Return a change of a trend in words; None for a return, which the words of the reverted change include."""
    at = f"{short(label)} ({capture})" if capture else short(label)
    size, good = f"{change['change_percent']:+.1f} %", short(change["last_good"])
    if change["stage"] == "returned":
        return None
    if change["kind"] == "creep":
        later = "" if change["stage"] == KEPT else f", {change['builds_after']} builds: {OPEN}"
        return f"{size} from {good} to {at}, in small steps{later}; p {p}"
    if change["stage"] == STATE and change["condition"] is not None:
        levels = f"the machine has had two levels, {abs(change['change_percent']):.1f} % apart"
        return f"{levels}: since {at}, {change['condition']}"
    if change["stage"] == STATE:
        return f"the series goes between two levels, {abs(change['change_percent']):.1f} % apart, last at {at}"
    if change["stage"] == OPEN:
        return f"{size} since {at}, {builds(change['builds_after'])}: {OPEN}; last good {good}; p {p}"
    back = f"; reverted at {short(change['reverted_at'])}" if change["reverted_at"] is not None else ""
    return f"{size} at {at}, last good {good}; p {p}{back}"


def shown_text(percent: float | None) -> str | None:
    """Return a sentence that says which change the next builds would show."""
    from etq.verdicts.fits import NEW

    return None if percent is None else f"{NEW} more builds would show a change of {percent:.2g} %"


def builds(count: int) -> str:
    return f"{count} build{'' if count == 1 else 's'}"


def short(label: str) -> str:
    """Return a label as people write it: a commit is shortened to its first 12 digits."""
    return label[:12] if re.fullmatch("[0-9a-f]{40}", label) else label
