"""Statistics of neural accelerators that the VGF backend logs as metadata of its events: JSON, with parts in base64."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, Final

from etq.errors import EtqError, json_error
from etq.ingest.memory import check_json

_SCHEMA: Final = "executorch.vgf.neural_statistics"
_VERSION: Final = 1
_BLOBS: Final = ("debug_database", "statistics_info", "statistics_memory")

MetadataBytes = bytes | bytearray | str


class VgfError(EtqError, ValueError):
    """Metadata that is marked as VGF's statistics but can't be read."""


def parse_vgf_neural_statistics_metadata(metadata: MetadataBytes) -> dict[str, Any]:
    """Return the record in one piece of metadata; parts in base64 also get their bytes as `raw_data`.

    Raises `VgfError`, which is also a ValueError, for metadata of another kind or version, and for damaged ones.
    """
    content = metadata.encode() if isinstance(metadata, str) else bytes(metadata)
    check_json(content, "VGF neural statistics")
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise VgfError(f"VGF neural statistics are JSON; this is not: {json_error(error)}") from error
    if not isinstance(record, dict) or record.get("schema") != _SCHEMA:
        raise VgfError(f"not VGF neural statistics: expected the schema {_SCHEMA}")
    if record.get("schema_version") != _VERSION:
        raise VgfError(f"VGF neural statistics of version {record.get('schema_version')}; known is {_VERSION}")
    return {**record, "segments": [_segment(segment) for segment in record.get("segments", [])]}


def _segment(segment: dict[str, Any]) -> dict[str, Any]:
    return {name: _blob(part) if name in _BLOBS and isinstance(part, dict) else part for name, part in segment.items()}


def _blob(blob: dict[str, Any]) -> dict[str, Any]:
    if not blob.get("available", False):
        return {"raw_data": b"", **blob}
    if blob.get("encoding") != "base64":
        raise VgfError(f"a part of VGF neural statistics is encoded as {blob.get('encoding')!r}; known is base64")
    try:
        return {**blob, "raw_data": base64.b64decode(blob.get("data", ""), validate=True)}
    except (binascii.Error, TypeError, ValueError) as error:
        raise VgfError(f"a part of VGF neural statistics is not base64: {error}") from error


def parse_vgf_neural_statistics_delegate_metadata(
    delegate_metadata_list: Sequence[MetadataBytes | None],
) -> list[dict[str, Any]]:
    """Return the records among the metadata that delegates logged; metadata of other backends is skipped.

    Raises `VgfError` for damaged records.
    """
    return [
        parse_vgf_neural_statistics_metadata(metadata)
        for metadata in delegate_metadata_list
        if isinstance(metadata, bytes | bytearray | str) and _claims_vgf(metadata)
    ]


def _claims_vgf(metadata: MetadataBytes) -> bool:
    """Whether metadata is marked as VGF's: by its schema, or, if damaged, by a part of the schema."""
    content = metadata.encode() if isinstance(metadata, str) else bytes(metadata)
    check_json(content, "metadata of a delegate")
    try:
        record = json.loads(content)
    except (ValueError, RecursionError):
        return _SCHEMA.encode() in content
    return isinstance(record, dict) and record.get("schema") == _SCHEMA
