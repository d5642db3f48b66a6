"""A pair: a public view, and another way to compute its numbers. Both answers are compared value by value."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from etq import catalog
from etq.warehouse.warehouse import Warehouse
from tests.pairs import dumps, json_traces

TOLERANCE: Final = 1e-9

Row = tuple[Any, ...]
Sides = tuple[Any, Any]  # the view's answer, and that of the other way


@dataclass
class Asked:
    """A capture in a warehouse, and its file read in plain Python."""

    warehouse: Warehouse
    name: str
    data: bytes
    path: Path | None = None
    record: Path | None = None  # the record it is linked to
    program: Path | None = None

    def rows(self, query: str, **parameters: Any) -> list[Row]:
        return self.warehouse.rows(query, **parameters)[1]

    def view(self, view: str, columns: str, **arguments: Any) -> list[Row]:
        """These columns of a view's answer about the capture."""
        given = {**all_runs(view), **arguments}
        written = "".join(f', "{name}" := ${name}' for name in given)
        return self.rows(f"SELECT {columns} FROM {view}($capture{written})", capture=self.name, **given)

    def keyed(self, view: str, columns: str, keys: int, **arguments: Any) -> dict[Any, list[Any]]:
        """The same by the first columns, which are unique."""
        return keyed(self.view(view, columns, **arguments), keys)

    @property
    def is_linked(self) -> bool:
        return self.record is not None

    @cached_property
    def dump(self) -> dumps.Dump:
        return dumps.read(self.data)

    @cached_property
    def trace(self) -> json_traces.Trace:
        data = gzip.decompress(self.data) if self.data[:2] == b"\x1f\x8b" else self.data
        return json_traces.Trace(json.loads(data))

    @cached_property
    def methods(self) -> dict[int, str | None]:
        """The method of each run, as linking found it. The pair `block_methods` checks it separately."""
        return dict(self.rows("""
            SELECT r.run_index, r.method FROM runs AS r JOIN captures AS c ON c.capture_id = r.capture_id
            WHERE c.name = $name""", name=self.name))  # fmt: skip

    @cached_property
    def scopes(self) -> dict[int, str]:
        """The scope of each run, which distinguishes its ops: its method, or a name if the method is unknown."""
        return dict(self.rows("""
            SELECT r.run_index, r.scope FROM runs AS r JOIN captures AS c ON c.capture_id = r.capture_id
            WHERE c.name = $name""", name=self.name))  # fmt: skip


def all_runs(view: str) -> dict[str, Any]:
    """The argument that makes a view use all runs, if by default it leaves out untypical ones."""
    parameters = {each.name: each.default for each in catalog.objects()[view].parameters}
    return {"runs": "all"} if parameters.get("runs") == "'typical'" else {}


def of_all(asked: Asked, view: str, keys: str, columns: str = "*") -> Sides:
    """What the view of all captures has of one, in the order of these columns, and the view's own answer."""
    rows = asked.rows(
        f"SELECT a.* EXCLUDE (capture_id) FROM all_{view} AS a JOIN captures AS c USING (capture_id)"
        f" WHERE c.name = $name ORDER BY {keys}",
        name=asked.name,
    )
    return rows, asked.rows(f"SELECT {columns} FROM {view}($name)", name=asked.name)


@dataclass(frozen=True)
class Pair:
    """A view, the other way in words, and the function that computes both answers."""

    view: str
    of: str  # dump, recorded (a dump with a record), trace, prof_result, program, record, warehouse
    way: str
    ask: Callable[[Asked], Sides]

    def __str__(self) -> str:
        return f"{self.view}: {self.way}"


PAIRS: Final[list[Pair]] = []


def pair(view: str, way: str, *, of: str = "dump") -> Callable[[Callable[[Asked], Sides]], Callable[[Asked], Sides]]:
    """Add a function that computes both answers to the table of pairs."""

    def put(ask: Callable[[Asked], Sides]) -> Callable[[Asked], Sides]:
        PAIRS.append(Pair(view, of, way, ask))
        return ask

    return put


def keyed(rows: Iterable[Sequence[Any]], keys: int) -> dict[Any, list[Any]]:
    """Rows by their first columns, which are unique."""
    found: dict[Any, list[Any]] = {}
    for row in rows:
        key = tuple(row[:keys])
        assert key not in found, f"{key} has two rows"
        found[key] = list(row[keys:])
    return found


def sums(rows: Iterable[tuple[Any, Sequence[float]]]) -> dict[Any, list[Any]]:
    """Numbers added up by a key."""
    found: dict[Any, list[Any]] = {}
    for key, numbers in rows:
        found[key] = [one + other for one, other in zip(found.get(key, [0] * len(numbers)), numbers, strict=True)]
    return found


def differences(found: Any, expected: Any, where: str = "") -> Iterator[str]:
    """The differences in words. Whole numbers and texts must be equal, other numbers within the tolerance."""
    found, expected = _plain(found), _plain(expected)
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in found or key not in expected:
                yield f"{where}{key}: only {'expected' if key in expected else 'found'}"
            else:
                yield from differences(found[key], expected[key], f"{where}{key}: ")
    elif isinstance(found, list) and isinstance(expected, list):
        if len(found) != len(expected):
            yield f"{where}{len(found)} values, {len(expected)} expected: {found!r:.200}, {expected!r:.200}"
        else:
            for number, (one, other) in enumerate(zip(found, expected, strict=True)):
                yield from differences(one, other, f"{where}[{number}] ")
    elif not _is_alike(found, expected):
        yield f"{where}{found!r} found, {expected!r} expected"


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") else value


def _is_alike(found: Any, expected: Any) -> bool:
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int) and isinstance(expected, int):
        return found == expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return math.isclose(found, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(found == expected)
