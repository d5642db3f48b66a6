"""Invariants for any file: it is read, or refused by an `EtqError`, and nothing else changes."""

from __future__ import annotations

import re
import resource
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import etq
from etq import catalog
from etq.errors import EtqError, FormatError
from etq.ingest.arrow import LazyBatch
from etq.ingest.etdump.debug_buffer import with_elements
from etq.ingest.etrecord.reader import read_etrecord
from etq.ingest.metrics.reader import read_metrics
from etq.ingest.metrics.sidecar import read_sidecar
from etq.ingest.program.reader import read_program
from etq.ingest.registry import read_capture
from etq.warehouse.ephemeral import open_ephemeral
from etq.warehouse.warehouse import Capture, Warehouse
from tests.conftest import CAPTURES
from tests.fuzz.inputs import Input
from tests.fuzz.originals import Original
from tests.fuzz.parts import KIND, difference_of_parts, on_disk, small_parts, tables_in_parts

# Seconds of processor time for one file, by all threads.
MOST_SECONDS: Final = 1.0
MOST_BYTES: Final = 2**30
# Neither is an original: ingesting known content would only add another name.
GOOD: Final = 2 * (CAPTURES / "mlp/mlp_1run.etdp").read_bytes()
LINKED: Final = (CAPTURES / "mlp/mlp.etrecord").read_bytes()
# Errors of DuckDB that are faults, not refusals.
_FAULTS: Final = re.compile(r"INTERNAL|out of memory|allocat(e|ion) |bad_alloc|assert", re.IGNORECASE)
_TURNING: Final = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
# Views that read most columns of events.
VIEWS: Final = ("inspector_events", "op_totals", "execute_breakdown", "memory_totals")
# Views of traces; each ingested trace is queried with one of them.
TRACE_VIEWS: Final = (
    *VIEWS, "annotation_kernels", "copies", "copy_totals", "kernel_sequences", "clock_offsets", "collective_waits", "collectives", "critical_ops", "critical_path", "device_breakdown", "device_idle",
    "device_idle_causes", "gpu_metrics", "gpu_utilization", "held_memory",
    "kernel_launches", "kernel_table", "key_averages", "kernel_counters", "launch_totals", "memory_leaks", "memory_timeline", "module_tree", "operator_table",
    "peak_memory", "queue_lengths", "queue_summary", "rank_ops", "rank_steps", "serving_phases", "serving_steps", "step_breakdown", "stragglers", "time_tree",
    "trace_memory_stats", "work_totals", "work_types",
)  # fmt: skip
Rows = list[tuple[str, Any]]


class FaultError(Exception):
    """A promise that an input broke."""


class SlowError(FaultError):
    """More processor time than granted."""


class Seconds:
    """Processor time within the block, by all threads of this process; raises `SlowError` above the limit."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> Seconds:
        self.start = time.process_time()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.taken = time.process_time() - self.start
        if self.taken > MOST_SECONDS:
            raise SlowError(f"{self.what} takes {self.taken:.2f} s of the processor")


def limit_memory() -> None:
    """Limit this process to so many bytes more than now; beyond that it gets a MemoryError. Only on Linux."""
    if not Path("/proc/self/status").exists():
        return
    held = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    resource.setrlimit(resource.RLIMIT_DATA, (held + MOST_BYTES, resource.RLIM_INFINITY))


def is_harmless(text: str) -> bool:
    """Whether a text is one line without characters that a terminal interprets, and can be encoded."""
    return not any(
        unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(each) in _TURNING
        for each in text
    )


def refused(error: EtqError) -> str:
    """The text of a refusal. It must be printable, and must not be an internal error of the database."""
    text = str(error)
    if not isinstance(error, FormatError) and _FAULTS.search(text):
        raise FaultError(f"a refusal that tells of another fault: {text[:300]!r}")
    if not is_harmless(text):
        raise FaultError(f"a refusal that can't be shown: {text[:300]!r}")
    return f"{type(error).__name__}: {text}"


def read(given: Input) -> str | None:
    """Read a file without a warehouse. Returns the reason for a refusal, or None if it was read."""
    try:
        if given.kind == KIND and (difference := difference_of_parts(given.content)) is not None:
            raise FaultError(difference)
        with Seconds("reading"):
            for table, rows in _reading(given):
                part = rows.rows if isinstance(rows, LazyBatch) else rows
                _check_rows(table, part)
    except EtqError as error:
        return refused(error)
    return None


def _reading(given: Input) -> Iterator[tuple[str, Any]]:
    content, kind = given.content, given.kind
    if kind == "record":
        yield from read_etrecord(content, "file")
    elif kind == KIND:
        yield from tables_in_parts(content)
    elif kind in ("program", "xnnpack"):
        yield from read_program(content, "file")
    elif kind == "metrics":
        yield from read_metrics(content, "file")
    elif kind == "sidecar":
        yield from read_sidecar(content, given.original.name)
    else:
        for table, rows in read_capture(content, "file"):
            yield table, rows
            if table == "debug_values" and given.beside is not None:
                yield from (("debug_values", part) for part in with_elements(rows, given.beside, "buffer"))


def _check_rows(table: str, rows: pa.RecordBatch | pa.Table) -> None:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        raise FaultError(f"rows of {table} that Arrow doesn't take: {error}") from error


class Lab:
    """A warehouse with one good capture and record. Files are added to it and removed again."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.warehouse = etq.open()
        self.capture = self.warehouse.ingest(GOOD, name="good", labels={"device": "a"})
        self.record = self.warehouse.ingest_record(LINKED, name="good")
        self.tables = [(each.name, each.columns[0].name) for each in catalog.tables() if each.name != "warehouse"]
        columns = {each.name: {column.name for column in each.columns} for each in catalog.tables()}
        self._states = {
            name: f"SELECT '{name}', count(*), bit_xor(hash(t)), sum(hash(t) % 1000003) FROM (SELECT * "
            f"{'EXCLUDE (ingested_at)' if 'ingested_at' in columns[name] else ''} FROM {name}) AS t HAVING count(*) > 0"
            for name, _ in self.tables
        }
        self.keys = {"capture_id": 1, "record_id": 1, "program_id": 0}
        self.before = self.state()
        self._good: dict[tuple[str, str], Rows] = {}

    def close(self) -> None:
        """Close the warehouse and remove the folder."""
        self.warehouse.close()
        self.folder.cleanup()

    def _filled(self) -> list[tuple[str, str]]:
        """The tables that have rows, or had some, and their keys."""
        query = "SELECT t.table_name FROM duckdb_tables() AS t WHERE t.database_name = current_database() AND t.estimated_size > 0"
        filled = {name for (name,) in self.warehouse.connection.execute(query).fetchall()}
        return [each for each in self.tables if each[0] in filled]

    def state(self) -> Rows:
        """The contents of the warehouse without times of ingesting, as numbers of each table that has rows."""
        queries = [self._states[name] for name, _ in self._filled()]
        return self.warehouse.connection.execute(" UNION ALL ".join(queries)).fetchall()

    def check(self, given: Input, way: int) -> str | None:
        """Ingest a file, whole or not at all; then its original, whose rows must be the same as before.

        `way` selects how the file is ingested. Returns the reason for a refusal, or None if it was stored.
        """
        refusal = None
        try:
            with Seconds("ingesting"):
                self._ingest(given, given.content, given.beside, way)
        except EtqError as error:
            refusal = refused(error)
            self._check_unchanged("a refused file")
        self.clear()
        self._check_unchanged("taking a file out again")
        original = given.original
        if way % 4 == 0 and original.kind in ("etdump", "record", "program", "xnnpack", "debug", "prof_result"):
            found = self._state_of(original)
            if self._good.setdefault((original.kind, original.name), found) != found:
                raise FaultError("the original has other tables than before")
        return refusal

    def _state_of(self, original: Original) -> Rows:
        self._ingest(Input(original.kind, original, b"", None, ()), original.content, original.beside, 0)
        found = self.state()
        self.clear()
        return found

    def _ingest(self, given: Input, content: bytes, beside: bytes | None, way: int) -> None:
        house = self.warehouse
        if given.kind == "record":
            found = house.ingest_record(content, name="fuzz")
            if way % 2:
                _tried(lambda: house.link(self.capture, found))
        elif given.kind in ("program", "xnnpack"):
            program = house.ingest_program(content, name="fuzz")
            if way % 2:
                _tried(lambda: house.link(self.capture, program))
        elif given.kind == "metrics":
            house.ingest_metrics(self.capture, content)
        elif given.kind == "sidecar":
            path = Path(self.folder.name) / "run.etdp"
            path.write_bytes(CAPTURES.joinpath("bf16/bf16.etdp").read_bytes())
            sidecar = path.with_name(f"run.etdp{Path(given.original.name).suffix}")
            sidecar.write_bytes(content)
            try:
                house.ingest(path)
            finally:
                sidecar.unlink()
        elif beside is not None:
            house.ingest(content, name="fuzz", debug_buffer=beside, keep_values=way % 2 == 0)
        elif given.kind == KIND:
            with on_disk(content) as path, small_parts(content):
                trace = house.ingest(path, name="fuzz")
                _ask(house, trace, (TRACE_VIEWS[way % len(TRACE_VIEWS)],))
        else:
            views = (TRACE_VIEWS[way // 4 % len(TRACE_VIEWS)],) if given.kind == "trace" else VIEWS
            self._ingest_capture(content, way, views)

    def _ingest_capture(self, content: bytes, way: int, views: tuple[str, ...]) -> None:
        house = self.warehouse
        if way % 4 == 1:
            first, _ = house.ingest_many([content, content])
            if isinstance(first, EtqError):
                raise first
        elif way % 4 == 2:
            with open_ephemeral(content)[0] as looking:
                _ask(looking, looking.capture("@latest"))
        else:
            found = house.ingest(content, name="fuzz")
            if way % 4 == 3:
                _tried(lambda: house.link(found, self.record))
                _ask(house, found, views)

    def clear(self) -> None:
        """Remove the rows that were added."""
        connection = self.warehouse.connection
        connection.execute(
            "BEGIN;"
            + ";".join(
                f"DELETE FROM {name} WHERE {key} > {self.keys[key]}" for name, key in self._filled() if key in self.keys
            )
            + f";DELETE FROM metrics WHERE capture_id = {self.capture.capture_id}"
        )
        [(linked,)] = connection.execute("SELECT count(record_id) + count(program_id) FROM captures").fetchall()
        connection.execute("COMMIT; CHECKPOINT")  # without the rows that were removed, a table's size is 0 again
        if linked:
            self._link_nothing()

    def _link_nothing(self) -> None:
        """Remove the link of the good capture, as at the start."""
        self.warehouse.remove(self.capture)
        again = self.warehouse.ingest(GOOD, name="good", labels={"device": "a"})
        connection = self.warehouse.connection
        connection.execute("BEGIN")
        for name, key in self.tables:
            if key == "capture_id" and again.capture_id != self.capture.capture_id:
                connection.execute(
                    f"UPDATE {name} SET capture_id = ? WHERE capture_id = ?",
                    [self.capture.capture_id, again.capture_id],
                )
        connection.execute("COMMIT")

    def _check_unchanged(self, what: str) -> None:
        now = self.state()
        if now != self.before:
            changed = {name for name, *_ in {*now} ^ {*self.before}}
            raise FaultError(f"{what} leaves something in {', '.join(sorted(changed))}")


def _ask(warehouse: Warehouse, capture: Capture, views: tuple[str, ...] = VIEWS) -> None:
    """Query views, which may refuse to answer, for example if times exceed 64 bits."""
    for view in views:
        # Views across captures take the text of a selector.
        of_many = catalog.public_object(view).parameters[0].name == "selector"
        call = f"FROM {view}($capture{'::VARCHAR' if of_many else ''})"
        _tried(lambda call=call: warehouse.rows(call, capture=capture))  # type: ignore[misc]


def _tried(call: Callable[[], object]) -> None:
    """Run an operation on a stored file. It may be refused; the file stays."""
    try:
        call()
    except EtqError as error:
        refused(error)


def kind_of_error(error: BaseException) -> str:
    """An exception as a failure reports it: type, text and place."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno}"
    return f"{type(error).__module__}.{type(error).__name__}: {str(error)[:200]}{where}"
