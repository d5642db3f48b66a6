"""Invariants of every view: no time is below 0, and no share is outside of 0 to 100."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from etq import catalog
from tests.pairs.asking import Asked, all_runs

# Columns of times by name, without differences and positions on a clock.
_TIMES: Final = re.compile(
    r"self_time|total|avg|per_call|min|max|execute|kernels|delegates|operators|ops|copies|layout|unaccounted"
    r"|(?:self|total)_ticks|duration|time|.*_time|.*_time_(?:total|avg)|p\d\d|block_median|time_at_stake"
)
_SHARES: Final = re.compile(
    r"(?:share|tax|self_cpu|utilization|sm_efficiency|occupancy|tensor_cores(?:_\w+)?|value)_percent"
)
# A first run may be faster than later ones.
_BELOW: Final = {("load_breakdown", "total")}


def outside(asked: Asked) -> Iterator[str]:
    """The values that are out of bounds in any view of a capture, in words."""
    for view in catalog.public_objects():
        required = [each.name for each in view.parameters if each.default is None]
        if view.kind != "table macro" or required != ["capture"]:
            continue
        if view.name in ("event_ops", "event_nodes", "decode_trend", "logged_values") or not _can_be_asked(
            asked, view.name
        ):
            continue
        limits = [
            *((each.name, f'NOT v."{each.name}" >= 0') for each in view.columns if _is_time(view.name, each.name)),
            *((each.name, f'NOT v."{each.name}" BETWEEN -1e-9 AND 100 + 1e-9') for each in view.columns if _SHARES.fullmatch(each.name)),
        ]  # fmt: skip
        if not limits:
            continue
        # Advice with other arguments is no SQL.
        chosen = {} if view.name == "advice" else all_runs(view.name)
        given = "".join(f", {name} := '{value}'" for name, value in chosen.items())
        conditions = ", ".join(f"bool_or({is_outside})" for _, is_outside in limits)
        for row in asked.rows(f"SELECT {conditions} FROM {view.name}($name{given}) AS v", name=asked.name):
            for (column, _), is_outside in zip(limits, row, strict=True):
                if is_outside:
                    yield f"{view.name}: {column}"


def _is_time(view: str, column: str) -> bool:
    return bool(_TIMES.fullmatch(column)) and (view, column) not in _BELOW


def _can_be_asked(asked: Asked, view: str) -> bool:
    file = catalog.objects()[view].file
    is_trace = asked.rows("SELECT format = 'torch_trace' FROM captures WHERE name = $name", name=asked.name)[0][0]
    needs_record = ("module_totals", "module_ops", "source_totals", "node_totals", "delegate_coverage", "roofline",
                    "node_memory", "node_roofline")  # fmt: skip
    if view.startswith("prof_result_"):
        return False
    if view == "delegate_graph":
        return bool(asked.rows("SELECT program_id IS NOT NULL FROM captures WHERE name = $name", name=asked.name)[0][0])
    if is_trace:
        return file.startswith("traces/") or view in ("event_times", "time_tree", "timeline", "percentiles")
    return not file.startswith("traces/") and (asked.is_linked or view not in needs_record)
