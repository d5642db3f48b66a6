"""Results that one process sends another as JSON: however they are made, reading them takes memory in proportion.

Values that JSON doesn't have are objects of one key, the type: {"Decimal": "1.5"}. pickle is not used: a few bytes of
it take any memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec

from etq.errors import EtqError, QueryError

# Whole numbers that readers of JSON take.
_MOST: Final = 2**63 - 1
_FORM: Final = (
    'each is a number, a text, true, false, null, a list, or of another type: {"datetime": "2026-11-25T10:00"}'
)
_TEXTS: Final[dict[type, Callable[[Any], Any]]] = {
    bytes: bytes.hex,
    Decimal: str,
    UUID: str,
    date: date.isoformat,
    datetime: datetime.isoformat,
    time: time.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    int: hex,
    float: repr,
}
_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "bytes": bytes.fromhex,
    "Decimal": Decimal,
    "UUID": UUID,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "int": lambda text: int(text, 16),
    "float": float,
    "tuple": lambda items: tuple(map(_value, items)),
    "dict": lambda items: {_value(key): _value(value) for key, value in items},
}


def encoded(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Return rows as a line of JSON, without the line's end. Raises `EtqError` for a value of another type."""
    return msgspec.json.encode([_encoded_column(column) for column in zip(*rows, strict=True)])


def decoded(line: bytes) -> list[tuple[Any, ...]]:
    """Return the rows of a line. What isn't such a line raises any error."""
    return list(zip(*map(_decoded_column, msgspec.json.decode(line)), strict=True))


def _encoded_column(values: Sequence[Any]) -> Sequence[Any]:
    is_plain = set(map(type, values)) <= {str, bool, type(None)}
    return values if is_plain else [plain(value) for value in values]


def _decoded_column(values: list[Any]) -> list[Any]:
    return [_value(value) for value in values] if {dict, list} & set(map(type, values)) else values


def parameters_of(given: dict[str, Any] | list[Any] | None) -> dict[str, Any] | list[Any] | None:
    """Return a query's parameters, whose values are as `plain` makes them. Raises `QueryError` for others."""
    try:
        return [*map(_value, given)] if isinstance(given, list) else {k: _value(v) for k, v in (given or {}).items()}
    except Exception as error:  # anybody's JSON: any error may come of it
        raise QueryError(f"parameters: {_FORM}") from error


def plain(value: Any) -> Any:  # noqa: PLR0911 - a case a line
    """Return a value as JSON has it. Raises `EtqError` for a value of another type."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) <= _MOST:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [plain(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[plain(key), plain(each)] for key, each in value.items()]}
    kind = type(value)
    if kind not in _TEXTS:
        raise EtqError(f"the query's result has a {kind.__module__}.{kind.__qualname__}; cast it to a text")
    return {kind.__name__: _TEXTS[kind](value)}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        [(kind, text)] = value.items()
        return _VALUES[kind](text)
    return value
