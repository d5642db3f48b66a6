"""Statistics that ExecuTorch's runner of language models writes after a generation: times and counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, integers, numbers
from etq.ingest.metrics.rows import number, shown

# Columns by the names that `stats_to_json_string` in extension/llm/runner/stats.h of executorch 1.4 writes.
_FIELDS: Final = {
    "prompt_tokens": "prompt_tokens",
    "generated_tokens": "generated_tokens",
    "model_load_start": "model_load_start_ms",
    "model_load_end": "model_load_end_ms",
    "inference_start": "inference_start_ms",
    "inference_end": "inference_end_ms",
    "prompt_eval_end": "prompt_eval_end_ms",
    "first_token": "first_token_ms",
    "sampling_ticks": "aggregate_sampling_time_ms",
    "ticks_per_second": "SCALING_FACTOR_UNITS_PER_SECOND",
}


def is_runner_stats(content: Any) -> bool:
    """Whether an object has the runner's statistics and nothing else."""
    return isinstance(content, dict) and {"prompt_tokens", "inference_start_ms"} <= set(content)


def stats_batch(objects: Sequence[Any], path: str) -> pa.RecordBatch:
    """Return a row for each generation, with counts and times as written. Raises `FormatError` if one is missing."""
    for position, content in enumerate(objects):
        if not isinstance(content, dict):
            raise FormatError(path, f"expected an object after PyTorchObserver, found {shown(content)}")
        for name in _FIELDS.values():
            _whole(content.get(name), path, position, name)
    columns = {
        column: integers([int(content[name]) for content in objects], np.int64) for column, name in _FIELDS.items()
    }
    peaks = [content.get("gpu_peak_usage_mb") for content in objects]
    values = [
        0.0 if peak is None else number(peak, path, f"gpu_peak_usage_mb of generation {position}")
        for position, peak in enumerate(peaks)
    ]
    is_null = np.array([peak is None for peak in peaks], np.bool_)
    return batch(
        {
            "sample": integers(range(len(objects))),
            **columns,
            "gpu_peak_usage": numbers(np.array(values, np.float64), is_null),
        }
    )


def _whole(value: Any, path: str, position: int, name: str) -> None:
    least = 1 if name == "SCALING_FACTOR_UNITS_PER_SECOND" else 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise FormatError(
            path, f"at {name} of generation {position}: expected a whole number from {least}, found {shown(value)}"
        )
