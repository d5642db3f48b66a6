"""Small files with properties that people reported, each made by hand, whose right values follow from the file."""

from __future__ import annotations

from typing import Any

import pytest

import etq
from tests.conftest import shared_file

# A file, a question, and the right answer.
RIGHT: list[tuple[str, str, list[Any]]] = [
    # All kernels of collectives have the correlation id 0.
    (
        "11_corr0_nccl.json",
        "SELECT name, self_device_time FROM key_averages() WHERE name IN ('(no op)', 'aten::mm') ORDER BY name",
        [("(no op)", 56), ("aten::mm", 40)],
    ),
    # Modes of dispatch record an op twice.
    ("12_dispatchmode.json", "SELECT calls, flops FROM op_efficiency() WHERE op = 'aten::mm'", [(5, 2 * 2048**3)]),
    # Annotations that overlap frames of Python, without being within them.
    ("25_overlap_annotations.json", "SELECT count(DISTINCT step) FROM step_breakdown()", [(3,)]),
    (
        "25_overlap_annotations.json",
        "SELECT DISTINCT cpu_time_avg FROM key_averages() WHERE name = 'forward' AND calls > 0",
        [(39,)],
    ),
    # The profiler copies annotations to the device.
    ("27_gpu_annotation.json", "SELECT sum(total) FROM kernel_table()", [(40,)]),
    ("28_gpu_steps.json", "SELECT count(DISTINCT step) FROM step_breakdown()", [(2,)]),
    # Memory is released that was allocated before the recording.
    ("32_memory.json", "SELECT max(peak_bytes) FROM memory_timeline()", [(7168,)]),
    # Cycles, microseconds and counts in one dump: no share of the time, no sum over units.
    (
        "E2_qnn.etdp",
        "SELECT op, per_execute, unit, share_percent FROM op_totals() WHERE kind = 'delegate' AND unit = 'cycles' ORDER BY 1",
        [
            ("Accelerator (execute) time", 3_000_000, "cycles", None),
            ("aten_convolution_default:OpId_22", 2_000_000, "cycles", None),
            ("aten_relu_default:OpId_24", 900_000, "cycles", None),
        ],
    ),
    # A counter of 32 bits passes zero within an execute of 90 ticks.
    ("E6_wrap32.etdp", "SELECT DISTINCT duration_ticks FROM events WHERE name = 'Method::execute'", [(90,)]),
]


@pytest.mark.parametrize(
    ("name", "query", "expected"), RIGHT, ids=[f"{name}-{at}" for at, (name, *_) in enumerate(RIGHT)]
)
def test_a_report(name: str, query: str, expected: list[Any]) -> None:
    with etq.read(shared_file(f"captures/reports/{name}")) as capture:
        only = capture.only
        assert only is not None
        assert capture.rows(query.replace("()", f"('{only.name}')"))[1] == expected
