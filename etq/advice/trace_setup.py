"""The rules about how a trace was recorded, and how its program uses devices. They don't say how much time a remedy
saves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etq.advice.finding import Finding
from etq.advice.trace_evidence import Evidence
from etq.advice.words import counted, percent, time

# Shares, in percent, above which the rules apply.
_ELIGIBLE: Final = 5
_FULL: Final = 90
# The lowest compute capability that NCCL supports.
_NCCL: Final = 3.5


def lost_kernels(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if launches have no event of a device."""
    launches, lost, call = evidence.lost
    if lost == launches > 0 and evidence.has_counters:
        yield Finding(
            "lost kernels",
            "medium",
            "Counters of kernels were recorded instead of their times.",
            f"{lost:,} of {counted(launches, 'launch')} have no event of a device; etq show kernel_counters lists them",
            "Record without profiler_metrics for times.",
        )
    elif lost > 0:
        has = "has" if lost == 1 else "have"
        kernels = "its kernel is" if lost == 1 else "their kernels are"
        yield Finding(
            "lost kernels",
            "high",
            f"{counted(lost, 'launch')} of {launches:,} {has} no event of a device: {kernels} missing.",
            f"calls of {call}; etq ops has means over the calls whose kernels are known",
            "Record fewer steps at once, after a warm-up step, and without another profiler.",
        )


def other_clock(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if work of devices starts before its launch, or ends after a wait for it."""
    if evidence.other_clock:
        yield Finding(
            "device clock", "high", "The clocks of host and device differ.",
            evidence.other_clock,
            "Compare times of the device only with each other, and record again to see why it idles.",
        )  # fmt: skip


def incomplete(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding if most ops that ran are not in the file."""
    if evidence.missing:
        yield Finding(
            "incomplete file", "high", "Most events are missing from the file.", f"it has {evidence.missing}",
            "Use the complete file: shares are of the events in this one, and it doesn't show why devices idle.",
        )  # fmt: skip


def setup(evidence: Evidence) -> Iterator[Finding]:
    """Yield findings about processes, tensor cores and memory."""
    if evidence.has_work:
        yield from _processes(evidence)
        yield from _tensor_cores(evidence)
    for device, used, size in evidence.memory:
        if 100 * used > _FULL * size:
            yield Finding(
                "device memory",
                "medium",
                f"The memory of device {device} is nearly full.",
                f"{percent(100 * used / size)} of {size / 1024**3:.1f} GiB were in use",
                "If allocations fail, try gradient checkpointing, or automatic mixed precision."
                if evidence.traits.is_training
                else "If allocations fail, try a smaller batch.",
            )


def _processes(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.setup
    if facts.is_data_parallel and facts.devices > 1:
        yield Finding(
            "data parallel", "medium", "DataParallel runs on several devices from one process.",
            counted(facts.devices, "device"), "Use DistributedDataParallel, with a process for each device.",
        )  # fmt: skip
    if facts.is_distributed and not facts.has_nccl and facts.devices and (facts.capability or 0) >= _NCCL:
        yield Finding(
            "communication backend", "medium", "DistributedDataParallel communicates without NCCL.",
            f"a device of compute capability {facts.capability:.1f}",
            "Use the backend NCCL, which is the fastest between devices.",
        )  # fmt: skip


def _tensor_cores(evidence: Evidence) -> Iterator[Finding]:
    facts = evidence.setup
    kernels = facts.kernel_ticks
    if not kernels or not facts.units_known:
        return
    eligible = evidence.eligible_ticks
    if 100 * eligible > _ELIGIBLE * kernels:
        saves_little = evidence.is_beside(eligible)
        path = time((evidence.device_path or 0) / 1e3, "us")
        on_path = f"; of the time of devices, {path} are on the critical path" if saves_little else ""
        units = "matrix cores" if evidence.traits.runtime == "HIP" else "tensor cores"
        yield Finding(
            "tensor cores", "low" if saves_little else "medium", f"No kernel uses {units}, although ops could.",
            f"ops that could use them launched {percent(100 * eligible / kernels)} of the kernels, by time{on_path}",
            "Try automatic mixed precision.",
        )  # fmt: skip
