"""Rewrites of a query's tree where DuckDB and Spark interpret or write expressions differently.

Each function rewrites one difference, in place. They run before `etq.spark.dialect`, which writes the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from sqlglot import exp

from etq.errors import QueryError

Node = TypeVar("Node", bound=exp.Expr)

_OPPOSITES: Final[dict[type[exp.Expr], type[exp.Binary]]] = {
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.LT: exp.GTE,
}


def rewritten(query: exp.Query) -> exp.Query:
    """Change the query in place, and return it: Spark's result will be that of DuckDB.

    Raises QueryError for expressions without an equivalent in Spark.
    """
    for rewrite in (
        _rows_of_lists,
        _hints,
        _named_windows,
        _aliases_in_windows,
        _nearest_rows,
        _chosen_rows,
        _unnested_columns,
        _sums_that_may_overflow,
        _texts,
        _lists,
        _extremes,
        _any_values,
        _silently_wrong,
    ):
        rewrite(query)
    return query


def _all(query: exp.Query, kind: type[Node]) -> Iterator[Node]:
    """Yield all nodes of a kind, inner ones first, so that outer ones can be replaced."""
    yield from reversed(list(query.find_all(kind)))


def _rows_of_lists(query: exp.Query) -> None:
    """Simplify `unnest((SELECT list(r) FROM t AS r), recursive := true)`,
    which collects the rows of t and unnests them.
    """
    for unnest in _all(query, exp.Explode):
        select = unnest.parent
        listed = unnest.this.this if isinstance(unnest.this, exp.Subquery) else None
        if not (unnest.expressions and isinstance(select, exp.Select) and len(select.expressions) == 1):
            continue
        if not isinstance(listed, exp.Select) or not isinstance(listed.selects[0], exp.ArrayAgg):
            continue
        row = listed.selects[0].this
        listed.set("expressions", [exp.Column(this=exp.Star(), table=exp.to_identifier(row.name))])
        if select.args.get("from_"):
            raise QueryError("unnest of rows with other columns has no equivalent in Spark")
        select.replace(listed)


def _hints(query: exp.Query) -> None:
    """Remove the hint MATERIALIZED, which Spark lacks."""
    for each in query.find_all(exp.CTE):
        each.set("materialized", None)


def _named_windows(query: exp.Query) -> None:
    """Rename windows: in `lead(x) OVER w - y` Spark would read the name as `w-y`."""
    for window in _all(query, exp.Window):
        if window.args.get("alias") and isinstance(window.parent, exp.Binary):
            window.replace(exp.Paren(this=window.copy()))


def _aliases_in_windows(query: exp.Query) -> None:
    """Replace names of other columns of the same SELECT within window functions: Spark resolves them only outside."""
    for select in _all(query, exp.Select):
        aliases = {alias.alias: alias.this for alias in select.selects if isinstance(alias, exp.Alias)}
        for window in list(select.find_all(exp.Window)):
            if window.find_ancestor(exp.Select) is not select:
                continue
            for column in list(window.find_all(exp.Column)):
                if not column.table and column.name in aliases and column.find_ancestor(exp.Select) is select:
                    column.replace(exp.Paren(this=aliases[column.name].copy()))


def _nearest_rows(query: exp.Query) -> None:
    """Rewrite ASOF joins, which take the last row up to a time, or the first from it on:
    each row of the other side gets the time of the row after it, or before it.
    """
    for join in _all(query, exp.Join):
        if join.method.upper() != "ASOF":
            continue
        other, on = join.this, join.args["on"]
        conditions = list(on.flatten()) if isinstance(on, exp.And) else [on]
        (inequality,) = [each for each in conditions if isinstance(each, exp.Binary) and type(each) in _OPPOSITES]
        is_first = isinstance(inequality, (exp.LTE, exp.LT))
        alias, time = other.alias_or_name, inequality.expression
        keys = [side.copy() for each in conditions if each is not inequality for side in (each.this, each.expression)]
        keys = [each for each in keys if isinstance(each, exp.Column) and each.table == alias]
        following = exp.Window(
            this=exp.Lead(this=time.copy()),
            partition_by=keys,
            order=exp.Order(expressions=[exp.Ordered(this=time.copy(), desc=is_first)]),
        )
        source = exp.select(exp.Column(this=exp.Star(), table=exp.to_identifier(alias)), exp.alias_(following, "_next"))
        subquery = source.from_(other.copy()).subquery(alias)
        end = exp.column("_next", alias)
        opposite = _OPPOSITES[type(inequality)]
        within = exp.or_(end.is_(exp.null()), opposite(this=inequality.this.copy(), expression=end.copy()))
        join.set("method", None)
        join.set("this", subquery)
        join.set("on", exp.and_(*(each.copy() for each in conditions), within))


def _chosen_rows(query: exp.Query) -> None:
    """Rewrite QUALIFY, which filters rows by a window function, as a column and a filter in a query around it."""
    for select in _all(query, exp.Select):
        qualify = select.args.get("qualify")
        if qualify is None:
            continue
        if select.args.get("limit") or select.args.get("distinct"):
            raise QueryError("QUALIFY with LIMIT or DISTINCT has no equivalent in Spark")
        select.set("qualify", None)
        inner = select.copy()
        with_ = inner.args.get("with_")
        inner.set("with_", None)
        inner.append("expressions", exp.alias_(qualify.this, "_is_chosen"))
        star = exp.Star(except_=[exp.column("_is_chosen")])
        outer = exp.select(star).from_(inner.subquery("_chosen")).where(exp.column("_is_chosen"))
        if with_ is not None:
            outer.set("with_", with_)
        if select is query:
            query.args.clear()
            for key, value in outer.args.items():
                query.set(key, value)
        else:
            select.replace(outer)


def _unnested_columns(query: exp.Query) -> None:
    """Rewrite lists unnested within an expression, or several in one SELECT: Spark accepts only one,
    and only as a column.
    """
    for unnest in query.find_all(exp.Explode):
        if isinstance(unnest.this, exp.Null):  # NULL has no type; here it is an empty list
            unnest.set("this", exp.cast(unnest.this.copy(), "array<text>", dialect="spark"))
    for select in _all(query, exp.Select):
        unnests = [
            unnest
            for column in select.selects
            for unnest in column.find_all(exp.Explode)
            if unnest.find_ancestor(exp.Select) is select
        ]
        if not unnests or (
            len(unnests) == 1 and unnests[0].parent in (select, *select.selects) and not unnests[0].expressions
        ):
            continue
        if unnests[0].expressions:  # with recursive := true: the fields of each row
            unnests[0].replace(exp.Anonymous(this="inline", expressions=[unnests[0].this.copy()]))
            continue
        if select.args.get("group"):
            raise QueryError("unnest with aggregates has no equivalent in Spark")
        names = [f"item_{place}" for place in range(len(unnests))]
        zipped = exp.Anonymous(this="arrays_zip", expressions=[each.this.copy() for each in unnests])
        view = exp.Lateral(
            this=exp.Anonymous(this="inline", expressions=[zipped]),
            view=True,
            alias=exp.TableAlias(
                this=exp.to_identifier("_unnested"), columns=[exp.to_identifier(name) for name in names]
            ),
        )
        for name, each in zip(names, unnests, strict=True):
            column = exp.column(name, "_unnested")
            if each.parent is select:
                raise QueryError("an unnested column needs a name")
            each.replace(column)
        if not select.args.get("from_"):
            select.set("from_", exp.From(this=exp.select("1").subquery("_one")))
        select.append("laterals", view)


def _sums_that_may_overflow(query: exp.Query) -> None:
    """Make `try_cast(sum(x) AS BIGINT)` NULL beyond 64 bits, as in DuckDB:
    Spark's sum has 64 bits and raises an error.
    """
    for cast in _all(query, exp.TryCast):
        inner = cast.this
        while isinstance(inner, (exp.Filter, exp.Window)):
            inner = inner.this
        if isinstance(inner, exp.Sum):
            inner.replace(exp.Anonymous(this="try_sum", expressions=[inner.this.copy()]))


def _whole(aggregate: exp.Expr) -> exp.Expr:
    """Return an aggregate with its FILTER and OVER."""
    node = aggregate
    while isinstance(node.parent, (exp.Filter, exp.Window)) and node.parent.this is node:
        node = node.parent
    return node


def _like(aggregate: exp.Expr, other: exp.Expr) -> exp.Expr:
    """Return `other` with the FILTER and OVER of `aggregate`."""
    if _whole(aggregate) is aggregate:
        return other
    copied = _whole(aggregate).copy()
    innermost = copied
    while isinstance(innermost.this, (exp.Filter, exp.Window)):
        innermost = innermost.this
    innermost.set("this", other)
    return copied


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _struct(**fields: exp.Expr) -> exp.Expr:
    return exp.Struct(
        expressions=[exp.PropertyEQ(this=exp.to_identifier(name), expression=value) for name, value in fields.items()]
    )


def _field_of_each(items: exp.Expr, field: str) -> exp.Expr:
    each = exp.to_identifier("each")
    taken = exp.Dot(this=each.copy(), expression=exp.to_identifier(field))
    return exp.Transform(this=items, expression=exp.Lambda(this=taken, expressions=[each]))


def _ordering(order: exp.Order) -> list[exp.Ordered]:
    return list(order.expressions)


def _list_of(aggregate: exp.Expr, value: exp.Expr, order: list[exp.Ordered], *, is_distinct: bool) -> exp.Expr:
    """Return a list of all values of a group, including NULL, in order.
    Spark's own list omits NULL and has no order.
    """
    fields: dict[str, exp.Expr] = {}
    for place, each in enumerate(order):
        fields[f"unknown_{place}"] = each.this.copy().is_(exp.null())
        fields[f"key_{place}"] = each.this.copy()
    fields["value"] = value.copy()
    collected = _like(aggregate, _call("collect_set" if is_distinct else "collect_list", _struct(**fields)))
    falls = [bool(each.args.get("desc")) for each in order]
    if any(falls):
        collected = exp.ArraySort(this=collected, expression=_comparator(falls))
    elif order or is_distinct:
        collected = _call("sort_array", collected)
    return _field_of_each(collected, "value")


def _comparator(falls: list[bool]) -> exp.Expr:
    """Return a function that compares two rows of a list: by keys, some of them descending, then by values."""
    first, second = exp.to_identifier("first"), exp.to_identifier("second")
    keys = [(f"{kind}_{at}", fall and kind == "key") for at, fall in enumerate(falls) for kind in ("unknown", "key")]
    case = exp.Case()
    for name, fall in [*keys, ("value", False)]:
        one, other = (exp.Dot(this=each.copy(), expression=exp.to_identifier(name)) for each in (first, second))
        if fall:
            one, other = other, one
        case = case.when(exp.LT(this=one, expression=other), "-1")
        case = case.when(exp.GT(this=one.copy(), expression=other.copy()), "1")
    return exp.Lambda(this=case.else_("0"), expressions=[first, second])


def _parts(argument: exp.Expr) -> tuple[exp.Expr, list[exp.Ordered], bool]:
    """Return the value, order and distinctness of an aggregate's argument."""
    order: list[exp.Ordered] = []
    if isinstance(argument, exp.Order):
        order, argument = _ordering(argument), argument.this
    is_distinct = isinstance(argument, exp.Distinct)
    if isinstance(argument, exp.Distinct):
        (argument,) = argument.expressions
    if isinstance(argument, exp.Order):
        order, argument = _ordering(argument), argument.this
    return argument, order, is_distinct


def _unless_none(aggregate: exp.Expr, counted: exp.Expr, result: exp.Expr) -> exp.Expr:
    """Return NULL for no rows, as DuckDB does: Spark's lists would be empty."""
    count = _like(aggregate, exp.Count(this=counted))
    return exp.Case().when(exp.GT(this=count, expression=exp.Literal.number(0)), result)


def _lists(query: exp.Query) -> None:
    """Rewrite `list(x ORDER BY y)`: Spark would lose its order and its NULLs, and an empty list would not be NULL."""
    for aggregate in _all(query, exp.ArrayAgg):
        value, order, is_distinct = _parts(aggregate.this)
        if isinstance(value, exp.Column) and not value.table:
            select = aggregate.find_ancestor(exp.Select)
            sources = [select.args["from_"], *(select.args.get("joins") or [])] if select is not None else []
            if value.name in [each.this.alias_or_name for each in sources]:
                value = _struct_of_row(value.name)
        listed = _list_of(aggregate, value, order, is_distinct=is_distinct)
        _whole(aggregate).replace(_unless_none(aggregate, exp.Star(), listed))


def _struct_of_row(alias: str) -> exp.Expr:
    return exp.Struct(expressions=[exp.Column(this=exp.Star(), table=exp.to_identifier(alias))])


def _texts(query: exp.Query) -> None:
    """Rewrite `string_agg(x, ', ' ORDER BY y)` as an ordered list that is joined:
    Spark's function rejects some orders.
    """
    for aggregate in _all(query, exp.GroupConcat):
        value, order, is_distinct = _parts(aggregate.this)
        text = exp.cast(value.copy(), "text")
        if is_distinct and order:
            if [each.this for each in order] != [value]:
                raise QueryError("string_agg(DISTINCT x ORDER BY y) has no equivalent in Spark")
            order = [exp.Ordered(this=text.copy(), desc=order[0].args.get("desc"))]
        listed = _list_of(aggregate, text, order, is_distinct=is_distinct)
        separator = aggregate.args.get("separator") or exp.Literal.string(",")
        joined = _call("array_join", listed, separator.copy())
        _whole(aggregate).replace(_unless_none(aggregate, value.copy(), joined))


def _extremes(query: exp.Query) -> None:
    """Rewrite arg_max and arg_min, which omit rows whose value is NULL; Spark's max_by and min_by don't."""
    for kind in (exp.ArgMax, exp.ArgMin):
        for aggregate in _all(query, kind):
            condition = exp.not_(aggregate.this.copy().is_(exp.null()))
            holder = aggregate.parent
            if isinstance(holder, exp.Filter):
                holder.expression.set("this", exp.and_(holder.expression.this, condition))
            else:
                aggregate.replace(exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition)))


def _any_values(query: exp.Query) -> None:
    """Make any_value skip NULLs, as in DuckDB: Spark needs an argument for this, which FILTER must not precede."""
    for aggregate in _all(query, exp.AnyValue):
        node = aggregate.parent if isinstance(aggregate.parent, exp.IgnoreNulls) else aggregate
        node.replace(_call("any_value", aggregate.this.copy(), exp.true()))


def _silently_wrong(query: exp.Query) -> None:
    """Raise `QueryError` for expressions that Spark accepts but evaluates differently; no view may use them."""
    if any(each.find(exp.PercentileCont) for each in query.find_all(exp.WithinGroup)):
        raise QueryError("percentile_cont ... WITHIN GROUP is approximate in Spark: use quantile_cont")
    for join in query.find_all(exp.Join):
        if isinstance(join.this, exp.Unnest) and join.side:
            raise QueryError("LEFT JOIN unnest drops rows in Spark: use LEFT JOIN LATERAL")
    if any(each.name.lower() == "hash" for each in query.find_all(exp.Anonymous)):
        raise QueryError("hash() differs between engines")
