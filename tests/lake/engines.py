"""How many rows a lake has in each table, by etq and by engines that know nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.lake.reading.tables import KINDS, Lake, tables_of

Counts = dict[str, int]
# Those of which Polars counts the rows, too, and the only ones that other engines count in a store, which takes long.
FEW = ("captures", "event_ticks", "labels", "op_times")


def by_etq(lake: Lake) -> Counts:
    with etq.open(lake.url, storage_options=lake.options) as warehouse:
        return {name: warehouse.rows(f"SELECT count(*) FROM {name}")[1][0][0] for name in there(lake)}


def by_others(lake: Lake) -> Counts:
    """By deltalake, and by Polars, which counts the same."""
    from deltalake import DeltaTable

    polars = pytest.importorskip("polars", reason="polars isn't installed: pip install --group lake-test")
    names = [name for name in there(lake) if not lake.options or name in FEW]
    counts = {name: DeltaTable(lake.uri(name), storage_options=lake.options).count() for name in names}
    for name in counts.keys() & FEW:
        table = polars.scan_delta(lake.uri(name), storage_options=lake.options)
        assert table.select(polars.len()).collect().item() == counts[name]
    return counts


def there(lake: Lake) -> list[str]:
    return [name for name in tables_of(*KINDS) if lake.open(name) is not None]


def of_files(*files: Path) -> Counts:
    """The rows that files have in a warehouse."""
    with etq.open() as warehouse:
        warehouse.ingest_many(files)
        names = tables_of("capture")
        return {name: warehouse.rows(f"SELECT count(*) FROM {name}")[1][0][0] for name in names}


def agree(lake: Lake, *files: Path) -> bool:
    """Whether all engines count what these files have, apart from labels."""
    fresh, expected = Lake.at(lake.url, lake.options), of_files(*files)
    counts = by_etq(fresh)
    assert by_others(fresh).items() <= counts.items()
    return {name: rows for name, rows in counts.items() if name != "labels"} == {
        name: expected.get(name, 0) for name in counts if name != "labels"
    }
