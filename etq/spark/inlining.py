"""Inlining of views and macros into the query that uses them, so that the result only reads base tables.

DuckDB's macros are templates: a parameter's name, if it has no table name before it, is replaced by the argument's
text. The same is done here. A call of a table macro becomes a common table expression of the statement, once for each
list of arguments; a call whose arguments are columns of the query around it becomes a lateral subquery in its place.
All common table expressions get unique names, as engines other than DuckDB don't support scopes for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

import sqlglot
from sqlglot import exp

from etq import catalog
from etq.catalog import SqlObject
from etq.errors import QueryError
from etq.spark.dialect import EtqDuckDB

_DIALECT: Final = EtqDuckDB
_BODIES: Final = {"view": " AS\n", "table macro": ") AS TABLE\n", "scalar macro": ") AS (\n"}
_DONE: Final = "inlined"  # marks finished parts, whose names are the statement's own


def inlined(query: str) -> exp.Query:
    """Return a query in DuckDB's SQL with all uses of etq's views and macros replaced.

    Raises QueryError for anything but a single query, and for arguments that a macro doesn't take.
    """
    try:
        tree = sqlglot.parse_one(query, read=_DIALECT)
    except sqlglot.errors.ParseError as error:
        raise QueryError(f"not valid SQL: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, exp.Query):
        raise QueryError("expected one query: SELECT ... or FROM ...")
    return _Statement().of(tree)


def used(query: str) -> set[str]:
    """Return the names of the views and macros that the query itself uses."""
    tree = sqlglot.parse_one(query, read=_DIALECT)
    named = {node.name.lower() for node in tree.find_all(exp.Table, exp.Anonymous)}
    return {name for name in named if name in catalog.objects()}


@cache
def _parsed(name: str) -> exp.Expr:
    """Return the query or expression of a view or macro."""
    each = catalog.objects()[name]
    text = each.statement.split(_BODIES[each.kind], 1)[1]
    return sqlglot.parse_one(text.removesuffix(")") if each.kind == "scalar macro" else text, read=_DIALECT)


@cache
def _defaults(name: str) -> dict[str, exp.Expr | None]:
    """Return the parameters of a macro with their defaults, None for required ones."""
    parameters = catalog.objects()[name].parameters
    return {
        each.name: None if each.default is None else sqlglot.parse_one(each.default, read=_DIALECT)
        for each in parameters
    }


def _macro(node: exp.Expr, kind: str) -> SqlObject | None:
    """Return the macro of that kind that a node calls, None if it calls none."""
    macro = catalog.objects().get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    return macro if macro is not None and macro.kind == kind else None


def _arguments(call: exp.Anonymous, macro: SqlObject) -> dict[str, exp.Expr]:
    """Return the argument of each parameter. Raises QueryError for surplus, unknown and missing arguments."""
    bound = dict(_defaults(macro.name))
    positions = list(bound)
    for place, argument in enumerate(call.expressions):
        if isinstance(argument, (exp.PropertyEQ, exp.Kwarg)):
            name, value = argument.this.name.lower(), argument.expression
        elif place < len(positions):
            name, value = positions[place], argument
        else:
            raise QueryError(f"{macro.name} takes {len(positions)} arguments: {', '.join(positions)}")
        if name not in bound:
            raise QueryError(f"{macro.name} has no parameter {name}; it has {', '.join(positions)}")
        bound[name] = value
    if missing := [name for name, value in bound.items() if value is None]:
        raise QueryError(f"{macro.name} needs an argument for {', '.join(missing)}")
    return {name: value for name, value in bound.items() if value is not None}


def _substituted(body: exp.Expr, arguments: dict[str, exp.Expr]) -> exp.Expr:
    """Return a macro's body with its arguments in place of its parameters."""
    body = body.copy()
    _rename_lambdas(body, arguments)
    for column in list(body.find_all(exp.Column)):
        value = None if column.table else arguments.get(column.name.lower())
        if value is None:
            continue
        value = value.copy()
        if isinstance(value, (exp.Binary, exp.Unary, exp.Between, exp.In)) and not isinstance(value, exp.Paren):
            value = exp.Paren(this=value)
        value.meta[_DONE] = True
        if column.parent is None:
            return value
        column.replace(value)
    return body


def _rename_lambdas(body: exp.Expr, arguments: dict[str, exp.Expr]) -> None:
    """Rename parameters of lambdas that have the name of an argument."""
    taken = {name.name for value in arguments.values() for name in value.find_all(exp.Identifier)}
    for function in body.find_all(exp.Lambda):
        for parameter in function.expressions:
            if parameter.name in taken:
                old, new = parameter.name, f"{parameter.name}_"
                for name in list(function.find_all(exp.Identifier)):
                    if name.name == old and not (isinstance(name.parent, exp.Column) and name.parent.table != old):
                        name.set("this", new)


def _is_bound(column: exp.Expr, within: exp.Expr) -> bool:
    """Whether a column of an argument belongs to a query within the argument itself.

    A column without a table name belongs to the innermost query, if there is one.
    """
    wanted = column.args["table"].name.lower() if column.args.get("table") else None
    node = column
    while node is not within and node.parent is not None:
        node = node.parent
        if isinstance(node, exp.Select):
            sources = [node.args.get("from_"), *(node.args.get("joins") or [])]
            named = [source.this.alias_or_name.lower() for source in sources if source is not None]
            if wanted in named or (wanted is None and named):
                return True
    return False


def _is_all_of(query: exp.Query, name: str) -> bool:
    """Whether a query is just `FROM name`."""
    if not isinstance(query, exp.Select) or [type(each) for each in query.selects] != [exp.Star]:
        return False
    star, source = query.selects[0], query.args["from_"].this if query.args.get("from_") else None
    if not isinstance(source, exp.Table) or source.name != name or source.args.get("joins"):
        return False
    others = [key for key, value in query.args.items() if value and key not in ("expressions", "from_")]
    return not others and not star.args.get("except_") and not star.args.get("replace")


@dataclass
class _Statement:
    """A statement under construction: its common table expressions, in order."""

    expressions: list[exp.CTE] = field(default_factory=list)
    names: set[str] = field(default_factory=lambda: set(catalog.objects()))
    calls: dict[tuple[str, ...], str] = field(default_factory=dict)  # name by macro and arguments
    local: set[str] = field(default_factory=set)  # names of common table expressions that can't be moved
    is_recursive: bool = False

    def of(self, query: exp.Query) -> exp.Query:
        """Return the statement of a query."""
        self._expand(query, {}, "", hoists=True)
        if self.expressions and _is_all_of(query, self.expressions[-1].alias):
            # The order is that of the result only if the query isn't part of another query.
            query = self.expressions.pop().this
        if self.expressions:
            query.set("with_", exp.With(expressions=self.expressions, recursive=self.is_recursive or None))
        return query

    def _named(self, wanted: str) -> str:
        """Return a name that is unique in the statement."""
        name, count = wanted, 1
        while name in self.names:
            count += 1
            name = f"{wanted}_{count}"
        self.names.add(name)
        return name

    def _expand(self, node: exp.Expr, scope: dict[str, str], owner: str, *, hoists: bool) -> None:
        """Expand everything within a node, in place. `scope` maps names of common table expressions to those in the
        statement.
        """
        if node.meta.get(_DONE):
            return
        if isinstance(node, exp.Query) and node.args.get("with_"):
            scope = self._expand_with(node, scope, owner, hoists=hoists)
        for child in list(node.iter_expressions()):
            self._expand(child, scope, owner, hoists=hoists)
        if isinstance(node, exp.Table):
            self._expand_table(node, scope)
        elif (macro := _macro(node, "scalar macro")) is not None and not isinstance(node.parent, exp.Table):
            assert isinstance(node, exp.Anonymous)
            node.replace(self._value(node, macro))

    def _expand_with(self, node: exp.Query, scope: dict[str, str], owner: str, *, hoists: bool) -> dict[str, str]:
        """Expand the common table expressions of a query; move them to the statement, or rename them in place."""
        clause: exp.With = node.args["with_"]
        scope = dict(scope)
        if hoists:
            node.set("with_", None)
        self.is_recursive |= bool(clause.args.get("recursive")) and hoists
        for each in clause.expressions:
            old = each.alias.lower()
            name = self._named(f"{owner}_{old}" if owner else old)
            if clause.args.get("recursive") and any(table.name.lower() == old for table in each.find_all(exp.Table)):
                self.local.add(name)  # a common table expression that refers to itself can't be moved out
                self._expand(each.this, {**scope, old: name}, owner, hoists=False)
                self.local.discard(name)
            else:
                self._expand(each.this, scope, owner, hoists=hoists)
            scope[old] = name
            each.args["alias"].set("this", exp.to_identifier(name))
            each.meta[_DONE] = True
            if hoists:
                self.expressions.append(each)
            else:
                self.local.add(name)
        return scope

    def _expand_table(self, table: exp.Table, scope: dict[str, str]) -> None:
        """Replace the name of a common table expression, a view or a table macro by the name of the statement's
        expression.
        """
        if (macro := _macro(table.this, "table macro")) is not None:
            self._expand_table_macro(table, macro)
            return
        old = table.name.lower()
        known = catalog.objects().get(old)
        if old in scope:
            new = scope[old]
        elif known is not None and known.kind == "view" and not table.db:
            new = self._view(known)
        else:
            return
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
        table.set("this", exp.to_identifier(new))

    def _view(self, view: SqlObject) -> str:
        if (name := self.calls.get((view.name,))) is None:
            name = self._hoisted(view, _parsed(view.name).copy(), ())
        return name

    def _hoisted(self, source: SqlObject, body: exp.Expr, arguments: tuple[str, ...]) -> str:
        """Return the name of the statement's common table expression with the body of a view or macro."""
        wanted = source.name.strip("_")
        self._expand(body, {}, wanted, hoists=True)
        name = self._named(wanted if wanted != source.name or source.kind != "view" else f"{wanted}_view")
        named = exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(name)))
        named.meta["is_view"] = source.kind == "view"
        self.expressions.append(named)
        self.calls[source.name, *arguments] = name
        return name

    def _depends(self, arguments: dict[str, exp.Expr]) -> bool:
        """Whether arguments refer to the query around the call, by its columns or its common table expressions."""
        for value in arguments.values():
            for node in value.find_all(exp.Column, exp.Table, exp.Identifier):
                if isinstance(node, exp.Table):
                    if node.name in self.local:
                        return True
                elif isinstance(node, exp.Column):
                    if not isinstance(node.this, exp.Star) and not _is_bound(node, value):
                        return True
                elif node is value:  # a lambda's parameter
                    return True
        return False

    def _expand_table_macro(self, table: exp.Table, macro: SqlObject) -> None:
        call = table.this
        arguments = _arguments(call, macro)
        alias = table.alias or macro.name
        if self._depends(arguments):
            body = _substituted(_parsed(macro.name), arguments)
            self._expand(body, {}, macro.name.strip("_"), hoists=False)
            self._replace_by_lateral(table, body, alias)
            return
        key = tuple(f"{name}={value.sql(_DIALECT)}" for name, value in arguments.items())
        name = self.calls.get((macro.name, *key))
        if name is None:
            name = self._hoisted(macro, _substituted(_parsed(macro.name), arguments), key)
        table.set("this", exp.to_identifier(name))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))

    def _replace_by_lateral(self, table: exp.Table, body: exp.Expr, alias: str) -> None:
        """Replace a table by a subquery that sees the columns before it; `LATERAL (FROM f(x))` is already one."""
        subquery = exp.Subquery(this=body, alias=exp.TableAlias(this=exp.to_identifier(alias)))
        parent = table.parent
        if isinstance(parent, exp.Join):
            table.replace(exp.Lateral(this=exp.Subquery(this=body), alias=subquery.args["alias"]))
        else:
            table.replace(subquery)

    def _value(self, call: exp.Anonymous, macro: SqlObject) -> exp.Expr:
        """Return the expression that replaces a call of a scalar macro."""
        arguments = _arguments(call, macro)
        body = _parsed(macro.name)
        if not isinstance(body, exp.Query):
            value = _substituted(body, arguments)
            holder = exp.Paren(this=value)
            self._expand(holder, {}, macro.name.strip("_"), hoists=False)
            inner = holder.this
            # sqlglot also represents AND and OR as functions.
            is_closed = isinstance(inner, (exp.Func, exp.Paren)) and not isinstance(inner, exp.Connector)
            return inner if is_closed else holder
        if self._depends(arguments):
            value = _substituted(body, arguments)
            self._expand(value, {}, macro.name.strip("_"), hoists=False)
            return exp.Subquery(this=value)
        key = tuple(f"{name}={value.sql(_DIALECT)}" for name, value in arguments.items())
        name = self.calls.get((macro.name, *key))
        if name is None:
            value = _substituted(body, arguments)
            assert isinstance(value, exp.Query)
            (selected,) = value.selects
            value.set("expressions", [exp.alias_(selected.unalias(), "value")])
            name = self._hoisted(macro, value, key)
        selected = exp.select(exp.column("value", name)).from_(exp.to_table(name))
        selected.meta[_DONE] = True
        return exp.Subquery(this=selected)
