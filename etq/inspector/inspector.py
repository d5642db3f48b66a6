"""The Inspector: a capture's event blocks as objects and DataFrames, as in executorch."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import IO, TYPE_CHECKING, Any, Final

from etq.errors import ArgumentError, ArgumentTypeError, EtqError, path_of
from etq.inspector import frames, references, rows, symbols, values
from etq.inspector.events import Event, EventBlock, LoadedBlock, LoadedEvent, PerfData, TimeScaleConverter
from etq.inspector.frames import MetadataParser
from etq.inspector.scales import TimeScale, time_scale_of
from etq.inspector.tensors import is_torch_loaded
from etq.inspector.vgf import parse_vgf_neural_statistics_delegate_metadata
from etq.storage.sources import source_of
from etq.warehouse.ephemeral import open_ephemeral

if TYPE_CHECKING:
    import pandas

    from etq.inspector.comparators import Comparator
    from etq.inspector.gaps import Gaps

# Findings that become warnings, because they mean unexpected results; other findings are only in `findings`.
_WARNED_OF: Final = ("foreign record", "method unknown", "several dumps", "trailing bytes", "impossible times")
_WRAPPER: Final = "OPERATOR_CALL"


class Inspector:
    """The results of executorch's Inspector for an ETDump and its ETRecord, from etq's views, without executorch.

    etdump_path                    the ETDump's file; either this or etdump_data is given
    etdump_data                    its bytes
    etrecord                       path of the program's ETRecord, or executorch's object, which then needs executorch
    source_time_scale              unit of one tick; a TimeScale or its value
    target_time_scale              unit of the durations shown; cycles can't be converted to time
    debug_buffer_path              file of the values that the runtime logged; without it they are unknown
    delegate_metadata_parser       given what a delegate logged of an event in each run, its columns, or a list
    delegate_time_scale_converter  returns the time to show, given a delegate's event name and a time in ticks; called
                                   separately for start and end
    enable_module_hierarchy        accepted for compatibility: modules are always shown
    reference_graph_name           the record's graph with the nodes of events: that of the edge program, or a member of
                                   the record by its name, as exported_program
    compat                         reproduce the errors of executorch's Inspector; see below

    event_blocks    a list of `EventBlock`; changes to it show in all later results. Logged values and expected outputs
                    are tensors where torch is imported before the Inspector is made, else numpy arrays
    op_graph_dict   always None: the graphs are in the tables op_nodes and op_edges

    With `compat`, of several occurrences in a run only the last has a row; a 32-bit clock that wraps is a tick short;
    durations of delegated events are rounded as their start and end are; tensors without a debug buffer are zeros;
    outputs that are not tensors are events without a name; a bundled input that isn't named is the last; framework and
    user events belong to the ops of instruction 0; every record is taken for the dump's, and every block for its method
    forward; events within a delegate without debug handles have no ops; only the first of several dumps is read; five
    op_types or more are a text; and a module is any whose key has the name in it. Where the Inspector raises (several
    methods, allocations, values that differ between runs, short debug buffers, half-written records), there is an
    answer with `compat`, too; a truncated file is refused in either case.

    Raises `EtqError` for arguments that don't go together and, as `FormatError`, for files that can't be read. Warns
    (UserWarning) of another program's record, of bytes that belong to no dump, and of values that differ between runs.
    """

    def __init__(
        self,
        etdump_path: str | os.PathLike[str] | None = None,
        etdump_data: bytes | None = None,
        etrecord: Any = None,
        source_time_scale: TimeScale | str = TimeScale.NS,
        target_time_scale: TimeScale | str = TimeScale.MS,
        debug_buffer_path: str | os.PathLike[str] | None = None,
        delegate_metadata_parser: MetadataParser | None = None,
        delegate_time_scale_converter: TimeScaleConverter | None = None,
        enable_module_hierarchy: bool = False,
        reference_graph_name: str = symbols.EDGE_GRAPH,
        *,
        compat: bool = False,
    ) -> None:
        self._source, self._target = time_scale_of(source_time_scale), time_scale_of(target_time_scale)
        if (self._source is TimeScale.CYCLES) != (self._target is TimeScale.CYCLES):
            raise ArgumentError(
                "cycles are not a unit of time; give source and target time scale both in cycles, or neither"
            )
        if (etdump_path is None) == (etdump_data is None):
            raise ArgumentTypeError("give exactly one of etdump_path and etdump_data")
        self._parser = delegate_metadata_parser
        self._graph = reference_graph_name
        self._enable_module_hierarchy = enable_module_hierarchy
        self._buffer = None if debug_buffer_path is None else source_of(debug_buffer_path)
        self._as_tensors = is_torch_loaded()
        self._etrecord = etrecord
        self._record = None if etrecord is None else references.path_of_record(etrecord, self)
        dump = etdump_data if etdump_path is None else path_of(etdump_path)
        self._dump = _first_dump(dump) if compat else dump
        self._queries = _queries(
            self._dump, self._record, (self._source.value, self._target.value), compat, delegate_time_scale_converter
        )
        self._blocks: list[EventBlock] | None = None
        self._gaps: dict[str | None, Gaps] = {}
        self.op_graph_dict: Mapping[str, Any] | None = None
        if self._record is not None:
            symbols.check_graph(self._queries, self._graph)
        self._symbols = symbols.SymbolTable(None if self._record is None else self._queries, self._graph)
        if not compat:
            self._warn_of_findings()

    def _warn_of_findings(self) -> None:
        found = self._queries.rows("SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = $key")
        if self._record is not None:
            query = "SELECT 'half-written record', f.detail FROM record_findings AS f JOIN records AS r"
            found += self._queries.rows(f"{query} ON r.record_id = f.record_id AND NOT r.is_complete")
        for rule, detail in found:
            if rule in (*_WARNED_OF, "half-written record"):
                warnings.warn(f"{rule}: {detail}", stacklevel=3)

    @property
    def event_blocks(self) -> list[EventBlock]:
        """The event blocks, in the order of their first runs."""
        if self._blocks is None:
            self._blocks = self._made_blocks()
        return self._blocks

    @event_blocks.setter
    def event_blocks(self, blocks: list[EventBlock]) -> None:
        self._blocks = blocks

    @cached_property
    def _rows(self) -> rows.Rows:
        return rows.read_rows(self._queries)

    @cached_property
    def _values(self) -> values.Values:
        content = None if self._buffer is None else self._buffer.content
        has_repeats = any(occurrence for *_, occurrence in self._rows.keys)
        found = values.read_values(self._queries, content, self._as_tensors, has_repeats)
        if found.differing:
            names: dict[Any, str] = dict(zip(self._rows.keys, self._rows.names, strict=True))
            names_shown = sorted({names.get(each, "output of the program") for each in found.differing})
            shown = ", ".join(names_shown[:3]) + (f" and {len(names_shown) - 3} more" if len(names_shown) > 3 else "")
            warnings.warn(f"values differ between runs; those of the first run are given: {shown}", stacklevel=4)
        return found

    @cached_property
    def _paths_of_modules(self) -> dict[str, str]:
        return symbols.paths_of_modules(self._queries)

    @cached_property
    def _totals(self) -> dict[str, list[float | None]]:
        return symbols.totals_of_modules(self._queries.with_ops)

    def _total_of(self, path: str) -> float | None:
        totals = self._totals.setdefault(path, [])
        if len(totals) != 1:
            # Parts of paths, such as a list of modules, and modules of several methods need a separate query.
            is_known = totals or any(f"{each}.".startswith(f"{path}.") for each in self._paths_of_modules.values())
            totals[:] = [symbols.total_for_module(self._queries.with_ops, path) if is_known else 0.0]
        return totals[0]

    def _made_blocks(self) -> list[EventBlock]:
        query = """
            SELECT r.block_index, any_value(r.name), any_value(r.bundled_input_index), any_value(r.method)
            FROM runs AS r
            WHERE r.capture_id = $key AND r.block_index IS NOT NULL
            GROUP BY r.block_index ORDER BY r.block_index
        """
        made: dict[int, EventBlock] = {}
        for block, name, index, method in self._queries.rows(query):
            bundled = -1 if index is None and self._queries.compat else index
            outputs = self._values.of_blocks.get(block, [])
            made[block] = LoadedBlock(name, [], self._source, self._target, bundled, outputs)
            if self._record is not None:
                made[block].read_by(self._reader_of_reference(method, bundled))  # type: ignore[attr-defined]
        metadata = rows.read_metadata(self._queries)
        for at, (block, slot, occurrence) in enumerate(self._rows.keys):
            made[block].events.append(self._event(at, metadata.get((block, slot, occurrence), [])))
        return list(made.values())

    def _event(self, at: int, metadata: list[Any]) -> Event:
        key = self._rows.keys[at]
        raw = self._rows.raw[at]
        made = LoadedEvent(
            self._rows.names[at],
            None if raw is None else PerfData.with_statistics(raw, self._rows.statistics[at]),
            delegate_debug_identifier=self._rows.identifiers[at],
            is_delegated_op=self._rows.is_delegated[at],
            _delegate_debug_metadatas=metadata,
            debug_data=self._values.of_events.get(key, []),
            _instruction_id=self._rows.instructions[at],
            _delegate_metadata_parser=self._parser,
            _delegate_time_scale_converter=self._queries.converter,
            _start_time=self._rows.starts[at],
            occurrence=key[2],
            _shortens=self._queries.compat,
            _other_unit=self._rows.units[at],
        )
        if self._record is not None:
            made.read_by(partial(self._symbols.of, *key[:2]))
        return made

    def _reader_of_reference(self, method: str | None, index: int | None) -> Callable[[], list[Any] | None]:
        record, compat, as_tensors = self._record, self._queries.compat, self._as_tensors
        assert record is not None

        def read() -> list[Any] | None:
            # Only a block that ran a method has outputs; if the method has several bundled inputs, only an index
            # selects one.
            outputs = (
                None if method is None and not compat else references.reference_outputs(record, method, as_tensors)
            )
            if not outputs or (index is None and len(outputs) > 1):
                return None
            at = 0 if index is None else index
            return outputs[at] if -len(outputs) <= at < len(outputs) else None

        return read

    def to_dataframe(self, include_units: bool = True, include_delegate_debug_data: bool = False) -> pandas.DataFrame:
        """One row an event of each block, as a pandas DataFrame.

        include_units                whether the names of statistics have their unit, as in `p50 (ms)`
        include_delegate_debug_data  whether to include the delegates' metadata: a column for each field
                                     of the parser's result, or the column delegate_debug_metadata

        For values that aren't times, such as counters of a delegate, a last column other_unit names the unit, and
        columns with a unit in their names are NaN. Raises `EtqError` if pandas is missing.
        """
        frames.import_pandas()
        if include_delegate_debug_data and self.event_blocks:
            each = [block.to_dataframe(include_units, True) for block in self.event_blocks]
            return frames.import_pandas().concat(each, ignore_index=True)
        columns = self._columns() if self._blocks is None else _columns_of_blocks(self._blocks)
        return frames.frame_of(columns, f" ({self._target.value})" if include_units else "")

    def _columns(self) -> frames.Columns:
        """Return the columns of all events, without making objects of them."""
        found = self._rows
        node_symbols = [self._symbols.of(*key[:2]) for key in found.keys]
        shown = frames.shortened if self._queries.compat else list
        logged = self._values.of_events
        return {
            "event_block_name": found.blocks,
            "event_name": found.names,
            "raw": list(found.raw),
            **{name: [getattr(statistic, name) for statistic in found.statistics] for name in frames.STATISTICS},
            "op_types": [shown(symbol.op_types) for symbol in node_symbols],
            "delegate_debug_identifier": found.identifiers,
            "stack_traces": [dict(symbol.stack_traces) for symbol in node_symbols],
            "module_hierarchy": [dict(symbol.modules) for symbol in node_symbols],
            "is_delegated_op": found.is_delegated,
            "delegate_backend_name": [symbol.backend for symbol in node_symbols],
            "debug_data": [logged.get(key, []) for key in found.keys],
            "start_time": found.starts,
            frames.OTHER_UNIT: found.units,
        }

    def print_data_tabular(
        self, file: IO[str] | None = None, include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> None:
        """Print the events, except those that only wrap another event, as a table; in a notebook, display it.

        file  where to print; None: standard output

        The other parameters, and errors, are those of `to_dataframe`.
        """
        frame = self.to_dataframe(include_units, include_delegate_debug_data)
        frames.show(frames.printed_frame(frame), sys.stdout if file is None else file)

    def save_data_to_tsv(
        self, file: IO[str] | str, include_units: bool = True, include_delegate_debug_data: bool = False
    ) -> None:
        """Write what `print_data_tabular` prints as tab-separated values into a file or a path.

        The other parameters, and errors, are those of `to_dataframe`.
        """
        frame = self.to_dataframe(include_units, include_delegate_debug_data)
        frames.printed_frame(frame).to_csv(file, sep="\t")

    def find_total_for_module(self, module_name: str) -> float:
        """Return the mean time of a module per execute, in the target time scale.

        module_name  the module's path, as block1.up, or its key, as L__self___block1_up; modules within it count

        Overlapping events count once, and the time of a delegate's call belongs to the modules of the events within it;
        a module of which nothing but a part of a call is known has NaN. With `compat`, the result is the sum of the
        averages of all events, both calls and their children, with a node that lies in a module whose key contains the
        name. It is 0 if nothing matches, or without a record. Raises `QueryError` for a half-written record.
        """
        if self._record is None:
            return 0.0
        if not self._queries.compat:
            total = self._total_of(self._paths_of_modules.get(module_name, module_name))
            return float("nan") if total is None else total
        averages = [
            event.perf_data.avg
            for block in self.event_blocks
            for event in block.events
            if event.name != _WRAPPER and event.perf_data is not None and _has_module(event, module_name)
        ]
        return symbols.sum_of(self._queries, [average for average in averages if average is not None])

    def get_op_list(self, event_block: str, show_delegated_ops: bool | None = True) -> dict[str, list[Event]]:
        """Return the events of each op type in the blocks of a name, in order; an event of several op types is in each
        list.

        event_block         name of the blocks, as Execute
        show_delegated_ops  whether calls of delegates, and what they ran, are among them

        Raises `ArgumentError` (a ValueError) for an unknown block.
        """
        blocks = [block for block in self.event_blocks if block.name == event_block]
        if not blocks:
            known = ", ".join(sorted({block.name for block in self.event_blocks}))
            raise ArgumentError(f"no event block {event_block!r}; there are {known or 'none'}")
        found: dict[str, list[Event]] = {}
        for event in (event for block in blocks for event in block.events):
            if show_delegated_ops or not (event.is_delegated_op or event.delegate_backend_name):
                for op_type in dict.fromkeys(event.op_types):
                    found.setdefault(op_type, []).append(event)
        return found

    def write_tensorboard_artifact(self, path: str) -> None:
        """Not supported. Raises `EtqError`, which names alternatives."""
        raise EtqError(
            "TensorBoard artifacts are not written: draw the op graph with times by `etq graph CAPTURE --format dot`, "
            "or write any view with `etq sql … --format parquet -o FILE`"
        )

    def get_exported_program(self, graph: str | None = None) -> Any:
        """Return the record's ExportedProgram: that of the edge dialect, or of another graph by its name; None without
        a record.

        Raises `EtqError` if executorch, which it needs, is not installed.
        """
        if self._record is None:
            return None
        given = self._record if isinstance(self._etrecord, str | os.PathLike) else self._etrecord
        return references.exported_program(given, graph)

    def calculate_numeric_gap(
        self,
        distance: str | Comparator,
        disable_debug_handle_valdiation: bool = False,
        reference_graph: str | None = None,
    ) -> pandas.DataFrame:
        """Compare the values that the runtime logged with those of the exported program for its representative inputs.

        distance         MSE, L1 (sum) or SNR (dB), or a comparator of the user's: an object with `element_compare`, and
                         `preprocessing` if it has one, as those derived from executorch's or etq's class
        disable_debug_handle_valdiation  accepted for compatibility: an op without a handle never has a row
        reference_graph  exported_program, which torch runs, or another of the record's graphs, which needs executorch,
                         as edge_after_transform/forward; None: exported_program, or edge_dialect_exported_program
                         where the record has no other

        Returns a DataFrame with a row for each value that both have, by debug handle: aot_debug_handle, aot_ops,
        aot_intermediate_output, runtime_ops, runtime_debug_handle, runtime_intermediate_output (torch's tensors), gap
        (a list of one), stacktraces, problem (why the gap is NaN, for example different sizes; None if the gap is a
        number), and mapping: exact if only this value of the runtime can be the op's, else inferred.

        `compat` makes no difference. Raises `EtqError` if pandas, torch or executorch is missing, and without a record
        or a debug buffer; `ArgumentError` for an unknown distance or graph, and for what `preprocessing` must not
        return.
        """
        from etq.inspector.gaps import Gaps

        if self._record is None:
            raise ArgumentError("a numeric gap needs the program's ETRecord, with representative inputs: give etrecord")
        if self._buffer is None:
            raise ArgumentError("a numeric gap needs the values that the runtime logged: give debug_buffer_path")
        if reference_graph not in self._gaps:
            self._gaps[reference_graph] = Gaps(self._queries.with_ops, self._record, self._buffer, reference_graph)
        return self._gaps[reference_graph].frame(distance, self)

    def get_vgf_neural_statistics(self) -> list[dict[str, Any]]:
        """Return the statistics that the VGF backend logged, as records; `raw_data` has the bytes of parts in base64.

        Raises `EtqError` (also a ValueError) for damaged records.
        """
        logged = [event.raw_delegate_debug_metadatas for block in self.event_blocks for event in block.events]
        return [record for each in logged for record in parse_vgf_neural_statistics_delegate_metadata(each)]


def _queries(
    dump: Any, record: str | None, units: tuple[str, str], compat: bool, converter: TimeScaleConverter | None
) -> rows.CaptureQueries:
    warehouse, capture = open_ephemeral(
        dump,
        time_scale=units[0],  # type: ignore[arg-type]
        etrecord=record,
        is_for_all_runs=True,
        has_nodes=False,
    )
    return rows.CaptureQueries(warehouse, capture, units[1], compat, converter)


def _first_dump(dump: Any) -> Any:
    """Return the first of several dumps in a file, the only one that the Inspector reads; the whole file if it has one
    dump.
    """
    from etq.ingest.etdump.containers import find_dumps, is_etdump

    content = source_of(dump).content
    if not is_etdump(content):
        return dump
    found, _ = find_dumps(content, "bytes" if isinstance(dump, bytes) else dump)
    return bytes(content[: found[0].end]) if len(found) > 1 else dump


def _columns_of_blocks(blocks: list[EventBlock]) -> frames.Columns:
    events = [event for block in blocks for event in block.events]
    names = [block.name for block in blocks for _ in block.events]
    return {"event_block_name": names, **frames.columns_of([event._row() for event in events])}


def _has_module(event: Event, name: str) -> bool:
    return any(name in key for modules in event.module_hierarchy.values() for key in modules or ())
