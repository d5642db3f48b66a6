"""A server's warehouse: its queries are answered by the server, and all else is computed here."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import duckdb
import msgspec

from etq import catalog
from etq.database.connection import in_memory
from etq.database.database import Database
from etq.database.defining import defining
from etq.database.locking import seconds_to_wait
from etq.errors import EtqError, WarehouseError
from etq.remote.client import Client, Reply, ServerError
from etq.sandbox.results import plain
from etq.version import SCHEMA_VERSION, VERSION
from etq.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

_ARROW: Final = "application/vnd.apache.arrow.stream"
_NUMPY: Final = "numpy"


class _About(msgspec.Struct):
    etq_version: str
    sql_sha256: str
    schema_version: int
    warehouse: str


class _Error(msgspec.Struct):
    error: str


def open_remote(url: str, *, wait: float | None = None, token: str | None = None) -> Warehouse:
    """Open the warehouse of a server for reading.

    wait   for how long to ask a busy server again, in seconds; by default $ETQ_WAIT, or 30
    token  of a user; by default $ETQ_TOKEN, or the one that etq login keeps

    Raises `WarehouseError` for what isn't a server of etq, and one that refuses.
    """
    server = _Server(url, token, seconds_to_wait() if wait is None else wait)
    return RemoteWarehouse(_RemoteDatabase(cast("duckdb.DuckDBPyConnection", _Connection(server)), url))


class RemoteWarehouse(Warehouse):
    """A server's warehouse, for reading. Its results are read at once, and stay as they were."""

    is_remote = True

    def _connection_for(self, query: str) -> duckdb.DuckDBPyConnection:
        return self.connection

    def safe_sql(
        self, query: str, /, *, seconds: float = 10, megabytes: int = 512, **parameters: Any
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """As `rows`: all queries run in the server's sandbox, within its limits."""
        return self.rows(query, **parameters)

    @contextmanager
    def kept(self, name: str, query: str, /, **parameters: Any) -> Iterator[None]:
        """As of `Warehouse`: queries that ask for more than these rows have the server find them again."""
        with self._database.lock:
            connection = cast("_Connection", self.connection)
            connection.keep(name, query, parameters, self.relation(query, **parameters).to_arrow_table())
            try:
                yield
            finally:
                connection.forget(name)


class _RemoteDatabase(Database):
    def __init__(self, connection: duckdb.DuckDBPyConnection, url: str) -> None:
        super().__init__(connection, url, read_only=True)

    def check_writable(self) -> NoReturn:
        raise WarehouseError(
            f"{self.path}: a server, which is only read; add captures to it with: etq push {self.path}"
        )


class _Server:
    def __init__(self, url: str, token: str | None, wait: float) -> None:
        self.url = url
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
        with _warehouse_errors():
            reply = self._client.request("POST", "/sql", {"content-type": "application/json"}, body)
        if reply.headers.get("content-type") != _ARROW:
            raise WarehouseError(f"{self.url}: answers with {reply.headers.get('content-type')!r}, not with Arrow")
        return _table(self.url, reply.body)

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
                raise duckdb.InvalidInputException(msgspec.json.decode(error.body, type=_Error).error) from None
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
        with pa.ipc.open_stream(io.BytesIO(content)) as reader:
            rows = reader.read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise WarehouseError(f"{url}: answers with Arrow that can't be read: {error}") from error
    return rows


@dataclass(frozen=True)
class _Kept:
    query: str
    parameters: Mapping[str, Any]
    rows: pa.Table


class _Connection:
    """DuckDB's connection as far as queries use it: the server answers, and the rows are in memory here.

    Queries that name a registered table run here, with the definitions of this version, and see that alone.
    """

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._rows = in_memory()
        self._local: duckdb.DuckDBPyConnection | None = None
        self._registered: set[str] = set()
        self._kept: dict[str, _Kept] = {}

    def execute(self, query: str, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        if (here := self._here(query)) is not None:
            return here.execute(query, parameters)
        self._rows.register("_answer", self._server.rows(*self._sent(query, parameters)))
        return self._rows.execute("FROM _answer")

    def sql(self, query: str, *, params: Any = None) -> duckdb.DuckDBPyRelation:
        if (here := self._here(query)) is not None:
            return here.sql(query, params=params)
        return self._rows.from_arrow(self._server.rows(*self._sent(query, params)))

    def register(self, name: str, rows: Any) -> None:
        if self._local is None:
            self._local = defining(in_memory())
        self._local.register(name, rows)
        self._registered.add(name)

    def unregister(self, name: str) -> None:
        if self._local is not None:
            self._local.unregister(name)
        self._registered.discard(name)

    def keep(self, name: str, query: str, parameters: Mapping[str, Any], rows: pa.Table) -> None:
        self._kept[name] = _Kept(query, parameters, rows)
        self._rows.register(name, rows)

    def forget(self, name: str) -> None:
        del self._kept[name]
        self._rows.unregister(name)

    def close(self) -> None:
        self._server.close()
        self._rows.close()
        if self._local is not None:
            self._local.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def _here(self, query: str) -> duckdb.DuckDBPyConnection | None:
        """The connection on which a query runs if it isn't for the server."""
        words = set(_WORD.findall(query))
        if self._registered & words:
            return self._local
        is_of_kept = bool(self._kept.keys() & words) and not catalog.mentioned_in(query)
        return self._rows if is_of_kept or _SETTING.match(query) else None

    def _sent(self, query: str, parameters: Any) -> tuple[str, Any]:
        """A query and its parameters in which the names of kept rows are their queries."""
        for name, kept in self._kept.items():
            if re.search(rf"\b{name}\b", query):
                query = re.sub(rf"\b{name}\b", f"({kept.query})", query)
                parameters = {**kept.parameters, **(parameters or {})}
        return query, parameters


_WORD: Final = re.compile(r"\w+")
# Of how rows are converted.
_SETTING: Final = re.compile(r"(SET|RESET) arrow_lossless_conversion\b")
