"""Rules by which sqlglot reads and writes the functions of DuckDB's SQL that Spark lacks or names differently.

Differences that need more than another function are rewritten in the tree first: see `etq.spark.rewrites`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.duckdb import DuckDBParser

from etq.database.functions import PREFIX
from etq.errors import QueryError

INFINITY: Final = "DOUBLE('Infinity')"


class EtqDuckDB(DuckDB):
    """DuckDB's SQL as `etq.sql` uses it: `len` only for lists, `length` only for texts,
    and positions that count from 1.
    """

    INDEX_OFFSET = 0  # positions stay as they are written

    class Parser(DuckDBParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {
            **DuckDBParser.FUNCTIONS,
            "LEN": exp.ArraySize.from_arg_list,
        }


def _bracket(writer: SparkGenerator, node: exp.Bracket) -> str:
    """Return an element of a list by its position from 1, a field, or a part of a list; it is NULL if there is none."""
    (index,) = node.expressions
    if isinstance(index, exp.Slice):
        if index.args.get("step") is not None:
            raise QueryError("a slice of a list with a step has no equivalent in Spark")
        start = writer.sql(index, "this") or "1"
        size = f"ARRAY_SIZE({writer.sql(node.this)})"
        end = writer.sql(index, "expression")
        length = end if end and start == "1" else f"GREATEST({end or size} - {start} + 1, 0)"
        return f"SLICE({writer.sql(node.this)}, {start}, {length})"
    if index.is_string:
        return f"{writer.sql(node.this)}.{writer.sql(exp.to_identifier(index.name))}"
    if isinstance(index, exp.Neg):
        return writer.func("TRY_ELEMENT_AT", node.this, index)
    place = exp.Literal.number(int(index.name) - 1) if index.is_int else exp.Sub(this=_closed(index), expression=_one())
    return writer.func("GET", node.this, place)


def _contains(writer: SparkGenerator, node: exp.ArrayContains) -> str:
    """Return whether a list contains an element. If the list is NULL, which Spark rejects, the result is NULL."""
    if isinstance(node.this, exp.Null):
        return "CAST(NULL AS BOOLEAN)"
    return writer.func("ARRAY_CONTAINS", node.this, node.expression)


def _one() -> exp.Expr:
    return exp.Literal.number(1)


def _closed(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node.copy()) if isinstance(node, exp.Binary) else node.copy()


def _range(writer: SparkGenerator, node: exp.GenerateSeries) -> str:
    """Return a list of numbers, empty if the range is: Spark's SEQUENCE would count downwards."""
    start, end = writer.sql(node, "start"), writer.sql(node, "end")
    step = node.args.get("step")
    is_falling = isinstance(step, exp.Neg)
    last = f"{'LEAST' if is_falling else 'GREATEST'}({start}, {end})"
    within = (">" if is_falling else "<") + ("" if node.args.get("is_end_exclusive") else "=")
    numbers = writer.func("SEQUENCE", start, last, *([writer.sql(step)] if step is not None else []))
    return f"FILTER({numbers}, each -> each {within} {end})"


def _divided(writer: SparkGenerator, node: exp.Div) -> str:
    """Return a quotient; division by zero gives infinity or NaN in DuckDB, and an error in Spark."""
    if _is_never_zero(node.expression):
        return writer.binary(node, "/")
    divided, divisor = writer.sql(node.this), writer.sql(node.expression)
    return f"CASE WHEN {divisor} = 0 THEN ({divided}) * {INFINITY} ELSE {divided} / {divisor} END"


def _is_never_zero(node: exp.Expr) -> bool:
    if isinstance(node, (exp.Paren, exp.Cast)):
        return _is_never_zero(node.this)
    if isinstance(node, (exp.Mul, exp.Div)):
        return _is_never_zero(node.this) and _is_never_zero(node.expression)
    if isinstance(node, exp.Greatest):
        return any(each.is_number and float(each.name) > 0 for each in (node.this, *node.expressions))
    return isinstance(node, exp.Nullif) or (isinstance(node, exp.Literal) and float(node.name) != 0)


def _literal(writer: SparkGenerator, node: exp.Literal) -> str:
    """Return a number with a fraction as DOUBLE. All values next to it are DOUBLE,
    so the result equals that of DuckDB.
    """
    if node.is_string or node.is_int:
        return SparkGenerator.literal_sql(writer, node)
    return f"{node.name}D"


def _log(writer: SparkGenerator, node: exp.Log) -> str:
    """Return a logarithm: with one argument, DuckDB's is to the base of 10, Spark's is natural."""
    return writer.function_fallback_sql(node) if node.args.get("expression") else writer.func("LOG10", node.this)


def _full_match(writer: SparkGenerator, node: exp.RegexpFullMatch) -> str:
    if not node.expression.is_string:
        raise QueryError("regexp_full_match of a pattern that isn't a text has no equivalent in Spark")
    whole = exp.Literal.string(rf"\A(?:{node.expression.name})\z")
    return f"{writer.sql(node.this)} RLIKE {writer.sql(whole)}"


def _reduced(writer: SparkGenerator, items: exp.Expr, function: exp.Expr, start: exp.Expr | None = None) -> str:
    """Return a reduction of a list: Spark's AGGREGATE needs a start value;
    DuckDB's list_reduce without one starts with the first element.
    """
    if start is not None:
        return writer.func("AGGREGATE", items, start, function)
    listed = writer.sql(items)
    rest = f"SLICE({listed}, 2, GREATEST(ARRAY_SIZE({listed}) - 1, 0))"
    return f"AGGREGATE({rest}, GET({listed}, 0), {writer.sql(function)})"


def _list_median(writer: SparkGenerator, items: exp.Expr) -> str:
    ordered = f"ARRAY_SORT({writer.sql(items)})"
    size = f"ARRAY_SIZE({writer.sql(items)})"
    return f"((GET({ordered}, ({size} - 1) DIV 2) + GET({ordered}, {size} DIV 2)) / 2)"


def _formatted(writer: SparkGenerator, pattern: exp.Expr, *values: exp.Expr) -> str:
    """Return a formatted number. Java's %f rounds halves differently from C's; its %g keeps trailing zeros.

    Raises QueryError for other formats.
    """
    remaining = list(values)
    shown: list[str] = []

    def of_java(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%%"
        number = writer.sql(remaining.pop(0))
        shown.append(_significant(number, int(match[1] or 6)) if match[2] == "g" else number)
        return "%s" if match[2] == "g" else match[0]

    text = re.sub(r"%(?:\.(\d+))?([fgsd%])", of_java, pattern.name)
    if remaining or "{" in text or not pattern.is_string:
        raise QueryError(f"the format {pattern.name!r} has no equivalent in Spark")
    return writer.func("FORMAT_STRING", exp.Literal.string(text), *shown)


def _significant(number: str, digits: int) -> str:
    """Return a number as %.{digits}g formats it: with that many digits, without trailing zeros."""
    short = f"FORMAT_STRING('%.{digits - 1}e', CAST({number} AS DOUBLE))"
    fixed = rf"REGEXP_REPLACE(CAST(CAST({short} AS DECIMAL(38, 18)) AS STRING), '\\.?0+$', '')"
    return (
        f"CASE WHEN {number} = 0 THEN '0' "
        f"WHEN ABS(CAST({short} AS DOUBLE)) >= 1e-4 AND ABS(CAST({short} AS DOUBLE)) < 1e{digits} THEN {fixed} "
        rf"ELSE REGEXP_REPLACE({short}, '\\.?0+e', 'e') END"
    )


_FUNCTIONS: Final[dict[str, Callable[..., str]]] = {
    "error": lambda writer, text: writer.func("RAISE_ERROR", text),
    "fsum": lambda writer, number: writer.func("SUM", number),
    "geomean": lambda writer, number: f"EXP(AVG(LN({writer.sql(number)})))",
    "list_has_all": lambda writer, items, wanted: f"(ARRAY_SIZE({writer.func('ARRAY_EXCEPT', wanted, items)}) = 0)",
    "list_position": lambda writer, items, wanted: f"NULLIF({writer.func('ARRAY_POSITION', items, wanted)}, 0)",
    "list_sum": lambda writer, numbers: f"AGGREGATE({writer.sql(numbers)}, 0D, (total, number) -> total + number)",
    "list_slice": lambda writer, items, start, end: (
        f"SLICE({writer.sql(items)}, {writer.sql(start)}, GREATEST({writer.sql(end)} - {writer.sql(start)} + 1, 0))"
    ),
    "list_reduce": _reduced,
    "list_median": _list_median,
    "isfinite": lambda writer, number: f"(NOT ISNAN({writer.sql(number)}) AND ABS({writer.sql(number)}) < {INFINITY})",
    "printf": _formatted,
    "try_sum": lambda writer, number: writer.func("TRY_SUM", number),
    "collect_list": lambda writer, item: writer.func("COLLECT_LIST", item),
    "collect_set": lambda writer, item: writer.func("COLLECT_SET", item),
    "any_value": lambda writer, value, skips: writer.func("ANY_VALUE", value, skips),
    "arrays_zip": lambda writer, *lists: writer.func("ARRAYS_ZIP", *lists),
    "inline": lambda writer, rows: writer.func("INLINE", rows),
    "inline_outer": lambda writer, rows: writer.func("INLINE_OUTER", rows),
    "array_join": lambda writer, items, between: writer.func("ARRAY_JOIN", items, between),
    "sort_array": lambda writer, items: writer.func("SORT_ARRAY", items),
    "json_valid": lambda writer, text: f"({writer.func('TRY_PARSE_JSON', text)} IS NOT NULL)",
}


def _called(writer: SparkGenerator, node: exp.Anonymous) -> str:
    """Return the call of a function that sqlglot doesn't know. Raises QueryError for a function of DuckDB alone."""
    name = node.name.lower()
    if name.startswith(PREFIX):  # registered with the session
        return writer.func(name, *node.expressions)
    if (write := _FUNCTIONS.get(name)) is None:
        raise QueryError(f"the function {name} has no equivalent in Spark")
    return write(writer, *node.expressions)


class EtqSpark(Spark):
    """Spark's SQL, from version 4.1 on (recursive queries), in ANSI mode."""

    INDEX_OFFSET = 0

    class Generator(SparkGenerator):
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()  # nested WITH stays in place
        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
            **SparkGenerator.TYPE_MAPPING,
            exp.DType.INT128: "DECIMAL(38, 0)",
            exp.DType.UBIGINT: "DECIMAL(20, 0)",
            exp.DType.UINT: "BIGINT",
            exp.DType.TIMESTAMP: "TIMESTAMP_NTZ",
        }
        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **SparkGenerator.TRANSFORMS,
            exp.Anonymous: _called,
            exp.ArrayContains: _contains,
            exp.ArrayOverlaps: lambda writer, node: writer.func("ARRAYS_OVERLAP", node.this, node.expression),
            exp.ArraySize: lambda writer, node: writer.func("ARRAY_SIZE", node.this),
            exp.Bracket: _bracket,
            exp.Div: _divided,
            exp.Format: lambda writer, node: _formatted(writer, node.this, *node.expressions),
            exp.GenerateSeries: _range,
            exp.IsInf: lambda writer, node: f"(ABS({writer.sql(node.this)}) = {INFINITY})",
            exp.Literal: _literal,
            exp.Log: _log,
            exp.PercentileCont: lambda writer, node: writer.func("PERCENTILE", node.this, node.expression),
            exp.RegexpFullMatch: _full_match,
        }
