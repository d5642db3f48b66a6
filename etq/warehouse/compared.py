"""A comparison of two sides in Python: what `warehouse.compare(base, new)` returns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.errors import printable

if TYPE_CHECKING:
    from etq.warehouse.result import Result
    from etq.warehouse.views import Views

# Options that the view of findings lacks, because they are about times.
_NOT_OF_FINDINGS: Final = ("unit", "alpha", "min_effect")


class Compared:
    """The result of a comparison of two sides.

    `verdicts` are sentences: what changed, then the totals, each with its verdict. `totals`, `modules`, `ops` and
    `findings` are the rows of the views `compare_captures`, `compare_modules`, `compare_ops` and `compare_findings`.
    """

    def __init__(self, warehouse: Views, base: str, new: str, options: dict[str, Any], verdicts: list[str]) -> None:
        self.verdicts = verdicts
        self._warehouse = warehouse
        self._base, self._new = base, new
        self._options = options

    @property
    def totals(self) -> Result:
        """The rows of `compare_captures`."""
        return self._warehouse.compare_captures(self._base, self._new, **self._options)

    @property
    def modules(self) -> Result:
        """The rows of `compare_modules`."""
        return self._warehouse.compare_modules(self._base, self._new, **self._options)

    @property
    def ops(self) -> Result:
        """The rows of `compare_ops`, ops that explain most of the difference first."""
        return self._warehouse.compare_ops(self._base, self._new, **self._options)

    @property
    def findings(self) -> Result:
        """The rows of `compare_findings`: conditions that affect the verdicts."""
        options = {name: value for name, value in self._options.items() if name not in _NOT_OF_FINDINGS}
        return self._warehouse.compare_findings(self._base, self._new, **options)

    def show(self, rows: int = 10) -> None:
        """Print the verdicts, and the first rows of `ops`."""
        sys.stdout.write(f"{self}\n\n")
        self.ops.project(catalog.named("compare_ops").to_read).show(rows)

    def __str__(self) -> str:
        return "\n".join(map(printable, self.verdicts))

    __repr__ = __str__
