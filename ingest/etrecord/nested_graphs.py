"""Graphs among the arguments of nodes: the branches of control flow, and the graphs from which delegates were made."""

from __future__ import annotations

from typing import Final

import msgspec

from etq.ingest.etrecord.export_json import NOTHING, LoweredModule, NamedArgument, NestedGraph, Node, Signature

# The ending of the targets of delegate calls. The graph of such a call is a text.
DELEGATE_CALL: Final = "executorch_call_delegate"
_text: Final = msgspec.json.Decoder(str)
_lowered: Final = msgspec.json.Decoder(LoweredModule)

# A graph among a node's arguments: the argument's number, the graph, and its signature if it has one.
Nested = tuple[int, NestedGraph, Signature | None]


def nested_graphs(node: Node) -> list[Nested]:
    """Return the graphs among a node's arguments."""
    found = [graph_of(node.target, each) for each in node.inputs]
    return [(at, *each) for at, each in enumerate(found) if each is not None]


def graph_of(target: str, argument: NamedArgument) -> tuple[NestedGraph, Signature | None] | None:
    """Return the graph in an argument of a node with this target; None for other arguments, such as a text without a
    delegate's graph.
    """
    if argument.arg.as_graph is not None:
        return argument.arg.as_graph, None
    if not target.endswith(DELEGATE_CALL) or argument.arg.as_string is NOTHING:
        return None
    try:
        module = _lowered.decode(_text.decode(argument.arg.as_string)).original_module.graph_module
    except (msgspec.DecodeError, RecursionError):
        return None
    return NestedGraph(argument.name or DELEGATE_CALL, module.graph), module.signature
