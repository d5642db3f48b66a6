"""The description of what programs read and change, as OpenAPI 3.1: its views, parameters and columns are those of
the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from etq import catalog
from etq.sandbox.formats import TYPES
from etq.serve.parameters import schema_of
from etq.version import VERSION

_ERROR: Final = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "what is wrong; what to do"},
        "place": {"type": "string", "description": "of an error in a query: its line, and a line that points at it"},
    },
    "required": ["error"],
}
_ROWS: Final = {
    "type": "object",
    "properties": {
        "columns": {"type": "array", "items": {"type": "string"}},
        "types": {"type": "array", "items": {"type": "string"}, "description": "DuckDB's types"},
        "rows": {"type": "array", "items": {"type": "array", "items": {}}},
    },
    "required": ["columns", "types", "rows"],
    "description": "Numbers are exact: read whole numbers with 64 bits, and decimals with all digits; whole numbers "
    "of more bits are texts. NaN and infinities are null, as is NULL. Bytes are hexadecimal.",
}
_ABOUT: Final = {
    "type": "object",
    "properties": {
        "etq_version": {"type": "string"},
        "sql_sha256": {"type": "string", "description": "hash of the definitions of all views"},
        "schema_version": {"type": "integer"},
        "warehouse": {"type": "string"},
        "user": {"type": ["string", "null"], "description": "whose token it is; null on servers without users"},
        "role": {"type": "string"},
    },
    "required": ["etq_version", "sql_sha256", "schema_version", "warehouse", "user", "role"],
}
_ERRORS: Final = {
    "400": "A parameter or the query is wrong, or exceeds a limit of time or memory.",
    "401": "A token is needed.",
    "403": "The user's role isn't sufficient.",
    "404": "There is no such view or capture.",
    "503": "The server is busy, or the warehouse can't be read now: ask again after the seconds of Retry-After.",
}
_LONGEST_SUMMARY: Final = 120


def document(formats: tuple[str, ...], types: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the description.

    formats  of rows
    types    DuckDB's types of the columns of views, by the view's name
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "etq",
            "version": VERSION,
            "description": "Profiling captures of PyTorch models as tables. All paths take a token: `Authorization: "
            "Bearer TOKEN`, on servers that have users.",
        },
        "paths": {
            "/api/v1/": {
                "get": _get("about", "What is served, by which version of etq, and to whom.", [], _answer(_ABOUT))
            },
            "/api/v1/captures": {"get": _captures(formats)},
            "/api/v1/captures/{capture}": {"patch": _label(), "delete": _remove()},
            "/api/v1/sql": {"post": _sql(formats)},
            **{
                f"/api/v1/views/{view.name}": {"get": _view(view, formats, types.get(view.name, ()))}
                for view in views()
            },
        },
        "components": {
            "schemas": {"Error": _ERROR, "Rows": _ROWS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def views() -> list[catalog.SqlObject]:
    """Return the public views and table macros."""
    return [each for each in catalog.public_objects() if each.kind in ("view", "table macro")]


def _get(name: str, text: str, parameters: list[Any], answer: dict[str, Any]) -> dict[str, Any]:
    errors = {
        status: {
            "description": what,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        for status, what in _ERRORS.items()
    }
    summary = text.partition(". ")[0].rstrip(".")
    return {
        "operationId": name,
        "summary": summary if len(summary) <= _LONGEST_SUMMARY else summary[: _LONGEST_SUMMARY - 1] + "…",
        "description": text,
        "parameters": parameters,
        "responses": {"200": answer, **errors},
    }


def _answer(schema: Any) -> dict[str, Any]:
    return {"description": "What was asked.", "content": {"application/json": {"schema": schema}}}


def _rows(formats: tuple[str, ...]) -> dict[str, Any]:
    content: dict[str, Any] = {TYPES[format].partition(";")[0]: {} for format in formats}
    content["application/json"] = {"schema": {"$ref": "#/components/schemas/Rows"}}
    return {"description": "The rows.", "content": content}


def _format(formats: tuple[str, ...]) -> dict[str, Any]:
    schema = {"type": "string", "enum": [*formats], "default": "json"}
    return {"name": "format", "in": "query", "description": "Format of the rows.", "schema": schema}


def _captures(formats: tuple[str, ...]) -> dict[str, Any]:
    selector = {
        "name": "selector",
        "in": "query",
        "description": catalog.COMMON["selector"],
        "schema": {"type": "string"},
    }
    text = "The captures, as the view capture_summary has them."
    return _get("captures", text, [selector, _format(formats)], _rows(formats))


def _change(name: str, text: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """A change of a capture, and the answer's properties."""
    capture = {
        "name": "capture",
        "in": "path",
        "required": True,
        "description": "Name, hash prefix or selector of one capture.",
        "schema": {"type": "string"},
    }
    about = {"capture": {"type": "string"}, "sha256": {"type": "string"}, **properties}
    return _get(name, text, [capture], _answer({"type": "object", "properties": about, "required": [*about]}))


def _label() -> dict[str, Any]:
    text = "Sets labels of a capture, and removes those that are null. It takes the role label, and the answer has all "
    text += "labels. The label captured_at is the time of the measurement."
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    changed = {"type": "object", "additionalProperties": {"type": ["string", "null"]}, "minProperties": 1}
    schema = {
        "type": "object",
        "properties": {"labels": changed},
        "required": ["labels"],
        "additionalProperties": False,
    }
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {**_change("label", text, {"labels": labels}), "requestBody": body}


def _remove() -> dict[str, Any]:
    return _change("remove", "Removes a capture with its annotations. It takes the role admin.", {})


def _sql(formats: tuple[str, ...]) -> dict[str, Any]:
    text = "The rows of one SELECT, which runs in a sandbox. It is within 30 s, 512 MB, and 64 MB of its answer."
    value = "Each is a number, a text, true, false, null or a list, or has another type: "
    value += '{"datetime": "2026-11-25T10:00"}, {"date": "2026-11-25"}, {"Decimal": "1.50"}, {"bytes": "00ff"}.'
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The SELECT; $name is a parameter."},
            "parameters": {"type": ["object", "array", "null"], "description": f"By name or, for ?, in order. {value}"},
            "format": {"type": "string", "enum": [*formats], "default": "json"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {**_get("sql", text, [], _rows(formats)), "requestBody": body}


def _view(view: catalog.SqlObject, formats: tuple[str, ...], types: Sequence[str]) -> dict[str, Any]:
    columns = "\n".join(
        f"- `{column.name}`{f' ({type})' if type else ''}: {column.text}"
        for column, type in zip_longest(view.columns, types[: len(view.columns)])
    )
    parameters = [_parameter(each) for each in view.parameters]
    text = f"{view.text}\n\nColumns:\n\n{columns}"
    made = _get(view.name, text, [*parameters, _format(formats)], _rows(formats))
    return {**made, "summary": _get(view.name, view.text, [], {})["summary"]}


def _parameter(parameter: catalog.Column) -> dict[str, Any]:
    default = "" if parameter.default is None else f". Default: `{parameter.default}`"
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text + default,
        "schema": schema_of(parameter),
        "required": parameter.default is None,
    }
