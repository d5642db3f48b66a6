"""A capture as a Chrome trace, for Perfetto and chrome://tracing.

Format: Google's "Trace Event Format": complete events (X) that nest by their times in a thread, instants (i),
asynchronous pairs (b, e) for events that do not nest, and metadata (M). Times are microseconds, written as decimal text
and therefore exact to the nanosecond.

A process is a dump of the file, a thread is a track of `timeline`. Each run is an event that contains the run's events.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.export.rows import Lanes, about, blocks, encoded, microseconds, stated, unit_of, whole
from etq.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.database.handles import Answers, Capture

HOST: Final = "host"
# Kernels get another category, because readers of PyTorch's traces take `kernel` for work of a GPU.
CATEGORIES: Final = {"kernel": "op_kernel"}
_COLUMNS: Final = ("run_index", "event_index", "signature_index", "track", "is_estimated", "logged", "logged_unit")


def chrome(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the trace. Cycles are written as nanoseconds, which `otherData` mentions."""
    unit = unit_of(warehouse, capture)
    metadata = {"made_by": f"etq {VERSION}", **about(warehouse, capture)}
    if unit == "cycles":
        metadata["note"] = "ticks are cycles: 1 ns here is 1 cycle"
    yield f'{{"displayTimeUnit":"ns","otherData":{encoded(metadata)},"traceEvents":[\n'
    trace = _Trace(warehouse, capture, _spans(warehouse, capture, unit, options))
    query = f"""
        SELECT t.run_index, t.event_index, t.signature_index, t.track, t.is_estimated, t.logged, t.logged_unit,
            coalesce(t.run_start, 0) + coalesce(t.start, 0) AS start,
            coalesce(t.run_start, 0) + t.start + t.duration AS stop
        FROM timeline($capture, unit := $unit{catalog.more_arguments(options)}) AS t
        ORDER BY t.run_index, t.start NULLS LAST, t.depth, t.event_index
    """
    separator = ""
    for rows in blocks(warehouse, query, {"capture": capture.sha256, "unit": unit, **options}):
        yield separator + ",\n".join(trace.of(rows))
        separator = ",\n"
    if names := ",\n".join(trace.names()):
        yield separator + names
    yield "\n]}\n"


class _Trace:
    """The events of a trace, from rows in the order of runs."""

    def __init__(self, warehouse: Answers, capture: Capture, spans: dict[int, tuple[int, int]]) -> None:
        self._capture = capture
        self._spans = spans
        self._runs = _runs(warehouse, capture)
        self._events = _events(warehouse, capture)
        self._lanes = Lanes()
        self._threads: dict[tuple[int, str, int | None], int] = {}
        self._run: int | None = None
        self._apart = 0

    def of(self, rows: pa.RecordBatch) -> Iterator[str]:
        columns = rows.to_pydict()
        start, stop = whole(rows, "start"), whole(rows, "stop")
        is_bar = rows.column("stop").is_valid().to_pylist()
        for at, (run, event, signature, track, is_estimated, logged, logged_unit) in enumerate(
            zip(*(columns[name] for name in _COLUMNS), strict=True)
        ):
            if run != self._run:
                self._run = run
                yield from self._begin_of_run(run)
            dynamic = f'"run":{run},"event":{event}'
            if is_estimated:
                dynamic += f',"estimated":true,"logged":{encoded(logged)},"logged_unit":{encoded(logged_unit)}'
            elif not is_bar[at]:
                dynamic += f',"logged":{encoded(logged)},"logged_unit":{encoded(logged_unit)}'
            head, static = self._events[signature]
            tail = f'"args":{{{static}{dynamic}}}}}'
            dump = self._runs[run][0]
            if is_bar[at]:
                yield from self._bar(head, tail, dump, track, start[at], stop[at])
            else:
                place = _at(dump, self._thread(dump, track, 0), start[at])
                yield f'{{"ph":"i","s":"t",{head}{place},{tail}'

    def names(self) -> Iterator[str]:
        """Yield the names of processes and threads."""
        dumps = sorted({dump for dump, _, _ in self._threads})
        for dump in dumps:
            name = self._capture.name if len(dumps) == 1 else f"{self._capture.name}, dump {dump}"
            yield self._named("process_name", dump, 0, {"name": name})
        for (dump, track, lane), thread in self._threads.items():
            suffix = ", overlapping" if lane is None else f" ({lane + 1})" if lane else ""
            yield self._named("thread_name", dump, thread, {"name": track + suffix})
            yield self._named("thread_sort_index", dump, thread, {"sort_index": thread})

    def _bar(self, head: str, tail: str, dump: int, track: str, start: int, stop: int) -> tuple[str, ...]:
        thread = self._thread(dump, track, 0)
        lane = self._lanes.place(thread, start, stop)
        if lane:
            thread = self._thread(dump, track, lane)
        if lane is not None:
            return (f'{{"ph":"X",{head}{_at(dump, thread, start)},"dur":{microseconds(stop - start)},{tail}',)
        self._apart += 1
        thread, number = self._thread(dump, track, None), f',"id":{self._apart},'
        begin = f'{{"ph":"b",{head}{_at(dump, thread, start)}{number}{tail}'
        return begin, f'{{"ph":"e",{head}{_at(dump, thread, stop)}{number}"args":{{}}}}'

    def _begin_of_run(self, run: int) -> Iterator[str]:
        """Yield the run as an event that contains the run's events on the host, and precedes them in the file."""
        if run in self._spans:
            dump, head, args = self._runs[run]
            yield from self._bar(head, f'"args":{args}}}', dump, HOST, *self._spans[run])

    def _thread(self, dump: int, track: str, lane: int | None) -> int:
        number = self._threads.get((dump, track, lane))
        if number is None:
            number = self._threads[dump, track, lane] = len(self._threads) + 1
        return number

    def _named(self, what: str, dump: int, thread: int, args: dict[str, Any]) -> str:
        return f'{{"ph":"M","name":"{what}","pid":{dump + 1},"tid":{thread},"ts":0,"args":{encoded(args)}}}'


def _at(dump: int, thread: int, start: int) -> str:
    return f'"pid":{dump + 1},"tid":{thread},"ts":{microseconds(start)}'


def _spans(warehouse: Answers, capture: Capture, unit: str, options: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """Return the start of each run's first event on the host and the end of its last, in whole nanoseconds."""
    query = f"""
        SELECT t.run_index, any_value(coalesce(t.run_start, 0)), max(coalesce(t.run_start, 0) + t.start + t.duration)
        FROM timeline($capture, unit := $unit{catalog.more_arguments(options)}) AS t
        WHERE t.track = '{HOST}' AND t.duration IS NOT NULL
        GROUP BY t.run_index
    """
    rows = warehouse.rows(query, capture=capture.sha256, unit=unit, **options)[1]
    return {run: (round(start), round(stop)) for run, start, stop in rows}


def _runs(warehouse: Answers, capture: Capture) -> dict[int, tuple[int, str, str]]:
    """Return dump, name and properties (as JSON) of each run."""
    query = """
        SELECT r.run_index, r.dump_index, r.name, r.method, r.phase, r.iteration, r.bundled_input_index
        FROM runs AS r WHERE r.capture_id = $id
    """
    described = {}
    for index, dump, name, method, phase, iteration, bundled in warehouse.rows(query, id=capture.capture_id)[1]:
        known = {"run": index, "method": method, "phase": phase, "iteration": iteration, "bundled_input_index": bundled}
        described[index] = (dump, f'"name":{encoded(f"{name} #{iteration}")},"cat":"run",', encoded(stated(known)))
    return described


def _events(warehouse: Answers, capture: Capture) -> dict[int, tuple[str, str]]:
    """Return name, category and properties of each signature, as JSON without braces."""
    query = """
        SELECT s.signature_index, s.label, s.kind, s.name, s.family, s.chain_index, s.instruction_id,
            s.delegate_debug_id, s.delegate_debug_str,
            o.op_types, o.module_path, o.source_file, o.source_line, o.debug_handles, o.backend, o.mapping
        FROM signatures AS s
        LEFT JOIN event_ops($capture) AS o ON o.signature_index = s.signature_index
        WHERE s.capture_id = $id
    """
    described = {}
    for row in warehouse.rows(query, capture=capture.sha256, id=capture.capture_id)[1]:
        index, label, kind, name, family, chain, instruction, number, text, ops, module, file, line, *last = row
        handles, backend, mapping = last
        of_instruction = {"chain": chain, "instruction": instruction} if chain is not None and chain >= 0 else {}
        known = {
            "name": None if name == label else name,
            "family": None if family == label else family,
            **of_instruction,
            "delegate_debug_id": text if number is None else number,
            "op_types": ops,
            "module": "(model)" if module == "" else module,
            "source": f"{file}:{line}" if file is not None and line is not None else file,
            "debug_handles": handles,
            "backend": backend,
            "mapping": mapping,
        }
        static = encoded(stated(known))[1:-1]
        described[index] = (
            f'"name":{encoded(label)},"cat":{encoded(CATEGORIES.get(kind, kind))},',
            static and static + ",",
        )
    return described
