"""Measurements of ExecuTorch's benchmark app for Apple devices, from the log of xcodebuild.

The app writes no result file. The names of tests are those in its DynamicTestCase. The names of measurements are those
that executorch's .github/scripts/extract_benchmark_results.py gives them for Android and Apple devices.
"""

from __future__ import annotations

import re
from typing import Final

from etq.errors import FormatError
from etq.ingest.memory import refuse_beyond
from etq.ingest.metrics.rows import Metric

# The bytes of memory that a value takes as a metric.
_VALUE: Final = 400
# No text may match two adjacent parts of these patterns: on a hostile line, trying all ways to match would take
# minutes.
_MEASURED: Final = re.compile(
    rb"Test Case\s+'-\[\S+\s+test_(load|forward|generate)_([\w+]+)\]'"
    rb"\s+measured\s+\[([^\]\r\n]+), ([^\],\r\n]+)\]([^\r\n]*)"
)
_VALUES: Final = re.compile(rb"\bvalues: \[([^\[\]]*)\]")
_NUMBER: Final = re.compile(rb"\s*\d{1,15}(?:\.\d{1,15})?\s*")
_NAMES: Final = {
    (b"load", b"Clock Monotonic Time"): "model_load_time",
    (b"load", b"Memory Peak Physical"): "peak_load_mem_usage",
    (b"forward", b"Clock Monotonic Time"): "inference_latency",
    (b"forward", b"Memory Peak Physical"): "peak_inference_mem_usage",
    (b"generate", b"Clock Monotonic Time"): "generate_time",
    (b"generate", b"Tokens Per Second"): "token_per_sec",
    (b"generate", b"Memory Peak Physical"): "peak_inference_mem_usage",
}
_UNITS: Final = {b"s": "s", b"kB": "kB", b"t/s": "tokens/s"}


def xctest_metrics(data: bytes, path: str) -> list[Metric]:
    """Return the metrics of a log; each iteration's value is a sample. The list is empty if the log has no such tests.

    Raises `FormatError`, naming the byte, for values that are not numbers and tests of several models.
    """
    metrics: list[Metric] = []
    count = 0
    models: dict[bytes, int] = {}
    for line in _MEASURED.finditer(data):
        name, unit = _NAMES.get((line[1], line[3])), _UNITS.get(line[4])
        if name is None or unit is None or b"_pte" not in line[2]:
            continue
        models.setdefault(line[2], line.start())
        listed = _VALUES.search(line[5])
        if listed is None:
            raise FormatError(path, "expected `values: [...]` after what a test measured", line.end(4))
        count += listed[1].count(b",") + 1
        refuse_beyond(path, f"{count:,} values", count * _VALUE)
        values = listed[1].split(b",")
        if not all(_NUMBER.fullmatch(value) for value in values):
            start = line.start(5) + listed.start(1)
            raise FormatError(path, f"expected numbers, found {listed[1][:40]!r}", start)
        metrics += [Metric(name, float(value), unit) for value in values]
    if len(models) > 1:
        start = list(models.values())[1]
        raise FormatError(
            path, "expected tests of one model on one device, found others; give a log with the tests of one", start
        )
    return metrics
