"""Metrics in a warehouse: counted as the runner counts them, converted, and never twice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import etq
from etq.errors import ArgumentError
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.unit.test_metrics_reader import APP, GENERATION, RECORDS, log

MLP = CAPTURES / "mlp/mlp.etdp"


@pytest.fixture
def lab(warehouse: Warehouse) -> Warehouse:
    warehouse.ingest(MLP, name="run")
    return warehouse


def values(warehouse: Warehouse) -> dict[str, Any]:
    return {row[0]: row[3] for row in warehouse.metric_values("run").fetchall()}


def test_generations_are_counted_as_the_runner_prints_them(lab: Warehouse) -> None:
    assert lab.ingest_metrics("run", log(GENERATION)) == 9
    # The runner's own report of these times: "Model Load Time: 3.926000 (seconds)", "Prompt evaluation: 0.102000
    # (seconds) Rate: 49.019608", "Generated 114 tokens: 2.901000 (seconds) Rate: 39.296794", "Time to first generated
    # token: 0.102000", "Sampling time …: 0.143000"; in all 114 tokens in 3.003 s.
    assert {name: round(value, 6) for name, value in values(lab).items()} == {
        "prompt_tokens": 5, "generated_tokens": 114, "model_load_time": 3926, "time_to_first_token": 102,
        "prefill_tokens_per_second": 49.019608, "decode_tokens_per_second": 39.296794, "inference_time": 3003,
        "sampling_time": 143, "tokens_per_second": round(114 / 3.003, 6),
    }  # fmt: skip
    units = {row[0]: (row[4], row[5]) for row in lab.metric_values("run").fetchall()}
    assert units["decode_tokens_per_second"] == ("tokens/s", "higher")
    assert units["time_to_first_token"] == ("ms", "lower")
    assert units["prompt_tokens"] == ("tokens", None)


def test_what_was_not_measured_has_no_row(lab: Warehouse) -> None:
    start = GENERATION["inference_start_ms"]
    nothing = {
        **GENERATION, "model_load_start_ms": 0, "model_load_end_ms": 0, "prompt_eval_end_ms": start,
        "inference_end_ms": start, "gpu_peak_usage_mb": 2.5, "SCALING_FACTOR_UNITS_PER_SECOND": 1000000,
    }  # fmt: skip
    lab.ingest_metrics("run", log(nothing))
    assert values(lab) == {
        "prompt_tokens": 5, "generated_tokens": 114, "time_to_first_token": 0.102, "inference_time": 0,
        "sampling_time": 0.143, "gpu_peak_usage": 2.5,
    }  # fmt: skip


def test_nothing_is_added_twice(lab: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "benchmark_results.json"
    path.write_text(json.dumps(APP))
    assert [lab.ingest_metrics("run", path), lab.ingest_metrics("run", path)] == [5, 0]
    assert lab.ingest_metrics("run", json.dumps(APP).encode()) == 0
    lab.ingest(MLP, metrics=[path])
    assert lab.rows("SELECT count(*) FROM metrics")[1] == [(5,)]
    # Other content of the same names is more samples; of another capture, its own.
    assert lab.ingest_metrics("run", json.dumps(RECORDS).encode()) == 4
    lab.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="other", metrics=[path])
    assert lab.rows("SELECT m.capture_id, count(*) FROM metrics AS m GROUP BY 1 ORDER BY 1")[1] == [(1, 9), (2, 5)]
    rows = lab.sql("FROM metric_values('run') AS m SELECT m.value, m.sample WHERE m.name = 'avg_inference_latency'")
    assert sorted(rows.fetchall()) == [(12.0, 0), (12.5, 0), (13.5, 1)]


def test_a_bad_file_adds_nothing(lab: Warehouse, tmp_path: Path) -> None:
    with pytest.raises(etq.FormatError, match=r"^bytes: at prompt_tokens of generation 1"):
        lab.ingest_metrics("run", log(GENERATION, {**GENERATION, "prompt_tokens": None}))
    bad = tmp_path / "bad.log"
    bad.write_bytes(b"nothing")
    with pytest.raises(etq.FormatError, match="bad.log: expected lines"):
        lab.ingest(CAPTURES / "mlp/mlp_100runs.etdp", name="other", metrics=[bad])
    counts = "SELECT (SELECT count(*) FROM metrics), (SELECT count(*) FROM captures)"
    assert lab.rows(counts)[1] == [(0, 1)]


KNOWN: tuple[tuple[str, float, str | None, tuple[Any, ...]], ...] = (
    ("temperature", 41, None, (41.0, "degC", None)), ("model_load_time", 1.5, "s", (1500.0, "ms", "lower")),
    ("model_load_time", 1500, "us", (1.5, "ms", "lower")), ("peak_memory", 3, "GB", (3072.0, "MB", "lower")),
    ("peak_memory", 512, "kB", (0.5, "MB", "lower")), ("peak_memory", 512, "ms", (512.0, "ms", "lower")),
    ("clock", 2.8, "GHz", (2.8, "GHz", None)), ("my score", 1e-300, None, (1e-300, None, None)),
    ("my time", 2, "s", (2.0, "s", None)),
)  # fmt: skip


@pytest.mark.long
def test_metrics_by_hand(lab: Warehouse) -> None:
    """Known names are converted to their units; a later value replaces the earlier one."""
    for name, value, unit, expected in KNOWN:
        lab.metric("run", name, value, unit)
        assert [row[3:6] for row in lab.metric_values("run").fetchall()] == [expected]
        lab.metric("run", name, None)
    lab.metric("run", "temperature", 41)
    lab.metric("run", "temperature", 42, run=3)
    lab.metric("run", "temperature", 43, better="lower")
    found = [(row[1], row[3], row[5]) for row in lab.metric_values("run").fetchall()]
    assert found == [(None, 43, "lower"), (3, 42, None)]
    lab.metric("run", "temperature", None)
    assert [(row[1], row[3]) for row in lab.metric_values("run").fetchall()] == [(3, 42)]
    known = lab.rows("FROM known_metrics")[1]
    assert len({row[0] for row in known}) == len(known) and {row[2] for row in known} == {"lower", "higher", None}


REFUSED: tuple[tuple[tuple[Any, ...], str], ...] = (
    (("governor", "schedutil"), "is 'schedutil', which is not a number; attach a text as a label: governor="),
    (("x", math.nan), "the metric x is nan, which is not a finite number"),
    (("x", True), "the metric x is True, which is not a finite number"),
    (("", 1), "'' is not a name of a metric"),
    (("a=b", 1), "'a=b' is not a name of a metric"),
    (("a\n", 1), r"'a\\n' is not a name of a metric"),
    (("x", 1, "\t"), r"'\\t' is not a unit of the metric x"),
    (("x", 1, None, "more"), "better of the metric x is 'more'; it must be lower, higher or None"),
    (("temperature", None), "run: no metric 'temperature' was attached by hand"),
)


def test_invalid_metrics_are_refused(lab: Warehouse) -> None:
    for given, message in REFUSED:
        with pytest.raises(ArgumentError, match=message):
            lab.metric("run", *given)
    with pytest.raises(ArgumentError, match="no run 6: the capture has 6 runs, counted from 0"):
        lab.metric("run", "x", 1, run=6)
    assert values(lab) == {}


def test_units_and_directions_that_differ_are_not_compared(warehouse: Warehouse) -> None:
    """The sides state opposite directions of one metric, and one temperature in two units: 41 C are 105.8 F."""
    for side, unit, better in (("base", "C", "lower"), ("new", "F", "higher")):
        for at in range(3):
            capture = warehouse.ingest(
                MLP.parent / f"../fleet/mlp/0{at + 3 * (side == 'new')}.etdp", labels={"s": side}
            )
            warehouse.metric(capture, "temperature", (41 if unit == "C" else 105.8) + at / 10, unit)
            warehouse.metric(capture, "battery", 10 + at + 50 * (side == "new"), "%", better)
    judged = warehouse.sql("SELECT m.name, m.unit, m.verdict, m.better FROM compare_metrics('s=base', 's=new') AS m")
    assert judged.fetchall() == [
        ("battery", "%", "differs", None), ("temperature", "C", "removed", None), ("temperature", "F", "added", None)
    ]  # fmt: skip
    findings = warehouse.sql("SELECT f.rule FROM compare_findings('s=base', 's=new') AS f").fetchall()
    assert ("conditions differ",) not in findings
