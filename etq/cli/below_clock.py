"""Times of 0 that mean less than a step of the clock, in tables of a capture's ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from etq.analysis.clocks import Clocks, clock_of
from etq.cli.messages import say
from etq.render.table import Below, Rows

if TYPE_CHECKING:
    from etq import catalog
    from etq.warehouse.warehouse import Capture, Warehouse

# The clock that timed the parts of an execute, and the ops of delegates.
_OF_DELEGATES: Final = ("delegate ops", "delegate copies", "delegate layout")
_OF_SUMS: Final = ("delegate_totals", "execute_breakdown")
_SUMS: Final = ("total", "self_time")


class BelowClock:
    """Replaces times of 0 in rows of a view by upper bounds."""

    def __init__(
        self, warehouse: Warehouse, capture: Capture, view: catalog.SqlObject, call: str, parameters: Mapping[str, Any]
    ) -> None:
        self._warehouse, self._capture, self._view = warehouse, capture, view
        self._call, self._parameters = call, parameters
        self._clocks: Clocks | None = None
        self._executes: int | None = None
        self._seen: dict[tuple[str, str], None] = {}

    def note(self, unit: str | None) -> None:
        """Print a note about each clock whose times were replaced. In a view of delegates' parts, times are sums, and
        the note is about all times of 0.
        """
        if self._view.name in _OF_SUMS and self._steps().has_zeros("delegate"):
            self._seen.setdefault(("delegate", unit or "us"))
        for clock, shown in self._seen:
            say(f"Note: {self._steps().note(clock, shown)}")

    def marked(self, columns: Sequence[str], rows: Rows) -> Rows:
        """Return rows in which times and shares of 0 are `Below`, if the clock's step is known."""
        times = [at for at, name in enumerate(columns) if name in self._view.times]
        if "calls" not in columns or "unit" not in columns:
            return rows
        calls, unit = columns.index("calls"), columns.index("unit")
        found = list(rows)
        for number, row in enumerate(rows):
            if row[calls] and any(isinstance(row[at], float) and row[at] == 0 for at in times):
                clock, of_row = self._clock(columns, row), str(row[unit])
                if (step := self._steps().step(clock, of_row)) is not None:
                    self._seen[clock, of_row] = None
                    found[number] = self._below(columns, row, times, step, _whole(columns, rows))
        return found

    def _below(
        self, columns: Sequence[str], row: Sequence[Any], times: Sequence[int], step: float, whole: float | None
    ) -> Sequence[Any]:
        cells = list(row)
        calls = row[columns.index("calls")]
        of_execute = step * calls / self._number_of_executes()
        for at in times:
            if isinstance(cells[at], float) and cells[at] == 0:
                name = columns[at]
                is_mean = name.endswith("per_execute")
                cells[at] = Below(of_execute if is_mean else step * calls if name in _SUMS else step)
        if "share_percent" in columns and whole:
            at = columns.index("share_percent")
            if cells[at] == 0:
                cells[at] = Below(100 * of_execute / whole)
        return cells

    def _clock(self, columns: Sequence[str], row: Sequence[Any]) -> str:
        if "kind" in columns:
            return clock_of(row[columns.index("kind")])
        is_of_delegate = "component" not in columns or row[columns.index("component")] in _OF_DELEGATES
        return "delegate" if is_of_delegate else "host"

    def _steps(self) -> Clocks:
        if self._clocks is None:
            self._clocks = Clocks(self._warehouse, self._capture)
        return self._clocks

    def _number_of_executes(self) -> int:
        """Return the number of executes of the method that has the fewest."""
        if self._executes is None:
            query = f"SELECT min(v.executes) FROM {self._call} AS v"
            [(executes,)] = self._warehouse.rows(query, **self._parameters)[1]
            self._executes = executes or 1
        return self._executes


def _whole(columns: Sequence[str], rows: Rows) -> float | None:
    """Return the whole of shares, computed from a row with a time and a share."""
    if not {"per_execute", "share_percent"} <= {*columns}:
        return None
    time, share = columns.index("per_execute"), columns.index("share_percent")
    return next((100 * row[time] / row[share] for row in rows if row[time] and row[share]), None)
