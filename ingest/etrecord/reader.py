"""ETRecord (`.etrecord`): the export step's description of a program, as tables.

The one public function is `read_etrecord`. Only the file's zip and JSON are read, so neither torch nor executorch is
needed. Weights and pickles are listed by name and size and never opened, so nothing in the file is executed.
"""

from __future__ import annotations

import gc
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from etq.errors import FormatError, json_error
from etq.ingest.arrow import batch, flags, integers, texts
from etq.ingest.etrecord.export_json import DelegateMaps, ExportedProgram, HandleMap, OutputCounts
from etq.ingest.etrecord.op_graphs import EDGE, EXPORTED, GraphRows, StoredGraph
from etq.ingest.memory import check_json, refuse_beyond, shown

IDENTIFIER: Final = "ETRECORD_V0"
# The ends of names of members of the file that `torch.export.save` writes in torch 2.14 and in torch 2.7.
_EXPORTED: Final = ("/archive_format", "serialized_exported_program.json")
_OF_EXPORT: Final = (
    "not an ETRecord: a program of torch.export (.pt2), without times; give the .etrecord or .pte that was made of it"
)
MAPS: Final = ("debug_handle_map", "delegate_map", "instruction_id_to_num_outs_map", "export_graph_id")
PICKLES: Final = ("reference_outputs", "representative_inputs")
WEIGHTS: Final = ("_state_dict", "_constants", "_example_inputs")
# ETRecords store their members uncompressed. A member that is compressed more than this is a bomb: JSON can't be
# compressed as much.
LARGEST_RATIO: Final = 100
LARGEST_JSON: Final = 2**30
# Bytes of memory that Python takes for a member of a zip; the fewest bytes of a member's entry in the zip's list of
# members; the most bytes of the end of that list.
_MEMBER: Final = 1_000
_LEAST_ENTRY: Final = 46
_ENDING: Final = 2**16 + 200
# For fewer bytes than this, a thread for the checksum isn't worthwhile.
LITTLE: Final = 2**20
# Exceptions of zipfile for damaged zips. ValueError: names that aren't UTF-8, offsets before the start.
DAMAGES: Final = (
    *(zipfile.BadZipFile, NotImplementedError, OSError, EOFError, RuntimeError, ValueError),
    *(struct.error, zlib.error, lzma.LZMAError),
)
# Python's json writes numbers that JSON lacks, such as -Infinity in an attention mask. The first group is a text.
NO_JSON: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|(-?Infinity|NaN)', re.DOTALL)

Batch = tuple[str, pa.RecordBatch]


class _Bytes(io.RawIOBase):
    """A file over bytes or a memory map, without a copy of them."""

    def __init__(self, data: Any) -> None:
        self._data = memoryview(data)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if base + offset < 0:
            raise OSError("a seek before the start")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        part = self._data[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)

    def rest(self, size: int) -> memoryview:
        """Return at most `size` bytes from the current position, without a copy."""
        return self._data[self._at : self._at + size]


class _Sum:
    """The CRC-32 of bytes. The sum of many bytes is computed on another thread: zlib releases the interpreter's
    lock.
    """

    def __init__(self, content: bytes | memoryview) -> None:
        self._content = content
        self._value: int | None = None
        self._thread = Thread(target=self._find)
        if len(content) < LITTLE:
            self._find()
        else:
            self._thread.start()

    def value(self) -> int:
        """The checksum; waits until it is computed."""
        if self._value is None:
            self._thread.join()
        assert self._value is not None
        return self._value

    def _find(self) -> None:
        self._value = zlib.crc32(self._content)


def is_zip(data: Any) -> bool:
    """Whether a file begins with a zip's signature."""
    return bytes(data[:4]) == b"PK\x03\x04"


def read_etrecord(data: Any, path: str) -> Iterator[Batch]:
    """Read an ETRecord and yield pairs of base table and rows, without the key `record_id`, which the warehouse
    assigns.

    `data` is the file's bytes (or a memory map of it), `path` its name for messages. An incomplete record yields the
    rows of the parts that it has; `record_findings` names the missing parts. The table `records` has one row and comes
    last.

    Raises `FormatError`, naming member and place, for files that aren't ETRecords, for damaged members, and for zips
    that would unpack to absurd sizes.
    """
    if not is_zip(data):
        raise FormatError(path, f"not an ETRecord: expected a zip (`PK` at byte 0), found {bytes(data[:4])!r}")
    file = _Bytes(data)
    refuse_beyond(path, "the zip's list of members", _MEMBER * (_list_size(data) // _LEAST_ENTRY))
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGES as error:
        raise FormatError(path, f"the zip is damaged: {error}") from error
    # A record's objects have no reference cycles; not searching for cycles saves a tenth of the reading time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        with archive:
            tables = list(_Record(archive, file, path).read())
    finally:
        if collecting:
            gc.enable()
    yield from tables


def _list_size(data: Any) -> int:
    """Return the number of bytes of a zip's list of members, as stated at the zip's end (APPNOTE.TXT 4.3.16,
    4.3.14).
    """
    end = bytes(data[-_ENDING:])
    at, at64 = end.rfind(b"PK\5\6"), end.rfind(b"PK\6\6")
    stated = int.from_bytes(end[at + 12 : at + 16], "little") if at >= 0 else 0
    stated64 = int.from_bytes(end[at64 + 40 : at64 + 48], "little") if at64 >= 0 else 0
    return min(max(stated, stated64), len(data))


class _Record:
    def __init__(self, archive: zipfile.ZipFile, file: _Bytes, path: str) -> None:
        self.archive = archive
        self.file = file
        self.path = path
        self.members = {member.filename: member for member in archive.infolist()}
        self.findings: list[tuple[str, str]] = []

    def read(self) -> Iterator[Batch]:
        if IDENTIFIER not in self.members:
            if any(name.endswith(_EXPORTED) for name in self.members):
                raise FormatError(self.path, _OF_EXPORT)
            found = f"unpack {', '.join(sorted(self.members)[:3])}" if self.members else "it is empty"
            raise FormatError(self.path, f"not an ETRecord: a zip without the member {IDENTIFIER}; {found}")
        yield "record_members", self._member_rows()
        handles = self._decoded("debug_handle_map", HandleMap) or {}
        delegates = self._decoded("delegate_map", DelegateMaps) or {}
        outputs = self._decoded("instruction_id_to_num_outs_map", OutputCounts) or {}
        graph_id = self._decoded("export_graph_id", int | str)
        graphs, rows = self._graphs(sorted({*handles, *delegates}), None if graph_id is None else str(graph_id))
        if graphs:
            yield "graphs", _graph_rows(graphs)
        edges = [graph for graph in graphs if graph.stage == EDGE]
        yield from rows.batches()
        yield from self._map_rows(handles, delegates, outputs)
        self._find_lost_handles(handles, edges, rows)
        missing = [name for name in MAPS[:2] if name not in self.members] + ([] if edges else [EDGE])
        if missing:
            self._find("half-written", f"lacks {', '.join(missing)}: events can't be mapped to ops")
        if self.findings:
            rules, details = zip(*self.findings, strict=True)
            yield "record_findings", batch({"rule": texts(rules), "detail": texts(details)})
        yield (
            "records",
            batch(
                {
                    "export_graph_id": texts([None if graph_id is None else str(graph_id)]),
                    "is_complete": flags(np.array([not missing])),
                }
            ),
        )

    def _find(self, rule: str, detail: str) -> None:
        self.findings.append((rule, detail))

    def _member_rows(self) -> pa.RecordBatch:
        names = list(self.members)
        return batch(
            {
                "member_index": integers(range(len(names))),
                "name": texts(names),
                "kind": texts([_kind(name) for name in names]),
                "size_bytes": integers([self.members[name].file_size for name in names], np.int64),
            }
        )

    @contextmanager
    def _json(self, name: str) -> Iterator[bytes | memoryview]:
        """Provide the bytes of a JSON member to a decoder; the decoder's errors become errors that name the member.

        Sizes are checked before anything is unpacked. The checksum of a large member is computed while the member is
        decoded; damage is reported before any error of the decoder.
        """
        member = self.members[name]
        content = self._content(member)
        check_json(content, self.path, f"member {name}")
        # The checksum of other members is checked by zipfile.
        is_unchecked = member.compress_type == zipfile.ZIP_STORED and len(content) > 0
        sum = _Sum(content) if is_unchecked else None
        try:
            yield content
        except (msgspec.DecodeError, RecursionError) as error:
            raise FormatError(self.path, f"member {name}: {json_error(error)}", member.header_offset) from error
        finally:
            if sum is not None and sum.value() != member.CRC:
                raise self._damaged(member, f"Bad CRC-32 for file {name!r}")

    def _content(self, member: zipfile.ZipInfo) -> bytes | memoryview:
        """Return the bytes of a member, without a copy if it is not compressed (zipfile would copy them in pieces)."""
        name = member.filename
        if member.file_size > LARGEST_JSON or member.file_size > LARGEST_RATIO * max(member.compress_size, 1):
            raise FormatError(
                self.path,
                f"member {name} would unpack to {member.file_size:,} bytes from {member.compress_size:,}: refused",
                member.header_offset,
            )
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(
                self.path,
                f"member {name} is packed by method {member.compress_type}; expected 0 (stored) or 8 (deflated)",
                member.header_offset,
            )
        if member.compress_type == zipfile.ZIP_DEFLATED:
            refuse_beyond(self.path, f"member {name} of {shown(member.file_size)}", member.file_size)
        try:
            with self.archive.open(member) as file:
                if member.compress_type == zipfile.ZIP_DEFLATED:
                    # The limit prevents that more than the stated size is unpacked.
                    return file.read(member.file_size)
                # Opening the member has checked its header and moved the file's position to the end of the header.
                size = min(member.file_size, member.compress_size)
                content = self.file.rest(size)
                if len(content) < size:
                    raise EOFError
                return content
        except DAMAGES as error:
            raise self._damaged(member, str(error) or "it ends early") from error

    def _damaged(self, member: zipfile.ZipInfo, reason: str) -> FormatError:
        return FormatError(self.path, f"member {member.filename} is damaged: {reason}", member.header_offset)

    def _decoded(self, name: str, type: Any) -> Any:
        if name not in self.members:
            return None
        with self._json(name) as content:
            return _decode(content, type)

    def _graphs(self, methods: list[str], export_graph_id: str | None) -> tuple[list[StoredGraph], GraphRows]:
        """Return the programs, in the order of the zip, and their rows."""
        placed: list[tuple[str, str, str]] = []
        for name in self.members:
            if _kind(name) == "graph":
                stage, _, method = name.partition("/")
                placed.append((stage, method or "forward", name))
        edge_methods = [method for stage, method, _ in placed if stage == EDGE]
        has_exported = any(stage == EXPORTED for stage, _, _ in placed)
        rows = GraphRows(self.path, export_graph_id if has_exported else None)
        graphs = []
        for number, (stage, written, name) in enumerate(placed):
            # A record with one method always calls it `forward`; the delegate maps have the actual name.
            method = methods[0] if len(edge_methods) <= 1 and len(methods) == 1 else written
            graphs.append(self._graph(rows, number, stage, method, name))
        return graphs, rows

    def _graph(self, rows: GraphRows, number: int, stage: str, method: str, name: str) -> StoredGraph:
        """Add a program to the rows and release it: a program needs much more memory than its rows."""
        with self._json(name) as content:
            program: ExportedProgram = _decode(content, ExportedProgram)
            graph = StoredGraph(number, stage, method, name, program.dialect)
            rows.add(graph, program.graph_module)
        return graph

    def _map_rows(self, handles: HandleMap, delegates: DelegateMaps, outputs: OutputCounts) -> Iterator[Batch]:
        listed = [
            (method, self._instruction(method, instruction), position, handle)
            for method, instructions in handles.items()
            for instruction, value in instructions.items()
            for position, handle in enumerate(value if isinstance(value, list) else [value])
        ]
        if listed:
            yield "debug_handles", _rows(listed, ("method", "instruction_id", "position", "debug_handle"), {"method"})
        calls = []
        inner = []
        for method, instructions in delegates.items():
            for written, called in instructions.items():
                instruction = self._instruction(method, written)
                count = outputs.get(method, {}).get(written)
                calls.append((method, instruction, called.name, count, bool(called.delegate_map)))
                for number, (identifier, value) in enumerate((called.delegate_map or {}).items()):
                    mapped = value if isinstance(value, list) else [] if value is None else [value]
                    inner += [
                        (method, instruction, identifier, number, position, handle)
                        for position, handle in enumerate(mapped)
                    ]
        if calls:
            method_names, instructions_called, backends, counts, mapped_ones = zip(*calls, strict=True)
            yield (
                "delegates",
                batch(
                    {
                        "method": texts(method_names),
                        "instruction_id": integers(instructions_called),
                        "backend": texts(backends),
                        "outputs": integers(counts),
                        "is_mapped": flags(np.array(mapped_ones)),
                    }
                ),
            )
        if inner:
            names = ("method", "instruction_id", "delegate_debug_id", "id_index", "position", "debug_handle")
            yield "delegate_debug_handles", _rows(inner, names, {"method", "delegate_debug_id"})

    def _instruction(self, method: str, written: str) -> int:
        if not written.isascii() or not written.isdigit() or len(written) > 9:
            problem = f"the debug handle or delegate map of method {method} has the key {written!r}"
            raise FormatError(self.path, f"{problem}; expected the number of an instruction")
        return int(written)

    def _find_lost_handles(self, handles: HandleMap, edges: list[StoredGraph], rows: GraphRows) -> None:
        for method, instructions in handles.items():
            ids = {graph.graph_id for graph in edges if graph.method == method}
            if not ids:
                continue
            named = {
                handle for value in instructions.values() for handle in (value if isinstance(value, list) else [value])
            }
            if lost := sorted(named - rows.handles_of(ids) - {0}):
                shown = ", ".join(map(str, lost[:5])) + (", …" if len(lost) > 5 else "")
                self._find("lost handles", f"debug handles of method {method} without a node: {len(lost)} ({shown})")


def _decode(content: bytes | memoryview, type: Any) -> Any:
    """Decode JSON into `type`. NaN and infinities, which Python writes although JSON lacks them, are read as texts."""
    try:
        return msgspec.json.decode(content, type=type)
    except msgspec.DecodeError:
        standard = NO_JSON.sub(lambda match: match[1] or b'"%b"' % match[2], content)
        if standard == content:
            raise
    return msgspec.json.decode(standard, type=type)


def _kind(name: str) -> str:
    """The kind of a member, by its name."""
    if name == IDENTIFIER:
        return "identifier"
    if name in MAPS:
        return "map"
    if name in PICKLES:
        return "pickle"
    if name.endswith(WEIGHTS):
        return "weights"
    return "graph" if name in (EXPORTED, EDGE) or name.count("/") == 1 else "other"


def _graph_rows(graphs: list[StoredGraph]) -> pa.RecordBatch:
    return batch(
        {
            "graph_id": integers(graph.graph_id for graph in graphs),
            "stage": texts([graph.stage for graph in graphs]),
            "method": texts([graph.method for graph in graphs]),
            "member": texts([graph.member for graph in graphs]),
            "dialect": texts([graph.dialect for graph in graphs]),
        }
    )


def _rows(listed: list[tuple[Any, ...]], names: tuple[str, ...], spelled: set[str]) -> pa.RecordBatch:
    return batch(
        {
            name: texts(values) if name in spelled else integers(values)
            for name, values in zip(names, zip(*listed, strict=True), strict=True)
        }
    )
