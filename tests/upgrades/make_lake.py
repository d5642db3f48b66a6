"""Make the lake that `test_lakes` upgrades: run by the etq of a released schema, whose lakes must open for ever.

PYTHONPATH=CHECKOUT_OF_THE_RELEASE python tests/upgrades/make_lake.py CAPTURES OUTPUT.tar.gz
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import etq.lake

FIRST = ("mlp/mlp.etdp", "torch/mlp_train.pt.trace.json.gz", "torch_gpu/rank0.pt.trace.json.gz")
SECOND = ("torch_gpu/rank1.pt.trace.json.gz", "mlp_xnn/mlp_xnn.etdp")
RECORDS = {"mlp": "mlp/mlp.etrecord", "mlp_xnn": "mlp_xnn/mlp_xnn.etrecord"}


def fill(lake: Path, folder: Path) -> None:
    """Add captures in two loads, one of which the lake has in part only: the other part was replaced."""
    for files in (FIRST, SECOND, FIRST[:1]):

        def ingest(warehouse: etq.Warehouse, files: tuple[str, ...] = files) -> None:
            for path in files:
                name = Path(path).name.split(".")[0]
                warehouse.ingest(folder / path, name=name, labels={"files": str(len(files))})
                if name in RECORDS:
                    warehouse.link(name, warehouse.ingest_record(folder / RECORDS[name]))
                    warehouse.link(name, warehouse.ingest_program(folder / RECORDS[name].replace(".etrecord", ".pte")))

        etq.lake.add(lake, ingest, replace=len(files) == 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        fill(Path(place) / "lake", Path(sys.argv[1]))
        with tarfile.open(sys.argv[2], "w:gz") as output:
            output.add(Path(place) / "lake", "lake")
