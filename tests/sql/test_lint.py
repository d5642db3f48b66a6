"""The SQL follows its rules: objects are documented, named and layered as in `etq.catalog` and CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import etq
from etq import catalog
from etq.catalog import SqlObject
from etq.database.functions import PREFIX, register
from etq.database.library import files
from etq.warehouse.warehouse import Warehouse

OBJECTS = list(catalog.objects().values())
ROOT = Path(__file__).parents[2] / "sql"
# A theme may use the tables and the themes before it.
THEMES = (
    *("tables", "programs", "captures", "records", "events", "rollups", "execute", "costs", "memory", "values"),
    *("graphs", "traces", "overview", "compare", "trends", "fleet"),
)


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    """An empty warehouse that all tests here share; none writes to it."""
    with etq.open() as opened:
        register(opened.connection)
        yield opened


# Between the bodies of a scalar macro of several types, which are read as one row.
OVERLOAD = re.compile(r"\), \([\w, ]+\) AS \(")


@cache
def body(each: SqlObject) -> exp.Expr:
    """The query or expression of a view or macro; not to be changed."""
    after = {"view": " AS\n", "table macro": ") AS TABLE\n", "scalar macro": ") AS ("}[each.kind]
    assert after in each.statement, f"{each.name}: write{after.rstrip()}, then the query, without brackets around it"
    text = each.statement.split(after, 1)[1]
    if OVERLOAD.search(text):
        text = f"SELECT ({OVERLOAD.sub('), (', text)})"
    return sqlglot.parse_one(text.removesuffix(")") if each.kind == "scalar macro" else text, read="duckdb")


def theme_of(each: SqlObject) -> str:
    return each.file.split("/")[0]


def undocumented(each: SqlObject) -> Iterator[str]:
    if not each.text.endswith("."):
        yield "documentation is made of sentences"
    for column in (*each.columns, *(one for one in each.parameters if each.is_public or one.text)):
        words = column.text.casefold().split()
        if not words or words == column.name.split("_"):
            yield f"{column.name} needs a word on what it is"
        if column.text != " ".join(column.text.split()):
            yield f"{column.name}: one space between words"
        is_sentence = column.text.endswith(".") and not column.text.endswith("...")
        if is_sentence or column.text.endswith((",", ";", ":", "-")):
            yield f"{column.name} is documented by a phrase, without a full stop"
        if column.text.count("(") != column.text.count(")"):
            yield f"{column.name}: a bracket is left open"


def unqualified(each: SqlObject) -> Iterator[str]:
    """An unqualified column with a parameter's name silently means the parameter; a qualified column never does.

    An unqualified name must be a parameter, a lambda's, an alias of the same SELECT, or a row of its FROM.
    """
    if each.kind == "table":
        return
    tree = body(each)
    parameters = {parameter.name for parameter in each.parameters}
    for column in tree.find_all(exp.Column):
        # What EXCLUDE leaves out can't be qualified.
        if column.table or column.find_ancestor(exp.Star):
            continue
        known, select, in_lambda = {*parameters}, column.find_ancestor(exp.Select), column.find_ancestor(exp.Lambda)
        if select:
            known |= {alias.alias for alias in select.selects if alias.alias}
            # A whole row, as in `list(r)`: a table in FROM, unless a parameter has that name.
            known |= {source.alias for source in select.find_all(exp.Table)} - parameters
        if in_lambda:
            known |= {name.name for name in in_lambda.expressions}
        if column.name not in known | parameters:
            yield f"{column.name} is not qualified"
    for select in tree.find_all(exp.Select):
        # If an alias has a parameter's name, the name refers to the parameter although it looks like the alias.
        for named in [alias for alias in select.selects if alias.alias in parameters]:
            for other in select.selects:
                for column in other.find_all(exp.Column) if other is not named else ():
                    is_used = column.name == named.alias and not column.table
                    if is_used and column.find_ancestor(exp.Select) is select:
                        yield f"{named.alias} is an alias here, but means the parameter"


def answer_of(each: SqlObject) -> exp.Expr:
    """The SELECT that makes the rows. If a macro only returns the rows of a private one, it is the private one's."""
    outer = body(each)
    if not isinstance(outer, exp.Select):
        return outer
    source = outer.args["from_"].this
    name = source.this.name if isinstance(source, exp.Table) and isinstance(source.this, exp.Anonymous) else ""
    is_handed_on = name.startswith("_") and [str(column) for column in outer.selects] == ["*"]
    return answer_of(catalog.objects()[name]) if is_handed_on else outer


def unnamed_or_unordered(each: SqlObject) -> Iterator[str]:
    if not each.is_public or each.kind not in ("view", "table macro"):
        return
    outer = answer_of(each)
    if not isinstance(outer, exp.Select):
        yield "is no SELECT"
    elif any(column.find(exp.Star) for column in outer.selects if not column.find(exp.Count)):
        yield "a public view names its columns"
    if each.kind == "table macro" and not (body(each).args.get("order") or outer.args.get("order")):
        yield "needs a total ORDER BY where order shows"


def of_later_themes(each: SqlObject) -> Iterator[str]:
    """A theme uses those before it; private objects of a file serve that file or later themes, never earlier ones."""
    if each.kind == "table":
        return
    used = {node.name for node in body(each).find_all(exp.Table, exp.Anonymous)} & catalog.objects().keys()
    for name in used:
        if THEMES.index(theme_of(catalog.objects()[name])) > THEMES.index(theme_of(each)):
            yield f"uses {name} of a later theme"


def of_plain_times(each: SqlObject) -> Iterator[str]:
    """DuckDB joins plain numbers in a loop over all pairs where it expects fewer than 64 rows, often wrongly."""
    for join in body(each).find_all(exp.Join) if each.kind != "table" else ():
        for compared in join.args["on"].find_all(exp.GT, exp.GTE, exp.LT, exp.LTE) if join.method == "ASOF" else ():
            if not compared.this.sql("duckdb").lower().startswith("row("):
                yield f"an ASOF join compares rows: row({compared.this}), not {compared.this}"


def of_slow_windows(each: SqlObject) -> Iterator[str]:
    """In a window, DuckDB counts with FILTER, and orders distinct values, by reading the frame of each row again."""
    for window in body(each).find_all(exp.Window) if each.kind != "table" else ():
        if isinstance(window.this, exp.Filter) and isinstance(window.this.this, exp.Count):
            yield f"count by CASE WHEN in a window, not by FILTER: {window}"
        if window.this.find(exp.Distinct) and window.this.find(exp.Order):
            yield f"list_sort(list(DISTINCT ...) OVER ...) in a window, not ORDER BY: {window}"


# To parse all SQL takes seconds.
PARSED = (unqualified, unnamed_or_unordered, of_later_themes, of_plain_times, of_slow_windows)


@pytest.mark.parametrize("rule", [undocumented, *(pytest.param(rule, marks=pytest.mark.long) for rule in PARSED)])
def test_objects_follow_the_rule(rule: Callable[[SqlObject], Iterator[str]]) -> None:
    assert [f"{each.file}: {each.name}: {wrong}" for each in OBJECTS for wrong in rule(each)] == []


def call_of(each: SqlObject) -> str:
    arguments = {"capture": "'x'", "module": "'x'", "by": "'model'"}
    given = ", ".join(arguments.get(one.name, "0") for one in each.parameters if one.default is None)
    return f"{each.name}({given})" if each.kind == "table macro" else each.name


IS_NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL.*)$")


@pytest.fixture(scope="module")
def described(warehouse: Warehouse) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the columns of tables, views and macros with columns: what the line `Shown:` has, then all.

    They need no captures: DESCRIBE binds the query, it does not run it.
    """
    of = [each for each in OBJECTS if each.kind in ("table", "view") or each.is_public or each.columns]
    asked = {each.name: f"{each.to_read}, *" if each.shown else "*" for each in of if each.kind != "scalar macro"}
    calls = {each.name: call_of(each) for each in of}
    return {
        name: [row[:2] for row in warehouse.rows(f"DESCRIBE SELECT {columns} FROM {calls[name]}")[1]]
        for name, columns in asked.items()
    }


def test_private_objects_are_used() -> None:
    package = "".join(path.read_text() for path in Path(etq.__file__).parent.rglob("*.py"))
    words = {*re.findall(r"\w+", package)}
    words |= {
        name
        for each in OBJECTS
        if each.kind != "table"
        for name in catalog.named_in(each.statement)
        if name != each.name
    }
    assert [each.name for each in OBJECTS if not each.is_public and each.name not in words] == []


@pytest.mark.long
def test_people_see_columns_of_each_public_view(described: dict[str, list[tuple[str, str]]]) -> None:
    """What a line `Shown:` has binds, under its names; its times are numbers in the unit of the row."""
    for each in (each for each in OBJECTS if each.is_public and each.kind in ("view", "table macro")):
        types = dict(described[each.name][: len(each.shown)])
        assert [*types] == [column.name for column in each.shown] != [], each.name
        assert "unit" in types or not each.times, each.name
        assert {types[name] for name in {*each.times}.difference(each.other_times)} <= {"DOUBLE"}, each.name
        others = {column.name for column in each.columns if column.name not in types}
        assert others.issuperset(each.other_times), each.name
        assert {types[name] for name in each.long} <= {"VARCHAR"}, each.name
        kinds = {column.name: column.kind for column in each.shown}
        unknown = [name for name, type in types.items() if kinds[name] is None and IS_NUMBER.match(type)]
        assert unknown == [], f"{each.name}: say in `Shown:` what these numbers are, see etq/catalog.py"
        texts = {kinds[name] for name, type in types.items() if not IS_NUMBER.match(type)}
        assert texts <= {None, "label", "moment", "verdict"}, each.name
        assert "unit" in types or "time" not in kinds.values(), each.name
        assert each.foremost, f"{each.name}: mark with ! what a table always has"
        has_share = "share_percent" in {column.name for column in each.columns}
        assert not has_share or each.share or "share_of" in others | {*types}, f"{each.name}: Share: of what?"


# The packages of etq that show rows. Others compute, or write the formats of other programs.
SHOWING = ("agents.py", "analysis", "cli", "demo.py", "render", "report", "serve", "warehouse")
# Pages whose drawings have the columns of a node and its pair, and tell ops apart; the parameters that are
# options of a report.
DRAWN = ("report/graph_pair.py", "report/trends.py", "report/target.py")


@pytest.mark.long
def test_no_list_of_columns_of_a_view_stands_outside_sql() -> None:
    views = [{one.name for one in each.columns} | {one.name for one in each.shown} for each in OBJECTS if each.shown]
    found = []
    for path in sorted(Path(etq.__file__).parent.rglob("*.py")):
        file = path.relative_to(Path(etq.__file__).parent).as_posix()
        if file in DRAWN or not file.startswith(SHOWING):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = {item.value for item in items_of(node) if isinstance(item, ast.Constant)}
            if len(names) > 2 and any(names <= view for view in views):
                found.append(f"{file}: {ast.unparse(node)}")
    assert found == [], "what people see of a view is said once: `Shown:` in its comment in sql/"


def items_of(node: ast.AST) -> list[ast.expr | None]:
    """The items of a list, tuple or set, and the keys of a dict but for variables under their own names."""
    if isinstance(node, ast.Dict):
        entries = zip(node.keys, node.values, strict=True)
        return [key for key, value in entries if key is None or ast.unparse(value) != ast.unparse(key).strip("'")]
    return [*node.elts] if isinstance(node, ast.List | ast.Tuple | ast.Set) else []


@pytest.mark.long
def test_documented_columns_are_the_columns(described: dict[str, list[tuple[str, str]]]) -> None:
    wrong = {}
    for each in (each for each in OBJECTS if each.name in described):
        columns = described[each.name][len(each.shown) :]
        found = [f"{name} {kind}" if each.kind == "table" else name for name, kind in columns]
        types = ((one.type or "").removesuffix(" NOT NULL").removesuffix(" DEFAULT true") for one in each.columns)
        documented = [
            f"{one.name} {kind}" if each.kind == "table" else one.name
            for one, kind in zip(each.columns, types, strict=True)
        ]
        if found != documented:
            wrong[each.name] = found
    assert wrong == {}, "the comment above has a line `--   name: meaning` for each column, below `-- Columns:`"


def test_the_catalog_of_a_file_agrees_with_the_files_of_sql() -> None:
    with duckdb.connect(str(files().warehouse), read_only=True) as plain:
        asked = plain.execute
        comments = dict(asked("SELECT table_name, comment FROM duckdb_tables()").fetchall())
        comments |= dict(asked("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall())
        comments |= dict(asked("SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal").fetchall())
        columns = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
        of_columns = asked(columns).fetchall()
    of_etq = {name: text for name, text in comments.items() if not name.startswith(PREFIX)}
    assert of_etq == {each.name: each.text for each in OBJECTS}
    assert of_columns == sorted(
        (each.name, column.name, column.text)
        for each in OBJECTS
        if each.kind in ("table", "view")
        for column in each.columns
    )


def test_files_hold_one_topic() -> None:
    wrong = []
    for path in sorted(ROOT.glob("*/*.sql")):
        file = f"{path.parent.name}/{path.name}"
        public = [each for each in OBJECTS if each.file == file and each.is_public]
        if path.parent.name not in THEMES or (len(public) > 4 and path.parent.name != "tables"):
            wrong.append(f"{file}: of no theme, or of more than 4 public objects")
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > 120 and not line.lstrip().startswith("--") and "  -- " not in line:
                wrong.append(f"{file}:{number}: longer than 120 characters")
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE VIEW y AS\nSELECT 1;\n", r"^t/x.sql:1: y has no comment above it"),
        (
            "-- Text.\nCREATE TABLE y (\n    a INTEGER\n);\n",
            r"expected `    name TYPE,  -- text`, found '    a INTEGER'",
        ),
        ("-- Text.\nCREATE VIEW y AS\nSELECT 1\n", "doesn't end in a line with `;`"),
        (
            "-- Text.\n-- Shown: a! (tme)\nCREATE VIEW y AS\nSELECT 1 AS a;\n",
            r"a: the kind is one of time, bytes, .*not tme",
        ),
    ],
)
def test_a_malformed_file_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(catalog.parse(text, "t/x.sql"))
