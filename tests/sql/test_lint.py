"""The SQL follows its rules: objects are documented, named and layered as in `etq.catalog` and CONTRIBUTING.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

import etq
from etq import catalog
from etq.catalog import SqlObject
from etq.database.functions import register
from etq.warehouse.warehouse import Warehouse

OBJECTS = list(catalog.objects().values())
PUBLIC = list(catalog.public_objects())
ROOT = Path(__file__).parents[2] / "sql"
THEMES = [
    "tables",
    "programs",
    "captures",
    "records",
    "events",
    "rollups",
    "execute",
    "costs",
    "memory",
    "values",
    "graphs",
    "traces",
    "advice",
    "overview",
    "compare",
    "trends",
]
# A theme may use the tables and the themes before it in the list above.


@pytest.fixture(scope="module")
def warehouse() -> Iterator[Warehouse]:
    """An empty warehouse that all tests here share; none writes to it."""
    with etq.open() as opened:
        register(opened.connection)
        yield opened


def ids(objects: list[SqlObject]) -> list[str]:
    return [each.name for each in objects]


@cache
def body(each: SqlObject) -> exp.Expr:
    """The query or expression of a view or macro; not to be changed."""
    after = {"view": " AS\n", "table macro": ") AS TABLE\n", "scalar macro": ") AS (\n"}[each.kind]
    assert after in each.statement, f"{each.name}: write{after.rstrip()}, then the query, without brackets around it"
    text = each.statement.split(after, 1)[1]
    return sqlglot.parse_one(text.removesuffix(")") if each.kind == "scalar macro" else text, read="duckdb")


@pytest.mark.parametrize("each", OBJECTS, ids=ids(OBJECTS))
def test_everything_is_documented(each: SqlObject) -> None:
    assert each.text.endswith("."), "documentation is made of sentences"
    of_parameters = [column for column in each.parameters if each.is_public or column.text]
    for column in (*each.columns, *of_parameters):
        words = column.text.casefold().split()
        assert words and words != column.name.split("_"), f"{column.name} needs a word on what it is"
        assert column.text == " ".join(column.text.split()), f"{column.name}: one space between words"
        assert column.text[-1] not in ",;:-" and (not column.text.endswith(".") or column.text.endswith("...")), (
            f"{column.name} is documented by a phrase, without a full stop"
        )
        assert column.text.count("(") == column.text.count(")"), f"{column.name}: a bracket is left open"


@pytest.mark.parametrize(
    "each",
    [each for each in OBJECTS if each.kind in ("view", "table macro") and (each.is_public or each.columns)],
    ids=lambda e: e.name,
)
def test_documented_columns_are_the_columns(each: SqlObject, warehouse: Warehouse) -> None:
    """Views and macros need no captures: DESCRIBE binds the query, it does not run it."""
    arguments = {"capture": "'x'", "module": "'x'", "by": "'model'"}
    names = [p.name for p in each.parameters if p.default is None]
    given = ", ".join(arguments.get(name, "0") for name in names)
    call = f"{each.name}({given})" if each.kind == "table macro" else each.name
    described = warehouse.rows(f"DESCRIBE SELECT * FROM {call}")[1]
    cure = "the comment above has a line `--   name: meaning` for each column, below `-- Columns:`"
    assert [row[0] for row in described] == [column.name for column in each.columns], cure


@pytest.mark.parametrize("each", [each for each in OBJECTS if each.kind == "table"], ids=lambda e: e.name)
def test_tables_are_as_they_are_read(each: SqlObject, warehouse: Warehouse) -> None:
    described = warehouse.connection.execute(f"DESCRIBE {each.name}").fetchall()
    assert [row[:2] for row in described] == [
        (column.name, (column.type or "").removesuffix(" NOT NULL").removesuffix(" DEFAULT true"))
        for column in each.columns
    ]


def test_the_catalog_agrees_with_the_files(warehouse: Warehouse) -> None:
    asked = warehouse.connection.execute
    comments = dict(asked("SELECT table_name, comment FROM duckdb_tables()").fetchall())
    comments |= dict(asked("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall())
    comments |= dict(asked("SELECT function_name, comment FROM duckdb_functions() WHERE NOT internal").fetchall())
    assert comments == {each.name: each.text for each in OBJECTS}
    columns = asked(
        "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    ).fetchall()
    assert columns == sorted(
        (each.name, column.name, column.text)
        for each in OBJECTS
        if each.kind in ("table", "view")
        for column in each.columns
    )


@pytest.mark.parametrize("each", [each for each in OBJECTS if each.kind != "table"], ids=lambda e: e.name)
def test_columns_are_qualified(each: SqlObject) -> None:
    """An unqualified column with a parameter's name silently means the parameter; a qualified column never does.

    An unqualified name must be a parameter, a lambda's, an alias of the same SELECT, or a row of its FROM.
    """
    tree = body(each)
    parameters = {parameter.name for parameter in each.parameters}
    for column in tree.find_all(exp.Column):
        # What EXCLUDE leaves out can't be qualified.
        if column.table or column.find_ancestor(exp.Star):
            continue
        select = column.find_ancestor(exp.Select)
        aliases = {alias.alias for alias in select.selects if alias.alias} if select else set()
        in_lambda = column.find_ancestor(exp.Lambda)
        local = {name.name for name in in_lambda.expressions} if in_lambda else set()
        # A whole row, as in `list(r)`: a table in FROM, unless a parameter has that name.
        local |= (
            {source.alias for source in select.find_all(exp.Table) if source.alias not in parameters}
            if select
            else set()
        )
        assert column.name in parameters | aliases | local, f"{column.name} is not qualified"
    for select in tree.find_all(exp.Select):
        # If an alias has a parameter's name, the name refers to the parameter although it looks like the alias.
        for named in [alias for alias in select.selects if alias.alias in parameters]:
            uses = [
                column
                for other in select.selects
                if other is not named
                for column in other.find_all(exp.Column)
                if column.name == named.alias and not column.table and column.find_ancestor(exp.Select) is select
            ]
            assert not uses, f"{named.alias} is an alias here, but means the parameter"


@pytest.mark.parametrize("each", [each for each in OBJECTS if each.kind != "table"], ids=lambda e: e.name)
def test_stars_leave_out_or_replace_one_column(each: SqlObject) -> None:
    """DuckDB doesn't keep the order of several, so that a warehouse's definitions would differ from those expected."""
    for star in body(each).find_all(exp.Star):
        for part in ("except_", "replace"):
            assert len(star.args.get(part) or ()) <= 1


def answer_of(each: SqlObject) -> exp.Expr:
    """The SELECT that makes the rows. If a macro only returns the rows of a private one, it is the private one's."""
    outer = body(each)
    if not isinstance(outer, exp.Select):
        return outer
    source = outer.args["from_"].this
    name = source.this.name if isinstance(source, exp.Table) and isinstance(source.this, exp.Anonymous) else ""
    is_handed_on = name.startswith("_") and [str(column) for column in outer.selects] == ["*"]
    return answer_of(catalog.objects()[name]) if is_handed_on else outer


@pytest.mark.parametrize(
    "each", [each for each in PUBLIC if each.kind in ("view", "table macro")], ids=lambda e: e.name
)
def test_public_views_name_their_columns(each: SqlObject) -> None:
    outer = answer_of(each)
    assert isinstance(outer, exp.Select)
    assert not any(column.find(exp.Star) for column in outer.selects if not column.find(exp.Count))


@pytest.mark.parametrize("each", [each for each in PUBLIC if each.kind == "table macro"], ids=lambda e: e.name)
def test_public_macros_are_ordered(each: SqlObject) -> None:
    assert body(each).args.get("order") or answer_of(each).args.get("order"), "a total ORDER BY where order shows"


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/*.sql")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_files_hold_one_topic(path: Path) -> None:
    assert path.parent.name in THEMES
    held = [each for each in OBJECTS if each.file == f"{path.parent.name}/{path.name}"]
    public = [each for each in held if each.is_public]
    assert len(public) <= 4 or path.parent.name == "tables"
    lines = path.read_text().splitlines()
    assert all(len(line) <= 88 or line.lstrip().startswith("--") or "  -- " in line for line in lines)


@pytest.mark.parametrize("each", OBJECTS, ids=ids(OBJECTS))
def test_layers(each: SqlObject) -> None:
    """A theme uses those before it; private objects of a file serve that file or later themes, never earlier ones."""
    theme = THEMES.index(each.file.split("/")[0])
    if each.kind == "table":
        return
    tree = body(each)
    used = {table.name for table in tree.find_all(exp.Table)} | {call.name for call in tree.find_all(exp.Anonymous)}
    for name in used & set(catalog.objects()):
        assert THEMES.index(catalog.objects()[name].file.split("/")[0]) <= theme, f"{each.name} uses {name}"


def test_a_malformed_file_is_reported_with_its_line() -> None:
    with pytest.raises(ValueError, match=r"^t/x.sql:1: y has no comment above it"):
        list(catalog.parse("CREATE VIEW y AS\nSELECT 1;\n", "t/x.sql"))
    with pytest.raises(ValueError, match=r"expected `    name TYPE,  -- text`, found '    a INTEGER'"):
        list(catalog.parse("-- Text.\nCREATE TABLE y (\n    a INTEGER\n);\n", "t/x.sql"))
    with pytest.raises(ValueError, match="doesn't end in a line with `;`"):
        list(catalog.parse("-- Text.\nCREATE VIEW y AS\nSELECT 1\n", "t/x.sql"))
