"""The public table macros as methods. Names, parameters, defaults and documentation come from the SQL files."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Number
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.analysis.advice import VIEW as ADVICE
from etq.analysis.advice import advised
from etq.analysis.formats import instead
from etq.catalog import CAPTURES
from etq.database.handles import Capture, Program, Record
from etq.errors import CallError, QueryError, nearest_words
from etq.warehouse.result import Result, run_once

if TYPE_CHECKING:
    import duckdb

# Prefixes of views that take selectors of several captures, or programs, as `base` and `new`.
OF_SIDES: Final = "compare"
_KINDS: Final = ("table", "view", "table macro")
# The types that a parameter accepts, by the type of its default.
_TYPES: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    str: ((str,), "a text"),
    bool: ((bool,), "True or False"),
    int: ((Number,), "a number"),
    float: ((Number,), "a number"),
}
# Parameters that take texts although their default is NULL.
_TEXTS: Final = frozenset({"unit", "steps", "phase", "method", "over"})

# The captures that texts match, with a row of NULL for a text that matches no capture.
_MATCHING: Final = """
    SELECT g.text, m.capture_id
    FROM (SELECT unnest($texts::VARCHAR[]) AS text, generate_subscripts($texts::VARCHAR[], 1) AS place) AS g
    LEFT JOIN LATERAL (FROM _matching_captures(g.text)) AS m ON true
    ORDER BY g.place, m.capture_id"""
# The rows of a view for each of some captures. The planning time of a call per capture would grow with the square of
# their number.
_OF_EACH: Final = """
    SELECT c.name AS capture, t.*
    FROM (SELECT unnest($capture) AS capture_id, generate_subscripts($capture, 1) AS place) AS g
    JOIN captures AS c USING (capture_id), LATERAL (FROM {}) AS t
    ORDER BY g.place"""


class Views:
    """Gives `Warehouse` a method for each public table macro, `warehouse.op_totals(capture, unit="us")`, and an
    attribute for each table and each view without parameters: `warehouse.all_op_totals`. A list of captures or
    selectors as `capture` gives the rows of each, with its name in a first column.

    Only arguments that the caller gives are passed on, so defaults are defined only in the SQL.
    """

    only: Capture | None

    def __getattr__(self, name: str) -> Any:
        macro = None if name.startswith("_") else catalog.found(name)
        if macro is None or macro.kind not in _KINDS:
            near = "" if name.startswith("_") else nearest_words(name, dir(self))
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{near}")
        return self._method(macro) if macro.kind == "table macro" else self.sql(f"FROM {name}")

    def _method(self, macro: catalog.SqlObject) -> Callable[..., Any]:
        name, signature = macro.name, _signature(macro)

        def view(*args: Any, **kwargs: Any) -> Any:
            try:
                passed = self._bound(signature, args, kwargs)
            except TypeError as error:
                known = ", ".join(signature.parameters)
                raise CallError(f"{name}: {error}; its parameters are {known}") from None
            _check_types(name, signature, passed)
            if isinstance(passed.get("capture"), list | tuple):
                return self._of_each(macro, passed)
            captures = dict(passed)
            for parameter in () if name.startswith(OF_SIDES) else CAPTURES.intersection(passed):
                if isinstance(passed[parameter], str):
                    captures[parameter] = self.capture(passed[parameter])
                elif isinstance(passed[parameter], int):
                    captures[parameter] = self._of_key(passed[parameter])
            if name == ADVICE:
                query, values = advised(self, captures.pop("capture"), captures)
                return Result(partial(self.relation, query, **values), f"{name}()", view=macro)
            query = f"FROM {name}({', '.join(_argument(macro, parameter) for parameter in captures)})"
            make: Callable[[], duckdb.DuckDBPyRelation] = partial(self.relation, query, **captures)
            if name.startswith(OF_SIDES) or not passed.keys() <= CAPTURES:
                make = run_once(make)  # a wrong value raises an error when rows are computed
            return Result(make, query, instead(macro, self._format(captures)), macro)

        view.__name__ = name
        view.__qualname__ = f"Warehouse.{name}"
        view.__doc__ = documentation(macro)
        view.__signature__ = signature  # type: ignore[attr-defined]
        return view

    def _of_key(self, key: int) -> Capture:
        """Return the capture of a key. Raises `QueryError` if there is none."""
        rows = self.rows("SELECT c.name FROM captures AS c WHERE c.capture_id = $key", key=key)[1]
        if not rows:
            raise QueryError(f"no capture has the key {key}")
        return self.capture(rows[0][0])

    def _of_each(self, macro: catalog.SqlObject, passed: Mapping[str, Any]) -> Result:
        """Return the rows of a view for several captures, with the capture's name in a first column."""
        texts = [self._text_of(item) for item in passed["capture"]]
        found = self.rows(_MATCHING, texts=texts)[1]
        for text in (text for text, key in found if key is None):
            self.capture(text)  # which raises the error for these captures
        if not found:
            raise QueryError(f"{macro.name}: no captures; name one or more")
        call = f"{macro.name}({', '.join(_argument(macro, parameter) for parameter in passed)})"
        values = {**passed, "capture": [*dict.fromkeys(key for _, key in found)]}
        return self.sql(_OF_EACH.format(call.replace("$capture", "c.capture_id", 1)), **values)

    def _text_of(self, item: Any) -> str:
        """Return the text that selects a capture of a list."""
        capture = self._of_key(item) if isinstance(item, int) else item
        return capture.sha256 if isinstance(capture, Capture) else capture

    def _bound(self, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name; if no capture is given, with the capture of the file that was read."""
        if self.only is not None and "capture" in signature.parameters:
            passed = signature.bind_partial(*args, **kwargs).arguments
            if "capture" not in passed:
                kwargs = {**kwargs, "capture": self.only}
        return signature.bind(*args, **kwargs).arguments

    def _format(self, arguments: Mapping[str, Any]) -> str | None:
        """The format of the view's capture, None if unknown."""
        return arguments["capture"].format if isinstance(arguments.get("capture"), Capture) else None

    def __dir__(self) -> list[str]:
        """The methods of a warehouse, its views and its tables."""
        methods = (name for name in super().__dir__() if not name.startswith("_"))
        return sorted({*methods, *(known.name for known in catalog.public_objects() if known.kind in _KINDS)})


def table_macros() -> list[catalog.SqlObject]:
    """Return the public table macros, ordered by name."""
    return [known for known in catalog.public_objects() if known.kind == "table macro"]


def documentation(macro: catalog.SqlObject) -> str:
    """Return a macro's documentation as a docstring."""
    lines = [macro.text, "", "Parameters:"]
    lines += [f"    {parameter.name}: {parameter.text}" for parameter in macro.parameters]
    lines += ["", "Columns:"]
    lines += [f"    {column.name}: {column.text}" for column in macro.columns]
    return "\n".join(lines)


def _signature(macro: catalog.SqlObject) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(
                parameter.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if parameter.default is None else _python_value(parameter.default),
            )
            for parameter in macro.parameters
        ]
    )


def _check_types(view: str, signature: inspect.Signature, passed: Mapping[str, Any]) -> None:
    """Raise `CallError` for an argument of another type than the parameter's default, or than a capture."""
    for name, value in passed.items():
        if name == "what" and "selector" in signature.parameters and isinstance(value, str) and "=" in value:
            raise CallError(f"{view}: the captures of a selector are selector={value!r}")
        kind = type(signature.parameters[name].default)
        if kind is NoneType:
            if value is None:
                continue
            kind = str if name in _TEXTS else kind
        if name in CAPTURES:
            expected: tuple[type, ...] = (str, Integral, Capture, Record, Program, list, tuple)
            what = "a capture's name, a selector or a Capture"
        elif kind in _TYPES:
            expected, what = _TYPES[kind]
        else:
            continue
        if not isinstance(value, expected) or (isinstance(value, bool) and kind is not bool):
            raise CallError(f"{view}: {name} is {what}, not {value!r}")


def _python_value(default: str) -> Any:
    known = {"NULL": None, "false": False, "true": True}
    return known[default] if default in known else ast.literal_eval(default)


def _argument(macro: catalog.SqlObject, parameter: str) -> str:
    is_required = any(known.name == parameter and known.default is None for known in macro.parameters)
    return f"${parameter}" if is_required else f'"{parameter}" := ${parameter}'
