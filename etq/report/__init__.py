"""Reports about captures, as one HTML file that opens anywhere and needs no network.

    from etq import report
    report.write(warehouse, ["run"], "run.html")  # one capture
    report.write(warehouse, ["build=41", "build=42"], "difference.html")  # two sides, each of one capture or of many
    report.write_trends(warehouse, "model=mlp", "trends.html", over="build")  # one after the other

A kind of report is a module that queries the views and returns sections (`single`: one capture; `difference`: two
sides; `trends`: series of many); `page` assembles them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etq.database.publishing import new_file
from etq.errors import EtqError

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

__all__ = ["page_of", "trends_page_of", "write", "write_trends"]


def page_of(
    warehouse: Warehouse,
    captures: Sequence[str | Capture],
    *,
    unit: str | None = None,
    names: tuple[str, str] | None = None,
    **options: Any,
) -> str:
    """Return a report as the text of an HTML page.

    captures  the subject: one capture, by name, hash prefix or selector; or two sides to compare, base and new, each of
              which may be a selector of several captures
    unit      unit of times: ns, us, ms, s, cycles; us by default (cycles where ticks are cycles)
    names     of two sides: what to call them; by default their selectors
    options   of one capture: method (only its runs), runs (typical or all);
              of two sides: quantile, phase, history, alpha, min_effect, allow_mismatch, as in `compare_ops`

    Raises `QueryError` for an unknown capture or unit, and for sides that can't be compared; `EtqError` for no
    capture or more than two, and for an option that this kind of report doesn't take.
    """
    from etq.report import difference, single
    from etq.report.page import assemble

    if len(captures) == 2:
        _check(options, difference.OPTIONS)
        base, new = (side if isinstance(side, str) else side.sha256 for side in captures)
        shown = [side if isinstance(side, str) else side.name for side in captures]
        passed = {"unit": unit, **options}
        return assemble(difference.difference_of(warehouse, base, new, passed, names or (shown[0], shown[1])))
    if len(captures) != 1:
        raise EtqError(f"a report needs one capture or two sides, not {len(captures)}; use trends for many captures")
    _check(options, single.OPTIONS)
    return assemble(single.report_of(warehouse, captures[0], unit, **options))


def trends_page_of(warehouse: Warehouse, selector: str | None = None, **options: Any) -> str:
    """Return a report of series of captures as the text of an HTML page: totals, ops, and their change points.

    selector  which captures; None: all
    options   over (the label that orders captures), by (labels that separate series), unit, phase, min_effect, alpha,
              since, as in `regressions`

    Raises `QueryError` for an unknown capture, label or unit; `EtqError` for an unknown option.
    """
    from etq.report import trends
    from etq.report.page import assemble

    _check(options, trends.OPTIONS)
    return assemble(trends.trends_of(warehouse, selector, options))


def write(
    warehouse: Warehouse,
    captures: Sequence[str | Capture],
    path: str | os.PathLike[str],
    *,
    unit: str | None = None,
    **options: Any,
) -> None:
    """Write a report to a file, which is replaced; arguments and errors are those of `page_of`."""
    _put(page_of(warehouse, captures, unit=unit, **options), path)


def write_trends(warehouse: Warehouse, selector: str | None, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a report of series to a file, which is replaced; arguments and errors are those of `trends_page_of`."""
    _put(trends_page_of(warehouse, selector, **options), path)


def _put(page: str, path: str | os.PathLike[str]) -> None:
    with new_file(os.fspath(path)) as written:
        Path(written).write_text(page, encoding="utf-8", newline="\n")


def _check(options: dict[str, Any], known: Sequence[str]) -> None:
    strange = sorted(set(options) - set(known))
    if strange:
        raise EtqError(f"this report takes no {strange[0]}; it takes {', '.join(known)}")
