"""Sidecars: a JSON or TOML file next to a profiling file, with labels and metrics that the profiling file lacks.

{"model": "mlp", "labels": {"device": "pixel8"}, "captured_at": "2026-05-01T12:00:00Z",
 "metrics": {"temperature": 41, "peak_memory": {"value": 12.5, "unit": "MB", "better": "lower"}}}

Other keys than `labels` and `metrics` are labels.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, texts
from etq.ingest.metrics.rows import Metric, json_of, metric_batch, shown, stated_metrics


def read_sidecar(data: bytes, path: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read a sidecar: rows of `labels`, and of `metrics` if it has any, both without the key `capture_id`.

    `path` is its name for messages; if it ends in .toml, the file is TOML. Raises `FormatError` for files that can't be
    read and for values that are neither labels nor metrics.
    """
    content = _toml(data, path) if path.endswith(".toml") else json_of(data, path)
    if not isinstance(content, dict):
        raise FormatError(path, f"expected an object with labels and metrics, found {shown(content)}")
    labels: dict[str, str] = {}
    metrics: list[Metric] = []
    for key, value in content.items():
        if key == "labels":
            labels |= _labels(value, path)
        elif key == "metrics":
            metrics += stated_metrics(value, path, "$.metrics")
        else:
            labels[key] = _label(value, path, f"$.{key}")
    yield "labels", batch({"key": texts(list(labels)), "value": texts(list(labels.values()))})
    if metrics:
        yield "metrics", metric_batch(metrics)


def _toml(data: bytes, path: str) -> Any:
    try:
        return tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise FormatError(path, "expected TOML, which is UTF-8", error.start) from None
    except tomllib.TOMLDecodeError as error:
        raise FormatError(path, f"expected TOML: {error}") from None
    except ValueError:
        raise FormatError(path, "expected TOML, found a number of more digits than are read") from None
    except RecursionError:
        raise FormatError(path, "expected TOML, found it nested too deeply") from None


def _labels(content: Any, path: str) -> dict[str, str]:
    if not isinstance(content, dict):
        raise FormatError(path, f"at $.labels: expected an object of labels, found {shown(content)}")
    return {key: _label(value, path, f"$.labels.{key}") for key, value in content.items()}


def _label(value: Any, path: str, place: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date):  # TOML has dates
        return value.isoformat()
    if isinstance(value, str | int | float):
        return str(value)
    raise FormatError(path, f"at {place}: expected a text, a number or a truth value as a label, found {shown(value)}")
