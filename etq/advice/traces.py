"""Advice about PyTorch traces: lists all rules except those about kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from etq.advice.contract import Claim, judged
from etq.advice.finding import Finding
from etq.advice.trace_evidence import Evidence
from etq.advice.trace_idle import device_idle, missing
from etq.advice.trace_path import critical_path
from etq.advice.trace_ranks import communication
from etq.advice.trace_setup import incomplete, lost_kernels, other_clock, setup
from etq.advice.trace_steps import compilation, data_loader, gpu_utilization

Rule = Callable[[Evidence], Iterator[Claim]]
# Rules about any trace; rules that need the times of devices; and rules that also need the times of the host on the
# same clock.
_OF_STEPS: Final[Sequence[Rule]] = (data_loader, communication, compilation)
_OF_DEVICES: Final[Sequence[Rule]] = (gpu_utilization,)
_OF_BOTH: Final[Sequence[Rule]] = (device_idle, critical_path)


def findings(evidence: Evidence) -> list[Finding]:
    """Return the findings about a trace except those about kernels. Several may have the same cause."""
    found = [*incomplete(evidence), *lost_kernels(evidence), *other_clock(evidence), *setup(evidence)]
    rules = [*_OF_STEPS]
    if evidence.missing:
        rules = [missing]
    elif evidence.has_work and evidence.has_kernels and evidence.knows_devices:
        is_comparable = evidence.knows_host and evidence.other_clock is None
        rules += [*_OF_DEVICES, *(_OF_BOTH if is_comparable else ())]
    elif not evidence.has_work and evidence.has_kernels and evidence.knows_host:
        rules += [critical_path]
    for rule in rules:
        found += [finding for claim in rule(evidence) if (finding := judged(claim, evidence.traits))]
    return found
