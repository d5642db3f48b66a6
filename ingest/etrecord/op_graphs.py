"""Exported programs as rows: nodes, values, edges, modules, debug handles."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from etq.errors import FormatError, json_error
from etq.ingest.arrow import batch, chosen, encoded, lists, numbers, texts
from etq.ingest.costs.numbers import whole
from etq.ingest.etrecord.export_json import DTYPES, NOTHING, Graph, GraphModule, Node, ProgramGraph, Signature, Size
from etq.ingest.etrecord.graph_values import NO_NODE, Tensors, TensorsOfValues, placed
from etq.ingest.etrecord.interner import Origins, StringInterner, packed
from etq.ingest.etrecord.nested_graphs import DELEGATE_CALL, Nested, graph_of, nested_graphs
from etq.ingest.etrecord.node_costs import NodeCosts, value_of
from etq.ingest.etrecord.node_names import NodeNames
from etq.ingest.etrecord.node_texts import ModuleLevel, module_levels, op_name, op_type, source_place
from etq.ingest.etrecord.ragged import Whole, as_columns, places_in_lists, spread_lists
from etq.ingest.etrecord.signatures import debug_handles, input_kinds, mutations

EDGE: Final = "edge_dialect_exported_program"
EXPORTED: Final = "exported_program"

_node: Final = msgspec.json.Decoder(Node)
# How many nodes are decoded at once.
AT_ONCE: Final = 512


@dataclass(frozen=True)
class StoredGraph:
    """A program of an ETRecord: the path of its JSON in the record, and its name."""

    graph_id: int
    stage: str
    method: str
    member: str
    dialect: str | None


def _parts(graph: ProgramGraph, place: str) -> Iterator[list[Node]]:
    """Yield the nodes of a program's own graph in blocks that fit into the processor's cache."""
    for start in range(0, len(graph.nodes), AT_ONCE):
        nodes: list[Node] = []
        try:
            nodes.extend(map(_node.decode, graph.nodes[start : start + AT_ONCE]))
        except msgspec.DecodeError as error:
            raise placed(error, f"{place}.nodes[{start + len(nodes)}]") from error
        yield nodes


class GraphRows:
    """Collects the rows of all graphs of a record, program by program. Nodes are numbered by their row."""

    def __init__(self, path: str, export_graph_id: str | None) -> None:
        """If `export_graph_id` is given, each node of that graph gets the debug handles of the edge nodes that were
        made from it.
        """
        self._path = path
        self._origins = None if export_graph_id is None else Origins(export_graph_id)
        # One entry per program: its graph_id, the number of its nodes and the number of its values.
        self._counts: list[int] = []
        # One entry per node.
        self._names: list[str] = []
        self._subgraphs, self._targets, self._traces, self._stacks = (StringInterner() for _ in range(4))
        # One entry per value: its node (NO_NODE for inputs) and its position among the node's values; the number of its
        # tensor; its name.
        self._value_places, self._value_tensors = array("i"), array("i")
        self._value_names: list[str] = []
        # One entry per input: the number of its kind. Kind 0 is for values that are not inputs.
        self._kinds = StringInterner()
        self._kinds["result"]
        self._tensors = Tensors()
        # One entry per use of a value: the value, the node that uses it, the argument's number and name, and the
        # value's position among all values that the node uses. One entry per literal: the node, the argument's number
        # and name, and the literal.
        self._uses, self._literals = array("i"), array("i")
        self._argument_names = StringInterner()
        self._literal_numbers = defaultdict[bytes, int](count().__next__)
        # One entry per value that a graph returns: the value, its position among the returned values, whether it is a
        # mutation.
        self._returned = array("i")
        # One entry per node: its debug handle, 0 if it has none.
        self._handles = array("i")
        self._exported: range | None = None

    def add(self, stored: StoredGraph, module: GraphModule) -> None:
        """Add a program's graph and the graphs nested in it.

        Raises msgspec's errors for malformed nodes and tensors, `FormatError` for malformed origins of nodes.
        """
        first_node, first_value = len(self._names), len(self._value_names)
        graph, place = module.graph, "$.graph_module.graph"
        self._add_graph(stored, graph, _parts(graph, place), "", module.signature, place)
        last_node, last_value = len(self._names), len(self._value_names)
        self._counts += (stored.graph_id, last_node - first_node, last_value - first_value)
        if stored.stage == EXPORTED and self._exported is None:
            self._exported = range(first_node, last_node)

    def _add_graph(
        self,
        stored: StoredGraph,
        graph: Graph | ProgramGraph,
        parts: Iterable[list[Node]],
        subgraph: str,
        signature: Signature | None,
        place: str,
    ) -> None:
        """Add a graph with these nodes; `place` is for errors, see `placed`."""
        kinds = input_kinds(signature)
        tensors = self._tensors.of_values(graph, place)
        inputs = [name for argument in graph.inputs for name in argument.names()]
        self._kinds.extend(kinds.get(name, "input") for name in inputs)
        values = {name: row for row, name in enumerate(inputs, len(self._value_names))}
        self._add_values(inputs, [at for position in range(len(inputs)) for at in (NO_NODE, position)], tensors)
        number, node_names = 0, NodeNames(inputs)
        for part in parts:
            left = part
            while left:
                row = len(self._names)
                added, nested = self._add_wires(row, left, tensors, values)
                self._names += node_names.of(left[:added])
                self._add_nodes(stored, row, left[:added], subgraph, place, number)
                number, left = number + added, left[added:]
                for at, each, within_signature in nested:
                    path = f"{subgraph}/{each.name}" if subgraph else each.name
                    within = f"{place}.nodes[{number - 1}].inputs[{at}].arg.as_graph.graph"
                    self._add_graph(stored, each.graph, [each.graph.nodes], path, within_signature, within)
        self._add_returned(graph, signature, values)

    def _add_returned(self, graph: Graph | ProgramGraph, signature: Signature | None, values: dict[str, int]) -> None:
        """Add the values that a graph returns."""
        mutated = mutations(signature)
        names = [name for argument in graph.outputs for name in argument.names()]
        for position, name in enumerate(names):
            if (value := values.get(name)) is not None:
                self._returned.extend((value, position, name in mutated))

    def _add_wires(
        self, row: int, nodes: list[Node], tensors: TensorsOfValues, values: dict[str, int]
    ) -> tuple[int, list[Nested]]:
        """Add the arguments and values of nodes, up to and including the first node that has graphs among its
        arguments.

        `values` has the latest value of each name. Returns the number of nodes added, and the last node's graphs, each
        with its argument's number.
        """
        # This is the most frequent operation, so the most frequent kinds are handled inline.
        find, names_of, literal_numbers = values.get, self._argument_names, self._literal_numbers
        uses, literals = list[int](), list[int]()
        names, places = list[str](), list[int]()
        value = len(self._value_names)
        added, nested = 0, list[Nested]()
        for user, node in enumerate(nodes, row):
            position = 0
            is_call = node.target.endswith(DELEGATE_CALL)
            for number, argument in enumerate(node.inputs):
                value_of = argument.arg
                if (tensor := value_of.as_tensor) is not None:
                    if (used := find(tensor.name)) is not None:
                        uses += (used, user, number, names_of[argument.name], position)
                    position += 1
                elif value_of.as_tensors is not None or value_of.as_optional_tensors is not None:
                    for name in value_of.names():
                        if (used := find(name)) is not None:
                            uses += (used, user, number, names_of[argument.name], position)
                        position += 1
                elif value_of.as_graph is not None or (is_call and graph_of(node.target, argument) is not None):
                    nested = nested_graphs(node)
                elif (written := value_of.literal()) is not NOTHING:
                    literals += (user, number, names_of[argument.name], literal_numbers[bytes(written)])
            position = 0
            for value_of in node.outputs:
                for name in (tensor.name,) if (tensor := value_of.as_tensor) is not None else value_of.names():
                    names.append(name)
                    places += (user, position)
                    values[name] = value
                    position += 1
                    value += 1
            added += 1
            if nested:
                break
        self._uses.frombytes(packed(uses))
        self._literals.frombytes(packed(literals))
        self._add_values(names, places, tensors)
        return added, nested

    def _add_values(self, names: list[str], places: list[int], tensors: TensorsOfValues) -> None:
        """Add values; `places` has the node of each value and the value's position in the node."""
        self._value_names += names
        self._value_places.frombytes(packed(places))
        self._value_tensors.frombytes(packed([*map(tensors.__getitem__, names)]))

    def _add_nodes(
        self, stored: StoredGraph, first: int, nodes: list[Node], subgraph: str, place: str, number: int
    ) -> None:
        """Add nodes from row `first` on. In errors, the first node has the number `number` in the graph at `place`."""
        self._subgraphs.extend([subgraph] * len(nodes))
        self._targets.extend([node.target for node in nodes])
        metadata = [node.metadata for node in nodes]
        for column, key in ((self._traces, "stack_trace"), (self._stacks, "nn_module_stack")):
            try:
                column.extend_written(map(attrgetter(key), metadata))
            except msgspec.DecodeError as error:
                at = number + column.rows - first
                raise placed(error, f"{place}.nodes[{at}].metadata.{key}") from error
        handles = debug_handles([each.debug_handle for each in metadata])
        self._handles.frombytes(packed(handles))
        if stored.stage == EDGE and subgraph == "" and self._origins is not None:
            self._note_origins(stored, nodes, handles, self._origins)

    def _note_origins(self, stored: StoredGraph, nodes: list[Node], handles: list[int], origins: Origins) -> None:
        last, made = NOTHING, list[list[int]]()
        for node, handle in zip(nodes, handles, strict=True):
            if handle == 0:
                continue
            if (written := node.metadata.from_node) != last:
                try:
                    last, made = written, origins[bytes(written)]
                except (msgspec.DecodeError, RecursionError) as error:
                    where = f"member {stored.member}: from_node of the node {node.name or node.target}"
                    raise FormatError(self._path, f"{where}: {json_error(error)}") from error
            for each in made:
                each.append(handle)

    def handles_of(self, graph_ids: set[int]) -> set[int]:
        """Return the nodes' own debug handles in these graphs."""
        graph_of, _ = self._keys()
        return set(np.array(self._handles)[np.isin(graph_of, list(graph_ids))].tolist()) - {0}

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield each table that has rows, with its rows."""
        graph_of, index_of = self._keys()
        if self._names:
            yield "op_nodes", self._node_rows(graph_of, index_of)
            yield "costed_nodes", self._cost_rows(graph_of, index_of)
        if self._value_names:
            yield "node_values", self._value_rows(index_of)
        if self._returned:
            yield "graph_outputs", self._returned_rows()
        values, nodes, _, _, positions = as_columns(self._uses, 5)
        makers = as_columns(self._value_places, 2)[0][values]
        if (is_edge := makers != NO_NODE).any():
            makers, users, positions = makers[is_edge], nodes[is_edge], positions[is_edge]
            columns = {"graph_id": graph_of[users], "from_node": index_of[makers], "to_node": index_of[users]}
            yield "op_edges", _numbers({**columns, "position": positions})
        if self._uses or self._literals:
            yield "node_arguments", self._argument_rows(graph_of, index_of)
        levels = [module_levels(stack) if stack else () for stack in self._stacks]
        if any(levels):
            yield "node_modules", self._module_rows(levels, graph_of, index_of)
        nodes, handles = self._handles_of_nodes()
        if len(nodes):
            columns = {"graph_id": graph_of[nodes], "node_index": index_of[nodes], "debug_handle": handles}
            yield "node_debug_handles", _numbers(columns)

    def _keys(self) -> tuple[Whole, Whole]:
        """The graph_id and node_index of each node."""
        graph_ids, nodes, _ = as_columns(self._counts, 3)
        return np.repeat(graph_ids, nodes), places_in_lists(nodes)

    def _handles_of_nodes(self) -> tuple[Whole, Whole]:
        """Return pairs of a node and one of its handles: first the nodes' own handles, then those that exported nodes
        got from edge nodes.
        """
        own = np.array(self._handles, np.int32)
        has_own = np.flatnonzero(own)
        made = [(row, handle) for row, handles in self._handles_of_exported() for handle in handles]
        rows, handles = np.array(made, np.int32).reshape(-1, 2).T
        return np.append(has_own, rows), np.append(own[has_own], handles)

    def _handles_of_exported(self) -> Iterator[tuple[int, list[int]]]:
        """Yield each node of the exported program's top graph, with the handles of the nodes made from it."""
        if self._origins is None:
            return
        is_top = self._subgraphs.codes == self._subgraphs[""]
        for row in self._exported or ():
            if is_top[row] and (handles := self._origins.handles.get(self._names[row])):
                yield row, [*dict.fromkeys(handles)]

    def _node_rows(self, graph_of: Whole, index_of: Whole) -> pa.RecordBatch:
        target, trace = self._targets.codes, self._traces.codes
        targets = [target or "" for target in self._targets]
        sources = [source_place(trace) if trace else (None, None) for trace in self._traces]
        paths = [module_levels(stack)[-1][1] if stack else None for stack in self._stacks]
        return batch(
            {
                "graph_id": numbers(graph_of),
                "node_index": numbers(index_of),
                "subgraph": encoded([*self._subgraphs], self._subgraphs.codes),
                "name": texts(self._names),
                "target": encoded(targets, target),
                "op_type": encoded([op_type(target) for target in targets], target),
                "op": encoded([op_name(target) for target in targets], target),
                "stack_trace": encoded([*self._traces], trace),
                "source_file": encoded([file for file, _ in sources], trace),
                "source_line": chosen([line for _, line in sources], trace),
                "module_path": encoded(paths, self._stacks.codes),
            }
        )

    def _cost_rows(self, graph_of: Whole, index_of: Whole) -> pa.RecordBatch:
        """The table `costed_nodes`. Nodes with equal arguments share one cost."""
        types = [op_type(target or "") for target in self._targets]
        tensors = np.array(self._value_tensors, np.int32).tolist()
        taken: list[list[tuple[int, ...]]] = [[] for _ in self._names]
        for value, user, number, name, _ in zip(*[iter(self._uses)] * 5, strict=True):
            taken[user].append((number, name, value, tensors[value]))
        for user, number, name, literal in zip(*[iter(self._literals)] * 4, strict=True):
            taken[user].append((number, name, literal))
        outputs: list[list[int]] = [[] for _ in self._names]
        for maker, tensor in zip(self._value_places[::2], tensors, strict=True):
            if maker != NO_NODE:
                outputs[maker].append(tensor)
        costs = NodeCosts(self._tensors.metas, [*self._argument_names], [*self._literal_numbers])
        codes = [
            costs.number(types[target], wires, made)
            for target, wires, made in zip(self._targets.codes, taken, outputs, strict=True)
        ]
        columns = {"graph_id": numbers(graph_of), "node_index": numbers(index_of)}
        return batch(columns | costs.columns(np.array(codes, np.int64)))

    def _value_rows(self, index_of: Whole) -> pa.RecordBatch:
        (rows, positions), codes = as_columns(self._value_places, 2), np.array(self._value_tensors, np.int32)
        graph_ids, _, counts = as_columns(self._counts, 3)
        is_input = rows == NO_NODE
        kinds = np.zeros(len(rows), np.int32)
        kinds[is_input] = self._kinds.codes
        metas = self._tensors.metas
        dtypes = [DTYPES[meta.dtype] if meta is not None and 0 <= meta.dtype < len(DTYPES) else None for meta in metas]
        return batch(
            {
                "graph_id": numbers(np.repeat(graph_ids, counts)),
                # A graph may have inputs but no nodes.
                "node_index": numbers(np.append(index_of, np.int32(0))[rows], is_input if is_input.any() else None),
                "output_index": numbers(positions),
                "value_name": texts(self._value_names),
                "kind": encoded([*self._kinds], kinds),
                "dtype": encoded(dtypes, codes),
                "sizes": _dimensions([None if meta is None else meta.sizes for meta in metas], codes),
                "strides": _dimensions([None if meta is None else meta.strides for meta in metas], codes),
                "value_index": numbers(places_in_lists(counts)),
                "bytes": chosen([whole(value_of(meta).bytes) for meta in metas], codes, np.int64),
            }
        )

    def _returned_rows(self) -> pa.RecordBatch:
        values, positions, mutations = as_columns(self._returned, 3)
        graph_ids, _, counts = as_columns(self._counts, 3)
        return batch(
            {
                "graph_id": numbers(np.repeat(graph_ids, counts)[values]),
                "position": numbers(positions),
                "value_index": numbers(places_in_lists(counts)[values]),
                "kind": encoded(["output", "mutation"], mutations),
            }
        )

    def _argument_rows(self, graph_of: Whole, index_of: Whole) -> pa.RecordBatch:
        """The table `node_arguments`: the values that nodes use, and the literals, ordered by node and argument."""
        values, users, numbers_used, names_used, _ = as_columns(self._uses, 5)
        takers, literal_numbers, literal_names, literal_codes = as_columns(self._literals, 4)
        rows, number = np.append(users, takers), np.append(numbers_used, literal_numbers)
        order = np.lexsort((number, rows))
        rows, is_literal = rows[order], order >= len(users)
        _, _, counts = as_columns(self._counts, 3)
        value_indices = places_in_lists(counts)[values]
        written = [number.decode(errors="replace") for number in self._literal_numbers]
        literal = np.append(np.full(len(users), len(self._literal_numbers)), literal_codes)[order]
        return batch(
            {
                "graph_id": numbers(graph_of[rows]),
                "node_index": numbers(index_of[rows]),
                "position": numbers(number[order]),
                "argument": encoded([*self._argument_names], np.append(names_used, literal_names)[order]),
                "value_index": numbers(np.append(value_indices, np.zeros_like(literal_codes))[order], is_literal),
                "literal": encoded([*written, None], literal),
            }
        )

    def _module_rows(self, levels: list[tuple[ModuleLevel, ...]], graph_of: Whole, index_of: Whole) -> pa.RecordBatch:
        lengths, depths, at = spread_lists([len(level) for level in levels], self._stacks.codes)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        keys, paths, classes, calls = zip(*(level for each in levels for level in each), strict=True)
        return batch(
            {
                "graph_id": numbers(graph_of[rows]),
                "node_index": numbers(index_of[rows]),
                "depth": numbers(depths),
                "module_key": encoded(keys, at),
                "module_path": encoded(paths, at),
                "module_class": encoded(classes, at),
                "call_number": chosen(calls, at),
            }
        )


def _dimensions(sizes: list[list[Size] | None], codes: Whole) -> pa.Array:
    """Return for each code the list of sizes or strides at that index; None becomes null."""
    lengths, _, at = spread_lists([len(size or ()) for size in sizes], codes)
    is_null = np.array([size is None for size in sizes], np.bool_)[codes]
    flat = [size.as_int for each in sizes for size in each or ()]
    return lists(chosen(flat, at, np.int64), lengths, is_null if is_null.any() else None)


def _numbers(columns: dict[str, Whole]) -> pa.RecordBatch:
    return batch({name: numbers(values) for name, values in columns.items()})
