"""A finding: what advice says about a capture, and its evidence."""

from __future__ import annotations

from typing import Final, NamedTuple

SEVERITIES: Final = ("high", "medium", "low")


class Finding(NamedTuple):
    """A finding about a capture.

    rule      the rule that applies
    severity  one of `SEVERITIES`
    text      what was found, in a sentence
    evidence  the ops, instructions, intervals, runs or views that show it, and what they add up to
    remedy    what to do; empty where nothing is known that helps
    cause     what takes the time, in a word; None if the evidence doesn't show it
    ticks     the time that a remedy can save at most, in ticks of the capture: per run a mean; of traces, in the whole
              trace; None for findings that are not about time
    whole     what the share of that time is of, as in "33 % of the executes"
    whole_ticks  its time
    percent   the share where it isn't that of `ticks` in `whole_ticks`, such as a median of shares
    ranks     for a finding about a job, the ranks that it is about
    """

    rule: str
    severity: str
    text: str
    evidence: str
    remedy: str = ""
    cause: str | None = None
    ticks: float | None = None
    whole: str | None = None
    whole_ticks: float | None = None
    percent: float | None = None
    ranks: tuple[int, ...] = ()

    @property
    def share_percent(self) -> float | None:
        """The time at stake in percent of the whole."""
        if self.percent is not None:
            return self.percent
        return None if self.ticks is None or not self.whole_ticks else 100 * self.ticks / self.whole_ticks


# The share of a recording, in percent, below which nothing is severe: no comparison of two builds detects it.
_LEAST: Final = 1.0


def severity_of(share_percent: float, recorded_percent: float = 100.0) -> str:
    """Return the severity of a finding by its share of the whole: high from a fifth, which justifies a change of the
    model or its lowering; medium from a twentieth, which a comparison of two builds detects with five captures per
    side. It is low if the time is a negligible part of the recording.
    """
    if recorded_percent < _LEAST:
        return "low"
    return "high" if share_percent >= 20 else "medium" if share_percent >= 5 else "low"


def at_most_medium(severity: str) -> str:
    """Return a severity, with high reduced to medium."""
    return "medium" if severity == "high" else severity
