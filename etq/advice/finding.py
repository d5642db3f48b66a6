"""A finding: what advice says about a capture, and its evidence."""

from __future__ import annotations

from typing import Final, NamedTuple

SEVERITIES: Final = ("high", "medium", "low")


class Finding(NamedTuple):
    """A finding about a capture.

    rule      the rule that applies
    severity  one of `SEVERITIES`
    text      what was found, in a sentence
    evidence  the ops, instructions, intervals, runs or views that show it, with their sum
    remedy    what to do; empty if no remedy is known
    cause     what takes the time, in a word; None if the evidence doesn't show it
    ticks     the most time that a remedy can save, in ticks of the capture: for dumps the mean per run, for traces the
              sum over the trace; None for findings that are not about time
    whole     the whole of which `ticks` are a share, such as "of the executes"
    whole_ticks  the time of the whole
    percent   the share if it isn't `ticks` in percent of `whole_ticks`, such as a median of shares
    ranks     for a finding about a job, the ranks that it concerns
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


# The share of a recording, in percent, below which severity is low: no comparison of two builds detects it.
_LEAST: Final = 1.0


def severity_of(share_percent: float, recorded_percent: float = 100.0) -> str:
    """Return the severity of a finding by its share of the whole. It is high from a fifth on, which justifies a change
    of the model or its lowering. It is medium from a twentieth on, which a comparison of two builds detects with five
    captures per side. It is low if the time is a negligible part of the recording.
    """
    if recorded_percent < _LEAST:
        return "low"
    return "high" if share_percent >= 20 else "medium" if share_percent >= 5 else "low"


def at_most_medium(severity: str) -> str:
    """Return a severity, with high reduced to medium."""
    return "medium" if severity == "high" else severity
