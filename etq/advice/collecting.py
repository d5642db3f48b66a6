"""Collects the findings about captures: one per cause, the most severe first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from etq import catalog
from etq.advice.evidence import Scale
from etq.advice.finding import SEVERITIES, Finding

TRACE: Final = "torch_trace"
# The columns of the rows of advice.
COLUMNS: Final = tuple(column.name for column in catalog.named("advice").columns)
Row = tuple[Any, ...]
_IDLE: Final = "device idle"
_PATH: Final = "critical path"


def rows(findings: Iterable[Finding], scale: Scale) -> list[Row]:
    """Return findings as rows, the most severe first, one per cause."""
    kept = sorted(distinct([*findings]), key=_place)
    return [
        (
            *(finding.rule, finding.severity, finding.text, finding.evidence),
            None if finding.ticks is None else scale.of(finding.ticks),
            finding.share_percent,
            None if finding.share_percent is None or finding.whole is None else finding.whole.removeprefix("of "),
            finding.remedy,
            None if finding.ticks is None else scale.unit,
        )
        for finding in kept
    ]


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings to keep. If several rules have findings with the same cause, keep those of the rule with the
    most time.

    Findings about idle devices are always kept. If idle time is a fifth of the whole, they replace other findings with
    the same cause. A finding about low utilization is dropped if idle time is a fifth, or if the host has half of the
    critical path, because these say why.
    """
    shares = [finding.share_percent or 0.0 for finding in findings if finding.rule == _IDLE]
    of_host = [finding.share_percent or 0.0 for finding in findings if finding.rule == _PATH and _is_of_host(finding)]
    tells_why = max(shares, default=0.0) >= 20 or max(of_host, default=0.0) >= 50

    def rank(finding: Finding) -> tuple[bool, float, str]:
        share = finding.share_percent
        is_first = finding.rule == _IDLE and share is not None and share >= 20
        return not is_first, float("inf") if share is None else -share, finding.rule

    first = {finding.cause: finding for finding in sorted(findings, key=rank, reverse=True)}
    return [
        finding
        for finding in findings
        if not (finding.rule == "gpu utilization" and tells_why)
        and (finding.rule == _IDLE or finding.cause is None or finding.rule == first[finding.cause].rule)
    ]


def _is_of_host(finding: Finding) -> bool:
    """Whether a finding about the critical path names what the host does."""
    # Imported here, as only traces have such findings.
    from etq.advice.trace_evidence import OF_HOST

    return finding.cause is not None and finding.cause.split(" ")[0] in OF_HOST


def _place(finding: Finding) -> tuple[int, float, str, str]:
    share = finding.share_percent
    return SEVERITIES.index(finding.severity), float("-inf") if share is None else -share, finding.rule, finding.text
