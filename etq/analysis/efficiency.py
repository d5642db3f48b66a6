"""How close the steps of a trace come to the peak of its devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from etq.warehouse.formats import TRACE

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

COLUMNS: Final = (
    "mfu_percent", "hfu_percent", "is_least", "known_percent", "recomputed_flops", "flops_per_second", "device",
    "reason",
)  # fmt: skip
_STORED: Final = f"SELECT {', '.join(COLUMNS)} FROM _trace_efficiency WHERE capture_id = $capture"
# Whether a device ran anything, and whether its peaks are known. Sizes take long to ask for.
_HAS_WORK: Final = (
    "SELECT 1 FROM device_events AS d WHERE d.capture_id = $capture AND d.is_inferred IS NOT NULL LIMIT 1"
)
_HAS_PEAKS: Final = """
    SELECT 1 FROM _trace_peaks($capture, NULL, NULL, NULL) AS p WHERE coalesce(p.bandwidth, p.any_flops) IS NOT NULL
"""


def efficiencies_of(warehouse: Warehouse, capture: Capture) -> Sequence[tuple[Any, ...]]:
    """Return the efficiency of a trace's steps as a row of `COLUMNS`: one that has only a reason where it is unknown.

    There is none of a trace without devices, and of other captures.
    """

    def rows(query: str) -> list[tuple[Any, ...]]:
        return warehouse.rows(query, capture=capture.capture_id)[1]

    if capture.format != TRACE or not rows(_HAS_WORK):
        return []
    warehouse.complete()
    if found := rows(_STORED):
        # A step that launched nothing has no reason.
        return [
            row if (row[0], row[-1]) != (None, None) else (*row[:-1], "its steps launched nothing") for row in found
        ]
    without_shapes = "recorded without shapes: profile(record_shapes=True) writes them"
    why = without_shapes if rows(_HAS_PEAKS) else "the peaks of its device are not known"
    return [(*[None] * (len(COLUMNS) - 1), why)]
