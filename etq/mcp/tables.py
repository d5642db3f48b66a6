"""Tables of results: columns of views, and their rows as a model reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from etq import catalog

# The columns of each view that results have, of others those that people see, or all; `ask` gives the rest.
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "capture_summary": (
        "name", "format", "runs", "events", "profiling_level", "labels", "captured_at", "findings", "sha256",
    ),
    "headline": ("number", "part", "value", "low", "high", "runs", "unit", "note"),
    "advice": ("rule", "severity", "finding", "evidence", "time_at_stake", "share_percent", "remedy", "unit"),
    "op_totals": ("op", "kind", "method", "calls", "per_execute", "avg", "share_percent", "unit"),
    "key_averages": (
        "name", "calls", "self_cpu_time", "self_cpu_per_step", "self_cpu_percent", "cpu_time_total", "cpu_per_step",
        "self_device_time", "self_device_per_step", "device_time_total", "device_per_step", "unit",
    ),
    "compare_captures": (
        "what", "method", "verdict", "change_percent", "low_percent", "high_percent", "base", "new", "difference",
        "unit", "note", "base_captures", "new_captures",
    ),
    "compare_modules": (
        "module_path", "method", "verdict", "change_percent", "low_percent", "high_percent", "base", "new",
        "difference", "unit", "note",
    ),
    "compare_ops": (
        "op", "module_path", "kind", "instruction_id", "verdict", "change_percent", "low_percent", "high_percent",
        "base", "new", "difference", "unit", "share_percent", "note",
    ),
    "compare_metrics": ("name", "verdict", "change_percent", "base", "new", "unit", "better", "note"),
    "regressions": (
        "series", "what", "op", "module_path", "instruction_id", "verdict", "last_good", "first_bad",
        "change_percent", "cost", "unit", "share_percent", "q", "kind", "captures_before", "captures_after", "comment",
    ),
}  # fmt: skip
# Sums over a whole trace; results have the times of a step instead, where it has steps.
WITHOUT_STEPS: Final = ("self_cpu_time", "cpu_time_total", "self_device_time", "device_time_total")
DIGITS: Final = 4


def selected(view: str) -> str:
    """Return the columns of a view that results have, as in a SELECT."""
    target = catalog.named(view)
    names = COLUMNS.get(view) or target.shown or [column.name for column in target.columns]
    return ", ".join(f'"{name}"' for name in names)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return rows as a table: the names of its columns, and its rows, whose numbers have four significant digits.

    A column without a value is left out. A value that all rows of several have, such as a unit, is in `all_rows`.
    """
    values = dict(zip(columns, zip(*rows, strict=True), strict=True)) if rows else {}
    values = {name: column for name, column in values.items() if any(value is not None for value in column)}
    alike = {name: column[0] for name, column in values.items() if len(rows) > 1 and len(set(map(repr, column))) == 1}
    shown = [name for name in values if name not in alike]
    found: dict[str, Any] = {"columns": shown}
    if alike:
        found["all_rows"] = {name: rounded(value) for name, value in alike.items()}
    return {**found, "rows": [[rounded(values[name][at]) for name in shown] for at in range(len(rows))]}


def rounded(value: Any) -> Any:
    """Return a value, rounded to `DIGITS` significant digits if it is a number with a fraction."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 2**53 else short
