"""Parameters of views as programs give them in an address: texts, whose types follow from the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from etq.catalog import Column, SqlObject, identifier
from etq.errors import QueryError
from etq.warehouse.stub import PYTHON_TYPES

# Types of JSON schemas, and of their items.
_OF_PYTHON: Final = (("Sequence[str]", "array", "string"), ("int", "integer", ""), ("float", "number", ""))
_OF_DEFAULT: Final = (("[", "array", "number"), ("'", "string", ""), ("NULL", "string", ""), ("0.", "number", ""))


def schema_of(parameter: Column) -> dict[str, Any]:
    """Return the schema of a parameter's values."""
    known, default = PYTHON_TYPES.get(parameter.name), parameter.default
    if known is not None:
        found = next((each[1:] for each in _OF_PYTHON if known.startswith(each[0])), ("string", ""))
    elif default in ("true", "false"):
        found = "boolean", ""
    elif default is None:
        found = "string", ""
    else:
        found = next((each[1:] for each in _OF_DEFAULT if default.startswith(each[0])), ("integer", ""))
    type, items = found
    return {"type": type, "items": {"type": items}} if items else {"type": type}


def call_of(view: SqlObject, given: Sequence[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
    """Return the query of a view with the parameters given in an address, and their values.

    A list is a parameter that is repeated. Raises `QueryError` for an unknown or missing parameter, one that is given
    twice, and a text that isn't of the type.
    """
    known = {parameter.name: parameter for parameter in view.parameters}
    texts: dict[str, list[str]] = {}
    for name, text in given:
        if name not in known:
            have = f"its parameters are {', '.join(known)}" if known else "it has none"
            raise QueryError(f"{view.name}: no parameter {name!r}; {have}, and format")
        texts.setdefault(name, []).append(text)
    for parameter in view.parameters:
        if parameter.default is None and parameter.name not in texts:
            raise QueryError(f"{view.name}: needs the parameter {parameter.name}: {parameter.text}")
    values = {name: _value(known[name], of) for name, of in texts.items()}
    if view.kind == "view":
        return f"FROM {view.name}", values
    arguments = (
        f"${name}" if known[name].default is None else f"{identifier(name)} := ${name}"
        for name in sorted(values, key=[*known].index)
    )
    return f"FROM {view.name}({', '.join(arguments)})", values


def _value(parameter: Column, texts: list[str]) -> Any:
    schema = schema_of(parameter)
    try:
        if schema["type"] == "array":
            return [_READ[schema["items"]["type"]](text) for text in texts]
        [text] = texts
        return _READ[schema["type"]](text)
    except (ValueError, KeyError):
        what = f"{parameter.name}: {', '.join(texts)!r} is not of the type {schema['type']}"
        raise QueryError(f"{what}; {parameter.text}") from None


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": {"true": True, "false": False, "1": True, "0": False}.__getitem__,
}
