"""How close the steps of a trace come to the peak of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.analysis.formats import TRACE

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture


class Efficiency(NamedTuple):
    """How close the steps of a trace come to the peak of its devices, by `step_efficiency`."""

    mfu_percent: float | None = None
    hfu_percent: float | None = None
    is_least: bool | None = None
    known_percent: float | None = None
    recomputed_flops: int | None = None
    flops_per_second: float | None = None
    device: str | None = None
    reason: str | None = None
    assumed: str | None = None


_STORED: Final = f"SELECT {', '.join(Efficiency._fields)} FROM _trace_efficiency WHERE capture_id = $capture"
# Whether a device ran anything, and whether its peaks are known. This is checked first, because queries about sizes
# take long.
_HAS_WORK: Final = (
    "SELECT 1 FROM device_events AS d WHERE d.capture_id = $capture AND d.is_inferred IS NOT NULL LIMIT 1"
)
_HAS_PEAKS: Final = """
    SELECT 1 FROM _trace_peaks($capture, NULL, NULL, NULL) AS p WHERE coalesce(p.bandwidth, p.any_flops) IS NOT NULL
"""


def efficiency_of(warehouse: Answers, capture: Capture) -> Efficiency | None:
    """Return the efficiency of a trace's steps. Traces without devices, and other captures, have none."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        return warehouse.rows(query, capture=capture.capture_id)[1]

    if capture.format != TRACE:
        return None
    if has_work := bool(rows(_HAS_WORK)):
        warehouse.complete()
    # The stored values of a capture stay when its events are pruned.
    if stored := rows(_STORED):
        found = Efficiency._make(stored[0])
        # A step that launched nothing has no reason.
        is_without = found.mfu_percent is None and found.reason is None
        return found._replace(reason="its steps launched nothing") if is_without else found
    if not has_work:
        return None
    if rows(_HAS_PEAKS):
        return Efficiency(reason="recorded without shapes: profile(record_shapes=True) writes them")
    return Efficiency(reason="the peaks of its device are not known")
