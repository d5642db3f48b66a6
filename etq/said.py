"""What a user says of captures in a warehouse beside their files: labels, metrics, phases of runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from etq import schema
from etq._views import Views
from etq.connecting import explained, identity
from etq.errors import WarehouseError
from etq.waiting import Turn

if TYPE_CHECKING:
    from etq.handles import Capture

Result = TypeVar("Result")


class Said(Views):
    """The part of `Warehouse` that takes what is said of captures."""

    path: str | None
    read_only: bool
    # The file that was opened there, and the turn of the threads that write to it.
    _file: tuple[int, int] | None
    _turn: Turn
    # A connection holds one answer at a time: threads that share a warehouse ask it one after the other.
    _alone: RLock

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The DuckDB connection."""
        raise NotImplementedError

    def capture(self, selector: str) -> Capture:
        """The one capture of a name, hash prefix or selector."""
        raise NotImplementedError

    def label(self, capture: str | Capture, /, **labels: str | None) -> dict[str, str]:
        """Give a capture labels, in place of those of the same keys; None takes one away. Returns all it has then.

        `captured_at` is no label: it says when the capture was measured, in ISO 8601, in UTC without a time zone.
        Keys that are no names of Python's are given as `**{"soc-rev": "2"}`.

        Raises `QueryError` where there is no such capture; `WarehouseError` for keys that are empty or hold commas,
        equals signs, quotation marks, @ or control characters, for values that hold these last, for a captured_at that
        is no time, and for a warehouse that can't be written.
        """
        from etq.labels import labels_of, set_labels

        key = self._key(capture)

        def labelled() -> dict[str, str]:
            set_labels(self.connection, key, labels)
            return labels_of(self.connection, key)

        return self._write(labelled)

    def metric(
        self,
        capture: str | Capture,
        name: str,
        value: float | None,
        unit: str | None = None,
        better: str | None = None,
        *,
        run: int | None = None,
    ) -> None:
        """Say a number beside a capture's events, in place of what was said of that name; None takes that away.

        unit    what it counts; by default as in `known_metrics`, to whose unit times and memory are converted
        better  lower or higher; by default as in `known_metrics`; None for conditions, such as a temperature
        run     the run that it is about; by default the capture as a whole

        Raises `QueryError` where there is no such capture; `WarehouseError` for a value that is no finite number, a
        name or unit that is none, a run that there isn't and a warehouse that can't be written.
        """
        from etq.ingest.metric_rows import Metric
        from etq.storing_metrics import set_metric

        key = self._key(capture)
        given = name if value is None else Metric(name, value, unit, better)
        gone = self._write(lambda: set_metric(self.connection, key, given, run))
        if value is None and not gone:
            raise WarehouseError(f"no metric {name!r} was said by hand of {capture}")

    def ingest_metrics(self, capture: str | Capture, source: str | os.PathLike[str] | bytes) -> int:
        """Read a file's metrics (or its bytes) to a capture: all of it, or, at an error, nothing.

        The file is a log of ExecuTorch's runner of language models, `benchmark_results.json` of its benchmark apps,
        records of PyTorch's benchmark database, or JSON with numbers by name: told by its content.

        Returns the number of metrics added: 0 where the same content was read to the capture before.

        Raises `QueryError` where there is no such capture, `FormatError` for a file that can't be read or is damaged,
        and `WarehouseError` for a warehouse that can't be written.
        """
        from etq.sources import source_of
        from etq.storing_metrics import store_metrics

        key, file = self._key(capture), source_of(source)
        return self._write(lambda: store_metrics(self.connection, key, file))

    def phase(
        self,
        capture: str | Capture,
        phase: str | None,
        *,
        runs: str | Iterable[int] | None = None,
        name: str | None = None,
        method: str | None = None,
    ) -> int:
        """Say what runs of a capture were for. Returns the number of runs it was said of.

        phase   load, prefill, decode or other; None takes back what was said
        runs    their numbers: integers, or a text such as 1-39,45 or 40-
        name    runs of that name: Execute, Default
        method  runs of that method, as inferred from the linked record or program

        Runs that all of what is given chooses; one at least must be given. Raises `QueryError` where there is no such
        capture, and `WarehouseError` for another phase, runs that there aren't, rules that choose none and a warehouse
        that can't be written.
        """
        from etq.phases import set_phase

        key = self._key(capture)
        return self._write(lambda: set_phase(self.connection, key, phase, runs, name, method))

    def phases_from_metrics(self, capture: str | Capture) -> dict[str, int]:
        """Say the phases of a language model's runs by the tokens that its runner counted (`ingest_metrics`).

        Only where these fit the runs that execute exactly, and in one way: a prompt in one run or a token a run, then
        a run for each token generated, the first of them perhaps out of the prompt. Runs that load are said to.
        Returns the number of runs by phase.

        Raises `QueryError` where there is no such capture, and `WarehouseError`, which says why, where the counts don't
        fit, where there are none, and for a warehouse that can't be written.
        """
        from etq.phases import set_phases_from_metrics

        key = self._key(capture)
        return self._write(lambda: set_phases_from_metrics(self.connection, key))

    def _key(self, capture: str | Capture) -> int:
        return (self.capture(capture) if isinstance(capture, str) else capture).capture_id

    def _fetched(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """All rows of a query, while no other thread asks."""
        with self._alone:
            return self.connection.execute(query, parameters).fetchall()

    def _write(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, in a transaction of its own."""
        self._check_writable()
        try:
            with self._writing():
                return schema.in_transaction(self.connection, work)
        except duckdb.Error as error:
            raise WarehouseError(f"{self.path or 'memory'}: {explained(self.path or 'memory', error)}") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write while no other thread does, to a file that is there before and after.

        Raises `WarehouseError` where it was removed, or another was put in its place.
        """
        with self._alone, self._turn:
            self._check_is_there()
            yield
            self._check_is_there()

    def _check_is_there(self) -> None:
        if self.path is not None and identity(self.path) != self._file:
            raise WarehouseError(
                f"{self.path}: was removed or replaced while it was open, and what is written is lost; open it anew"
            )

    def _check_writable(self) -> None:
        if self.read_only and self.path is not None and os.path.isdir(self.path):
            raise WarehouseError(f"{self.path}: a lake is only read; captures are added to it with: etq lake add")
        if self.read_only:
            raise WarehouseError(f"{self.path}: opened read-only, so that nothing can be written")
