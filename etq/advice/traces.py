"""Advice about PyTorch traces and jobs: rules on the evidence that SQL measures, but for those about kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from etq.advice.contract import Claim, judged
from etq.advice.finding import Finding
from etq.advice.trace_evidence import Evidence
from etq.advice.trace_idle import device_idle
from etq.advice.trace_path import critical_path
from etq.advice.trace_ranks import communication
from etq.advice.trace_setup import lost_kernels, setup
from etq.advice.trace_steps import compilation, data_loader, gpu_utilization

if TYPE_CHECKING:
    import duckdb

Rule = Callable[[Evidence], Iterator[Claim]]
# Rules about any trace, then those that need the times of devices.
_OF_STEPS: Final[Sequence[Rule]] = (data_loader, communication, compilation)
_OF_DEVICES: Final[Sequence[Rule]] = (device_idle, critical_path, gpu_utilization)
# A device that idles for so much of the time, in percent, says more than a low utilization.
_MUCH: Final = 20.0


def findings(connection: duckdb.DuckDBPyConnection, capture_key: int) -> list[Finding]:
    """Return the findings about a trace, of all causes; those about kernels are others'."""
    evidence = Evidence(connection, capture_key)
    found = [*lost_kernels(evidence), *setup(evidence)]
    rules = [*_OF_STEPS]
    # If a twentieth or more of the launches have no event, too much of the devices' time is missing.
    lost = evidence.lost
    if evidence.has_work and evidence.knows_times and (lost.lost <= 0 or 20 * lost.lost < lost.launches):
        rules += _OF_DEVICES
    for rule in rules:
        found += [finding for claim in rule(evidence) if (finding := judged(claim, evidence.traits))]
    return _distinct(found)


def _distinct(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings without a low utilization where idle times say more; of two rules' with one cause, those with
    the most time. Device idle is always kept.
    """
    idle = max((finding.share_percent or 0 for finding in found if finding.rule == "device idle"), default=0)
    kept = [finding for finding in found if finding.rule != "gpu utilization" or idle < _MUCH]

    def place(finding: Finding) -> tuple[bool, float]:
        share = finding.share_percent or 0
        return finding.rule == "device idle" and share >= _MUCH, share

    best: dict[str, str] = {}
    for finding in sorted(kept, key=place, reverse=True):
        if finding.cause:
            best.setdefault(finding.cause, finding.rule)
    return [
        finding
        for finding in kept
        if finding.rule == "device idle" or finding.cause is None or best[finding.cause] == finding.rule
    ]
