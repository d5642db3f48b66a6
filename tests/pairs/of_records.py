"""Time of a capture by its record: against the record's JSON in plain Python, and against other views' totals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.pairs.asking import Asked, Sides, all_runs, keyed, of_all, pair, sums
from tests.pairs.dumps import Timed
from tests.pairs.etrecords import Node, Place, Record, kernels
from tests.pairs.of_execute import op_of, percent


@cache
def record_at(path: Path) -> Record:
    return Record(path)


def record_of(asked: Asked) -> Record:
    """The capture's record, with the ops of its kernels."""
    assert asked.record is not None
    methods = {asked.dump.blocks[run]: method for run, method in asked.methods.items() if method is not None}
    instructions = ((methods.get(block), instruction, op) for (block, instruction), op in kernels(asked.dump).items())
    return record_at(asked.record).with_kernels(
        (method, instruction, op) for method, instruction, op in instructions if method is not None
    )


def placed(asked: Asked) -> Iterator[tuple[Timed, str, Place]]:
    """Events within executes, with the module of their self time, by the maps alone."""
    record, ops = record_of(asked), kernels(asked.dump)
    for event in asked.dump.within:
        kernel = ops.get((asked.dump.blocks[event.run], event.raw.instruction_id))
        place = record.place(asked.methods[event.run], event, kernel)
        if event.kind == "operator_call" and event.children:
            yield event, "(framework)", Place(None, None, 0, ())
        elif place.module is not None:
            yield event, place.module, place
        else:
            is_layout = event.kind == "delegate" and event.part == "layout"
            yield event, "(delegate layout)" if is_layout else "(unattributed)", place


def is_mapped(asked: Asked) -> bool:
    """Whether the maps are complete, so that nothing is aligned."""
    return not record_of(asked).has_unmapped_delegates


def added(asked: Asked, key: Callable[[Timed, str, Place], Any]) -> dict[Any, list[int]]:
    return sums((key(event, module, place), (1, event.own)) for event, module, place in placed(asked))


@pair("event_ops", "handles, op types, module and line by the record's JSON", of="recorded")
def event_ops(asked: Asked) -> Sides:
    columns = "block_index, slot, debug_handles, op_types, own_op_type, module_path, source_file, source_line, mapping"
    rows = asked.keyed("event_ops", columns, 2)
    record, ops, found, expected = record_of(asked), kernels(asked.dump), {}, {}
    for (block, slot, _), events in asked.dump.values().items():
        row = rows.get((block, slot))
        if row is None or row[-1] == "aligned":
            continue
        event, method = events[0], asked.methods[events[0].run]
        handles = record.handles_of(method, event)
        place = record.place(method, event, ops.get((block, event.raw.instruction_id)))
        op_types = [node.op_type for node in record.nodes_of(method, handles)]
        found[block, slot] = row
        expected[block, slot] = [
            *(handles or None, op_types, place.op_type, place.module, *(place.source or (None, None))),
            "exact" if place.op_types else None,
        ]
    return found, expected


@pair("event_nodes", "nodes of the events' handles, by the record's JSON", of="recorded")
def event_nodes(asked: Asked) -> Sides:
    record, ops = record_of(asked), kernels(asked.dump)
    columns = "block_index, slot, node_index, is_own, op_type, module_path"
    found = Counter(asked.rows(f"SELECT {columns} FROM event_nodes($name) WHERE mapping = 'exact'", name=asked.name))
    expected: Counter[Any] = Counter()
    for (block, slot, occurrence), events in asked.dump.values().items():
        if occurrence:
            continue
        event, method = events[0], asked.methods[events[0].run]
        own = record.own_nodes(method, event, ops.get((block, event.raw.instruction_id)))
        for node in record.nodes_of(method, record.handles_of(method, event)):
            expected[block, slot, node.index, node in own, node.op_type, _module(node)] += 1
    return found, expected


def _module(node: Node) -> str | None:
    return node.levels[-1][1] if node.levels else None


@pair(
    "module_totals", "own times by the deepest common module of an event's nodes, by the record's JSON", of="recorded"
)
def module_totals(asked: Asked) -> Sides:
    if not is_mapped(asked):
        return _modules_of_ops(asked)
    rows = asked.view("module_totals", "method, module_path, calls, self_ticks, total, share_percent", unit="ns")
    own = added(asked, lambda event, module, place: (asked.scopes[event.run], module))
    found, expected = {}, {}
    for method, module, calls, ticks, total, share in rows:
        within = sum(row[1] for (scope, path), row in own.items() if scope == method and is_within(path, module))
        found[method, module] = [calls, ticks, total, share]
        expected[method, module] = [*own.get((method, module), [0, 0]), within, percent(within, asked.dump.total)]
    assert set(own) <= set(found)
    return found, expected


def is_within(path: str, module: str) -> bool:
    if path == module:
        return True
    return not path.startswith("(") and not module.startswith("(") and (not module or path.startswith(module + "."))


def _modules_of_ops(asked: Asked) -> Sides:
    """For delegates without a map: the ops of each module add up to the module."""
    columns = "method, module_path, calls, self_ticks"
    found = {row[:2]: row[2:] for row in asked.view("module_totals", columns) if row[2]}
    return found, sums((row[:2], row[2:]) for row in asked.view("module_ops", columns))


@pair(
    "module_ops",
    "own times by module and family, by the record's JSON; else op_totals with all modules together",
    of="recorded",
)
def module_ops(asked: Asked) -> Sides:
    rows = asked.view("module_ops", "method, module_path, op, kind, calls, self_ticks")
    if is_mapped(asked):

        def key(event: Timed, module: str, place: Place) -> Any:
            return asked.scopes[event.run], module, *op_of(event, event.family)

        return keyed(rows, 4), added(asked, key)
    of_ops = sums(((method, op, kind), numbers) for method, _, op, kind, *numbers in rows)
    return of_ops, asked.keyed("op_totals", "method, op, kind, calls, total_ticks", 3)


@pair("source_totals", "own times by the one line of an event's nodes, by the record's JSON", of="recorded")
def source_totals(asked: Asked) -> Sides:
    rows = asked.view("source_totals", "method, source, calls, total_ticks")
    if not is_mapped(asked):
        return sum(row[3] for row in rows), asked.dump.total

    def key(event: Timed, module: str, place: Place) -> Any:
        scope = asked.scopes[event.run]
        if place.source:
            return scope, f"{place.source[0]}:{place.source[1]}"
        if place.lines > 1:
            return scope, "(several lines)"
        return scope, module if module.startswith("(") else "(unattributed)"

    return keyed(rows, 2), added(asked, key)


@pair("op_totals", "own times by the op type of an event's nodes, by the record's JSON", of="recorded")
def op_totals_by_type(asked: Asked) -> Sides:
    rows = asked.view("op_totals", "method, op, kind, calls, total_ticks", by="op_type")
    if not is_mapped(asked):
        return sum(row[4] for row in rows), asked.dump.total

    def key(event: Timed, module: str, place: Place) -> Any:
        return asked.scopes[event.run], *op_of(event, place.op_type or event.family)

    return keyed(rows, 3), added(asked, key)


@pair("time_tree", "modules within modules: each node's own time is that of module_ops there", of="recorded")
def time_tree_by_module(asked: Asked) -> Sides:
    rows = asked.view("time_tree", "path, kind, module_path, self_ticks, total_ticks", by="module")
    leaves = sum(row[3] for row in rows)
    totals = {row[:2]: row[2] for row in asked.view("module_totals", "method, module_path, total", unit="ns")}
    methods = sorted({method for method, _ in totals})
    # If several methods ran, each is a level of the tree.
    modules = {
        (path[0] if len(methods) > 1 else methods[0], module): total
        for path, kind, module, _, total in rows
        if kind == "module" and module is not None
    }
    return [leaves, modules], [asked.dump.total, {module: totals[module] for module in modules}]


@pair("node_totals", "own times of events by the first node they run, by the record's JSON", of="recorded")
def node_totals(asked: Asked) -> Sides:
    record, ops = record_of(asked), kernels(asked.dump)
    columns = "g.method, n.node_index, n.op_type, n.calls, n.self_time, n.share_percent"
    given = "".join(f", {name} := '{value}'" for name, value in all_runs("node_totals").items())
    rows = asked.rows(
        f"""SELECT {columns} FROM node_totals($name, unit := 'ns'{given}) AS n
        JOIN graphs AS g ON g.record_id = n.record_id AND g.graph_id = n.graph_id WHERE n.calls > 0""",
        name=asked.name,
    )
    expected: dict[Any, list[Any]] = {}
    calls: Counter[Any] = Counter()
    for event in asked.dump.within:
        method = asked.methods[event.run]
        own = record.own_nodes(method, event, ops.get((asked.dump.blocks[event.run], event.raw.instruction_id)))
        if own and (event.kind == "kernel" or (event.kind in ("delegate", "delegate_call") and len(own) == 1)):
            key = method, own[0].index
            row = expected.setdefault(key, [own[0].op_type, 0, 0])
            row[1] += event.kind != "delegate_call"
            row[2] += event.own
            calls[key] += event.kind == "delegate_call"
    for key, row in expected.items():
        row[1] = row[1] or calls[key]
    found = keyed(rows, 2)
    if not is_mapped(asked):
        # There is no second way for aligned events, so only kernels are compared.
        found = {key: row for key, row in found.items() if key in expected}
    return found, {key: [*row, percent(row[2], asked.dump.total)] for key, row in expected.items()}


@pair("delegate_coverage", "calls and own time of all kernels by what they run, in plain Python", of="recorded")
def delegate_coverage(asked: Asked) -> Sides:
    rows = asked.view("delegate_coverage", "method, op_type, calls, total, share_percent", unit="ns")
    found = {row[:2]: row[2:] for row in rows if row[2]}
    record, ops = record_of(asked), kernels(asked.dump)

    def key(event: Timed) -> Any:
        """The op; if a kernel runs no node with its name, the kernel's name."""
        kernel = ops[asked.dump.blocks[event.run], event.raw.instruction_id]
        own = record.own_nodes(asked.methods[event.run], event, kernel)
        return asked.scopes[event.run], own[0].op_type if own and own[0].op == kernel else event.family

    expected = sums((key(event), (1, event.own)) for event in asked.dump.within if event.kind == "kernel")
    return found, {op: [*row, percent(row[1], asked.dump.total)] for op, row in expected.items()}


@pair("delegation", "nodes of each op type in the edge graphs' JSON, delegated or not", of="recorded")
def delegation(asked: Asked) -> Sides:
    assert asked.record is not None
    rows = asked.rows("SELECT method, op_type, delegated, not_delegated FROM delegation($name)", name=asked.record.stem)
    found = {(method, op): delegated + others for method, op, delegated, others in rows}
    graphs = record_of(asked).graphs
    return found, Counter((method, node.op_type) for method, nodes in graphs.items() for node in nodes)


@pair("all_module_totals", "the rows of module_totals", of="recorded")
def all_module_totals(asked: Asked) -> Sides:
    return of_all(asked, "module_totals", "place", "row_number() OVER () AS place, *")


@pair("all_delegate_coverage", "the rows of delegate_coverage", of="recorded")
def all_delegate_coverage(asked: Asked) -> Sides:
    return of_all(asked, "delegate_coverage", "place", "row_number() OVER () AS place, *")


@pair("all_source_totals", "the rows of source_totals", of="recorded")
def all_source_totals(asked: Asked) -> Sides:
    return of_all(asked, "source_totals", "place", "row_number() OVER () AS place, *")


@pair(
    "block_methods",
    "the method that most of a block's operators fit, of those that fit alike the shortest",
    of="recorded",
)
def block_methods(asked: Asked) -> Sides:
    record, dump = record_of(asked), asked.dump
    operators: defaultdict[int, set[tuple[str, int, int, str]]] = defaultdict(set)
    for event in dump.all_events:
        if event.kind in ("kernel", "delegate_call"):
            op = event.family.split(".")[0]
            operators[dump.blocks[event.run]].add((event.kind, *event.instruction, op))
    expected: dict[Any, list[Any]] = {}
    for block, found in operators.items():
        ranked = []
        for method in record.handles:
            fitting = sum(
                str(instruction) in record.delegates.get(method, {})
                if kind == "delegate_call"
                else any(
                    node.op == op
                    for node in record.nodes_of(method, _handles(record, method, instruction))
                )
                for kind, _, instruction, op in found
            )  # fmt: skip
            if fitting:
                ranked.append((-fitting, len(record.handles[method]), method))
        best = [each for each in sorted(ranked) if each[:2] == min(ranked)[:2]]
        if best:
            score = -best[0][0] / len(found)
            method_of = best[0][2] if len(best) == 1 and score >= 0.5 else None
            expected[block,] = [method_of, score, ", ".join(each[2] for each in best)]
    return asked.keyed("block_methods", "block_index, method, score, candidates", 1), expected


def _handles(record: Record, method: str, instruction: int) -> list[int]:
    found = record.handles[method].get(str(instruction), [])
    return [found] if isinstance(found, int) else list(found)


@pair("find_total_for_module", "module_totals' total of each module, by execute", of="recorded")
def find_total_for_module(asked: Asked) -> Sides:
    executes = Counter(asked.scopes[run] for run in asked.dump.executing)
    found, expected = {}, {}
    totals = asked.view("module_totals", "method, module_path, total", unit="ns")
    for method, module, total in (totals[0], totals[len(totals) // 2], totals[-1]) if totals else ():
        [(found[method, module],)] = asked.view(
            "find_total_for_module", "total", module=module, unit="ns", method=method
        )
        expected[method, module] = total / executes[method] if executes[method] else 0
    return found, expected


@pair("roofline", "rates and roofs by their formulas, of its own calls, times and costs", of="recorded")
def roofline_by_hand(asked: Asked) -> Sides:
    flops_peak, bandwidth = 3e9, 7e9
    columns = (
        "op, kind, instruction_id, module_path, calls, total, flops, bytes, per_call, intensity, flops_per_second,"
        " bytes_per_second, attainable_flops_per_second, roof_percent, bound, above_roof"
    )
    rows = [
        row for row in asked.view("roofline", columns, peak_flops=flops_peak, peak_bandwidth=bandwidth, unit="ns")
        if row[5] and row[6] is not None and row[7]
    ]  # fmt: skip
    expected = []
    for row in rows:
        calls, total, flops, moved = row[4:8]
        seconds, by_bytes, by_flops = total / calls / 1e9, moved / bandwidth, flops / flops_peak
        least = max(by_flops, by_bytes)
        expected.append(
            [
                *(total / calls, flops / moved, flops / seconds, moved / seconds),
                *(min(flops_peak, flops / moved * bandwidth), 100 * least / seconds),
                *("compute" if by_flops > by_bytes else "memory", max(0, total - calls * least * 1e9)),
            ]
        )
    return [row[8:] for row in rows], expected


@pair("roofline", "kernels and whole delegate calls by instruction, in plain Python", of="recorded")
def roofline_times(asked: Asked) -> Sides:
    rows = asked.view("roofline", "method, kind, instruction_id, calls, total", by="instruction", unit="ns")
    found: defaultdict[Any, list[Any]] = defaultdict(lambda: [0, 0])
    for method, kind, instruction, calls, total in rows:
        found[method, kind, instruction][0] += calls
        found[method, kind, instruction][1] += total
    expected: defaultdict[Any, list[Any]] = defaultdict(lambda: [0, 0])
    for event in asked.dump.within:
        is_op = event.kind in ("kernel", "delegate_call") or (event.kind == "operator_call" and not event.children)
        if is_op:
            row = expected[asked.scopes[event.run], event.kind, event.raw.instruction_id]
            row[0] += 1
            row[1] += event.ticks if event.kind == "delegate_call" else event.own
    return found, expected
