"""What programs read of a server: views, captures and SQL, in each format, and its description."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet
import pytest

import etq
from etq import catalog
from etq.serve.openapi import document, views
from etq.serve.parameters import call_of
from etq.team.folder import TeamFolder
from etq.team.tokens import add_token
from etq.team.users import Role, add_user
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.serve.server import Reply, Server, serving

JSON = "application/json"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "lab.duckdb"
    with etq.open(path) as warehouse:
        mlp = CAPTURES / "mlp"
        warehouse.ingest(mlp / "mlp_100runs.etdp", name="run", labels={"device": "a&b"}, etrecord=mlp / "mlp.etrecord")
        warehouse.ingest(mlp / "mlp_1run.etdp", name="one")
        warehouse.ingest(CAPTURES / "torch_diff/base.pt.trace.json.gz", name="trace")
    return path


@pytest.fixture(scope="module")
def server(lab: Path) -> Iterator[Server]:
    with serving(lab) as started:
        yield started


@pytest.fixture(scope="module")
def opened(lab: Path) -> Iterator[Warehouse]:
    with etq.open(lab, read_only=True) as warehouse:
        yield warehouse


def ask(server: Server, query: str, parameters: Any = None, **more: Any) -> Reply:
    body = {"query": query, "parameters": parameters, **more}
    return server.post("/api/v1/sql", json.dumps(body).encode(), content_type=JSON)


def rows(reply: Reply) -> list[tuple[Any, ...]]:
    assert reply.status == 200, reply.body[:500]
    return [tuple(row) for row in json.loads(reply.body, parse_float=str)["rows"]]


CALLS: list[tuple[str, dict[str, str], str]] = [
    ("op_totals", {"capture": "run"}, "FROM op_totals('run')"),
    ("op_totals", {"capture": "run", "unit": "ms", "by": "label"}, "FROM op_totals('run', unit := 'ms', \"by\" := 'label')"),
    ("capture_summary", {}, "FROM capture_summary"),
    ("known_metrics", {}, "FROM known_metrics"),
    ("roofline", {"capture": "run", "peak_flops": "2e10"}, "FROM roofline('run', peak_flops := 2e10)"),
    ("key_averages", {"capture": "trace"}, "FROM key_averages('trace')"),
    ("compare_ops", {"base": "run", "new": "one", "allow_mismatch": "true"}, "FROM compare_ops('run', 'one', allow_mismatch := true)"),
    ("kernel_sequences", {"capture": "trace", "min_length": "2"}, "FROM kernel_sequences('trace', min_length := 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("view", "parameters", "query"), CALLS, ids=[f"{each[0]} {each[1]}" for each in CALLS])
def test_a_view_has_its_rows_in_each_format(
    view: str, parameters: dict[str, str], query: str, server: Server, opened: Warehouse
) -> None:
    expected = opened.sql(f"{query} ORDER BY ALL").to_arrow_table()
    path = f"/api/v1/views/{view}"

    def sorted_by_all(table: pa.Table) -> list[dict[str, Any]]:
        assert table.schema == expected.schema
        return sorted(table.to_pylist(), key=str)

    found = pa.ipc.open_stream(server.get(path, {**parameters, "format": "arrow"}).body).read_all()
    assert sorted_by_all(found) == sorted(expected.to_pylist(), key=str)
    found = pa.parquet.read_table(io.BytesIO(server.get(path, {**parameters, "format": "parquet"}).body))
    assert sorted_by_all(found) == sorted(expected.to_pylist(), key=str)
    reply = server.get(path, parameters)
    assert reply.headers["content-type"] == JSON
    assert reply.data["columns"] == expected.column_names
    assert reply.data["types"] == [str(each) for each in opened.relation(query).types]
    texts = [[str(each) for each in row] for row in opened.rows(query)[1]]
    assert len(reply.data["rows"]) == len(texts)
    lines = [*csv.reader(io.StringIO(server.get(path, {**parameters, "format": "csv"}).body.decode()))]
    assert lines[0] == expected.column_names
    assert len(lines) == 1 + len(texts)


@pytest.mark.parametrize("view", [each.name for each in views()])
def test_each_view_is_called_with_each_of_its_parameters(view: str, opened: Warehouse) -> None:
    """The catalogue's types are those that the macros take."""
    texts = {"boolean": "true", "integer": "1", "number": "0.5", "array": "0.5", "string": "x"}
    from etq.serve.parameters import schema_of

    macro = catalog.named(view)
    given = [(each.name, texts[str(schema_of(each)["type"])]) for each in macro.parameters]
    query, values = call_of(macro, given)
    assert values.keys() == {each.name for each in macro.parameters}
    try:
        assert opened.relation(query, **values).columns == [each.name for each in macro.columns]
    except etq.QueryError as error:
        # Some values are refused as they are bound, by name.
        assert not str(error).startswith(("Could not", "No function", "Conversion")), error


def test_numbers_are_exact(server: Server) -> None:
    query = """
        SELECT 9007199254740993 AS a, -9223372036854775808 AS b, 18446744073709551615::UBIGINT AS c,
            170141183460469231731687303715884105727::HUGEINT AS d, 12345678901234567890.123456789::DECIMAL(38, 9) AS e,
            'nan'::DOUBLE AS f, '-inf'::DOUBLE AS g, NULL AS h, 0.1::DOUBLE AS i, true AS j, '\\xff\\x00'::BLOB AS k
    """
    reply = ask(server, query)
    [row] = json.loads(reply.body, parse_float=Decimal)["rows"]
    assert row == [
        *(9007199254740993, -9223372036854775808, 18446744073709551615, "170141183460469231731687303715884105727"),
        *(Decimal("12345678901234567890.123456789"), None, None, None, Decimal("0.1"), True, "ff00"),
    ]
    table = pa.ipc.open_stream(ask(server, query, format="arrow").body).read_all()
    assert [str(each) for each in table.schema.types[:5]] == [
        *("int64", "int64", "uint64", "decimal128(38, 0)", "decimal128(38, 9)"),
    ]
    assert table["e"].to_pylist() == [Decimal("12345678901234567890.123456789")]


def test_parameters_have_types(server: Server) -> None:
    parameters = {
        "number": 9007199254740993,
        "text": "x'); DROP TABLE captures; --",
        "list": [1.5, 2],
        "none": None,
        "time": {"datetime": "2026-11-25T10:00:00.123456"},
        "exact": {"Decimal": "1.50"},
    }
    query = "SELECT $number, $text, $list, $none IS NULL, $time, typeof($time), $exact"
    assert rows(ask(server, query, parameters)) == [
        (9007199254740993, parameters["text"], ["1.5", "2.0"], True, "2026-11-25T10:00:00.123456", "TIMESTAMP", "1.50")
    ]
    assert rows(ask(server, "SELECT ? + ?", [1, 2])) == [(3,)]


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 400, "not a query"),
        (b"[" * 100_000, 400, "not a query"),
        (b'{"query": 1}', 400, "not a query"),
        (b'{"query": "SELECT 1", "seconds": 9}', 400, "not a query"),
        (b'{"query": "SELECT $a", "parameters": {"a": {"__import__": "os"}}}', 400, "parameters"),
        (b'{"query": "SELECT $a", "parameters": {"a": {"int": "zz"}}}', 400, "parameters"),
        (b'{"query": "SELECT 1", "format": "pickle"}', 400, "no format"),
        (b'{"query": "DROP TABLE captures"}', 400, "one SELECT"),
        (b'{"query": "SELECT 1; SELECT 2"}', 400, "one SELECT"),
        (b'{"query": "SET threads = 1"}', 400, "one SELECT"),
        (b'{"query": "FROM read_csv(\'/etc/passwd\')"}', 400, "file system operations are disabled"),
        (b'{"query": "SELECT getenv(\'HOME\')"}', 400, "getenv"),
        (b'{"query": "FROM nowhere"}', 400, "nowhere"),
        (b'{"query": "SELECT \'' + b"x" * 5_000_000 + b"'\"}", 413, "at most 4 MB"),
        (b'{"query": "SELECT repeat(\'x\', 100000000) FROM range(1000)"}', 400, "memory"),
    ],
)
def test_wrong_queries_are_errors_in_json(body: bytes, status: int, text: str, server: Server) -> None:
    reply = server.post("/api/v1/sql", body, content_type=JSON)
    assert reply.headers["content-type"] == JSON
    assert (reply.status, text in reply.data["error"]) == (status, True), reply.data


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/api/v1/views/nothing", 404, "no view"),
        ("/api/v1/views/_capture_id?selector=run", 404, "no view"),
        ("/api/v1/views/captures", 404, "no view"),
        ("/api/v1/views/op_totals", 400, "needs the parameter capture"),
        ("/api/v1/views/op_totals?capture=nothing", 404, "no capture matches nothing"),
        ("/api/v1/views/op_totals?capture=run&capture=one", 400, "not of the type string"),
        ("/api/v1/views/op_totals?capture=run&what=1", 400, "its parameters are capture"),
        ("/api/v1/views/op_totals?capture=run&unit=lightyears", 400, "unit"),
        ("/api/v1/views/op_totals?capture=run&format=exe", 400, "no format"),
        ("/api/v1/views/kernel_sequences?capture=trace&min_length=two", 400, "not of the type integer"),
        ("/api/v1/captures?name=run", 400, "selector"),
    ],
)
def test_wrong_addresses_are_errors_in_json(path: str, status: int, text: str, server: Server) -> None:
    reply = server.get(path)
    assert reply.headers["content-type"] == JSON
    assert (reply.status, text in reply.data["error"]) == (status, True), reply.data


def test_captures(server: Server) -> None:
    found = server.get("/api/v1/captures").data
    assert [row[found["columns"].index("name")] for row in found["rows"]] == ["run", "one", "trace"]
    assert len(server.get("/api/v1/captures", {"selector": "device=a&b"}).data["rows"]) == 1


def test_what_is_served(server: Server, lab: Path) -> None:
    about = server.get("/api/v1/").data
    assert about["etq_version"] == etq.__version__
    assert about["sql_sha256"] == catalog.definitions_hash()
    assert about["warehouse"] == lab.name


def test_a_program_needn_t_be_sent_what_it_has(server: Server, lab: Path) -> None:
    reply = server.get("/api/v1/views/known_metrics")
    tag = reply.headers["etag"]
    assert server.get("/api/v1/views/known_metrics", if_none_match=tag).status == 304
    assert server.get("/api/v1/views/known_metrics", {"format": "csv"}, if_none_match=tag).status == 200


def test_other_sites_have_no_work_done(server: Server) -> None:
    """A page of another site may send forms and plain text without asking the server."""
    body = b'{"query": "SELECT 1"}'
    assert server.post("/api/v1/sql", body, content_type="text/plain").status == 415
    for headers in ({"origin": "http://evil.example"}, {"sec_fetch_site": "cross-site"}):
        assert server.post("/api/v1/sql", body, content_type=JSON, **headers).status == 403
    assert server.get("/api/v1/captures", sec_fetch_site="cross-site").status == 403
    assert server.post("/api/v1/sql", body, content_type=JSON, origin="").status == 200


def test_the_description_is_of_all_views(server: Server) -> None:
    found = server.get("/api/v1/openapi.json").data
    assert found["openapi"] == "3.1.0"
    names = {path.rsplit("/", 1)[1] for path in found["paths"] if "/views/" in path}
    assert names == {each.name for each in views()}
    operation = found["paths"]["/api/v1/views/op_totals"]["get"]
    given = {each["name"]: each for each in operation["parameters"]}
    assert given["capture"]["required"]
    assert given["unit"]["schema"] == {"type": "string"}
    assert "- `calls` (BIGINT): " in operation["description"]
    validator = jsonschema.Draft202012Validator
    for path, operations in found["paths"].items():
        for operation in operations.values():
            for parameter in operation["parameters"]:
                validator.check_schema(parameter["schema"])
                assert parameter["in"] == ("path" if f"{{{parameter['name']}}}" in path else "query")
    names_of = [each["operationId"] for path in found["paths"].values() for each in path.values()]
    assert len(names_of) == len({*names_of})
    for schema in found["components"]["schemas"].values():
        validator.check_schema(schema)
    jsonschema.validate(server.get("/api/v1/views/known_metrics").data, found["components"]["schemas"]["Rows"])
    jsonschema.validate(server.get("/api/v1/views/x").data, found["components"]["schemas"]["Error"])


def test_the_description_is_openapi() -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="checks descriptions of OpenAPI")
    validator.validate(document(("json",), {}))


def test_a_lake_answers_as_its_warehouse(lab: Path, server: Server, tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    from etq.lake import export

    export(str(tmp_path / "lake"), str(lab))
    with serving(tmp_path / "lake") as started:
        path, given = "/api/v1/views/op_totals", {"capture": "run"}
        assert started.get(path, given).data == server.get(path, given).data
        assert rows(ask(started, "SELECT count(*) FROM events")) == rows(ask(server, "SELECT count(*) FROM events"))
        assert ask(started, "FROM read_csv('/etc/passwd')").status == 400
        assert ask(started, "CREATE TABLE t AS SELECT 1").status == 400
        with etq.open(started.url) as remote, etq.open(lab, read_only=True) as file:
            assert remote.op_totals("run").fetchall() == file.op_totals("run").fetchall()


def test_booleans_are_those_of_the_file(opened: Warehouse) -> None:
    """Arrow keeps booleans as bytes on a connection whose types are kept, on which functions of verdicts read them."""
    query = "SELECT what, change_percent, note FROM compare_captures('run', 'one', allow_mismatch := true)"
    expected = opened.rows(query)[1]
    with opened.locked() as connection:
        connection.execute("SET arrow_lossless_conversion = true")
        found = opened.rows(query)[1]
        connection.execute("RESET arrow_lossless_conversion")
    assert found == expected


def test_a_reader_needs_a_token_and_queries_are_noted(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = TeamFolder(tmp_path / "team")
    folder.make()
    with folder.writing() as connection:
        add_user(connection, "ann", Role.READ)
        token = add_token(connection, "ann")
    with serving(lab, folder=folder) as started:
        for path in ("/api/v1/", "/api/v1/captures", "/api/v1/views/known_metrics", "/api/v1/openapi.json"):
            assert started.get(path).status == 401
            assert started.get(path, authorization="Bearer etq_wrong").status == 401
            assert started.get(path, authorization=f"Bearer {token}").status == 200
        assert ask(started, "SELECT 1").status == 401
        monkeypatch.setenv("ETQ_TOKEN", token)
        with etq.open(started.url) as warehouse:
            assert warehouse.rows("SELECT 41 + 1")[1] == [(42,)]
        monkeypatch.setenv("ETQ_TOKEN", "etq_wrong")
        with pytest.raises(etq.WarehouseError, match="ETQ_TOKEN"):
            etq.open(started.url)
    with folder.reading() as connection:
        noted = connection.execute("SELECT user, action, details FROM audit WHERE action = 'sql'").fetchall()
    assert noted == [("ann", "sql", '{"query": "SELECT 41 + 1"}')]
