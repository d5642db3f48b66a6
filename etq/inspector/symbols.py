"""The symbols of events from a record: debug handles, ops, stack traces and modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from etq.errors import ArgumentError

if TYPE_CHECKING:
    from etq.inspector.rows import CaptureQueries

# The name that executorch gives the graph of a record's edge program.
EDGE_GRAPH: Final = "edge_dialect_graph_module"

_HANDLES: Final = """
    SELECT e.block_index, e.slot, list(h.debug_handle ORDER BY h.position) FILTER (h.debug_handle IS NOT NULL),
        any_value(CASE WHEN e.kind IN ('delegate', 'delegate_call') THEN d.backend END), any_value(d.outputs)
    FROM _instruction_events($key) AS e
    LEFT JOIN _event_handles($key) AS h USING (signature_index)
    LEFT JOIN delegates AS d USING (record_id, method, instruction_id)
    GROUP BY e.block_index, e.slot, e.signature_index
    QUALIFY row_number() OVER (PARTITION BY e.block_index, e.slot ORDER BY e.signature_index) = 1
"""
_INSPECTORS_HANDLES: Final = """
    SELECT h.block_index, h.slot, h.debug_handles, h.backend, h.outputs FROM _inspector_handles($key) AS h
"""
_NODES: Final = """
    SELECT s.block_index, s.slot, n.graph_id, n.node_index
    FROM signature_nodes AS n JOIN signatures AS s USING (capture_id, signature_index)
    WHERE n.capture_id = $key
    QUALIFY n.signature_index = min(n.signature_index) OVER (PARTITION BY s.block_index, s.slot)
    ORDER BY s.block_index, s.slot, n.position
"""
_INSPECTORS_NODES: Final = """
    SELECT n.block_index, n.slot, n.graph_id, n.node_index
    FROM _inspector_nodes($key) AS n
    ORDER BY n.block_index, n.slot, n.position, n.node_index
"""
_NODES_OF_GRAPH: Final = """
    SELECT s.block_index, s.slot, n.graph_id, n.node_index
    FROM _linked_handles($key) AS h
    JOIN captures AS k ON k.capture_id = $key
    JOIN signatures AS s ON s.capture_id = k.capture_id AND s.signature_index = h.signature_index
    JOIN graphs AS g ON g.record_id = k.record_id AND g.member = $graph
    JOIN node_debug_handles AS n
        ON n.record_id = g.record_id AND n.graph_id = g.graph_id AND n.debug_handle = h.debug_handle
    ORDER BY s.block_index, s.slot, h.position, n.node_index
"""
_DESCRIBED: Final = """
    SELECT p.graph_id, p.node_index, p.name, p.op_type, p.stack_trace
    FROM captures AS k JOIN op_nodes AS p ON p.record_id = k.record_id WHERE k.capture_id = $key
"""
# The Inspector names a node by the `__name__` of the function that it calls. Torch's own ops have no namespace there.
_INSPECTORS_DESCRIBED: Final = """
    SELECT p.graph_id, p.node_index, p.name,
        CASE WHEN starts_with(p.target, 'torch.ops.') THEN substr(p.op_type, strpos(p.op_type, '.') + 1)
            ELSE p.op_type END,
        p.stack_trace
    FROM captures AS k JOIN op_nodes AS p ON p.record_id = k.record_id WHERE k.capture_id = $key
"""
_MODULES: Final = """
    SELECT m.graph_id, m.node_index, m.module_key, m.module_path, m.module_class
    FROM captures AS k JOIN node_modules AS m ON m.record_id = k.record_id WHERE k.capture_id = $key
    ORDER BY m.graph_id, m.node_index, m.depth
"""
Node = tuple[int, int]


@dataclass
class Symbols:
    """The symbols of one event; see `etq.inspector.Event`."""

    debug_handles: int | list[int] | None = None
    num_outputs: int = 1
    backend: str | None = None
    op_types: list[str] = field(default_factory=list)
    stack_traces: dict[str, str | None] = field(default_factory=dict)
    modules: dict[str, dict[str, tuple[str, str]] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class SymbolTable:
    """The symbols of a capture's events, which are read on first access.

    queries  None for a capture without a record
    graph    the graph of the record whose nodes the events get
    """

    queries: CaptureQueries | None
    graph: str

    def of(self, block: int, slot: int) -> Symbols:
        """Return the symbols of an event by its block and its slot in it."""
        return self._read.get((block, slot)) or Symbols()

    @cached_property
    def _read(self) -> dict[tuple[int, int], Symbols]:
        return {} if self.queries is None else _read_symbols(self.queries, self.graph)


def check_graph(queries: CaptureQueries, graph: str) -> None:
    """Raise `ArgumentError` if the record has no graph of this name."""
    if graph == EDGE_GRAPH:
        return
    query = """
        SELECT g.member FROM captures AS k JOIN graphs AS g ON g.record_id = k.record_id
        WHERE k.capture_id = $key ORDER BY g.graph_id
    """
    known = [EDGE_GRAPH, *(member for (member,) in queries.rows(query))]
    if graph not in known:
        raise ArgumentError(f"the record has no graph {graph!r}; it has {', '.join(known)}")


def _read_symbols(queries: CaptureQueries, graph: str) -> dict[tuple[int, int], Symbols]:
    found: dict[tuple[int, int], Symbols] = {}
    handles = _INSPECTORS_HANDLES if queries.compat else _HANDLES
    for block, slot, debug_handles, backend, outputs in queries.rows(handles):
        # The handles are as in the record: a number for a kernel's event, and for a delegate's event a list, even with
        # one handle.
        single = debug_handles is not None and len(debug_handles) == 1 and backend is None
        found[block, slot] = Symbols(
            debug_handles[0] if single else debug_handles, 1 if outputs is None else outputs, backend
        )
    _add_nodes(queries, found, graph)
    return found


def _add_nodes(queries: CaptureQueries, found: dict[tuple[int, int], Symbols], graph: str) -> None:
    if graph == EDGE_GRAPH:
        placed = queries.rows(_INSPECTORS_NODES) if queries.compat else queries.with_nodes.rows(_NODES)
    else:
        placed = queries.with_ops.rows(_NODES_OF_GRAPH, graph=graph)
    wanted: set[Node] = {(graph_id, node) for _, _, graph_id, node in placed}
    rows = queries.rows(_INSPECTORS_DESCRIBED if queries.compat else _DESCRIBED)
    described = {(graph_id, node): rest for graph_id, node, *rest in rows if (graph_id, node) in wanted}
    modules: dict[Node, dict[str, tuple[str, str]]] = {}
    for graph_id, node, key, path, kind in queries.rows(_MODULES):
        if (graph_id, node) in wanted:
            modules.setdefault((graph_id, node), {})[key] = (path, kind)
    for block, slot, graph_id, node in placed:
        symbols = found.setdefault((block, slot), Symbols())
        name, op_type, stack_trace = described[graph_id, node]
        symbols.op_types.append(op_type)
        # The Inspector names nodes by output: `NAME_` followed by a number, or, as here, without a number.
        symbols.stack_traces.setdefault(f"{name}_", stack_trace)
        symbols.modules.setdefault(f"{name}_", modules.get((graph_id, node)))


def totals_of_modules(queries: CaptureQueries) -> dict[str, list[float | None]]:
    """Return the mean time per execute of each module in each method, by its path.

    Raises `QueryError` for a half-written record.
    """
    query = "SELECT m.module_path, m.per_execute FROM module_totals($capture, unit := $unit, runs := 'all') AS m"
    found: dict[str, list[float | None]] = {}
    for path, total in queries.rows(query, unit=queries.unit):
        found.setdefault(path, []).append(total)
    return found


def paths_of_modules(queries: CaptureQueries) -> dict[str, str]:
    """Return the path of each module of the record by its key."""
    return dict(queries.rows("SELECT DISTINCT m.module_key, m.module_path FROM node_modules AS m"))


def total_for_module(queries: CaptureQueries, path: str) -> float | None:
    """Return the mean time per execute of the modules of a path, and of the modules in them."""
    query = "SELECT t.total FROM find_total_for_module($capture, $module, unit := $unit) AS t"
    [(total,)] = queries.rows(query, module=path, unit=queries.unit)
    return None if total is None else float(total)


def sum_of(queries: CaptureQueries, values: list[float]) -> float:
    """Return the sum of `values`, by Kahan summation."""
    query = "SELECT coalesce(fsum(v.x), 0) FROM (SELECT unnest($values::DOUBLE[]) AS x) AS v"
    [(total,)] = queries.rows(query, values=values)
    return float(total)
