"""Work of devices whose category etq doesn't know, as of a vendor's own profiler, is work of devices."""

from __future__ import annotations

import json
from typing import Any

import pytest

import etq
from etq import catalog
from tests.launch_traces import training
from tests.trace_builders import event

# Views of a trace that take nothing else.
VIEWS = [
    each.name
    for each in catalog.public_objects()
    if each.file.startswith("traces/")
    and each.kind == "table macro"
    and [parameter.name for parameter in each.parameters if parameter.default is None] in (["capture"], ["trace"])
]


def trace(category: str) -> bytes:
    text = json.dumps({"traceEvents": training(1).events})
    return text.replace('"cat": "kernel"', f'"cat": {json.dumps(category)}').encode()


def answer(warehouse: etq.Warehouse, view: str, name: str) -> Any:
    try:
        return warehouse.rows(f"FROM {view}($name)", name=name)
    except etq.EtqError as error:
        return str(error).replace(name, "")


@pytest.mark.parametrize("category", ["xpu_kernel", "my_accelerator"])
def test_an_unknown_category_is_work_of_the_device(warehouse: etq.Warehouse, category: str) -> None:
    """Every answer is that of the same trace with the category of kernels."""
    assert len(VIEWS) > 30
    warehouse.ingest(trace("kernel"), name="known")
    warehouse.ingest(trace(category), name="unknown")
    for view in VIEWS:
        assert answer(warehouse, view, "known") == answer(warehouse, view, "unknown"), view
    assert warehouse.rows("SELECT count(*) > 1 FROM kernel_table('unknown')")[1] == [(True,)]
    found = "SELECT rule, detail FROM findings JOIN captures USING (capture_id) WHERE name = 'unknown'"
    [(rule, detail)] = [row for row in warehouse.rows(found)[1] if row[0] == "unknown category"]
    assert rule and detail.endswith(f"of the unknown category {category} are taken as kernels")


def test_other_unknown_categories_are_not(warehouse: etq.Warehouse) -> None:
    """Calls share an id with what they launch, but run on no device; most categories of other tools have neither."""
    events = [
        event("cpu_op", "aten::add", 0, 100),
        event("my_api", "launch", 10, 20, correlation=5),
        event("notes", "a device", 30, 40, device=0, stream=7),
        event("kernel", "add_kernel", 50, 60, 7, correlation=5, device=0, stream=7),
    ]
    warehouse.ingest(json.dumps({"traceEvents": events}).encode(), name="run")
    assert warehouse.rows("SELECT kernel FROM kernel_table('run')")[1] == [("add_kernel",)]
    assert warehouse.rows("SELECT count(*) FROM findings WHERE rule = 'unknown category'")[1] == [(0,)]
