"""The methods of a program (ExecutionPlans), read together: their names, and the tables that belong to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etq.errors import FormatError
from etq.ingest.arrow import batch, lists, numbers, texts
from etq.ingest.dictionary import encode_strings
from etq.ingest.flatbuffers.reader import Positions, Tables
from etq.ingest.program import schema


class Methods:
    """The n methods of a program. Tables of all methods are concatenated in order;
    `counts` [n] has the number per method.
    """

    def __init__(self, root: Tables) -> None:
        self.plans, _ = root.vector_of_tables("execution_plan", schema.EXECUTION_PLAN)
        codes, names = encode_strings(self.plans.buffer, self.plans.spans("name", 1), "ExecutionPlan.name")
        self.names = [names[code] or "" for code in codes.tolist()]
        if len(set(self.names)) < len(self.names):
            raise FormatError(root.buffer.path, f"methods of one name: {', '.join(self.names)}")
        self.values, self.value_counts = self.plans.vector_of_tables("values", schema.VALUE)
        self.chains, self.chain_counts = self.plans.vector_of_tables("chains", schema.CHAIN)
        self.operators, self.operator_counts = self.plans.vector_of_tables("operators", schema.OPERATOR)
        self.delegates, self.delegate_counts = self.plans.vector_of_tables("delegates", schema.BACKEND_DELEGATE)
        self.inputs, self.input_counts = self.plans.vector("inputs", "i32")
        self.outputs, self.output_counts = self.plans.vector("outputs", "i32")

    @property
    def path(self) -> str:
        """The file's name, for messages."""
        return self.plans.buffer.path

    def owners(self, counts: Positions) -> Positions:
        """Return, for tables of all methods, the index of each table's method."""
        return np.repeat(np.arange(len(self.names)), counts)

    def names_of(self, counts: Positions) -> pa.Array:
        """Return, for tables of all methods, the name of each table's method."""
        return texts([self.names[owner] for owner in self.owners(counts).tolist()])

    @staticmethod
    def index_within(counts: Positions) -> npt.NDArray[np.int32]:
        """Return the index of each table among the tables of its method."""
        before = np.repeat(np.cumsum(counts) - counts, counts)
        return (np.arange(len(before)) - before).astype(np.int32)

    def among_all(
        self, indexes: npt.NDArray[Any], owners: Positions, counts: Positions, at: Positions, what: str
    ) -> Positions:
        """Convert indexes within methods to indexes among the tables of all methods; `owners` has the method of each
        index.

        Raises `FormatError`, naming the position from `at`, for an index that is not below its method's number in
        `counts`.
        """
        wrong = (indexes < 0) | (indexes >= counts[owners])
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise FormatError(
                self.path,
                f"{what} {indexes[first]} of method {self.names[int(owners[first])]!r}, which has "
                f"{counts[int(owners[first])]}",
                int(at[first]),
            )
        among: Positions = indexes + (np.cumsum(counts) - counts)[owners]
        return among

    def are_named(self, indexes: npt.NDArray[Any], counts: Positions, what: str) -> npt.NDArray[np.bool_]:
        """Return a mask over the values of all methods: true for those that `indexes` refers to. `counts` has the
        number of indexes per method.
        """
        owners = self.owners(counts)
        named = np.zeros(len(self.values), np.bool_)
        named[self.among_all(indexes, owners, self.value_counts, self.plans.positions[owners], what)] = True
        return named

    def rows(self) -> pa.RecordBatch:
        """The table `methods`."""
        return batch(
            {
                "method_index": numbers(np.arange(len(self.names), dtype=np.int32)),
                "method": texts(self.names),
                "inputs": lists(numbers(self.inputs), self.input_counts),
                "outputs": lists(numbers(self.outputs), self.output_counts),
            }
        )

    def planned_buffers(self) -> pa.RecordBatch:
        """The table `planned_buffers`."""
        sizes, counts = self.plans.vector("non_const_buffer_sizes", "i64")
        return batch(
            {
                "method": self.names_of(counts),
                "buffer_index": numbers(self.index_within(counts)),
                "size_bytes": numbers(sizes),
            }
        )
