"""From which columns of tables each column of a view is computed, by sqlglot.

What only selects, groups or orders rows doesn't count: joins, WHERE, FILTER, conditions of CASE, OVER. All arguments of
a function do, and of a recursion one step. Nothing is known of a column if sqlglot doesn't resolve its query, if a
function of Python gives its rows, or if its expression calls a macro that reads tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sqlglot import errors, exp, parse_one
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from etq import catalog

UNKNOWN: Final = frozenset({"?"})
# The parts of an expression that give its value; of others all do.
_VALUES: Final[dict[type, tuple[str, ...]]] = {exp.Case: ("ifs", "default"), exp.If: ("true", "false"), exp.Exists: ()}
_VALUES.update(dict.fromkeys((exp.Filter, exp.Window, exp.Order, exp.ArgMin, exp.ArgMax), ("this",)))


def on_config(config: Any) -> None:
    """MkDocs: gives reference.py the origins of all columns."""
    config.extra["origins"] = Origins(catalog.objects()).known


class Origins:
    """The origins of the columns of tables, views and table macros, and of those that they use."""

    def __init__(self, names: Iterable[str]) -> None:
        self.known: dict[str, dict[str, frozenset[str]]] = {}  # by object and column: columns of tables, `table.column`
        self._templates: dict[str, tuple[list[str], Any]] = {}  # macros that take names of tables
        self._readers: set[str] = set()  # scalar macros that read tables
        self._parameters: set[str] = set()
        self._done: dict[tuple[Scope, str], frozenset[str]] = {}
        for name in catalog.in_order(names):
            self._add(catalog.named(name))

    def _add(self, each: catalog.SqlObject) -> None:
        body = re.split(r"\bAS(?: TABLE)?\n", each.statement, maxsplit=1)[-1].rstrip(";\n ")
        self._parameters.update(column.name for column in each.parameters)
        if each.kind == "table":
            self.known[each.name] = {column.name: frozenset({f"{each.name}.{column.name}"}) for column in each.columns}
        elif each.kind == "scalar macro":
            self._readers |= {each.name} if re.search(r"\b(?:SELECT|FROM)\b", body) else set()
        else:
            query = parse_one(body, read="duckdb")
            for table in [call for call in query.find_all(exp.Table) if isinstance(call.this, exp.Anonymous)]:
                if table.this.name in self._templates:
                    table.replace(self._filled(table))
                elif table.this.name != "query_table":  # arguments only select rows
                    table.set("this", exp.to_identifier(table.this.name))
            if any(table.this.name == "query_table" for table in query.find_all(exp.Table)):
                self._templates[each.name] = [column.name for column in each.parameters], query
            else:
                self.known[each.name] = self._of_query(query)

    def _filled(self, call: exp.Table) -> Any:
        """The query of a macro that takes names of tables, with these."""
        parameters, template = self._templates[call.this.name]
        body = template.copy()
        for table in [each for each in body.find_all(exp.Table) if each.this.name == "query_table"]:
            given = call.this.expressions[parameters.index(table.this.expressions[0].name)]
            table.this.set("expressions", [given.copy()])
            if isinstance(given, exp.Literal):
                table.set("this", exp.to_identifier(given.name))
        return body.subquery(call.alias)

    def _of_query(self, query: Any) -> dict[str, frozenset[str]]:
        used = {table.name for table in query.find_all(exp.Table)}.intersection(self.known)
        schema: dict[str, object] = {name: dict.fromkeys(self.known[name] or ["_"], "INT") for name in used}
        try:
            qualified = qualify(query.copy(), schema=schema, dialect="duckdb", validate_qualify_columns=False)
        except errors.SqlglotError:
            return {name: UNKNOWN for name in query.named_selects if name != "*"}
        scope: Any = build_scope(qualified)
        return {name: self._of_column(scope, name) for name in scope.expression.named_selects}

    def _of_column(self, scope: Scope, name: str) -> frozenset[str]:
        key = scope, name
        if key not in self._done:
            self._done[key] = frozenset()  # what a recursive query takes from itself adds nothing
            self._done[key] = frozenset().union(*self._of_select(scope, name))
        return self._done[key]

    def _of_select(self, scope: Scope, name: str) -> Iterator[frozenset[str]]:
        query: Any = scope.expression
        names = query.named_selects if isinstance(query, exp.Query) else []
        if isinstance(query, exp.SetOperation):
            for part in scope.set_operation_scopes:
                inner = part.expression.named_selects  # type: ignore[attr-defined]
                if not query.args.get("by_name"):
                    same = len(inner) == len(names) and name in names
                    yield self._of_column(part, inner[names.index(name)]) if same else UNKNOWN
                elif name in inner:
                    yield self._of_column(part, name)
        elif name in names:
            yield from self._of_value(scope, query.selects[names.index(name)])
        elif not isinstance(query, exp.Values) or query.find(exp.Column):
            yield UNKNOWN

    def _of_value(self, scope: Scope, node: Any) -> Iterator[frozenset[str]]:
        if isinstance(node, exp.Column) and (node.table or node.name not in self._parameters):
            source = scope.sources.get(node.table)
            known = self.known.get(source.name, {}) if isinstance(source, exp.Table) else {}
            yield self._of_column(source, node.name) if isinstance(source, Scope) else known.get(node.name, UNKNOWN)
        elif isinstance(node, exp.Query):
            [inner] = [each for each in scope.subquery_scopes if each.expression is node.unnest()]
            yield from (self._of_column(inner, name) for name in node.named_selects)
        elif isinstance(node, exp.TableColumn) or node.name in self._readers:  # of a whole row, any part may be used
            yield UNKNOWN
        elif node.name != "error":
            for child in node.iter_expressions():
                if child.arg_key in _VALUES.get(type(node), (child.arg_key,)):
                    yield from self._of_value(scope, child)
