"""Make the warehouse that `test_upgrades` opens: run by the etq of a released schema, whose warehouses must open for ever.

PYTHONPATH=CHECKOUT_OF_THE_RELEASE python tests/upgrades/make_warehouse.py CAPTURES OUTPUT.duckdb.gz
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from pathlib import Path

import etq

# What they have: a record, a program, delegates, values, threads, devices, no events any more.
CAPTURES: dict[str, dict[str, str]] = {
    "mlp/mlp.etdp": {"record": "mlp/mlp.etrecord", "program": "mlp/mlp.pte"},
    "mlp/mlp_debug.etdp": {"record": "mlp/mlp.etrecord", "debug_buffer": "mlp/mlp_debug.bin"},
    "mlp_xnn/mlp_xnn.etdp": {"record": "mlp_xnn/mlp_xnn.etrecord", "program": "mlp_xnn/mlp_xnn.pte"},
    "torch/mlp_train.pt.trace.json.gz": {},
    "torch_gpu/rank0.pt.trace.json.gz": {},
    "torch_threads/replicas.pt.trace.json.gz": {},
    "prof_result/delegate.prof_result.bin": {},
    "fleet/mlp/00.etdp": {"record": "mlp/mlp.etrecord"},
}
PRUNED = "00"


def fill(warehouse: etq.Warehouse, folder: Path) -> None:
    """Store the captures, labels, a metric, a phase, and somebody's own table."""
    for path, others in CAPTURES.items():
        name = Path(path).name.split(".")[0]
        buffer = folder / others["debug_buffer"] if "debug_buffer" in others else None
        warehouse.ingest(folder / path, name=name, labels={"build": "1"}, debug_buffer=buffer)
        if "record" in others:
            warehouse.link(name, warehouse.ingest_record(folder / others["record"]))
        if "program" in others:
            warehouse.link(name, warehouse.ingest_program(folder / others["program"]))
    warehouse.metric("mlp", "temperature", 41.5, unit="C")
    warehouse.phase("mlp", "decode", runs="2-")
    warehouse.label(PRUNED, old="yes")
    warehouse.prune(0, selectors=["old=yes"], keep_rollups=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "lab.duckdb"
        with etq.open(path) as warehouse:
            fill(warehouse, Path(sys.argv[1]))
            warehouse.connection.execute("CREATE TABLE notes AS SELECT 1 AS capture_id, 'kept' AS note")
            warehouse.compact()
        with path.open("rb") as made, gzip.open(sys.argv[2], "wb", 9) as output:
            shutil.copyfileobj(made, output)
