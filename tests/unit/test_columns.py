"""Readers yield each column of the base tables; the columns that are filled afterwards are named here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from etq import catalog
from etq.ingest.arrow import Rows
from etq.ingest.etrecord.reader import read_etrecord
from etq.ingest.program.reader import read_program
from etq.ingest.registry import Given, read_capture
from tests.conftest import CAPTURES

CAPTURE_FILES = (
    "torch_gpu/rank0.pt.trace.json.gz", "torch/memory_outside.pt.trace.json.gz", "torch_counters/counters.pt.trace.json.gz",
    "torch_gloo/rank0.pt.trace.json.gz",
    "mlp_xnn/mlp_xnn_debug.etdp",
)  # fmt: skip
KEYS = {"capture_id", "record_id", "program_id"}
OF_FILES = {"sha256", "name", "uri", "size_bytes", "ingested_at", "etq_version"}
# Storing, linking, the values of a debug buffer, and the search for typical runs fill these.
LATER = {
    "captures": OF_FILES | {"time_scale"},
    "records": OF_FILES,
    "programs": OF_FILES,
    "runs": {"scope", "is_typical", "method", "method_score"},
    "debug_values": {"sha256", "min", "max", "mean", "nan_count", "inf_count", "elements"},
}


def test_readers_yield_each_column() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)

    def read(tables: Iterable[tuple[str, Rows]]) -> None:
        for table, rows in tables:
            found[table] |= {*rows.schema.names}

    for name in CAPTURE_FILES:
        assumed = {"top_k": "4"} if "torch" in name else {}
        read(read_capture((CAPTURES / name).read_bytes(), name, Given(assumed=assumed)))
    read(read_etrecord((CAPTURES / "mlp_xnn/mlp_xnn.etrecord").read_bytes(), "record"))
    read(read_program((CAPTURES / "mlp_xnn/mlp_xnn.pte").read_bytes(), "program"))
    tables = [each for each in catalog.tables() if each.name in found]
    assert len(tables) > 30
    assert {each.name: {column.name for column in each.columns} - KEYS - found[each.name] for each in tables} == {
        each.name: LATER.get(each.name, set()) for each in tables
    }
