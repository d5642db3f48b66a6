"""The parts of torch.export's JSON that etq reads, as types for a typed decoder, which skips everything else.

Source: `torch/_export/serde/schema.py` of PyTorch 2.13 (schema 8.20) and what executorch 1.4.1 writes (5.4). The layout
of version 1 (an int) can be read too; it has a tensor's description under `meta`.

A large record has millions of objects. They refer to each other without cycles, so the garbage collector need not track
them (`gc=False`). Each object is then smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

# torch.export's ScalarType, by number; the numbers differ from those of c10.
DTYPES: Final = (
    None, "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
    "complex128", "bool", "bfloat16", "uint16", "float8_e5m2", "float8_e4m3fn",
)  # fmt: skip


# The JSON of a missing value.
NOTHING: Final = msgspec.Raw(b"null")

# Types of numbers that fit the warehouse's columns.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Size(msgspec.Struct, gc=False):
    """A size or stride: a number, or None for an expression."""

    as_int: Int64 | None = None


class TensorMeta(msgspec.Struct, gc=False):
    """The properties of a tensor; in version 1 they are under `meta`."""

    dtype: int = 0
    sizes: list[Size] = []
    strides: list[Size] = []
    meta: TensorMeta | None = None


class Named(msgspec.Struct, gc=False):
    """A reference to a value, by its name."""

    name: str


class OptionalTensor(msgspec.Struct, gc=False):
    """An optional reference to a value."""

    as_tensor: Named | None = None


class NestedGraph(msgspec.Struct, gc=False):
    """A graph that a node calls, such as a branch."""

    name: str
    graph: Graph


class Argument(msgspec.Struct, gc=False):
    """An argument of a node, or an output: a value's name, a graph, or a literal. Literals are not decoded."""

    as_tensor: Named | None = None
    as_tensors: list[Named] | None = None
    as_optional_tensors: list[OptionalTensor] | None = None
    as_graph: NestedGraph | None = None
    as_int: msgspec.Raw = NOTHING
    as_ints: msgspec.Raw = NOTHING
    as_bool: msgspec.Raw = NOTHING
    as_float: msgspec.Raw = NOTHING
    as_string: msgspec.Raw = NOTHING

    def names(self) -> Sequence[str]:
        """The names of the values that the argument refers to, in order."""
        if self.as_tensor is not None:
            return (self.as_tensor.name,)
        if self.as_tensors is not None:
            return [tensor.name for tensor in self.as_tensors]
        if self.as_optional_tensors is not None:
            return [tensor.as_tensor.name for tensor in self.as_optional_tensors if tensor.as_tensor is not None]
        return ()

    def literal(self) -> msgspec.Raw:
        """The literal as JSON, if the argument is a number, numbers, a truth value or a text; `NOTHING` otherwise."""
        if self.as_int is not NOTHING:
            return self.as_int
        if self.as_ints is not NOTHING:
            return self.as_ints
        if self.as_bool is not NOTHING:
            return self.as_bool
        return self.as_float if self.as_float is not NOTHING else self.as_string


class NamedArgument(msgspec.Struct, gc=False):
    """An argument, with its name in the op's signature."""

    arg: Argument
    name: str = ""


class Metadata(msgspec.Struct, gc=False):
    """The origin of a node, as far as export kept it.

    Its texts are long and repeat often. They are kept as JSON, and readers decode each distinct text once.
    """

    stack_trace: msgspec.Raw = NOTHING
    nn_module_stack: msgspec.Raw = NOTHING
    debug_handle: str | int | None = None
    from_node: msgspec.Raw = NOTHING


class Node(msgspec.Struct, gc=False):
    """A node: the call of an op."""

    target: str
    inputs: list[NamedArgument] = []
    outputs: list[Argument] = []
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    name: str | None = None


class Graph(msgspec.Struct, gc=False):
    """A graph within a node: inputs, outputs, nodes and properties of values.

    The descriptions of tensors, each a `TensorMeta`, repeat often. They are kept as JSON, and readers decode each
    distinct text once.
    """

    nodes: list[Node]
    inputs: list[Argument] = []
    outputs: list[Argument] = []
    tensor_values: dict[str, msgspec.Raw] = {}


class ProgramGraph(msgspec.Struct, gc=False):
    """The outermost graph of a program, like `Graph`, but with raw nodes, as there may be very many."""

    nodes: list[msgspec.Raw]
    inputs: list[Argument] = []
    outputs: list[Argument] = []
    tensor_values: dict[str, msgspec.Raw] = {}


class SpecArgument(msgspec.Struct, gc=False):
    """The name of the value of an input or output; empty if it is not a tensor."""

    name: str | None = None


class Spec(msgspec.Struct, gc=False):
    """The meaning of an input or output: a parameter, a buffer, a buffer's new content."""

    arg: SpecArgument


class InputSpec(msgspec.Struct, gc=False):
    """An input with its meaning; a user's argument has no meaning."""

    parameter: Spec | None = None
    buffer: Spec | None = None
    tensor_constant: Spec | None = None


class OutputSpec(msgspec.Struct, gc=False):
    """An output with its meaning; an output that is only returned to the user has no meaning."""

    buffer_mutation: Spec | None = None
    user_input_mutation: Spec | None = None


class Signature(msgspec.Struct, gc=False):
    """The meanings of a program's inputs and outputs."""

    input_specs: list[InputSpec] = []
    output_specs: list[OutputSpec] = []


class GraphModule(msgspec.Struct, gc=False):
    """A graph with its signature."""

    graph: ProgramGraph
    signature: Signature | None = None


class LoweredGraphModule(msgspec.Struct, gc=False):
    """The graph that a delegate runs, with its signature."""

    graph: Graph
    signature: Signature | None = None


class LoweredProgram(msgspec.Struct, gc=False):
    """The program that a delegate was made from."""

    graph_module: LoweredGraphModule


class LoweredModule(msgspec.Struct, gc=False):
    """A delegate as the argument of its call. executorch writes the delegate as JSON within a text."""

    original_module: LoweredProgram


class ExportedProgram(msgspec.Struct, gc=False):
    """A member `…/METHOD` of an ETRecord."""

    graph_module: GraphModule
    dialect: str | None = None


class Origin(msgspec.Struct, gc=False):
    """A node of an earlier graph from which a node was made (an entry of `from_node`)."""

    name: str
    graph_id: int | None = None
    from_node: list[Origin] = []


class DelegateMap(msgspec.Struct, gc=False):
    """The debug handles that a backend's events refer to, by the events' ids."""

    name: str = ""
    delegate_map: dict[str, Int32 | list[Int32] | None] | None = None


HandleMap = dict[str, dict[str, Int32 | list[Int32]]]
DelegateMaps = dict[str, dict[str, DelegateMap]]
OutputCounts = dict[str, dict[str, Int32]]
