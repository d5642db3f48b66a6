"""Whether the capture ran the graphs of its program's delegates, and why modules in delegates have no time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

UNALIGNED: Final = "no event of {} matches the graphs of this program's delegates: is it the program that ran?"


def are_unaligned(warehouse: Answers, capture: Capture) -> bool:
    """Whether a capture has events of delegates with known graphs, but none matches an op of these graphs."""
    return bool(warehouse.rows("SELECT _has_unaligned_delegates($key)", key=capture.capture_id)[1][0][0])


def unknown_times(totals: Iterable[tuple[int | None, float | None]]) -> str | None:
    """Explain why modules have no time, given depth and total of the rows of `module_totals`; None if all have a
    time.
    """
    hidden = sum(depth is not None and total is None for depth, total in totals)
    which = "1 module" if hidden == 1 else f"{hidden} modules"
    reason = f"the time of {which} is unknown: a delegate runs the ops, and none of its events is assigned to them"
    return reason if hidden else None
