"""Records of PyTorch's benchmark database ("HUD"): a list of {benchmark, model, metric, runners}, one for each metric.

Sources of the format: PyTorch's wiki on its benchmark infrastructure (schema v3) and ExecuTorch's CI for its benchmark
apps (.github/scripts/extract_benchmark_results.py): a metric's unit follows its name, as in avg_inference_latency(ms),
and extra_info contains texts. The other fields come from labels: `model`, `model_type` and `backend` of the model,
`device` and `os` of the runner, `benchmark` and `mode`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.errors import QueryError
from etq.export.rows import about, encoded, stated, unit_of
from etq.version import VERSION

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

# The name of a benchmark, by the format of its capture.
BENCHMARKS: Final = {"etdump": "ExecuTorch", "prof_result": "ExecuTorch", "torch_trace": "PyTorch"}


def hud(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the list. Raises `QueryError` for a capture without metrics."""
    schedule = {name: value for name, value in options.items() if name != "by"}
    query = f"SELECT m.* EXCLUDE (position) FROM _benchmark_metrics($capture{catalog.more_arguments(schedule)}) AS m"
    metrics = [
        _metric(name, samples, unit, {"method": method, "run": run, "better": better})
        for name, method, run, samples, unit, better in warehouse.rows(query, capture=capture.sha256, **schedule)[1]
    ]
    if "by" in options:
        query = f"""
            SELECT o.op, o.kind, o.method, o.per_call, o.calls, o.share_percent, o.unit
            FROM op_totals($capture, unit := $unit, runs := 'all'{catalog.more_arguments(options)}) AS o
        """
        parameters = {"capture": capture.sha256, "unit": "cycles" if unit_of(warehouse, capture) == "cycles" else "ms"}
        metrics += [
            _metric(
                op, [mean], unit, {"op": op, "kind": kind, "method": method, "calls": calls, "share_percent": share}
            )
            for op, kind, method, mean, calls, share, unit in warehouse.rows(query, **parameters, **options)[1]
            if mean is not None
        ]
    if not metrics:
        raise QueryError(f"{capture.name}: no executes, loading or metrics that a benchmark database stores")
    shared = _subject(warehouse, capture)
    yield "[\n" + ",\n".join(encoded({**shared, "metric": metric}) for metric in metrics)
    yield "\n]\n"


def _subject(warehouse: Answers, capture: Capture) -> dict[str, Any]:
    """Return the measured model, device and backend, by the labels of a capture."""
    known = about(warehouse, capture)
    labels: dict[str, str] = known.pop("labels", {})
    runner = stated({"name": labels.get("device"), "type": labels.get("os")})
    extra = {**known, "made_by": f"etq {VERSION}", **{f"label_{key}": value for key, value in labels.items()}}
    return {
        "benchmark": {
            "name": labels.get("benchmark", BENCHMARKS.get(capture.format, capture.format)),
            "mode": labels.get("mode", "inference"),
            "extra_info": extra,
        },
        "model": stated(
            {
                "name": labels.get("model", capture.name),
                "type": labels.get("model_type"),
                "backend": labels.get("backend") or _backends(warehouse, capture),
            }
        ),
        "runners": [runner] if runner else [],
    }


def _metric(name: str, samples: list[float], unit: str | None, extra: dict[str, Any]) -> dict[str, Any]:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in stated(extra).items()}
    return {
        "name": name if unit is None else f"{name}({unit})",
        "benchmark_values": samples,
        "target_value": None,
        "extra_info": texts,
    }


def _backends(warehouse: Answers, capture: Capture) -> str | None:
    """Return the delegates of the capture's program, None if no record is linked."""
    query = """
        SELECT string_agg(DISTINCT d.backend, '+' ORDER BY d.backend)
        FROM captures AS c JOIN delegates AS d ON d.record_id = c.record_id
        WHERE c.capture_id = $id
    """
    [(backends,)] = warehouse.rows(query, id=capture.capture_id)[1]
    return None if backends is None else str(backends)
