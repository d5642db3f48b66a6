"""Metrics of other tools' files, identified by their content.

- lines `PyTorchObserver {...}` of ExecuTorch's runner of language models, in any log, or only the object in braces:
  `stats_to_json_string` in extension/llm/runner/stats.h of executorch 1.4
- `benchmark_results.json` of ExecuTorch's benchmark apps: `BenchmarkMetric` in extension/benchmark/android, and the
  output of .github/scripts/extract_benchmark_results.py for iOS
- test logs of ExecuTorch's benchmark app for Apple devices, the app's only results
- records of PyTorch's benchmark database ("HUD"), as the wiki of pytorch/pytorch describes them
- an object of numbers by name, or of {"value": ..., "unit": ..., "better": ...}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.memory import json_size, refuse_beyond
from etq.ingest.metrics.rows import Metric, json_of, metric_batch, number, shown, stated_metrics, text
from etq.ingest.metrics.runner_stats import is_runner_stats, stats_batch
from etq.ingest.metrics.xctest_log import xctest_metrics
from etq.ingest.registry import is_json

_OBSERVED: Final = re.compile(rb"PyTorchObserver[ \t]+(?=\{)")
_UNITS: Final = {"mb": "MB", "kb": "kB", "gb": "GB", "b": "B"}


def read_metrics(data: bytes, path: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read the metrics of a file: rows of `metrics`, without keys, and of `runner_stats`, from which views compute
    metrics.

    `path` is its name for messages. Raises `FormatError`, naming the place, for files that are damaged or of unknown
    format. Also raises it for files about several models or devices, because a capture has one of each.
    """
    if starts := [each.end() for each in _OBSERVED.finditer(data)]:
        size = sum(json_size(_line(data, start)) for start in starts)
        refuse_beyond(path, f"what {len(starts):,} lines PyTorchObserver contain", size)
        yield "runner_stats", stats_batch([_observed(data, start, path) for start in starts], path)
    if tested := xctest_metrics(data, path):
        yield "metrics", metric_batch(tested)
    if starts or tested:
        return
    if not is_json(data):
        raise FormatError(
            path,
            "expected lines `PyTorchObserver {...}`, benchmark_results.json, the log of an Apple app's tests, "
            f"records of PyTorch's benchmark database or an object of numbers, found {data[:20]!r}",
        )
    content = json_of(data, path)
    if content in ([], {}):
        raise FormatError(path, f"expected metrics, found none in {shown(content)}")
    if is_runner_stats(content):
        yield "runner_stats", stats_batch([content], path)
    elif isinstance(content, list) or (isinstance(content, dict) and _is_record(content)):
        yield "metrics", metric_batch(_listed(content if isinstance(content, list) else [content], path))
    else:
        yield "metrics", metric_batch(stated_metrics(content, path, "$"))


def _observed(data: bytes, start: int, path: str) -> Any:
    """Return the object after PyTorchObserver, up to the end of its line."""
    line = _line(data, start).decode(errors="backslashreplace")
    try:
        return json.JSONDecoder().raw_decode(line)[0]
    except (ValueError, RecursionError):  # ValueError: also for numbers with thousands of digits
        raise FormatError(path, f"expected JSON after PyTorchObserver, found {line[:40]!r}", start) from None


def _line(data: bytes, start: int) -> bytes:
    return data[start : start + 65536].split(b"\n", 1)[0]


def _is_record(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("metric"), dict)


def _is_app_result(item: Any) -> bool:
    return (
        isinstance(item, dict) and isinstance(item.get("metric"), str) and bool({"actualValue", "actual"} & set(item))
    )


def _listed(items: list[Any], path: str) -> list[Metric]:
    """Return the metrics of a list of records, or of a benchmark app's results."""
    metrics: list[Metric] = []
    subjects: dict[str, str] = {}
    for position, item in enumerate(items):
        place = f"$[{position}]"
        if _is_record(item):
            metrics += _of_record(item["metric"], path, f"{place}.metric")
            subject = [item.get("model"), _runners(item.get("runners", []), path, f"{place}.runners")]
        elif _is_app_result(item):
            key = "actualValue" if "actualValue" in item else "actual"
            metrics.append(_named(item["metric"], number(item[key], path, f"{place}.{key}")))
            subject = [item.get("benchmarkModel"), _device(item.get("deviceInfo", {}), path, f"{place}.deviceInfo")]
        else:
            raise FormatError(
                path,
                f"at {place}: expected a record of PyTorch's benchmark database or a result of a benchmark app "
                f"(benchmark_results.json), found {shown(item)}",
            )
        subjects.setdefault(json.dumps(subject, sort_keys=True), place)
    if len(subjects) > 1:
        first, second, *_ = subjects.values()
        raise FormatError(
            path,
            f"at {second}: expected the model and device of {first}, found others; give a file with metrics of one",
        )
    return metrics


def _runners(content: Any, path: str, place: str) -> Any:
    """Return the properties that identify a runner, without its free memory."""
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise FormatError(path, f"at {place}: expected a list of objects, found {shown(content)}")
    return [[each.get("name"), each.get("type")] for each in content]


def _device(content: Any, path: str, place: str) -> Any:
    """Return the properties that identify a device, without its free memory."""
    if not isinstance(content, dict):
        raise FormatError(path, f"at {place}: expected an object, found {shown(content)}")
    return [content.get("device"), content.get("arch"), content.get("os")]


def _of_record(metric: dict[str, Any], path: str, place: str) -> list[Metric]:
    """Return the values of one record, which are samples of one metric."""
    name = text(metric.get("name"), path, f"{place}.name")
    values = metric.get("benchmark_values")
    place += ".benchmark_values"
    if not isinstance(values, list):
        return [_named(name, number(values, path, place))]
    return [_named(name, number(value, path, f"{place}[{at}]")) for at, value in enumerate(values)]


def _named(name: str, value: float) -> Metric:
    """Return a metric. Its unit may be in the name, as in avg_inference_latency(ms)."""
    before, bracket, unit = name.removesuffix(")").rpartition("(")
    if not name.endswith(")") or not bracket or not unit or ")" in unit or not before.strip():
        return Metric(name, value)
    return Metric(before.rstrip(), value, _UNITS.get(unit, unit))
