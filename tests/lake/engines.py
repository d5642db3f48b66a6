"""How many rows a lake has in each table, by etq and by engines that know nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import etq
from etq.lake.reading.tables import KINDS, Lake, tables_of

Counts = dict[str, int]


def by_etq(lake: Lake) -> Counts:
    with etq.open(lake.url, storage_options=lake.options) as warehouse:
        return {name: warehouse.rows(f"SELECT count(*) FROM {name}")[1][0][0] for name in there(lake)}


def by_others(lake: Lake) -> list[Counts]:
    """By deltalake and Polars."""
    from deltalake import DeltaTable

    polars = pytest.importorskip("polars", reason="polars isn't installed: pip install --group lake-test")
    uris = {name: lake.uri(name) for name in there(lake)}
    return [
        {name: DeltaTable(uri, storage_options=lake.options).count() for name, uri in uris.items()},
        {
            name: polars.scan_delta(uri, storage_options=lake.options).select(polars.len()).collect().item()
            for name, uri in uris.items()
        },
    ]


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
    counts = [by_etq(fresh), *by_others(fresh)]
    assert counts[1:] == counts[:-1]
    return {name: rows for name, rows in counts[0].items() if name != "labels"} == {
        name: expected.get(name, 0) for name in counts[0] if name != "labels"
    }
