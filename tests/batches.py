"""Captures with names and labels, ingested as one batch, which is several times as fast as one by one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple

import etq
from etq.advice.filling import fill_rollups
from etq.database.handles import Capture, Program, Record
from etq.storage.linking import link_many
from etq.warehouse.warehouse import Warehouse


class Labelled(NamedTuple):
    """A capture to ingest, as bytes or as a file, with the labels of its sidecar."""

    name: str
    content: bytes | Path
    labels: Mapping[str, str] = MappingProxyType({})
    captured_at: datetime | None = None


def ingest_all(
    warehouse: Warehouse,
    captures: Iterable[Labelled | tuple[str, bytes | Path]],
    link_to: Sequence[Record | Program] = (),
) -> list[Capture]:
    """Ingest them in this order, linked to these records. Raises the error of the first that can't be ingested."""
    paths = []
    with TemporaryDirectory() as folder:
        for each in (Labelled(*given) for given in captures):
            path = Path(folder) / f"{each.name}.etdp"
            path.write_bytes(each.content if isinstance(each.content, bytes) else each.content.read_bytes())
            moment = {} if each.captured_at is None else {"captured_at": f"{each.captured_at.isoformat()}Z"}
            sidecar = json.dumps({"labels": dict(each.labels), **moment})
            path.with_name(f"{path.name}.json").write_text(sidecar)
            paths.append(path)
        results = warehouse.ingest_many(paths, link_to=link_to)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return [result for result in results if isinstance(result, Capture)]


def ingest_linked(warehouse: Warehouse, dumps: Sequence[Path]) -> None:
    """Ingest dumps by their stems, linked to the records in their folders; all rollups are computed at once."""
    keys: dict[Path, list[int]] = {}
    for path, capture in zip(dumps, warehouse.ingest_many(dumps), strict=True):
        assert isinstance(capture, Capture) and capture.name == path.stem, capture
        keys.setdefault(path.parent, []).append(capture.capture_id)
    for folder, captures in keys.items():
        for record in sorted(folder.glob("*.etrecord")):
            link_many(warehouse.connection, captures, "record_id", warehouse.ingest_record(record).record_id)
    fill_rollups(warehouse.connection, *warehouse.rows("SELECT min(capture_id), max(capture_id) FROM captures")[1][0])


def linked(name: str) -> Warehouse:
    """A warehouse with the 100 runs of a program as `run`, linked to its record."""
    warehouse, path = etq.open(), Path(__file__).parent / "captures" / name / name
    warehouse.ingest(f"{path}_100runs.etdp", name="run", etrecord=f"{path}.etrecord")
    return warehouse
