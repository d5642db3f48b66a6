"""Many queries about one capture, as a report asks, at less than the cost of each alone.

Views find the key of their capture by a subquery, so a plan may read the events of all captures to join them with those
of one. Copies of the capture's rows, which have the tables' names, make the same views read these alone. And what
several views compute is computed once: temporary macros, which have the names of those that compute it, read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import duckdb

from etq import catalog
from etq.database.handles import Capture
from etq.errors import QueryError, message_of


class Locking(Protocol):
    """A warehouse, of which only the connection is used."""

    def locked(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """Lend the connection; other threads wait."""


# Not copied: the keys of other captures, to find their names.
_WHOLE: Final = ("captures",)
Arguments = Sequence[str | bool | None]

# Macros that several views of a trace call, with the arguments after the capture's key. Later ones read earlier ones.
OF_TRACES: Final[Mapping[str, Sequence[Arguments]]] = {
    "_trace_slices": [[]],
    "_launches": [[]],
    "_operator_calls": [[]],
    "_path_elements": [[None, None]],
    "_idle_causes": [["device", None]],
    "_launched_times": [["all"]],
    "_pass_slices": [[]],
    "_call_times": [[None, None, None, "all"]],
    "_rated_calls": [[None, None, None, None, None, False]],
}
# Of these, the macros that only views of devices call.
_OF_DEVICES: Final = ("_path_elements", "_idle_causes", "_rated_calls")
# The macros that rules of advice about a trace share; without devices, the first.
_OF_ADVICE: Final = ("_trace_slices", "_launches", "_operator_calls", "_path_elements")
_ADVICE: Final = "_advice_of_trace"
_ADVICE_OF_DUMPS: Final = "_advice_of_runtime"
# Parameters that choose runs by other than whether they are typical.
_CHOOSING: Final = ("steps", "phase", "method")

# The events of a capture with their times, from the temporary table. An error where runs are chosen.
_TIMED_EVENTS: Final = """
    CREATE TEMP MACRO _timed_events(capture_key, unit, steps, phase, method, runs) AS TABLE
    SELECT t.* REPLACE (coalesce(unit, t.unit) AS unit) FROM _answered_events('_computed_times') AS t
    WHERE CASE WHEN coalesce(steps, phase, method) IS NULL THEN runs = 'all' OR t.is_typical
        ELSE error('computed for other arguments') END
"""
# Rules that can't apply have no rows; UNION ALL BY NAME adds the other columns.
_NO_FINDINGS: Final = "AS TABLE SELECT NULL::VARCHAR AS rule WHERE false"
_KNOWN: Final = """
    SELECT EXISTS (FROM device_events WHERE capture_id = $1), EXISTS (FROM op_arguments WHERE capture_id = $1)
"""
_OF_DELEGATES: Final = "_delegate_findings"
_HAS_DELEGATES: Final = "FROM signatures WHERE capture_id = ? AND kind IN ('delegate', 'delegate_call') LIMIT 1"


def focused(warehouse: Locking, capture: Capture) -> AbstractContextManager[None]:
    """Have queries see the rows of this capture alone, but for the names of others, until the block ends.

    The warehouse is not changed: the copies are in memory. Other threads wait. Raises `QueryError` if there is not
    enough memory for the copies.
    """
    names = [
        table.name
        for table in catalog.tables()
        if table.name not in _WHOLE and any(column.name == "capture_id" for column in table.columns)
    ]
    # The order of rows is that of the table.
    rows = f"AS t WHERE t.capture_id = {capture.capture_id:d}"
    return _temporary(warehouse, (f"CREATE TEMP TABLE {name} AS FROM main.{name} {rows}" for name in names), names)


@contextmanager
def _temporary(
    warehouse: Locking, statements: Iterable[str], tables: Iterable[str], macros: Iterable[str] = ()
) -> Iterator[None]:
    """Create temporary tables and macros by these statements, until the block ends. Raises `QueryError`."""
    with warehouse.locked() as connection:
        try:
            for statement in statements:
                connection.execute(statement)
            yield
        except duckdb.Error as error:
            raise QueryError(message_of(error)) from error
        finally:
            for name in macros:
                connection.execute(f"DROP MACRO TABLE IF EXISTS temp.{name}")
            for name in tables:
                connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


def is_prepared(view: str) -> bool:
    """Whether `prepared_for` computes anything for a view or macro of this name."""
    return view in (_ADVICE, _ADVICE_OF_DUMPS)


def prepared_for(
    warehouse: Locking, view: str, capture: Capture, given: Mapping[str, Any]
) -> AbstractContextManager[None]:
    """Compute what a view or macro of this name needs for a capture, if it needs much of it several times: advice.
    `given` are its arguments. Errors are those of `computed_once`.
    """
    if view == _ADVICE:
        with warehouse.locked() as connection:
            [(has_devices, has_shapes)] = connection.execute(_KNOWN, [capture.capture_id]).fetchall()
        shared = {name: OF_TRACES[name] for name in (_OF_ADVICE if has_devices else _OF_ADVICE[:1])}
        shared |= {} if has_shapes else {"_roof_findings": []}
        return computed_once(warehouse, capture, {**shared, **_advice_in(given.get("unit"), has_devices)})
    if view == _ADVICE_OF_DUMPS and all(given.get(name) is None for name in _CHOOSING):
        return timed_once(warehouse, capture)
    return nullcontext()


def of_trace(unit: str | None, has_devices: bool) -> Mapping[str, Sequence[Arguments]]:
    """Return what several views of a trace compute, as `OF_TRACES`, and the advice about it in a unit of time.

    To plan the search for a capture and its unit takes 4 ms in each of 45 queries, to plan reading a row 1.
    """
    units = [[name] for name in dict.fromkeys([None, unit])]
    shared = {name: calls for name, calls in OF_TRACES.items() if has_devices or name not in _OF_DEVICES}
    return {"_capture": units, "_scaled_capture": units, **shared, **_advice_in(unit, has_devices)}


def _advice_in(unit: str | None, has_devices: bool) -> Mapping[str, Sequence[Arguments]]:
    """The advice about a trace. To plan the rules about devices takes nine tenths of its time."""
    advice: dict[str, Sequence[Arguments]] = {"_trace_advice": [[unit or "us"]]}
    return advice if has_devices else {"_device_findings": [], **advice}


def of_dumps(method: str | None, runs: str) -> Mapping[str, Sequence[Arguments]]:
    """Return what several views of an ETDump compute, as `OF_TRACES`: for runs of a method or all (None), and all."""
    chosen = [None, None, method, runs]
    every = [None, None, None, "all"]
    return {"_self_times": [chosen] if chosen == every else [chosen, every]}


def computed_once(
    warehouse: Locking, capture: Capture, shared: Mapping[str, Sequence[Arguments]] = OF_TRACES
) -> AbstractContextManager[None]:
    """Have views read what several of them compute from temporary tables, until the block ends.

    Within the block, only this capture can be asked about. `shared` has macros with the arguments that follow the key
    of the capture; other arguments are an error. Rules without arguments have no rows: they can't apply. The warehouse
    is not changed. Other threads wait. Raises `QueryError` if there is not enough memory.
    """
    statements = []
    for name, calls in shared.items():
        computed = " UNION ALL ".join(
            f"SELECT {number} AS call_number, s.* FROM {_call(name, capture, arguments)} AS s"
            for number, arguments in enumerate(calls)
        )
        statements += [f"CREATE TEMP TABLE _computed{name} AS {computed}"] if calls else []
        statements.append(f"CREATE TEMP {_reading(name, calls)}")
    return _temporary(warehouse, statements, [f"_computed{name}" for name in shared], shared)


def timed_once(warehouse: Locking, capture: Capture) -> AbstractContextManager[None]:
    """Have views of an ETDump read the times of its events from a temporary table, until the block ends; as
    `computed_once`, and an error for views of chosen runs.

    To plan how times are found takes 8 to 14 ms of CPU, in each place where a view does; advice has three.
    """
    key = capture.capture_id
    statements = [f"CREATE TEMP TABLE _computed_times AS FROM _answered_times({key:d}, {key:d})", _TIMED_EVENTS]
    with warehouse.locked() as connection:
        if not connection.execute(_HAS_DELEGATES, [key]).fetchall():
            statements.append(f"CREATE TEMP MACRO {_OF_DELEGATES}(advised, ops, clocks) {_NO_FINDINGS}")
    return _temporary(warehouse, statements, ["_computed_times"], ["_timed_events", _OF_DELEGATES])


@contextmanager
def reading(connection: duckdb.DuckDBPyConnection, tables: Mapping[str, str]) -> Iterator[None]:
    """Have macros of these names read temporary tables, whatever their arguments, until the block ends.

    The caller holds the connection's lock.
    """
    try:
        for name, table in tables.items():
            parameters = ", ".join(
                each.name if each.default is None else f"{each.name} := NULL" for each in catalog.named(name).parameters
            )
            connection.execute(f"CREATE TEMP MACRO {name}({parameters}) AS TABLE FROM temp.{table}")
        yield
    finally:
        for name in tables:
            connection.execute(f"DROP MACRO TABLE IF EXISTS temp.{name}")


def _call(name: str, capture: Capture, arguments: Arguments) -> str:
    return f"{name}({', '.join([str(capture.capture_id), *map(_literal, arguments)])})"


def _literal(value: str | bool | None) -> str:
    return catalog.quoted(value) if isinstance(value, str) else "NULL" if value is None else str(value)


def _reading(name: str, calls: Sequence[Arguments]) -> str:
    """Return the definition of a macro that reads what the macro of this name returned for these calls."""
    parameters = [catalog.identifier(each.name) for each in catalog.named(name).parameters]
    if not calls:
        return f"MACRO {name}({', '.join(parameters)}) {_NO_FINDINGS}"
    source = f"SELECT * EXCLUDE (call_number) FROM temp._computed{name}"
    if len(parameters) > 1:
        cases = []
        for number, arguments in enumerate(calls):
            pairs = zip(parameters[1:], arguments, strict=True)
            same = " AND ".join(f"{each} IS NOT DISTINCT FROM {_literal(value)}" for each, value in pairs)
            cases.append(f"WHEN {same} THEN {number}")
        source += f" WHERE call_number = CASE {' '.join(cases)} ELSE error('computed for other arguments') END"
    return f"MACRO {name}({', '.join(parameters)}) AS TABLE {source}"
