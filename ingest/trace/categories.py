"""Categories of a trace's events that etq doesn't know: which of them are work of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from etq.ingest.trace.columns import TraceColumns
from etq.ingest.trace.scanner import DEVICE_CATEGORIES, LAUNCH_CATEGORY, LAUNCH_ENDINGS, DeviceEvent
from etq.ingest.trace.types import Entries, Part

# The category of work of a device, also that of a vendor whose profiler has another.
KERNEL: Final = "kernel"
# Categories of the host, by Kineto's types of activities (ActivityType.cpp) and the older layout of torch.
_HOST: Final = frozenset(
    {
        *("cpu_op", "user_annotation", "python_function", "cpu_instant_event", "overhead", "external_correlation"),
        *("Trace", "Operator", "Python", "Communication", "collective_comm", LAUNCH_CATEGORY, ""),
    }
)
# How many events of a category are looked at.
_SAMPLED: Final = 32
_events: Final = msgspec.json.Decoder(list[DeviceEvent], strict=False)
_event: Final = msgspec.json.Decoder(DeviceEvent, strict=False)


def unknown_work(columns: TraceColumns, entries: Entries) -> frozenset[str]:
    """Return the unknown categories whose events are work of a device, with a finding for each.

    They share an id with a call that launched them, as all work of devices does, and name a device or stream. Other
    events with such an id are calls.
    """
    kinds = [*columns.keys.kinds]
    unknown = {category for category, _ in kinds if not _is_known(category)}
    if not unknown:
        return frozenset()
    kind = np.array(columns.keys.kind, np.int32)[np.frombuffer(columns.key, np.int32)]
    at, correlation = np.frombuffer(columns.at, np.int32), np.frombuffer(columns.correlation, np.int64)
    found = set()
    for category in sorted(unknown):
        is_of = np.array([each == category for each, _ in kinds], np.bool_)[kind]
        places = at[is_of & (correlation > 0)]
        if len(places) and _have_devices(entries, places[:_SAMPLED].astype(np.int64)):
            found.add(category)
            events = f"{is_of.sum():,} event{'s' if is_of.sum() > 1 else ''}"
            columns.find("unknown category", f"{events} of the unknown category {category[:200]} are taken as kernels")
    return frozenset(found)


def _is_known(category: str) -> bool:
    return category in _HOST or category in DEVICE_CATEGORIES or category.endswith(LAUNCH_ENDINGS)


def _have_devices(entries: Entries, places: npt.NDArray[np.int64]) -> bool:
    """Whether one of the events at these places names a device or stream."""
    read: list[DeviceEvent] = []
    entries.decode(Part(np.sort(places), _events, _of_device, read.extend))
    return any(
        each.args is not None and (each.args.device is not None or each.args.stream is not None) for each in read
    )


def _of_device(entry: msgspec.Raw) -> DeviceEvent:
    try:
        return _event.decode(entry)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return DeviceEvent()


def with_kernels(
    kinds: Sequence[tuple[str, str]], kind: npt.NDArray[Any], categories: frozenset[str]
) -> tuple[list[tuple[str, str]], npt.NDArray[Any]]:
    """Return the kinds, as category and name, and each slice's, with the category of kernels for those given."""
    if not categories:
        return [*kinds], kind
    numbers: dict[tuple[str, str], int] = {}
    place = [
        numbers.setdefault((KERNEL if category in categories else category, name), len(numbers))
        for category, name in kinds
    ]
    return [*numbers], np.array(place, np.int32)[kind]
