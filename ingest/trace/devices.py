"""The devices of the machine that a trace describes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from etq.ingest.arrow import batch, filled, flags, integers, texts
from etq.ingest.trace.details import MOST_BYTES
from etq.ingest.trace.scanner import NONE, UNWRITTEN, DeviceProperties

_properties: Final = msgspec.json.Decoder(list[DeviceProperties], strict=False)
_COLUMNS: Final = {"compute_major": "computeMajor", "compute_minor": "computeMinor", "multiprocessors": "numSms"}


def devices_in(written: msgspec.Raw) -> Sequence[DeviceProperties]:
    """Return the devices in a trace's `deviceProperties`.

    Raises `msgspec.DecodeError` for anything but a list of devices, and for bytes that aren't UTF-8.
    """
    return [] if written == UNWRITTEN else _properties.decode(written)


def working_devices(rows: pa.RecordBatch) -> frozenset[int]:
    """Return the numbers of the devices that ran work, from the table `device_events`; -1 for work without a number."""
    is_work = filled(rows.column("latency_ticks"), NONE) != NONE
    return frozenset(np.unique(filled(rows.column("device"), NONE)[is_work]).tolist())


def are_used(numbers: Sequence[int], working: Collection[int]) -> list[bool]:
    """Return which of the devices with these numbers ran work; all, if none of those that ran work is listed."""
    used = [number in working for number in numbers]
    return used if any(used) else [len(working) > 0] * len(used)


def device_rows(devices: Sequence[DeviceProperties], working: Collection[int]) -> pa.RecordBatch:
    """Return the table `trace_devices`; `working` has the numbers of the devices that ran work."""
    numbers = [place if (number := _small(each.id)) is None else number for place, each in enumerate(devices)]
    return batch(
        {
            "device": integers(numbers, np.int32),
            "name": texts([device.name for device in devices]),
            "memory_bytes": integers([_bounded(device.totalGlobalMem, MOST_BYTES) for device in devices], np.int64),
        }
        | {column: integers([_small(getattr(device, name)) for device in devices]) for column, name in _COLUMNS.items()}
        | {"is_used": flags(are_used(numbers, working))}
    )


def _small(value: int | None) -> int | None:
    return _bounded(value, 2**31)


def _bounded(value: int | None, bound: int) -> int | None:
    """Return a number if it fits the column, else None; a file may contain any number."""
    return value if value is not None and 0 <= value < bound else None
