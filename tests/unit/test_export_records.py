"""Exports of records instead of events: for the benchmark database, and nodes for Model Explorer."""

from __future__ import annotations

import json

import pytest

from etq.ingest.metrics.reader import read_metrics
from tests.asserts import TWO_OPERATORS
from tests.builders import dump, execute, run
from tests.conftest import CAPTURES
from tests.unit.test_export import exported
from tests.warehouses import empty_warehouse


def test_hud_is_read_by_the_reader_of_metrics() -> None:
    with empty_warehouse() as warehouse:
        data = dump(TWO_OPERATORS, run("Execute", execute(start=200, end=250)))
        labels = {"model": "mv2", "device": "Pixel 8", "os": "Android 15", "backend": "xnnpack", "build": "41"}
        warehouse.ingest(data, name="test", labels=labels)
        warehouse.metric("test", "peak_memory", 12.5)
        warehouse.metric("test", "tokens_per_second", 39.25)
        warehouse.metric("test", "speedup", 2.0)
        text = exported(warehouse, "test", "hud", by="family")
        records = json.loads(text)
        [(_, rows)] = read_metrics(text.encode(), "hud.json")
        found = [(row["name"], row["value"], row["unit"]) for row in rows.to_pylist()]
        other = warehouse.ingest(dump(run("Execute", execute(start=0, end=1))), name="other")
        warehouse.ingest_metrics(other, text.encode())
        copied = warehouse.rows("SELECT name, value, unit, better FROM metric_values('other')")[1]
    assert found == [
        ("avg_inference_latency", pytest.approx(55e-6, abs=1e-18), "ms"),
        ("inference_latency", 60e-6, "ms"),
        ("inference_latency", 50e-6, "ms"),
        ("peak_memory", 12.5, "MB"),
        ("speedup", 2.0, None),
        ("tokens_per_second", 39.25, "tokens/s"),
        ("(unattributed)", found[6][1], "ms"),
        ("add", 20e-6, "ms"),
        ("OPERATOR_CALL", 10e-6, "ms"),
        ("(framework)", 5e-6, "ms"),
    ]
    assert ("peak_memory", 12.5, "MB", "lower") in copied and ("speedup", 2.0, None, "higher") in copied
    for record in records:
        assert set(record) == {"benchmark", "model", "metric", "runners"}
        assert record["benchmark"]["name"] == "ExecuTorch" and record["benchmark"]["mode"] == "inference"
        assert record["model"] == {"name": "mv2", "backend": "xnnpack"}
        assert record["runners"] == [{"name": "Pixel 8", "type": "Android 15"}]
        assert record["benchmark"]["extra_info"]["label_build"] == "41"
        infos = (record["benchmark"]["extra_info"], record["metric"]["extra_info"])
        assert all(isinstance(value, str) for info in infos for value in info.values()), "texts, as its columns are"
        assert record["metric"]["target_value"] is None, "nobody output one"


def test_model_explorers_times_are_the_kernels() -> None:
    """The time of all kernels of an execute is in the graph."""
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "transformer/transformer.etdp", name="run")
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / "transformer/transformer.etrecord"))
        written = json.loads(exported(warehouse, "run", "model-explorer", unit="ns"))
        query = "SELECT sum(duration_ticks), count(DISTINCT run_index) FROM events WHERE kind = 'kernel'"
        [(ticks, runs)] = warehouse.rows(query)[1]
    assert sum(each["value"] for each in written["graph"]["results"].values()) == pytest.approx(ticks / runs, rel=1e-12)
