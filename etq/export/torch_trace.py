"""Writes a capture of a PyTorch Profiler trace as a trace again: the stored part, in Kineto's form.

Format: Google's "Trace Event Format" with Kineto's names of arguments, as `etq.ingest.trace.scanner` reads them. Events
are in the file's order, with its processes, threads and clock. Missing are the parts that etq doesn't store: flows,
counters, instants other than `[memory]`, metadata other than names, and arguments that no view reads (Record function
id, ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from etq import catalog
from etq.export.rows import about, blocks, encoded, microseconds, stated
from etq.version import VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from etq.database.handles import Answers, Capture

# Arguments by column: of all events, of ops (JSON as it was written), and of device events.
OF_EVENTS: Final = {
    "external_id": "External id",
    "correlation_id": "correlation",
    "sequence_number": "Sequence number",
    "forward_thread": "Fwd thread id",
    "call_stack": "Call stack",
}
OF_OPS: Final = {
    "inputs": "Concrete Inputs",
    "dtypes": "Input type",
    "strides": "Input Strides",
    "shapes": "Input Dims",
}
OF_DEVICES: Final = {
    "device": "device",
    "stream": "stream",
    "registers_per_thread": "registers per thread",
    "shared_memory_bytes": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "occupancy_percent": "est. achieved occupancy %",
    "bandwidth_gb_per_s": "memory bandwidth (GB/s)",
    "bytes": "bytes",
    "collective": "Collective name",
    "process_group": "Process Group Name",
    "group_description": "Process Group Description",
    "group_size": "Group size",
    "message_type": "dtype",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "wait_stream": "wait_on_stream",
    "wait_correlation_id": "wait_on_cuda_event_record_corr_id",
}
WRITTEN_OF_DEVICES: Final = {"grid": "grid", "block": "block"}
OF_MEMORY: Final = {
    "bytes": "Bytes",
    "total_allocated": "Total Allocated",
    "total_reserved": "Total Reserved",
    "device_type": "Device Type",
    "device": "Device Id",
}
PROPERTIES: Final = {
    "device": "id",
    "name": "name",
    "memory_bytes": "totalGlobalMem",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
    "multiprocessors": "numSms",
}


# Columns of ids that events of one process share, with the smallest valid id.
_IDS: Final = {"external_id": 1, "correlation_id": 1, "sequence_number": 0, "wait_correlation_id": 1}
# This id and larger ids aren't counters of a process.
MOST_IDS: Final = 2**48


@dataclass(frozen=True)
class Place:
    """Changes with which a capture's events are written into a file with those of others.

    shift      added to times, in nanoseconds
    ids        added to ids that events share
    devices    new numbers of devices
    processes  the order of processes and their new names, by their old names
    """

    shift: int = 0
    ids: int = 0
    devices: Mapping[int, int] = field(default_factory=dict)
    processes: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def time(self, column: str) -> str:
        """Return the SQL of a column of times."""
        return f"{column} + {self.shift} AS {column.split('.')[1]}" if self.shift else column

    def id(self, table: str, name: str) -> str:
        """Return the SQL of a column, which may have ids or devices."""
        column = f"{table}.{name}"
        if name in _IDS and self.ids:
            is_one = f"{column} >= {_IDS[name]} AND {column} < {MOST_IDS}"
            return f"CASE WHEN {is_one} THEN {column} + {self.ids} ELSE {column} END AS {name}"
        if name == "device" and self.devices:
            cases = " ".join(f"WHEN {old} THEN {new}" for old, new in self.devices.items())
            return f"CASE {column} {cases} ELSE {column} END AS {name}"
        return column

    def process(self, name: str) -> str:
        """Return the JSON of a process."""
        return encoded(self.processes[name][1]) if name in self.processes else _as_written(name)


AS_WRITTEN: Final = Place()


def torch_trace(warehouse: Answers, capture: Capture, options: dict[str, Any]) -> Iterator[str]:
    """Yield the text of the trace; if options select steps, only their events and the counters of their time."""
    known = about(warehouse, capture)
    head = {"schemaVersion": 1, "displayTimeUnit": "ms", "otherData": {"made_by": f"etq {VERSION}", **known}}
    labels = known.get("labels", {})
    if ranks := {key: int(labels[key]) for key in ("rank", "world_size") if labels.get(key, "").isdecimal()}:
        head["distributedInfo"] = ranks
    if properties := device_properties(warehouse, capture):
        head["deviceProperties"] = properties
    if base := base_of(warehouse, capture):
        head["baseTimeNanoseconds"] = base
    yield from document(head, events(warehouse, capture, options, AS_WRITTEN))


def document(head: dict[str, Any], parts: Iterable[str]) -> Iterator[str]:
    """Yield the text of a trace with these parts of its events."""
    yield encoded(head)[:-1] + ',"traceEvents":[\n'
    separator = ""
    for part in parts:
        yield separator + part
        separator = ",\n"
    yield "\n]}\n"


def events(warehouse: Answers, capture: Capture, options: dict[str, Any], place: Place) -> Iterator[str]:
    """Yield the events of a capture in parts, with commas between them."""
    options = dict(options)
    has_counters = options.pop("counters", False)
    threads = _threads(warehouse, capture, place)
    names = _names(warehouse, capture)
    parameters = {"capture": capture.sha256, **options}
    for rows in blocks(warehouse, _slices(options, place), parameters):
        yield ",\n".join(_of_slices(rows, names, threads))
    if not options:
        for rows in blocks(warehouse, _memory(place), parameters):
            yield ",\n".join(_of_memory(rows, threads))
    if has_counters:
        for rows in blocks(warehouse, _counters(options, place), parameters):
            yield ",\n".join(_of_counters(rows, place))
    if named := _thread_names(warehouse, capture, place):
        yield ",\n".join(named)


def base_of(warehouse: Answers, capture: Capture) -> int:
    """Return the origin of the times in nanoseconds since 1970, from captured_at; 0 if unknown, or if times count from
    1970.
    """
    [(moment, first)] = warehouse.rows(_FIRST, id=capture.capture_id)[1]
    if moment is None or first is None:
        return 0
    # captured_at is rounded down to whole microseconds, which Kineto's base has.
    base: int = -(-(moment * 1000 - first) // 1000) * 1000
    return max(base, 0)


# The start of the recording, determined as in the reader of traces.
_FIRST: Final = """
    SELECT
        any_value(epoch_us(c.captured_at)),
        coalesce(min(t.start_ticks) FILTER (WHERE s.category = 'Trace'), min(t.start_ticks))
    FROM captures AS c
    LEFT JOIN event_ticks AS t ON t.capture_id = c.capture_id
    LEFT JOIN signatures AS s ON s.capture_id = t.capture_id AND s.signature_index = t.signature_index
    WHERE c.capture_id = $id
"""


def _slices(options: dict[str, Any], place: Place) -> str:
    columns = ", ".join(
        [
            *(place.id("e", name) for name in OF_EVENTS),
            *(f"o.{name}" for name in OF_OPS),
            *(place.id("d", name) for name in (*OF_DEVICES, *WRITTEN_OF_DEVICES)),
            "k.counters",
        ]
    )
    return f"""
        SELECT t.signature_index, e.thread_index, {place.time("t.start_ticks")}, t.elapsed_ticks, {columns}
        FROM _exported_runs($capture{catalog.more_arguments(options)}) AS r
        JOIN event_ticks AS t ON t.capture_id = r.capture_id AND t.run_index = r.run_index
        JOIN trace_events AS e
            ON e.capture_id = t.capture_id AND e.run_index = t.run_index AND e.event_index = t.event_index
        LEFT JOIN op_arguments AS o
            ON o.capture_id = t.capture_id AND o.run_index = t.run_index AND o.event_index = t.event_index
        LEFT JOIN device_events AS d
            ON d.capture_id = t.capture_id AND d.run_index = t.run_index AND d.event_index = t.event_index
        LEFT JOIN (
            SELECT c.event_index, list({{'name': c.counter, 'value': c.value}} ORDER BY c.counter) AS counters
            FROM event_counters AS c
            WHERE c.capture_id = _capture_id($capture)
            GROUP BY c.event_index
        ) AS k ON k.event_index = t.event_index
        ORDER BY t.event_index
    """


def _memory(place: Place) -> str:
    columns = ", ".join(place.id("m", name) for name in OF_MEMORY)
    return f"""
        SELECT m.thread_index, {place.time("m.at_ticks")}, m.address, {columns}
        FROM (SELECT _capture_id($capture) AS capture_id) AS a
        JOIN trace_memory AS m ON m.capture_id = a.capture_id
        ORDER BY m.event_index
    """


def _counters(options: dict[str, Any], place: Place) -> str:
    """Changes of counters; if options select steps, only changes between the first and the last moment of these
    steps.
    """
    within = f"""
        SEMI JOIN (
            SELECT min(t.start_ticks) AS start_ticks, max(t.start_ticks + t.elapsed_ticks) AS end_ticks
            FROM _exported_runs($capture{catalog.more_arguments(options)}) AS r
            JOIN event_ticks AS t ON t.capture_id = r.capture_id AND t.run_index = r.run_index
            GROUP BY t.run_index
        ) AS s ON c.at_ticks >= s.start_ticks AND c.at_ticks <= s.end_ticks
    """
    return f"""
        SELECT c.process, c.counter, c.series, {place.time("c.at_ticks")}, c.value
        FROM _trace_counters(_capture_id($capture)) AS c {within if options else ""}
        ORDER BY c.counter, c.series, c.at_ticks, c.process
    """


def _of_slices(rows: pa.RecordBatch, names: dict[int, str], threads: dict[int, str]) -> Iterator[str]:
    columns = rows.to_pydict()
    encoded_columns = [
        (f'"{name}":', columns[column]) for column, name in (OF_EVENTS | OF_DEVICES).items() if _any(rows, column)
    ]
    raw_columns = [
        (f'"{name}":', columns[column]) for column, name in (OF_OPS | WRITTEN_OF_DEVICES).items() if _any(rows, column)
    ]
    counters = columns["counters"]
    for at, (signature, thread, start, elapsed) in enumerate(
        zip(
            *(columns[name] for name in ("signature_index", "thread_index", "start_ticks", "elapsed_ticks")),
            strict=True,
        )
    ):
        args = [name + encoded(values[at]) for name, values in encoded_columns if values[at] is not None]
        args += [name + values[at] for name, values in raw_columns if values[at] is not None]
        args += [f"{encoded(each['name'])}:{encoded(each['value'])}" for each in counters[at] or ()]
        when = f'"ts":{microseconds(start)},"dur":{microseconds(elapsed)}'
        yield f'{{"ph":"X",{names[signature]}{threads[thread]}{when},"args":{{{",".join(args)}}}}}'


def _any(rows: pa.RecordBatch, column: str) -> bool:
    """Whether a column has any value."""
    return bool(rows.column(column).null_count < rows.num_rows)


def _of_memory(rows: pa.RecordBatch, threads: dict[int, str]) -> Iterator[str]:
    for row in rows.to_pylist():
        known = {name: row[column] for column, name in OF_MEMORY.items()}
        args = encoded(stated({**known, "Addr": None if row["address"] is None else int(row["address"])}))
        place = f'{threads[row["thread_index"]]}"ts":{microseconds(row["at_ticks"])}'
        yield f'{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]",{place},"args":{args}}}'


def _of_counters(rows: pa.RecordBatch, place: Place) -> Iterator[str]:
    for row in rows.to_pylist():
        at = f'"pid":{place.process(row["process"])},"tid":0,"ts":{microseconds(row["at_ticks"])}'
        # Viewers have a track for each name.
        name = encoded(f"{row['counter']}, {row['series']}")
        yield f'{{"ph":"C","name":{name},{at},"args":{{"value":{encoded(row["value"])}}}}}'


def _names(warehouse: Answers, capture: Capture) -> dict[int, str]:
    """Return category and name of each signature as JSON."""
    query = "SELECT s.signature_index, s.category, s.label FROM signatures AS s WHERE s.capture_id = $id"
    rows = warehouse.rows(query, id=capture.capture_id)[1]
    return {index: f'"cat":{encoded(category or "")},"name":{encoded(name)},' for index, category, name in rows}


def _threads(warehouse: Answers, capture: Capture, place: Place) -> dict[int, str]:
    query = "SELECT t.thread_index, t.process, t.thread FROM threads AS t WHERE t.capture_id = $id"
    rows = warehouse.rows(query, id=capture.capture_id)[1]
    return {index: f'"pid":{place.process(pid)},"tid":{_as_written(tid)},' for index, pid, tid in rows}


def _thread_names(warehouse: Answers, capture: Capture, place: Place) -> list[str]:
    query = """
        SELECT t.process, t.thread, t.process_name, t.thread_name
        FROM threads AS t WHERE t.capture_id = $id ORDER BY t.thread_index
    """
    lines: dict[str, None] = {}
    for pid, tid, process, thread in warehouse.rows(query, id=capture.capture_id)[1]:
        of_process = f'"pid":{place.process(pid)}'
        number, renamed = place.processes.get(pid, (None, process))
        if number is not None:
            order = f'"args":{{"sort_index":{number}}}'
            lines[f'{{"ph":"M","name":"process_sort_index",{of_process},"tid":0,"ts":0,{order}}}'] = None
        for what, name, of in (
            ("process_name", renamed, of_process),
            ("thread_name", thread, f'{of_process},"tid":{_as_written(tid)}'),
        ):
            if name is not None:
                lines[f'{{"ph":"M","name":"{what}",{of},"ts":0,"args":{encoded({"name": name})}}}'] = None
    return [*lines]


def _as_written(name: str) -> str:
    """Return a process or thread as the file had it: an integer if the text is one."""
    is_number = name.removeprefix("-").isascii() and name.removeprefix("-").isdecimal() and str(int(name)) == name
    return name if is_number else encoded(name)


def device_properties(warehouse: Answers, capture: Capture) -> list[dict[str, Any]]:
    """Return the trace's description of its machine's devices."""
    query = f"""
        SELECT {", ".join(f"d.{name}" for name in PROPERTIES)}
        FROM trace_devices AS d WHERE d.capture_id = $id ORDER BY d.device
    """
    rows = warehouse.rows(query, id=capture.capture_id)[1]
    return [stated(dict(zip(PROPERTIES.values(), row, strict=True))) for row in rows]
