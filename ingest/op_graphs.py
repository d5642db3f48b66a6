"""Exported programs as rows: nodes, values, edges, modules, debug handles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, integers, lists, texts
from etq.ingest.export_json import DTYPES, ExportedProgram, Graph, Node, Origin, TensorMeta

EDGE: Final = "edge_dialect_exported_program"
EXPORTED: Final = "exported_program"

_MODULES_OF_TARGETS: Final = ("executorch.exir.dialects.edge.ops.", "torch.ops.")
_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d+)')
_INSTALLED: Final = re.compile(r"(?:^|[/\\])(?:site-packages|dist-packages)[/\\]")
_CALL_NUMBER: Final = re.compile(r"@(\d+)$")
_origins: Final = msgspec.json.Decoder(list[Origin])

# One level of a node's module stack: key, path, class, call number.
ModuleLevel = tuple[str, str, str, int]


@dataclass(frozen=True)
class StoredGraph:
    """A program of an ETRecord, with where it stands and what it is called."""

    graph_id: int
    stage: str
    method: str
    member: str
    program: ExportedProgram


@lru_cache(maxsize=65536)
def op_type(target: str) -> str:
    """A target without the module it is found in: `aten.addmm.default`."""
    for module in _MODULES_OF_TARGETS:
        if target.startswith(module):
            return target.removeprefix(module)
    return target


@lru_cache(maxsize=65536)
def op_name(target: str) -> str:
    """The op alone, as kernels are named: `addmm` of `aten.addmm.default`, `cond` of `torch.ops.higher_order.cond`."""
    parts = op_type(target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@lru_cache(maxsize=65536)
def source_place(stack_trace: str) -> tuple[str | None, int | None]:
    """File and line of the innermost frame outside of installed packages; of the innermost where all are inside."""
    frames = _FRAME.findall(stack_trace)
    own = [frame for frame in frames if not _INSTALLED.search(frame[0])]
    if not frames:
        return None, None
    file, line = (own or frames)[-1]
    return file, int(line) if len(line) < 10 else None


@lru_cache(maxsize=65536)
def module_levels(stack: str) -> tuple[ModuleLevel, ...]:
    """The levels of an nn_module_stack, outermost first.

    Written `key,path,class;key,path,class`: a class may hold commas and semicolons within brackets.
    """
    levels = []
    for level in _split(stack, ";"):
        key, path, *rest = [*_split(level, ","), "", ""]
        number = _CALL_NUMBER.search(key)
        levels.append((key, path, rest[0], int(number[1]) if number and len(number[1]) < 9 else 0))
    return tuple(levels)


def _split(text: str, separator: str) -> list[str]:
    """Split where no bracket is open."""
    if "[" not in text and "(" not in text:
        return text.split(separator)
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == separator and depth <= 0:
            parts.append(text[begin:at])
            begin = at + 1
    return [*parts, text[begin:]]


@dataclass
class Columns:
    """Values of a table's columns as they come, one list each."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def column(self, name: str) -> list[Any]:
        """All values of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]


class GraphRows:
    """Collects the rows of all graphs of a record."""

    def __init__(self) -> None:
        self.nodes = Columns(
            (
                *("graph_id", "node_index", "subgraph", "name", "target", "op_type", "op"),
                *("stack_trace", "source_file", "source_line", "module_path"),
            )
        )
        self.values = Columns(("graph_id", "node_index", "output_index", "value_name", "kind", "meta"))
        self.edges = Columns(("graph_id", "from_node", "to_node", "position"))
        self.modules = Columns(
            ("graph_id", "node_index", "depth", "module_key", "module_path", "module_class", "call_number")
        )
        self.handles = Columns(("graph_id", "node_index", "debug_handle"))

    def add(self, stored: StoredGraph) -> None:
        """Add a program's graph and the graphs nested in it."""
        signature = stored.program.graph_module.signature
        kinds: dict[str, str] = {}
        for spec in signature.input_specs if signature else []:
            for kind, named in (
                ("parameter", spec.parameter),
                ("buffer", spec.buffer),
                ("constant", spec.tensor_constant),
            ):
                if named is not None and named.arg.name is not None:
                    kinds[named.arg.name] = kind
        self._add_graph(stored.graph_id, stored.program.graph_module.graph, "", 0, kinds)

    def _add_graph(self, graph_id: int, graph: Graph, subgraph: str, index: int, kinds: dict[str, str]) -> int:
        """Add a graph whose first node has that index; returns the index behind its last."""
        makers: dict[str, int] = {}
        inputs = [name for argument in graph.inputs for name in argument.names()]
        for position, name in enumerate(inputs):
            meta = graph.tensor_values.get(name)
            self.values.rows.append((graph_id, None, position, name, kinds.get(name, "input"), meta))
        for node in graph.nodes:
            self._add_node(graph_id, node, subgraph, index, graph.tensor_values, makers)
            nested = [argument.arg.as_graph for argument in node.inputs if argument.arg.as_graph is not None]
            index += 1
            for each in nested:
                path = f"{subgraph}/{each.name}" if subgraph else each.name
                index = self._add_graph(graph_id, each.graph, path, index, {})
        return index

    def _add_node(
        self,
        graph_id: int,
        node: Node,
        subgraph: str,
        index: int,
        tensors: dict[str, TensorMeta],
        makers: dict[str, int],
    ) -> None:
        metadata = node.metadata
        levels = module_levels(metadata.nn_module_stack) if metadata.nn_module_stack else ()
        file, line = source_place(metadata.stack_trace) if metadata.stack_trace else (None, None)
        self.nodes.rows.append(
            (
                *(graph_id, index, subgraph, node.name, node.target, op_type(node.target), op_name(node.target)),
                *(metadata.stack_trace, file, line, levels[-1][1] if levels else None),
            )
        )
        position = 0
        for argument in node.inputs:
            for name in argument.arg.names():
                if (maker := makers.get(name)) is not None:
                    self.edges.rows.append((graph_id, maker, index, position))
                position += 1
        output = 0
        for given in node.outputs:
            for name in given.names():
                makers[name] = index
                self.values.rows.append((graph_id, index, output, name, "result", tensors.get(name)))
                output += 1
        for depth, level in enumerate(levels):
            self.modules.rows.append((graph_id, index, depth, *level))
        handle = _handle(metadata.debug_handle)
        if handle is not None:
            self.handles.rows.append((graph_id, index, handle))

    def add_handles_of_exported(
        self, exported: StoredGraph, edges: list[StoredGraph], export_graph_id: str, path: str
    ) -> None:
        """Give the nodes of the exported program the handles of the edge nodes that were made of them."""
        made: dict[str, dict[int, None]] = {}
        for edge in edges:
            for node in edge.program.graph_module.graph.nodes:
                handle = _handle(node.metadata.debug_handle)
                if handle is None or not node.metadata.from_node:
                    continue
                try:
                    for name in _origin_names(node.metadata.from_node, export_graph_id):
                        made.setdefault(name, {})[handle] = None
                except (msgspec.DecodeError, RecursionError) as error:
                    where = f"member {edge.member}: from_node of the node {node.name or node.target}"
                    raise FormatError(path, f"{where}: {error}") from error
        for row in self.nodes.rows:
            if row[0] == exported.graph_id and row[2] == "":
                self.handles.rows += [(row[0], row[1], handle) for handle in made.get(row[3], {})]

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each table that has any."""
        if self.nodes.rows:
            yield "op_nodes", self._plain(self.nodes, {"graph_id", "node_index", "source_line"})
        if self.values.rows:
            yield "node_values", self._value_rows()
        if self.edges.rows:
            yield "op_edges", self._plain(self.edges, set(self.edges.names))
        if self.modules.rows:
            yield "node_modules", self._plain(self.modules, {"graph_id", "node_index", "depth", "call_number"})
        if self.handles.rows:
            yield "node_debug_handles", self._plain(self.handles, set(self.handles.names))

    def _plain(self, table: Columns, whole: set[str]) -> pa.RecordBatch:
        return batch(
            {
                name: integers(values) if name in whole else texts(values)
                for name, values in zip(table.names, zip(*table.rows, strict=True), strict=True)
            }
        )

    def _value_rows(self) -> pa.RecordBatch:
        metas = [meta if meta is None or meta.meta is None else meta.meta for meta in self.values.column("meta")]
        dtypes = [DTYPES[meta.dtype] if meta is not None and 0 <= meta.dtype < len(DTYPES) else None for meta in metas]
        columns = {
            "graph_id": integers(self.values.column("graph_id")),
            "node_index": integers(self.values.column("node_index")),
            "output_index": integers(self.values.column("output_index")),
            "value_name": texts(self.values.column("value_name")),
            "kind": texts(self.values.column("kind")),
            "dtype": texts(dtypes),
        }
        for name in ("sizes", "strides"):
            listed = [None if meta is None else [size.as_int for size in getattr(meta, name)] for meta in metas]
            columns[name] = _integer_lists(listed)
        return batch(columns)


def _integer_lists(values: list[list[int | None] | None]) -> pa.Array:
    """Lists of 64-bit integers, null for None, and null within for None."""
    flat = [each for value in values if value is not None for each in value]
    counts: npt.NDArray[np.int64] = np.array([0 if value is None else len(value) for value in values], np.int64)
    is_null = np.array([value is None for value in values], np.bool_)
    return lists(integers(flat, np.int64), counts, is_null if is_null.any() else None)


def _handle(written: str | int | None) -> int | None:
    """A debug handle as a number; 0, which says unset, and what is no number are none."""
    try:
        handle = int(written or 0)
    except ValueError:
        return None
    return handle if 0 < handle < 2**31 else None


def _origin_names(from_node: str, graph_id: str) -> Iterator[str]:
    """The names of the nodes of that graph among a node's origins, however deep."""
    left = list(_origins.decode(from_node))
    while left:
        origin = left.pop()
        if str(origin.graph_id) == graph_id:
            yield origin.name
        left += origin.from_node
