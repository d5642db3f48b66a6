"""Exports of records instead of events: for the benchmark database, and nodes for Model Explorer."""

from __future__ import annotations

import json

import pytest

from etq.errors import QueryError
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


def test_hud_has_loading_and_the_records_backends() -> None:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "mlp_xnn/mlp_xnn.etdp", name="run")
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / "mlp_xnn/mlp_xnn.etrecord"))
        records = json.loads(exported(warehouse, "run", "hud"))
        [(ticks,)] = warehouse.rows("SELECT duration_ticks FROM events WHERE name = 'Program::load_method'")[1]
    assert [record["metric"]["name"] for record in records] == [
        "avg_inference_latency(ms)", "inference_latency(ms)", "model_load_time(ms)",
    ]  # fmt: skip
    assert records[2]["metric"]["benchmark_values"] == [ticks / 1e6]
    assert records[0]["metric"]["extra_info"]["method"] == "forward"
    assert records[0]["model"] == {"name": "run", "backend": "XnnpackBackend"} and records[0]["runners"] == []


@pytest.mark.long
def test_model_explorer_needs_to_know_the_method() -> None:
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "multimethod/multimethod.etdp", name="run")
        with pytest.raises(QueryError, match="run has no record"):
            exported(warehouse, "run", "model-explorer")
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / "multimethod/multimethod.etrecord"))
        with pytest.raises(QueryError, match="run ran decode, encode; choose the graph of one with method"):
            exported(warehouse, "run", "model-explorer")
        with pytest.raises(QueryError, match="no times of a method 'x'; methods with times are decode, encode"):
            exported(warehouse, "run", "model-explorer", method="x")
        with pytest.raises(QueryError, match="no node of exported_program has a time"):
            exported(warehouse, "run", "model-explorer", graph="exported_program")
        with pytest.raises(QueryError, match="unknown graph x; known are exported_program"):
            exported(warehouse, "run", "model-explorer", graph="x")
        written = json.loads(exported(warehouse, "run", "model-explorer", method="encode"))
        assert set(written["graph"]["results"]) <= {
            "aten_permute_copy_default", "aten_addmm_default", "aten_relu_default",
            "aten_permute_copy_default_1", "aten_addmm_default_1",
        }  # fmt: skip


@pytest.mark.parametrize("graph", ["edge_dialect_exported_program", "exported_program"])
def test_model_explorers_times_are_the_kernels(graph: str) -> None:
    """The time of all kernels of an execute is in the graph, whichever graph it is."""
    with empty_warehouse() as warehouse:
        capture = warehouse.ingest(CAPTURES / "transformer/transformer.etdp", name="run")
        warehouse.link(capture, warehouse.ingest_record(CAPTURES / "transformer/transformer.etrecord"))
        written = json.loads(exported(warehouse, "run", "model-explorer", graph=graph, unit="ns"))
        query = "SELECT sum(duration_ticks), count(DISTINCT run_index) FROM events WHERE kind = 'kernel'"
        [(ticks, runs)] = warehouse.rows(query)[1]
    assert sum(each["value"] for each in written["graph"]["results"].values()) == pytest.approx(ticks / runs, rel=1e-12)
