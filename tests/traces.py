"""Small traces in a warehouse, for tests of views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from etq.database.handles import Capture
from etq.warehouse.warehouse import Warehouse
from tests.trace_builders import trace


class Traces:
    """Ingests traces and asks of the last one."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        self.warehouse, self.path = warehouse, folder / "small.pt.trace.json"
        self._assumed = ""

    def take(self, *events: dict[str, Any], name: str = "t", **top: Any) -> Capture:
        self.path.write_bytes(trace(*events, **top))
        self._assumed = ""
        return self.warehouse.ingest(self.path, name=name)

    def ask(self, view: str, columns: str = "*", assume: str = "", **arguments: Any) -> list[tuple[Any, ...]]:
        """The rows of a view; `assume` are sizes that the trace lacks."""
        if assume != self._assumed:
            self.warehouse.ingest(self.path, assume=assume)
            self._assumed = assume
        given = "".join(f", {name} := {value!r}" for name, value in arguments.items())
        return self.warehouse.rows(f"SELECT {columns} FROM {view}('t'{given})")[1]

    def steps(self, **arguments: Any) -> list[dict[str, float]]:
        """The times of each step that aren't 0, by category."""
        found: dict[int, dict[str, float]] = {}
        for step, category, time in self.ask("step_breakdown", "step, category, time", **arguments):
            found.setdefault(step, {}).update({category: time} if time else {})
        return list(found.values())
