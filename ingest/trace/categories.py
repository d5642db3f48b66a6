"""Categories of a trace's events that no class has: which of them are work of a device."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etq.ingest.trace.classes import rules
from etq.ingest.trace.columns import TraceColumns
from etq.ingest.trace.scanner import DeviceEvent
from etq.ingest.trace.types import Entries, Part, lenient

# How many events of a category are looked at.
_SAMPLED: Final = 32
# How many categories a finding names.
_NAMED: Final = 5
_events, _event = lenient(DeviceEvent)


def unknown_work(columns: TraceColumns, entries: Entries) -> frozenset[str]:
    """Return the unknown categories whose events are work of a device, with a finding for each, and one for the others.

    Work of a device names a device or stream, as calls that launch it do not.
    """
    kinds, known = [*columns.keys.kinds], rules()
    unknown = sorted({category for category, _ in kinds if known.of_category(category) is None})
    if not unknown:
        return frozenset()
    kind = np.array(columns.keys.kind, np.int32)[np.frombuffer(columns.key, np.int32)]
    at = np.frombuffer(columns.at, np.int32)
    found, others = set(), []
    for category in unknown:
        is_of = np.array([each == category for each, _ in kinds], np.bool_)[kind]
        if not is_of.any():  # an end without its beginning
            continue
        if _have_devices(entries, at[is_of][:_SAMPLED].astype(np.int64)):
            found.add(category)
            columns.find(
                "unknown category", f"{_counted(is_of)} of the unknown category {category[:200]} are taken as kernels"
            )
        else:
            others.append(f"{category[:60]} ({_counted(is_of)})")
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        columns.find("unknown category", f"of unknown categories: {', '.join(others[:_NAMED])}{more}")
    return frozenset(found)


def _counted(is_of: npt.NDArray[np.bool_]) -> str:
    return f"{is_of.sum():,} event{'s' if is_of.sum() > 1 else ''}"


def _have_devices(entries: Entries, places: npt.NDArray[np.int64]) -> bool:
    """Whether one of the events at these places names a device or stream."""
    read: list[DeviceEvent] = []
    entries.decode(Part(np.sort(places), _events, _event, read.extend))
    return any(
        each.args is not None and (each.args.device is not None or each.args.stream is not None) for each in read
    )
