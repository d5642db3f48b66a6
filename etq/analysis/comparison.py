"""A comparison of two sides: the views that compute its parts, and the options that each view takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

# The parts of a comparison, each with its view.
VIEWS: Final = {
    "captures": "compare_captures",
    "modules": "compare_modules",
    "ops": "compare_ops",
    "metrics": "compare_metrics",
    "findings": "compare_findings",
    "sides": "compared_captures",
    "parts": "compare_parts",
}
# Parts that are computed from rows of `_comparison`: the macro, and the rows and options that it needs.
_MADE: Final = {
    "captures": ("_compared_totals", ("chosen", "samples", "verdicts"), ("unit", "allow_mismatch")),
    "ops": ("_compared_ops", ("chosen", "samples", "verdicts"), ("unit", "allow_mismatch")),
    "findings": ("_compared_findings", ("chosen", "samples"), ("phase",)),
    "sides": ("_compared_sides", ("samples",), ("unit",)),
    "parts": ("_compared_parts", ("chosen", "samples", "verdicts"), ("unit", "allow_mismatch")),
}
# Options of the other parts.
_TAKEN: Final = {
    "modules": ("unit", "quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch"),
    "metrics": ("alpha", "min_effect", "allow_mismatch"),
}
_COMPARED: Final = ("quantile", "phase", "history", "alpha", "min_effect", "allow_mismatch")
_numbers: Final = count(1)


class Comparison:
    """Two sides in a warehouse, and the options of their comparison.

    The comparison is computed once, when a part is first requested, into a temporary table of the connection, which
    `close` drops.
    """

    def __init__(self, warehouse: Warehouse, base: str, new: str, options: dict[str, Any]) -> None:
        self.warehouse = warehouse
        self.base = base
        self.new = new
        self.options = options
        self._computed: dict[tuple[Any, ...], str] = {}

    def close(self) -> None:
        """Drop the temporary tables; a part that is requested later is computed again."""
        for name in self._computed.values():
            self.warehouse.rows(f"DROP TABLE IF EXISTS {name}")
        self._computed.clear()

    def rows(
        self, part: str, columns: str = "*", limit: int | None = None, **other: Any
    ) -> tuple[list[str], list[Any]]:
        """Return the columns and rows of one part of the comparison: see `VIEWS`.

        `other` are options that replace those of the comparison. Raises `QueryError` if the sides can't be compared.
        """
        options = self.options | other
        if part in _MADE:
            macro, lists, names = _MADE[part]
            computed = self._table(options)
            passed = _given(options, names)
            call = f"{macro}({', '.join(f'(SELECT {each} FROM {computed})' for each in lists)}{_named(passed)})"
        else:
            passed = _given(options, _TAKEN[part])
            call = f"{VIEWS[part]}($base, $new{_named(passed)})"
            passed |= {"base": self.base, "new": self.new}
        query = f"SELECT {columns} FROM {call}"
        if limit is not None:
            query += f" LIMIT {int(limit)}"
        return self.warehouse.rows(query, **passed)

    def _table(self, options: Mapping[str, Any]) -> str:
        """Return the name of the temporary table with the comparison for these options."""
        passed = _given(options, _COMPARED)
        key = tuple(passed.items())
        if key not in self._computed:
            name = f"_computed_comparison_{next(_numbers)}"
            query = f"CREATE TEMP TABLE {name} AS FROM _comparison($base, $new{_named(passed)})"
            self.warehouse.rows(query, base=self.base, new=self.new, **passed)
            self._computed[key] = name
        return self._computed[key]

    def verdicts(self, part: str, of: str, **other: Any) -> list[tuple[str, str]]:
        """Return the values of a part's column `of`, each with its verdict if it has one."""
        return self.rows(part, f"coalesce({of}, ''), verdict", **other)[1]

    def has_modules(self) -> bool:
        query = """
            SELECT bool_and(c.record_id IS NOT NULL) FROM captures AS c
            WHERE c.capture_id IN (SELECT s.capture_id FROM _several_captures($side) AS s)
        """
        return all(self.warehouse.rows(query, side=side)[1] == [(True,)] for side in (self.base, self.new))

    def total_lines(self) -> list[tuple[str, str | None]]:
        """Return a line with the verdict for each total, and a line for its slow tail if that has another verdict."""
        columns = "what, method, verdict, change_percent, low_percent, high_percent, base, new, unit, note"
        totals = [row for row in self.rows("captures", columns)[1] if row[0] == "total"]
        lines: list[tuple[str, str | None]] = []
        for _, method, verdict, change, low, high, base, new, unit, note in totals:
            finding = verdict
            if verdict == "~":
                finding = "no difference beyond the noise" if note else "no difference that counts"
            text = f"{finding}" if len(totals) == 1 else f"{method}: {finding}"
            if change is not None:
                text += f": {change:+.1f} %" + ("" if low is None else f" ({low:+.1f} to {high:+.1f} %)")
                text += f", {base:.6g} to {new:.6g} {unit}"
            lines.append((text + (f"; {note}" if note else ""), verdict))
        return lines + [
            (f"slow runs of {method} are {verdict} (--quantile 0.9): {change:+.1f} %", None)
            for method, verdict, change in self.slow_tails()
        ]

    def op_line(self) -> str | None:
        """How many ops are slower or faster, and which explain most of the difference; None if there are none."""
        columns = "op, instruction_id, verdict, change_percent"
        rows = [row for row in self.rows("ops", columns)[1] if row[2] in ("slower", "faster")]
        if not rows:
            return None
        texts = []
        for verdict in ("slower", "faster"):
            of_verdict = [row for row in rows if row[2] == verdict]
            names = [
                f"{op}{'' if number is None else f' @{number}'} {change:+.1f} %" for op, number, _, change in of_verdict
            ]
            if names:
                more = ", ..." if len(names) > 3 else ""
                count = f"{len(names)} op is" if len(names) == 1 else f"{len(names)} ops are"
                texts.append(f"{count} {verdict}: {', '.join(names[:3])}{more}")
        return "; ".join(texts)

    def slow_tails(self) -> list[tuple[str, str, float]]:
        """Return the totals whose slowest tenth of runs is slower or faster, with another verdict than the total
        itself.

        Rows have method, verdict and change in percent. As this is a second test, it uses half of alpha. Empty if a
        quantile is chosen.
        """
        if self.options["quantile"] is not None:
            return []
        columns = "method, verdict, change_percent"
        totals = [row for row in self.rows("captures", "what, verdict")[1] if row[0] == "total"]
        alpha = (self.options["alpha"] or 0.05) / 2
        _, rows = self.rows("captures", f"what, {columns}", quantile=0.9, alpha=alpha)
        tails = [row[1:] for row in rows if row[0] == "total"]
        return [
            (method, verdict, change)
            for (method, verdict, change), (_, of_total) in zip(tails, totals, strict=False)
            if verdict in ("slower", "faster") and verdict != of_total
        ]


def _given(options: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the options of these names that are set."""
    return {name: options[name] for name in names if options[name] is not None}


def _named(arguments: Iterable[str]) -> str:
    return "".join(f', "{name}" := ${name}' for name in arguments)
