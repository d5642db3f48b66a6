"""Finds the methods that the runs of a capture ran: rows of `linked_methods`, and of `findings`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from etq.ingest.arrow import batch, integers, numbers, texts
from etq.storage.inserting import insert

# A record that fits a smaller share of a capture's operators is considered the record of another program.
FITTING: Final = 0.8
# Below this share, no method is known.
_KNOWN: Final = 0.5
_LINKED: Final = """
    SELECT r.record_id, CASE WHEN r.record_id IS NULL THEN k.program_id END, coalesce(r.name, p.name)
    FROM captures AS k
    LEFT JOIN records AS r ON r.record_id = k.record_id AND r.is_complete
    LEFT JOIN programs AS p ON p.program_id = k.program_id
    WHERE k.capture_id = ?
"""
_OPERATORS: Final = """
    SELECT DISTINCT s.block_index, s.chain_index, s.instruction_id, s.kind, s.name, string_split(s.family, '.')[1]
    FROM signatures AS s WHERE s.capture_id = ? AND s.kind IN ('kernel', 'delegate_call')
"""
_NODES: Final = """
    SELECT DISTINCT h.method, h.instruction_id, string_split(n.op, '.')[1]
    FROM debug_handles AS h LEFT JOIN _handled_nodes AS n USING (record_id, method, debug_handle)
    WHERE h.record_id = ?
"""
_CALLS: Final = "SELECT d.method, d.instruction_id FROM delegates AS d WHERE d.record_id = ?"
_INSTRUCTIONS: Final = """
    SELECT i.method, i.chain_index, i.instruction_id, i.kind,
        'native_call_' || string_split(i.op, '::')[2] || coalesce('.' || i.overload, '')
    FROM instructions AS i WHERE i.program_id = ?
"""


class _Operator(NamedTuple):
    """A kernel or a delegate's call of a block."""

    block: int
    chain: int
    instruction: int | None
    kind: str
    name: str | None
    op: str


def find_methods(connection: duckdb.DuckDBPyConnection, capture_id: int) -> None:
    """Fill `linked_methods` for a linked capture, and `findings` about events that don't fit its record or program.

    The methods are the record's; without a complete record, the program's, whose kernels have the same names as the
    events. A block ran the method that fits most of its distinct operators, by having the same operator at the same
    instruction; of methods that fit equally well, the shortest.
    """

    def rows(query: str, key: int) -> list[tuple[Any, ...]]:
        return connection.execute(query, [key]).fetchall()

    [(record, program, name)] = rows(_LINKED, capture_id)
    if name is None:
        return
    operators = [_Operator(*row) for row in rows(_OPERATORS, capture_id)]
    if record is None:
        instructions = rows(_INSTRUCTIONS, program)
        fitting = Counter(_fitting_instructions(operators, instructions))
        lengths = Counter(method for method, *_ in instructions)
    else:
        nodes = rows(_NODES, record)
        fitting = Counter(_fitting_nodes(operators, nodes, rows(_CALLS, record)))
        lengths = Counter(method for method, _ in {node[:2] for node in nodes})
    events = Counter(operator.block for operator in operators)
    linked = {}
    for block, number in sorted(events.items()):
        of_block = {method: count for (each, method), count in fitting.items() if each == block}
        if of_block:
            best = min((-count, lengths[method]) for method, count in of_block.items())
            methods = sorted(method for method, count in of_block.items() if (-count, lengths[method]) == best)
            score = -best[0] / number
            method = methods[0] if len(methods) == 1 and score >= _KNOWN else None
            linked[block] = (method, score, ", ".join(methods))
    _insert(connection, capture_id, linked)
    what = "program" if record is None else "record"
    found = [*_findings({block: linked.get(block, (None, 0.0, "")) for block in sorted(events)}, what, name)]
    if found:
        columns = zip(*found, strict=True)
        named = zip(("rule", "detail"), columns, strict=True)
        insert(connection, "findings", capture_id, batch({column: texts(values) for column, values in named}))


def _fitting_nodes(
    operators: list[_Operator], nodes: list[tuple[str, int, str | None]], calls: list[tuple[str, int]]
) -> Iterator[tuple[int, str]]:
    """Yield the block of each operator that fits a method of a record, with the method: a kernel with a node of its
    op, a delegate's call with a delegate.
    """
    of_kernels: dict[Any, list[str]] = defaultdict(list)
    of_calls: dict[Any, list[str]] = defaultdict(list)
    for method, instruction, op in nodes:
        of_kernels[instruction, op].append(method)
    for method, instruction in calls:
        of_calls[instruction].append(method)
    fitting = {
        (each.block, method, each.instruction, each.name)
        for each in operators
        if each.kind == "kernel"
        for method in of_kernels.get((each.instruction, each.op), ())
    }
    yield from ((block, method) for block, method, *_ in fitting)
    for each in operators:
        if each.kind != "kernel":
            yield from ((each.block, method) for method in of_calls.get(each.instruction, ()))


def _fitting_instructions(
    operators: list[_Operator], instructions: list[tuple[str, int, int, str, str | None]]
) -> Iterator[tuple[int, str]]:
    """Yield the block of each operator that fits an instruction of a program, with the method."""
    at: dict[Any, list[tuple[str, str, str | None]]] = defaultdict(list)
    for method, chain, instruction, kind, name in instructions:
        at[chain, instruction].append((method, kind, name))
    for each in operators:
        for method, kind, name in at.get((each.chain, each.instruction), ()):
            is_kernel = each.kind == "kernel"
            if (kind == "kernel" and name is not None and name == each.name) if is_kernel else kind == "delegate":
                yield each.block, method


def _insert(
    connection: duckdb.DuckDBPyConnection, capture_id: int, linked: dict[int, tuple[str | None, float, str]]
) -> None:
    methods, scores, candidates = zip(*linked.values(), strict=True) if linked else [()] * 3
    rows = {
        "block_index": integers([*linked]),
        "method": texts(methods),
        "score": numbers(np.array(scores, np.float64)),
        "candidates": texts(candidates),
    }
    insert(connection, "linked_methods", capture_id, batch(rows))


def _findings(blocks: dict[int, tuple[str | None, float, str]], what: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the findings about blocks, as rule and detail."""
    for block, (method, score, candidates) in blocks.items():
        if score < FITTING:
            yield (
                f"foreign {what}",
                f"the {what} {name} is of another program: it fits {int(100 * score + 0.5)} % of the operators of "
                f"block {block}, so its methods, ops and modules do not apply here",
            )
        elif method is None:
            yield (
                "method unknown",
                f"the methods {candidates} of {name} fit the operators of block {block} equally well: the method of "
                "its events is unknown",
            )
