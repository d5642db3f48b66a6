"""A comparison of two sides: the views that answer it, and which options each of them takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

VIEWS: Final = {
    "captures": "compare_captures",
    "modules": "compare_modules",
    "ops": "compare_ops",
    "metrics": "compare_metrics",
    "findings": "compare_findings",
    "sides": "compared_captures",
    "parts": "compare_parts",
}
# What each of them takes of the options.
TAKEN: Final = {
    "captures": ("unit", "quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch"),
    "metrics": ("alpha", "min_effect", "allow_mismatch"),
    "findings": ("quantile", "phase", "history", "allow_mismatch"),
    "sides": ("unit", "quantile", "phase", "history", "allow_mismatch"),
}


@dataclass(frozen=True)
class Comparison:
    """Two sides in a warehouse, and the options of their comparison."""

    warehouse: Warehouse
    base: str
    new: str
    options: dict[str, Any]

    def rows(
        self, part: str, columns: str = "*", limit: int | None = None, **other: Any
    ) -> tuple[list[str], list[Any]]:
        """The columns and rows of one part of the comparison: see `VIEWS`."""
        passed = {name: (self.options | other)[name] for name in TAKEN.get(part, TAKEN["captures"])}
        arguments = {name: value for name, value in passed.items() if value is not None}
        call = "".join(f', "{name}" := ${name}' for name in arguments)
        query = f"SELECT {columns} FROM {VIEWS[part]}($base, $new{call})"
        if limit is not None:
            query += f" LIMIT {int(limit)}"
        return self.warehouse.rows(query, base=self.base, new=self.new, **arguments)

    def verdicts(self, part: str, of: str, **other: Any) -> list[tuple[str, str]]:
        """The values of a column of a part, each with its verdict, if it has one."""
        return self.rows(part, f"coalesce({of}, ''), verdict", **other)[1]

    def has_modules(self) -> bool:
        query = """
            SELECT bool_and(c.record_id IS NOT NULL) FROM captures AS c
            WHERE c.capture_id IN (SELECT s.capture_id FROM _several_captures($side) AS s)
        """
        return all(self.warehouse.rows(query, side=side)[1] == [(True,)] for side in (self.base, self.new))

    def total_lines(self) -> list[tuple[str, str | None]]:
        """A line with the verdict for each total, and for its slow tail if that has another verdict."""
        columns = "what, method, verdict, change_percent, low_percent, high_percent, base, new, unit, note"
        totals = [row for row in self.rows("captures", columns)[1] if row[0] == "total"]
        lines: list[tuple[str, str | None]] = []
        for _, method, verdict, change, low, high, base, new, unit, note in totals:
            finding = "no difference that counts" if verdict == "~" else verdict
            text = f"{finding}" if len(totals) == 1 else f"{method}: {finding}"
            if change is not None:
                text += f": {change:+.1f} %" + ("" if low is None else f" ({low:+.1f} to {high:+.1f} %)")
                text += f", {base:.6g} to {new:.6g} {unit}"
            lines.append((text + (f"; {note}" if note else ""), verdict))
        return lines + [(text, None) for text in self._tail_findings(totals)]

    def _tail_findings(self, totals: Sequence[Any]) -> list[str]:
        if self.options["quantile"] is not None:
            return []
        _, rows = self.rows("captures", "what, method, verdict, change_percent", quantile=0.9)
        tails = [row for row in rows if row[0] == "total"]
        return [
            f"slow runs of {tail[1]} are {tail[2]} (--quantile 0.9): {tail[3]:+.1f} %"
            for tail, total in zip(tails, totals, strict=False)
            if tail[2] in ("slower", "faster") and tail[2] != total[2]
        ]
