"""Views that have macros for formats of captures, or for fewer parameters: a caller that knows plans what it needs.

DuckDB plans all of a view before it knows which rows there are, and planning takes longer than most queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from etq import catalog

_OF_RUNTIME: Final = "_advice_of_runtime"
_TAX: Final = "_framework_tax_alone"
TRACE: Final = "torch_trace"
# By view and format, macros with the rows and parameters of the view.
BY_FORMAT: Final[Mapping[str, Mapping[str, str]]] = {
    "advice": {
        "etdump": _OF_RUNTIME,
        "prof_result": _OF_RUNTIME,
        "reference": _OF_RUNTIME,
        TRACE: "_advice_of_trace",
    },
    # For all but a baseline, which is a parameter of the view alone.
    "framework_tax": {"etdump": _TAX, "prof_result": _TAX, "reference": _TAX, TRACE: _TAX},
}
# Parameters that change no rows of a macro that doesn't take them; a wrong `phase` is an error of the view.
_WITHOUT_EFFECT: Final = frozenset({"method", "runs", "steps"})


def narrowed(view: str, format: str, given: Mapping[str, Any]) -> tuple[catalog.SqlObject, dict[str, Any]]:
    """The macro for a view of captures of a format, and its arguments out of those given; or the view with all."""
    name = BY_FORMAT[view].get(format, view)
    macro = catalog.named(name)
    known = {each.name for each in macro.parameters}
    if set(given) - known - _WITHOUT_EFFECT:
        return catalog.named(view), dict(given)
    return macro, {parameter: value for parameter, value in given.items() if parameter in known}
