"""The runs of a capture that views add up: their methods, and whether they are typical."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq.errors import ArgumentError, listed
from etq.render.times import range_text

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture


def check_method(warehouse: Answers, capture: Capture, method: str | None) -> None:
    """Raise `EtqError`, listing the methods of a capture, if none of its runs ran `method`."""
    if method is None:
        return
    query = """
        SELECT DISTINCT r.scope
        FROM runs AS r
        JOIN signatures AS s ON s.capture_id = r.capture_id AND s.block_index = r.block_index
            AND s.name IN ('Method::execute', 'Method::step')
        WHERE r.capture_id = $key
        ORDER BY r.scope
    """
    known = [scope for (scope,) in warehouse.rows(query, key=capture.capture_id)[1]]
    if not known:
        raise ArgumentError("no run executes a method: only ETDumps have methods")
    if method not in known:
        raise ArgumentError(f"no run is of method {method!r}; the {listed('method', known)}")


def has_one_method(warehouse: Answers, capture: Capture) -> bool:
    """Whether all executes of a capture belong to one method; tables then need no column for it."""
    query = """
        SELECT count(DISTINCT r.scope) <= 1
        FROM runs AS r
        JOIN signatures AS s
            ON s.capture_id = r.capture_id AND s.block_index = r.block_index
            AND s.name IN ('Method::execute', 'Method::step')
        WHERE r.capture_id = $key
    """
    return bool(warehouse.rows(query, key=capture.capture_id)[1][0][0])


# The parameters of `typical_runs` except the unit.
CHOOSING: Final = ("steps", "phase", "method")


class LeftOut(NamedTuple):
    """The runs of a capture that are not typical: their number, a text about their effect, and how many of them are
    slower than the median of the typical runs.
    """

    text: str
    slower: int


def leaves_out(warehouse: Answers, capture: Capture) -> bool:
    """Whether views of typical runs leave out any run."""
    query = "SELECT 1 FROM runs AS r WHERE r.capture_id = $key AND NOT r.is_typical LIMIT 1"
    return bool(warehouse.rows(query, key=capture.capture_id)[1])


def left_out(warehouse: Answers, capture: Capture, options: Mapping[str, Any]) -> LeftOut | None:
    """Return the runs that views of typical runs leave out, None if all runs are typical."""
    if not leaves_out(warehouse, capture):
        return None
    chosen = {name: options[name] for name in (*CHOOSING, "unit") if options.get(name) is not None}
    unit, *chosen_by = (f"${name}" if name in chosen else "NULL" for name in ("unit", *CHOOSING))
    in_unit = f"(SELECT coalesce({unit}, _default_unit(c.time_scale)) FROM captures AS c WHERE c.capture_id = $key)"
    query = f"""
        SELECT
            t.block_index IS NULL, t.all_runs, t.typical, t.slower, t.typical_execute, t.all_execute, t.other_percent,
            t.unit
        FROM _typical_runs({", ".join(["$key", in_unit, *chosen_by])}) AS t
        ORDER BY 1 DESC
    """
    (_, number, typical, slower, execute, of_all, share, unit), *blocks = warehouse.rows(
        query, key=capture.capture_id, **chosen
    )[1]
    others = number - typical
    if others == 0:
        return None
    text = f"{others} of {number} runs {'is' if others == 1 else 'are'} not typical and left out"
    if len(blocks) == 1 and execute is not None:
        with_all = f"{range_text([of_all], unit)} with {'it' if others == 1 else 'them'}"
        text += f" (mean execute {range_text([execute], unit)}; {with_all})"
    else:
        text += f" ({share or 0:.3g} % of the time of all runs)"
    return LeftOut(text, slower)
