"""The devices of the machine that a trace describes."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, integers, texts
from etq.ingest.trace.details import MOST_BYTES
from etq.ingest.trace.scanner import UNWRITTEN, DeviceProperties

_properties: Final = msgspec.json.Decoder(list[DeviceProperties], strict=False)
_COLUMNS: Final = {"compute_major": "computeMajor", "compute_minor": "computeMinor", "multiprocessors": "numSms"}


def device_rows(written: msgspec.Raw) -> pa.RecordBatch | None:
    """Return the table `trace_devices` of a trace's `deviceProperties`, None if there are none.

    Raises `msgspec.DecodeError` for anything but a list of devices, and for bytes that aren't UTF-8.
    """
    if written == UNWRITTEN:
        return None
    devices = _properties.decode(written)
    if not devices:
        return None
    return batch(
        {
            "device": integers(
                [place if _small(each.id) is None else each.id for place, each in enumerate(devices)], np.int32
            ),
            "name": texts([device.name for device in devices]),
            "memory_bytes": integers([_bounded(device.totalGlobalMem, MOST_BYTES) for device in devices], np.int64),
        }
        | {column: integers([_small(getattr(device, name)) for device in devices]) for column, name in _COLUMNS.items()}
    )


def _small(value: int | None) -> int | None:
    return _bounded(value, 2**31)


def _bounded(value: int | None, bound: int) -> int | None:
    """Return a number if it fits the column, else None; a file may contain any number."""
    return value if value is not None and 0 <= value < bound else None
