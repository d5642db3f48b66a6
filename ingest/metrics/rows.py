"""Helpers for readers of metrics: JSON errors with positions, and rows of the table `metrics`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, integers, numbers, texts
from etq.ingest.memory import check_json

DIRECTIONS: Final = ("lower", "higher")


@dataclass(frozen=True)
class Metric:
    """A number with its name, and its unit and direction if known."""

    name: str
    value: float
    unit: str | None = None
    better: str | None = None


def metric_batch(metrics: Sequence[Metric]) -> pa.RecordBatch:
    """Return rows of `metrics` without keys; several values of one name are samples, in their order."""
    seen: Counter[str] = Counter()
    samples = []
    for metric in metrics:
        samples.append(seen[metric.name])
        seen[metric.name] += 1
    return batch(
        {
            "run_index": integers([None] * len(metrics)),
            "name": texts([metric.name for metric in metrics]),
            "value": numbers(np.array([metric.value for metric in metrics], np.float64)),
            "unit": texts([metric.unit for metric in metrics]),
            "better": texts([metric.better for metric in metrics]),
            "sample": integers(samples),
        }
    )


def json_of(data: bytes, path: str) -> Any:
    """Return the content of a JSON file. Raises `FormatError`, naming the byte, for other files."""
    check_json(data, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(
            path, f"expected JSON in UTF-8, found the byte {data[error.start]:#04x}", error.start
        ) from None
    try:
        value = json.loads(text)
        # JSON can contain half of a surrogate pair, which can't be stored as text.
        json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise FormatError(path, "expected text, found half a character (a lone surrogate)") from None
    except json.JSONDecodeError as error:
        found = repr(text[error.pos : error.pos + 20]) if error.pos < len(text) else "the end"
        byte = len(text[: error.pos].encode()) + len(data) - len(text.encode())
        raise FormatError(path, f"expected JSON, found {found}", byte) from None
    except RecursionError:
        raise FormatError(path, "expected JSON, found it nested too deeply") from None
    except ValueError:
        raise FormatError(path, "expected JSON, found a number of more digits than are read") from None


def stated_metrics(content: Any, path: str, place: str) -> list[Metric]:
    """Return the metrics of an object by name: numbers, or objects of value, unit and better."""
    if not isinstance(content, dict):
        raise FormatError(path, f"at {place}: expected an object of metrics by name, found {shown(content)}")
    found = []
    for name, value in content.items():
        here = f"{place}.{name}"
        if not isinstance(value, dict):
            found.append(Metric(name, number(value, path, here)))
            continue
        if unknown := set(value) - {"value", "unit", "better"}:
            raise FormatError(path, f"at {here}: expected value, unit and better, found {sorted(unknown)[0]!r}")
        better = text_or_none(value.get("better"), path, f"{here}.better")
        if better not in (None, *DIRECTIONS):
            raise FormatError(path, f"at {here}.better: expected lower or higher, found {better!r}")
        unit = text_or_none(value.get("unit"), path, f"{here}.unit")
        found.append(Metric(name, number(value.get("value"), path, f"{here}.value"), unit, better))
    return found


def number(value: Any, path: str, place: str) -> float:
    """Return a finite number. Raises `FormatError` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if math.isfinite(float(value)):
                return float(value)
        except OverflowError:
            pass
    raise FormatError(path, f"at {place}: expected a number, found {shown(value)}")


def text(value: Any, path: str, place: str) -> str:
    """Return a text that is not empty. Raises `FormatError` for anything else."""
    if not isinstance(value, str) or not value:
        raise FormatError(path, f"at {place}: expected a text, found {shown(value)}")
    return value


def text_or_none(value: Any, path: str, place: str) -> str | None:
    """Return a text, or None for null. Raises `FormatError` for anything else."""
    return None if value is None else text(value, path, place)


def shown(value: Any) -> str:
    """Return a value as a message shows it: at most 40 characters of JSON, or `nothing`."""
    if value is None:
        return "nothing"
    written = json.dumps(value, default=str)
    return written if len(written) <= 40 else written[:37] + "..."
