"""Reports: what a warehouse knows of a capture, as one HTML file that opens anywhere and asks nothing of a network.

    from etq import report
    report.write(warehouse, ["run"], "run.html")

A kind of report is a module that asks the views and gives sections (`single`: one capture); `page` puts these together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etq.errors import EtqError

if TYPE_CHECKING:
    from etq.warehouse import Capture, Warehouse

__all__ = ["page_of", "write"]


def page_of(warehouse: Warehouse, captures: Sequence[str | Capture], *, unit: str | None = None) -> str:
    """A report as the text of an HTML page.

    captures  what it is of: so far one, by name, hash prefix or selector
    unit      unit of times: ns, us, ms, s, cycles; us by default (cycles where ticks are cycles)

    Raises `QueryError` where there is no such capture or unit, `EtqError` for a number of captures that there is no
    kind of report for.
    """
    from etq.report.page import assemble
    from etq.report.single import report_of

    if len(captures) != 1:
        raise EtqError(f"a report is of one capture, not of {len(captures)}")
    return assemble(report_of(warehouse, captures[0], unit))


def write(
    warehouse: Warehouse,
    captures: Sequence[str | Capture],
    path: str | os.PathLike[str],
    *,
    unit: str | None = None,
) -> None:
    """Write a report to a file, in place of what is there; arguments and errors are those of `page_of`."""
    page = page_of(warehouse, captures, unit=unit)
    try:
        Path(path).write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise EtqError(f"{os.fspath(path)}: can't be written: {(error.strerror or str(error)).lower()}") from error
