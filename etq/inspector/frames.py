"""Events as columns, as pandas DataFrames, and as text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

from etq.errors import EtqError, printable_lines
from etq.inspector.grid import fancy_grid

if TYPE_CHECKING:
    import pandas


STATISTICS: Final = ("p10", "p50", "p90", "avg", "min", "max")
COLUMNS: Final = (
    *("event_name", "raw", *STATISTICS, "op_types", "delegate_debug_identifier", "stack_traces"),
    *("module_hierarchy", "is_delegated_op", "delegate_backend_name", "debug_data", "start_time"),
)
# A column with the unit of events whose values aren't times; None for times.
OTHER_UNIT: Final = "other_unit"
NOT_PRINTED: Final = ("raw", "delegate_debug_identifier", "stack_traces", "module_hierarchy", "debug_data")
_OF_TEXT: Final = ("event_block_name", "event_name")
_MOST_OPS: Final = 4

Columns = Mapping[str, list[Any]]
# Converts the metadata that a delegate logged for an event, one per run, to the columns to show.
MetadataParser = Callable[[list[Any]], Any]


def import_pandas() -> Any:
    """Return the module pandas. Raises `EtqError` if it isn't installed."""
    try:
        import pandas
    except ImportError:
        raise EtqError("DataFrames need pandas, which is not installed: pip install 'etq[pandas]'") from None
    return pandas


def shortened(op_types: list[str]) -> list[str] | str:
    """Return a list that is short enough to print; for a longer one, a text with its ends and its length."""
    if len(op_types) <= _MOST_OPS:
        return op_types
    first, second, last = (f"'{op_types[at]}'" for at in (0, 1, -1))
    return f"[{first}, {second} ... {last}] ({len(op_types)} total)"


def parsed_metadata(logged: list[Any], is_delegated: bool | None, parser: MetadataParser | None) -> Any:
    """Return the parser's result for a delegate's metadata; without a parser, the metadata."""
    return parser(logged) if parser is not None and is_delegated else logged


def columns_of(rows: Sequence[Mapping[str, Any]]) -> Columns:
    """Return rows of events as columns, one list per column."""
    return {name: [row[name] for row in rows] for name in (*COLUMNS, OTHER_UNIT)}


def frame_of(columns: Columns, units: str) -> pandas.DataFrame:
    """Return columns as a DataFrame; `units` is appended to the names of statistics; values in another unit are NaN.
    Raises `EtqError` without pandas.
    """
    pandas = import_pandas()
    others = columns[OTHER_UNIT]
    if not any(others):
        columns = {name: values for name, values in columns.items() if name != OTHER_UNIT}
    elif units:
        nan = float("nan")
        columns = {
            name: [nan if other else value for value, other in zip(values, others, strict=True)]
            if name in STATISTICS
            else values
            for name, values in columns.items()
        }
    made = {
        name + units if name in STATISTICS else name: pandas.Series(values, dtype=_dtype(name, values))
        for name, values in columns.items()
    }
    return pandas.DataFrame(made)


def object_frame(columns: Columns) -> pandas.DataFrame:
    """Return columns as a DataFrame of objects, in which a missing text stays None: pandas 3 makes it NaN."""
    pandas = import_pandas()
    return pandas.DataFrame({name: pandas.Series(values, dtype=object) for name, values in columns.items()})


def _dtype(name: str, values: list[Any]) -> Any:
    """Return the type that pandas gives a column when rows are concatenated: a missing number or text stays None."""
    if name in _OF_TEXT:
        return None if values and None not in values else object
    if name in STATISTICS:
        return object if None in values else float
    return bool if name == "is_delegated_op" and None not in values else object


def with_metadata(frame: pandas.DataFrame, metadata: Sequence[Any]) -> pandas.DataFrame:
    """Return a block's DataFrame with columns for its events' metadata: a mapping's fields, or a column of lists.

    Raises `EtqError` if a parser returned anything else.
    """
    pandas = import_pandas()
    fields_of_rows = []
    for each in metadata:
        if not isinstance(each, Mapping | list) and each is not None:
            raise EtqError(f"the parser of delegate metadata gave {each!r}; expected a mapping or a list")
        fields = {"delegate_debug_metadata": each} if isinstance(each, list) and each else dict(each or {})
        fields_of_rows.append(pandas.Series(fields, dtype=None if fields else object))
    if all(series.empty for series in fields_of_rows):
        return frame
    return pandas.concat([frame, pandas.DataFrame(fields_of_rows)], axis=1)


def printed_frame(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Return the part of a DataFrame to show: without wide columns, and without calls that only wrap another event."""
    shown = frame.drop(columns=list(NOT_PRINTED))
    shown = shown.loc[["OPERATOR_CALL" not in name for name in shown["event_name"]]].reset_index(drop=True)
    shown["op_types"] = [shortened(each) if isinstance(each, list) else each for each in shown["op_types"]]
    return shown


def show(frame: pandas.DataFrame, file: IO[str] | None) -> None:
    """Display a DataFrame in a notebook; anywhere else, print it as a grid."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        from IPython.display import display

        display(frame)
        return
    rows = [[index, *row] for index, row in zip(frame.index, frame.itertuples(index=False, name=None), strict=True)]
    stream = sys.stdout if file is None else file
    grid = fancy_grid(["", *map(str, frame.columns)], rows)
    print(printable_lines(grid) if stream.isatty() else grid, file=stream)
