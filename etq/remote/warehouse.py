"""A server's warehouse: its queries are answered by the server, and all else is computed here."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast
from urllib.parse import quote

import duckdb
import msgspec

from etq import catalog
from etq.database.connection import in_memory
from etq.database.database import Database
from etq.database.defining import defining
from etq.database.locking import seconds_to_wait
from etq.errors import EtqError, WarehouseError
from etq.remote import asked, question
from etq.remote.arrow import table_of
from etq.remote.client import Client, Reply, ServerError
from etq.remote.protocol import COMMAND
from etq.sandbox.results import plain
from etq.version import SCHEMA_VERSION, VERSION
from etq.warehouse.warehouse import Capture, Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

_ARROW: Final = "application/vnd.apache.arrow.stream"
_NUMPY: Final = "numpy"
# Characters of a command that a server is told.
LONGEST_COMMAND: Final = 500


class _About(msgspec.Struct):
    etq_version: str
    sql_sha256: str
    schema_version: int
    warehouse: str


class _Error(msgspec.Struct):
    error: str
    place: str = ""


class _Labels(msgspec.Struct):
    labels: Mapping[str, str | None]


class _Changed(msgspec.Struct):
    capture: str
    labels: dict[str, str] = {}


def open_remote(url: str, *, wait: float | None = None, token: str | None = None) -> Warehouse:
    """Open the warehouse of a server for reading.

    wait   for how long to ask a busy server again, in seconds; by default $ETQ_WAIT, or 30
    token  of a user; by default $ETQ_TOKEN, or the one that etq login keeps

    Raises `WarehouseError` for what isn't a server of etq, and one that refuses.
    """
    asked.set(url)
    server = _Server(url, token, seconds_to_wait() if wait is None else wait)
    return RemoteWarehouse(_RemoteDatabase(cast("duckdb.DuckDBPyConnection", _Connection(server)), url), server)


class RemoteWarehouse(Warehouse):
    """A server's warehouse, for reading; its captures can be labelled and removed, too. Results are read at once, and
    stay as they were.
    """

    def __init__(self, database: Database, server: _Server) -> None:
        super().__init__(database)
        self._server = server

    @property
    def is_remote(self) -> bool:
        """Whether queries are answered by a server."""
        return True

    def label(self, capture: str | Capture, /, **labels: str | None) -> dict[str, str]:
        """As of a warehouse here, for users with the role label."""
        target = self.capture(capture) if isinstance(capture, str) else capture
        return self._server.change("PATCH", target.sha256, _Labels(labels)).labels

    def remove(self, *captures: str | Capture) -> None:
        """As of a warehouse here, for users with the role admin; one after the other."""
        for target in [self.capture(each) if isinstance(each, str) else each for each in captures]:
            self._server.change("DELETE", target.sha256)

    def _connection_for(self, query: str) -> duckdb.DuckDBPyConnection:
        return self.connection

    def safe_sql(
        self, query: str, /, *, seconds: float = 10, megabytes: int = 512, **parameters: Any
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """As `rows`: all queries run in the server's sandbox, within its limits."""
        return self.rows(query, **parameters)


class _RemoteDatabase(Database):
    def __init__(self, connection: duckdb.DuckDBPyConnection, url: str) -> None:
        super().__init__(connection, url, read_only=True)

    def check_writable(self) -> NoReturn:
        raise WarehouseError(
            f"{self.path}: a server, which is only read; add captures to it with: etq push {self.path} FILE..."
        )

    def check_editable(self) -> NoReturn:
        raise WarehouseError(
            f"{self.path}: a server; change overviews and comments in its pages, or on its machine with --db FILE"
        )


class _Server:
    def __init__(self, url: str, token: str | None, wait: float) -> None:
        self.url = url
        self._id = uuid.uuid4().hex
        with _warehouse_errors(), Client(url, token, patience=0) as first:
            about = self._decoded(first.request("GET", "/"))
            self._client = Client(url, token, wait)
        self._has_same_tables = about.schema_version == SCHEMA_VERSION
        self._has_same_views = about.sql_sha256 == catalog.definitions_hash()
        self._version = about.etq_version

    def close(self) -> None:
        self._client.close()

    def rows(self, query: str, parameters: Any) -> pa.Table:
        """Return a query's rows. Raises `duckdb.Error` for a wrong query, and `WarehouseError` for other errors."""
        self._check_version(query)
        given: Any = parameters
        if isinstance(parameters, Mapping):
            given = {name: plain(_known(value)) for name, value in parameters.items()}
        elif parameters is not None:
            given = [plain(_known(value)) for value in parameters]
        body = msgspec.json.encode({"query": query, "parameters": given, "format": "exact"})
        headers = {"content-type": "application/json"}
        if (command := question.get()) is not None:
            headers[COMMAND] = f"{self._id} {quote(command[:LONGEST_COMMAND])}"
        with _warehouse_errors():
            reply = self._client.request("POST", "/sql", headers, body)
        if reply.headers.get("content-type") != _ARROW:
            raise WarehouseError(f"{self.url}: answers with {reply.headers.get('content-type')!r}, not with Arrow")
        return _table(self.url, reply.body)

    def change(self, method: str, sha256: str, content: _Labels | None = None) -> _Changed:
        """Have the server change a capture. Raises `WarehouseError` for what it refuses."""
        headers = {} if content is None else {"content-type": "application/json"}
        body = None if content is None else msgspec.json.encode(content)
        try:
            reply = self._client.request(method, f"/captures/{sha256}", headers, body)
            return msgspec.json.decode(reply.body, type=_Changed)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WarehouseError(f"{self.url}: not a server of etq, or of another version") from error
        except ServerError as error:
            if error.status in (404, 405) and b"error" not in error.body:
                what = "this server only reads; start it with --edit, or add users: etq users add NAME"
                raise WarehouseError(f"{self.url}: {what}") from error
            raise WarehouseError(str(error)) from error
        except WarehouseError:
            raise
        except EtqError as error:
            raise WarehouseError(str(error)) from error

    def _check_version(self, query: str) -> None:
        """Raise `WarehouseError` for a query that needs the definitions of this version, if the server has others."""
        if self._has_same_views:
            return
        private = [name for name in catalog.mentioned_in(query) if name.startswith("_")]
        if private or not self._has_same_tables:
            is_same = " with other views" if self._version == VERSION else ""
            raise WarehouseError(
                f"{self.url}: the server runs etq {self._version}{is_same}, this is {VERSION}; install that one here, "
                "or ask for public views with etq sql"
            )

    def _decoded(self, reply: Reply) -> _About:
        try:
            return msgspec.json.decode(reply.body, type=_About)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WarehouseError(f"{self.url}: not a server of etq, or of a version without this API") from error


@contextmanager
def _warehouse_errors() -> Iterator[None]:
    """Raise errors of a server as those of a warehouse, and what it says of a query as DuckDB would."""
    try:
        yield
    except ServerError as error:
        if error.status in (400, 404, 500, 504):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                said = msgspec.json.decode(error.body, type=_Error)
                raise duckdb.InvalidInputException("\n\n".join(filter(None, (said.error, said.place)))) from None
        raise WarehouseError(str(error)) from error
    except WarehouseError:
        raise
    except EtqError as error:
        raise WarehouseError(str(error)) from error


def _known(value: Any) -> Any:
    """Return numbers of numpy as those of Python."""
    return value.item() if type(value).__module__ == _NUMPY and getattr(value, "ndim", None) == 0 else value


def _table(url: str, content: bytes) -> pa.Table:
    """Return the rows of an answer, which is checked: of damaged Arrow, libraries would read any memory."""
    import pyarrow as pa

    try:
        return table_of(content)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise WarehouseError(f"{url}: answers with Arrow that can't be read: {error}") from error


class _Connection:
    """DuckDB's connection as far as queries use it: the server answers, and the rows are in memory here.

    What is created or registered is here. Queries that name it run here, too, with the definitions of this version, if
    they need no other table; if they do, the server computes again what was created.
    """

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._here = defining(in_memory())
        self._registered: set[str] = set()
        # The queries and parameters of tables that were created.
        self._created: dict[str, tuple[str, Any]] = {}

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        if (found := _CREATE.fullmatch(query)) is not None:
            name, source = found.groups()
            self._answer(source, parameters)
            self._created[name] = source, parameters
            return self._here.execute(f"CREATE TEMP TABLE {name} AS FROM {_ANSWER}")
        if (found := _DROP.fullmatch(query)) is not None:
            self._created.pop(found[1], None)
            return self._here.execute(query)
        if self._is_here(query):
            return self._here.execute(query, parameters)
        self._answer(query, parameters)
        return self._here.execute(f"FROM {_ANSWER}")

    def sql(self, query: str, *, params: Any = None) -> duckdb.DuckDBPyRelation:
        if self._is_here(query):
            return self._here.sql(query, params=params)
        return self._here.from_arrow(self._server.rows(*self._sent(query, params)))

    def register(self, name: str, rows: Any) -> None:
        self._here.register(name, rows)
        self._registered.add(name)

    def unregister(self, name: str) -> None:
        self._here.unregister(name)
        self._registered.discard(name)

    def close(self) -> None:
        self._server.close()
        self._here.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._here, name)

    def _answer(self, query: str, parameters: Any) -> None:
        self._here.register(_ANSWER, self._server.rows(*self._sent(query, parameters)))

    def _is_here(self, query: str) -> bool:
        if _SETTING.match(query):
            return True
        words = {*_WORD.findall(query)}
        if query.lstrip().startswith("UPDATE ") and words & self._created.keys():
            return True
        return bool(words & (self._registered | self._created.keys())) and not any(
            each.kind == "table" for each in catalog.needed_for(catalog.named_in(query))
        )

    def _sent(self, query: str, parameters: Any) -> tuple[str, Any]:
        """A query and its parameters in which the names of created tables are their queries."""
        for name in self._created.keys() & {*_WORD.findall(query)}:
            source, given = self._created[name]
            query = re.sub(rf"\b(temp\.)?{name}\b", f"({source})".replace("\\", r"\\"), query)
            parameters = {**(given or {}), **(parameters or {})} or None
        return query, parameters


_ANSWER: Final = "_server_answer"
_WORD: Final = re.compile(r"\w+")
_CREATE: Final = re.compile(r"CREATE TEMP TABLE (\w+) AS (.+)", re.DOTALL)
_DROP: Final = re.compile(r"DROP TABLE IF EXISTS (?:temp\.)?(\w+)")
# Of how rows are converted.
_SETTING: Final = re.compile(r"(SET|RESET) arrow_lossless_conversion\b")
