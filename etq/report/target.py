"""The subject of a report: a capture, its properties, and the choice of its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.runs import check_method, left_out
from etq.report.columns import Table, table

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

# The options of a report, by their names in views and queries. A trace only has the first.
_OPTIONS: Final = {"unit": "unit", "method": "method", "runs": "basis"}


@dataclass(frozen=True)
class Target:
    """The capture of a report and its properties, for the queries of the sections."""

    warehouse: Answers
    capture: Capture
    unit: str | None
    method: str | None
    runs: str
    name: str
    format: str
    record: str | None
    has_record: bool
    has_program: bool
    has_executes: bool
    has_devices: bool
    events: int
    _answers: dict[tuple[str, str], Table] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_trace(self) -> bool:
        return self.format == "torch_trace"

    def view(self, name: str, select: str = "*", given: str = "", rest: str = "") -> Table:
        """Return the rows of a view of $capture. The view is called with the options of the report that it takes, and
        with `given`. `select` and `rest` are SQL before and after the call.
        """
        known = {each.name for each in catalog.named(name).parameters}
        options = ("unit",) if self.is_trace else tuple(_OPTIONS)
        passed = [f"{option} := ${_OPTIONS[option]}" for option in options if option in known]
        arguments = ", ".join(filter(None, ["$capture", *passed, given]))
        return self.table(f"SELECT {select} FROM {name}({arguments}) {rest}")

    def table(self, query: str, **parameters: Any) -> Table:
        """Return the result of a query about $capture; `$unit`,
        `$method` and `$basis` (of runs) are the report's options. A query that several sections share runs once.
        """
        key = (query, repr(sorted(parameters.items())))
        if key not in self._answers:
            self._answers[key] = table(*self.rows(query, **parameters))
        return self._answers[key]

    def rows(self, query: str, **parameters: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of columns, and the rows, of a query with the parameters of `table`."""
        arguments: dict[str, Any] = {"capture": self.capture.capture_id, **parameters}
        for name, value in (("unit", self.unit), ("method", self.method), ("basis", self.runs)):
            if f"${name}" in query:
                arguments[name] = value
        return self.warehouse.rows(query, **arguments)


def target_of(warehouse: Answers, capture: str | Capture, unit: str | None, method: str | None, runs: str) -> Target:
    """Return the subject of a report: a capture and its properties. Errors are those of `report_of`."""
    resolved = warehouse.capture(capture) if isinstance(capture, str) else capture
    query = """
        SELECT
            c.name,
            c.format,
            r.name AS record,
            coalesce(r.is_complete, false) AS has_record,
            c.program_id IS NOT NULL AS has_program,
            EXISTS (
                FROM event_ticks AS t WHERE t.capture_id = c.capture_id AND t.execute_index IS NOT NULL
            ) AS has_executes,
            EXISTS (FROM device_events AS d WHERE d.capture_id = c.capture_id) AS has_devices,
            (SELECT count(*) FROM event_ticks AS t WHERE t.capture_id = c.capture_id) AS events
        FROM captures AS c
        LEFT JOIN records AS r ON r.record_id = c.record_id
        WHERE c.capture_id = $capture_id
    """
    [row] = warehouse.rows(query, capture_id=resolved.capture_id)[1]
    check_method(warehouse, resolved, method)
    return Target(warehouse, resolved, unit, method, runs, *row)


def basis_of(target: Target) -> str | None:
    """Return a text about the runs that the page uses; None if all runs count alike."""
    texts = [] if target.method is None else [f"Only runs of method {target.method}."]
    if target.runs == "typical":
        others = left_out(target.warehouse, target.capture, {"unit": target.unit, "method": target.method})
        if others is not None:
            texts.append(f"Times and shares on this page are of typical runs. {others.text}.")
    elif target.has_executes:
        texts.append("All times and shares on this page are of all runs.")
    return " ".join(texts) or None


# The content that a record adds to a report, in words.
OF_RECORD: Final = "modules, source lines, the graph of its program, and what fell back from delegates"


def without_record(target: Target, what: str = OF_RECORD) -> str:
    """Return why a report of a capture without a complete record lacks something."""
    if target.record is not None:
        return f"The capture's ETRecord {target.record} is half-written, and doesn't show {what}."
    return f"Without its ETRecord the capture doesn't show {what}: etq link {target.name} RECORD, or --etrecord FILE."
