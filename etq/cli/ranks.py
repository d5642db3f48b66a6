"""Notes on what is unknown about the ranks of a job, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.cli.messages import say
from etq.render.times import range_text

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# By job, how far clocks differ, if the difference exceeds the error of the estimates.
_DIFFERENCES: Final = """
    SELECT c.job, max(c.clock_offset) - min(c.clock_offset), min(c.unit)
    FROM clock_offsets({arguments}) AS c
    WHERE c.clock_offset IS NOT NULL
    GROUP BY c.job
    HAVING max(c.clock_offset) - min(c.clock_offset) > 2 * max(c.spread)
    ORDER BY c.job
"""
# By view, which ranks of a job lack what the view computes, and why.
_WITHOUT_WAITS: Final = (
    """
    SELECT s.job, string_agg(DISTINCT s.rank::VARCHAR, ', ' ORDER BY s.rank::VARCHAR), count(DISTINCT s.rank)
    FROM stragglers({arguments}) AS s
    GROUP BY s.job HAVING count(s.waited) = 0 ORDER BY s.job
    """,
    "nothing is known of what {ranks} waited for: that needs traces of several ranks with a collective that all end "
    "together (NCCL, RCCL, gloo)",
)
_UNKNOWN: Final = {
    "stragglers": _WITHOUT_WAITS,
    "rank_steps": _WITHOUT_WAITS,
    "clock_offsets": (
        """
        SELECT c.job, string_agg(c.rank::VARCHAR, ', ' ORDER BY c.rank), count(*)
        FROM clock_offsets({arguments}) AS c
        WHERE c.clock_offset IS NULL
        GROUP BY c.job ORDER BY c.job
        """,
        "the clock of {ranks} isn't known: no collective that ends for several ranks at once, such as an all-reduce, "
        "is in their traces and in those of others",
    ),
}


def note_unknown(warehouse: Warehouse, view: str, parameters: dict[str, Any]) -> None:
    """Print what a view of ranks lacks for some ranks, and, for a view that compares the ranks' steps, whether clocks
    differ.
    """
    if view not in _UNKNOWN:
        return
    query, text = _UNKNOWN[view]
    arguments = catalog.arguments(parameters)
    for job, ranks, number in warehouse.rows(query.format(arguments=arguments), **parameters)[1]:
        _say(job, text.format(ranks=f"{'rank' if number == 1 else 'ranks'} {ranks}"))
    if view != "clock_offsets":
        for job, difference, unit in warehouse.rows(_DIFFERENCES.format(arguments=arguments), **parameters)[1]:
            shown = f"up to {range_text([difference], unit)}, see etq show clock_offsets"
            _say(job, f"clocks of ranks differ by {shown}; steps are matched by number")


def _say(job: str | None, text: str) -> None:
    say(f"Note: {'' if job is None else f'job {job}: '}{text}")
