"""The Python functions that SQL calls: registered with a connection when a query needs them.

Registering a function takes a tenth of a second, because DuckDB then imports numpy, so opening a warehouse doesn't do
it. In a database that etq didn't open, views that need a function end with an error that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from inspect import Parameter, Signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakSet

import duckdb
from duckdb.func import FunctionNullHandling, PythonUDFType

from etq.database.cursors import CHOSEN, is_own, run_on_each

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

# A row's columns and their types. Types are BIGINT and BOOLEAN (both never NULL in arguments), DOUBLE, VARCHAR, and
# lists of numbers without NULL.
Row = Mapping[str, str]


class Function(NamedTuple):
    """A function that SQL calls. It receives lists of rows as numpy arrays by column, with NaN and None for NULL.

    arguments  the type of each; for a list of rows, the columns of a row
    returns    the columns of the rows that it returns
    """

    name: str
    arguments: tuple[Row | str, ...]
    returns: Row

    @property
    def registered(self) -> str:
        """The name under which it is registered with DuckDB."""
        return f"_{self.name}"

    @property
    def parameters(self) -> str:
        """The names of its parameters, as in a definition."""
        return ", ".join(f"argument_{place}" for place in range(len(self.arguments)))

    def macro(self, *, is_known: bool) -> str:
        """Return the definition of the macro through which SQL calls it; unless the function `is_known` to DuckDB,
        calling the macro is an error that says that etq is needed.
        """
        call = f"{self.registered}({self.parameters})" if is_known else f"error({_UNKNOWN})::{_list_of(self.returns)}"
        return f"MACRO {self.name}({self.parameters}) AS ({call})"


def _row(columns: str) -> Row:
    """Return the columns of a row, which are written as in SQL."""
    return dict(re.findall(r"(\w+) ([^,]+)", columns))


@cache
def _functions() -> Mapping[str, Callable[..., Mapping[str, Any]]]:
    """Import the functions, and return them by the names in `FUNCTIONS`."""
    from etq.verdicts.items import compared
    from etq.verdicts.outliers import each_compared
    from etq.verdicts.series import level_changes
    from etq.verdicts.values import value_changes

    called: Sequence[Callable[..., Mapping[str, Any]]] = (
        compared, each_compared, value_changes, level_changes,
    )  # fmt: skip
    return {function.name: each for function, each in zip(FUNCTIONS, called, strict=True)}


_SAMPLE: Final = _row(
    "comparison BIGINT, capture_id BIGINT, step BIGINT, side VARCHAR, position DOUBLE, level VARCHAR, scope VARCHAR, "
    "item VARCHAR, op VARCHAR, ticks DOUBLE, slow_ticks DOUBLE, resolution DOUBLE, calls DOUBLE, matched VARCHAR, "
    "is_trace BOOLEAN, module_path VARCHAR, kind VARCHAR, instruction_id DOUBLE, place DOUBLE, is_additive BOOLEAN, "
    "counted VARCHAR"
)
# The columns of rows: ops of captures to align; ops whose shapes differ between the sides; results of a comparison.
_TO_ALIGN: Final = _row(
    "capture_id BIGINT, op_index BIGINT, program VARCHAR, name VARCHAR, is_by_module BOOLEAN, ticks DOUBLE"
)
_RESHAPED: Final = _row("op VARCHAR, base_shapes VARCHAR, new_shapes VARCHAR")
_DECIDED: Final = _row(
    "comparison BIGINT, level VARCHAR, scope VARCHAR, item VARCHAR, verdict VARCHAR, change DOUBLE, change_low DOUBLE, "
    "change_high DOUBLE, base_ticks DOUBLE, new_ticks DOUBLE, share DOUBLE, p DOUBLE, q DOUBLE, base_captures BIGINT, "
    "new_captures BIGINT, note VARCHAR, may_be VARCHAR, capture_id BIGINT, step BIGINT, side VARCHAR, off DOUBLE, "
    "is_disturbed BOOLEAN, place BIGINT, op VARCHAR, module_path VARCHAR, base_kind VARCHAR, new_kind VARCHAR, "
    "base_instruction_id DOUBLE, new_instruction_id DOUBLE, base_place DOUBLE, new_place DOUBLE, is_in_base BOOLEAN, "
    "is_in_new BOOLEAN, base_part DOUBLE, new_part DOUBLE, matched VARCHAR, counted VARCHAR"
)
# A condition of captures, see `etq.verdicts.conditions.differing`.
_CONDITION: Final = _row("name VARCHAR, unit VARCHAR, text VARCHAR, captures BIGINT[], values DOUBLE[]")
# An item of a series, see `etq.verdicts.series.level_changes`.
_ITEM: Final = _row(
    "number BIGINT, series VARCHAR, measure VARCHAR, name VARCHAR, identity VARCHAR, scope VARCHAR, is_cycles BOOLEAN, "
    "is_of_all BOOLEAN, family BIGINT, positions BIGINT[], series_positions BIGINT[], builds BIGINT[], values "
    "DOUBLE[], resolution DOUBLE, total DOUBLE"
)
# The arguments after the rows of a comparison: `is_one_clock` to `allow_mismatch`.
_OPTIONS: Final = ("BOOLEAN", "DOUBLE", "DOUBLE", "VARCHAR", "BOOLEAN")
FUNCTIONS: Final = (
    Function(
        "needs_etq_to_compare",
        (_SAMPLE, _TO_ALIGN, _RESHAPED, _CONDITION, _row("name VARCHAR, detail VARCHAR"), *_OPTIONS),
        _DECIDED,
    ),
    Function(
        "needs_etq_to_compare_each",
        (
            *(_SAMPLE, _TO_ALIGN, _RESHAPED, _CONDITION),
            _row("capture_id BIGINT, value VARCHAR"),
            *_OPTIONS,
        ),
        {**_DECIDED, **_row("value VARCHAR, in_ops VARCHAR")},
    ),
    Function(
        "needs_etq_to_compare_values",
        (
            _row("name VARCHAR, unit VARCHAR, better VARCHAR, is_new BOOLEAN, position DOUBLE, value DOUBLE"),
            *(_row("capture_id BIGINT, is_new BOOLEAN"), _CONDITION),
            *("VARCHAR", "DOUBLE", "DOUBLE", "BOOLEAN"),
        ),
        _row(
            "name VARCHAR, unit VARCHAR, better VARCHAR, base_captures BIGINT, new_captures BIGINT, base DOUBLE, new "
            "DOUBLE, change DOUBLE, p DOUBLE, q DOUBLE, verdict VARCHAR, note VARCHAR"
        ),
    ),
    Function(
        "needs_etq_to_find_changes",
        (
            _ITEM,
            _ITEM,
            _row(
                "series VARCHAR, position BIGINT, comment_id BIGINT, what VARCHAR, item VARCHAR, identity VARCHAR, "
                "kind VARCHAR, accepts BOOLEAN, text VARCHAR, author VARCHAR, written BIGINT"
            ),
            {"series": "VARCHAR", **_CONDITION},
            *("DOUBLE", "DOUBLE"),
        ),
        _row(
            "series BIGINT, kind VARCHAR, verdict VARCHAR, stage VARCHAR, place BIGINT, last_good BIGINT, first_bad "
            "BIGINT, level_first BIGINT, level_end BIGINT, back DOUBLE, before DOUBLE, step DOUBLE, low DOUBLE, high "
            "DOUBLE, p DOUBLE, q DOUBLE, captures_before BIGINT, captures_after BIGINT, builds_after BIGINT, "
            "is_accepted BOOLEAN, shows DOUBLE, noise DOUBLE, condition VARCHAR, comment VARCHAR, author VARCHAR"
        ),
    ),
)

_UNKNOWN: Final = "'this view needs functions of etq: query it by etq sql, or etq.open() in Python'"
_KINDS: Final = {"BIGINT": "int64", "DOUBLE": "float64", "BOOLEAN": "bool", "VARCHAR": "object"}
# For this many texts, importing Arrow's hashing takes longer than converting each of them.
_FEW: Final = 16384
# The prefix of the functions' names.
PREFIX: Final = "needs_etq_"
# Every query that needs a function contains one of these: parts of the names of views that call functions. `series` is
# also the name of columns, which need no function.
_NEEDED: Final = re.compile(rf"compar|regress|trend|outlier|\b(?:series|causes)\"?\s*\(|{PREFIX}", re.IGNORECASE)

# Connections with which they are registered.
_registered: Final[WeakSet[duckdb.DuckDBPyConnection]] = WeakSet()


def _array(values: Sequence[Any], kind: str) -> Any:
    """Return a column's values as an array; of a column of lists, an array per list."""
    import numpy as np

    if kind.endswith("[]"):
        return [np.array(value, _KINDS[kind[:-2]]) for value in values]
    return np.array(values, _KINDS[kind])


def register_for(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Register the functions if a query needs them."""
    if _NEEDED.search(query):
        register(connection)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the functions with a connection, and with all others to its instance of DuckDB. Further calls have no
    effect.
    """
    if connection in _registered:
        return
    with connection.cursor() as registering:
        # If the file has a macro of this name, DuckDB would find that and register nothing.
        registering.execute("SET search_path = 'system.main'")
        for function in FUNCTIONS:
            arguments: list[Any] = [
                _list_of(kind) if isinstance(kind, Mapping) else kind for kind in function.arguments
            ]
            with suppress(duckdb.CatalogException):  # another connection to the instance has registered them
                registering.create_function(
                    function.registered,
                    _in_arrow(function.name),
                    arguments,
                    _list_of(function.returns),
                    type=PythonUDFType.ARROW,
                    null_handling=FunctionNullHandling.SPECIAL,
                )
    if is_own(connection):  # for each function, its file has a macro that raises an error
        macros = [*(function.macro(is_known=True) for function in FUNCTIONS), *CHOSEN]
        run_on_each(connection, "; ".join(f"CREATE OR REPLACE TEMP {macro}" for macro in macros))
    _registered.add(connection)


def answered(name: str, arguments: pa.Table) -> pa.ChunkedArray:
    """Return the results of the function for each row, whose first columns are the arguments."""
    import pyarrow as pa

    [function] = [function for function in FUNCTIONS if function.name == name]
    return pa.chunked_array([_in_arrow(name)(*arguments.columns[: len(function.arguments)])])


def _list_of(row: Row) -> str:
    return f"STRUCT({', '.join(f'{name} {kind}' for name, kind in row.items())})[]"


@cache
def _in_arrow(name: str) -> Callable[..., Any]:
    """Return a function that DuckDB calls with Arrow arrays; each of their values is an argument of one call.

    It is never freed. DuckDB 2.0.1 calls it for all connections to an instance, even after the connection that
    registered it is closed.
    """
    [each] = [function for function in FUNCTIONS if function.name == name]

    def called(*columns: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        from etq.ingest.arrow import lists

        call, made = _functions()[name], []
        for place in range(len(columns[0])):
            given = [
                _columns(column[place].values, kind) if isinstance(kind, Mapping) else column[place].as_py()
                for column, kind in zip(columns, each.arguments, strict=True)
            ]
            made.append(_rows(call(*given), each.returns))
        return lists(pa.concat_arrays(made), np.array([*map(len, made)]))

    # DuckDB counts the parameters.
    names = [f"argument_{place}" for place in range(len(each.arguments))]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


def _columns(rows: pa.StructArray | None, row: Row) -> dict[str, Any]:
    """Return rows as numpy arrays by column."""
    import numpy as np

    from etq.ingest.arrow import as_numpy

    if rows is None:  # DuckDB returns NULL instead of an empty list
        return {name: _array((), kind) for name, kind in row.items()}
    columns: dict[str, Any] = {}
    for name, kind in row.items():
        values = rows.field(name)
        if kind.endswith("[]"):
            ends = as_numpy(values.offsets, np.int32)
            numbers = as_numpy(values.values, np.dtype(_KINDS[kind[:-2]]).type)
            columns[name] = [numbers[first:end] for first, end in pairwise(ends)]
        elif kind == "VARCHAR":
            columns[name] = _texts(values)
        elif kind == "BOOLEAN":
            columns[name] = _flags(values)
        else:
            numbers = as_numpy(values, np.dtype(_KINDS[kind]).type)
            columns[name] = np.where(_bits(values, 0), numbers, np.nan) if values.null_count else numbers
    return columns


def _texts(values: pa.Array) -> npt.NDArray[np.object_]:
    """Return texts; of many, which are mostly equal, each distinct one is converted once."""
    import numpy as np

    from etq.ingest.arrow import as_numpy

    if len(values) <= _FEW:
        return np.array(values.to_pylist(), np.object_)
    encoded = values.dictionary_encode(null_encoding="encode")
    return np.asarray(np.array(encoded.dictionary.to_pylist(), np.object_)[as_numpy(encoded.indices, np.int32)])


def _flags(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return booleans: bits, or bytes on a connection set to lossless conversion to Arrow."""
    import numpy as np
    import pyarrow as pa

    from etq.ingest.arrow import as_numpy

    if pa.types.is_boolean(values.type):
        return _bits(values, 1)
    return as_numpy(getattr(values, "storage", values), np.int8).astype(np.bool_)


def _bits(values: pa.Array, buffer: int) -> npt.NDArray[np.bool_]:
    """Return a buffer of bits of an array: number 0 has the bits of values that aren't NULL, number 1 the booleans."""
    import numpy as np

    bits = np.frombuffer(values.buffers()[buffer], np.uint8)
    return np.unpackbits(bits, bitorder="little")[values.offset : values.offset + len(values)].astype(np.bool_)


def _rows(columns: Mapping[str, Any], row: Row) -> pa.StructArray:
    """Return columns, numpy arrays or lists, as rows; NaN and None are NULL."""
    import numpy as np
    import pyarrow as pa

    from etq.ingest.arrow import flags, numbers, texts

    arrays = []
    for name, kind in row.items():
        values = columns.get(name, ())
        if kind == "VARCHAR":
            arrays.append(texts(values))
        elif kind == "BOOLEAN":
            arrays.append(flags(values))
        else:
            given = np.array(values, _KINDS[kind])
            arrays.append(numbers(given, np.isnan(given) if kind == "DOUBLE" else None))
    return pa.StructArray.from_arrays(arrays, names=[*row])
