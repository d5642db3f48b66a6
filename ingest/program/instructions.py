"""The instructions of a program's methods, as rows of the table `instructions`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.ingest.arrow import batch, integers, lists, numbers, texts
from etq.ingest.dictionary import encode_strings
from etq.ingest.flatbuffers.reader import Positions
from etq.ingest.flatbuffers.unions import members, union_kinds
from etq.ingest.program import schema
from etq.ingest.program.methods import Methods

# Indexes of values, and the index of the instruction that uses each.
Arguments = tuple[npt.NDArray[Any], Positions]


def instruction_rows(methods: Methods) -> pa.RecordBatch:
    """Return the table `instructions`, one row per instruction, ordered by method and chain."""
    instructions, counts = methods.chains.vector_of_tables("instructions", schema.INSTRUCTION)
    chain = np.repeat(np.arange(len(counts)), counts)
    owners = methods.owners(methods.chain_counts)[chain]
    kinds = union_kinds(instructions, "instr_args_type", schema.INSTRUCTION_KINDS)
    read = _Instructions(methods, len(instructions), owners, instructions.positions)
    calls, at = members(instructions, "instr_args", kinds == "kernel", schema.KERNEL_CALL)
    read.kernels(calls.scalar("op_index"), at)
    read.argument_lists(*calls.vector("args", "i32"), at)
    calls, at = members(instructions, "instr_args", kinds == "delegate", schema.DELEGATE_CALL)
    read.delegates(calls.scalar("delegate_index"), at)
    read.argument_lists(*calls.vector("args", "i32"), at)
    moves, at = members(instructions, "instr_args", kinds == "move", schema.MOVE_CALL)
    both = np.stack([moves.scalar("move_from"), moves.scalar("move_to")], axis=1).ravel()
    read.argument_lists(both, np.full(len(moves), 2), at)
    jumps, at = members(instructions, "instr_args", kinds == "jump_false", schema.JUMP_FALSE_CALL)
    read.argument_lists(jumps.scalar("cond_value_index"), np.ones(len(jumps), np.int64), at)
    targets: list[int | None] = [None] * len(instructions)
    for place, target in zip(at.tolist(), jumps.scalar("destination_instruction").tolist(), strict=True):
        targets[place] = target
    frees, at = members(instructions, "instr_args", kinds == "free", schema.FREE_CALL)
    read.argument_lists(frees.scalar("value_index"), np.ones(len(frees), np.int64), at)
    return batch(
        {
            "method": texts([methods.names[owner] for owner in owners.tolist()]),
            "chain_index": numbers(Methods.index_within(methods.chain_counts)[chain]),
            "instruction_id": numbers(Methods.index_within(counts)),
            "kind": texts(kinds.tolist()),
            "op": texts(read.op),
            "overload": texts(read.overload),
            "delegate_index": integers(read.delegate_index),
            "arguments": read.arguments(),
            "jump_target": integers(targets),
        }
    )


class _Instructions:
    """Columns of n instructions, filled in kind by kind. `at` has the indexes of the instructions of one kind."""

    def __init__(self, methods: Methods, count: int, owners: Positions, positions: Positions) -> None:
        self.methods = methods
        self.owners = owners
        self.positions = positions
        self.op: list[str | None] = [None] * count
        self.overload: list[str | None] = [None] * count
        self.delegate_index: list[int | None] = [None] * count
        self._arguments: list[Arguments] = []

    def kernels(self, op_index: npt.NDArray[Any], at: Positions) -> None:
        """Fill in the operators of kernel calls."""
        operators = self.methods.operators
        where = self._among_all(op_index, at, self.methods.operator_counts, "operator").tolist()
        name_codes, names = encode_strings(operators.buffer, operators.spans("name", 1), "Operator.name")
        codes, overloads = encode_strings(operators.buffer, operators.spans("overload", 1), "Operator.overload")
        for place, operator in zip(at.tolist(), where, strict=True):
            self.op[place] = names[name_codes[operator]] or ""
            self.overload[place] = overloads[codes[operator]] or None

    def delegates(self, delegate_index: npt.NDArray[Any], at: Positions) -> None:
        """Fill in the delegates of delegate calls."""
        self._among_all(delegate_index, at, self.methods.delegate_counts, "delegate")
        for place, delegate in zip(at.tolist(), delegate_index.tolist(), strict=True):
            self.delegate_index[place] = delegate

    def argument_lists(self, values: npt.NDArray[Any], counts: Positions, at: Positions) -> None:
        """Fill in the values that instructions use: `counts` values each."""
        places = np.repeat(at, counts)
        self._among_all(values, places, self.methods.value_counts, "value")
        self._arguments.append((values, places))

    def arguments(self) -> pa.Array:
        """Return the values that each instruction uses, as lists."""
        values = np.concatenate([each for each, _ in self._arguments]).astype(np.int32)
        places = np.concatenate([each for _, each in self._arguments])
        order = np.argsort(places, kind="stable")
        return lists(numbers(values[order]), np.bincount(places, minlength=len(self.op)))

    def _among_all(self, indexes: npt.NDArray[Any], at: Positions, counts: Positions, what: str) -> Positions:
        return self.methods.among_all(indexes, self.owners[at], counts, self.positions[at], what)
