"""Traces of graphs with known truth: of their capture, of a run without graphs, and of their launches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Node:
    """One kernel of a graph. `number` identifies it: the first dimension of its op's input."""

    number: int
    kernel: str
    op: str
    module: str = "Layer_0"
    stream: int = 7


def layers(count: int, kernels: Sequence[str] = ("norm", "gemm", "rope", "attention", "gemm", "add")) -> list[Node]:
    """Return the nodes of equal layers, between an embedding and a head."""
    names = ["embed", *list(kernels) * count, "head"]
    per_layer = len(kernels)
    return [
        Node(
            number,
            name,
            f"aten::{name}_{number % 3}" if name == "gemm" else f"aten::{name}",
            f"Layer_{(number - 1) // per_layer}",
        )
        for number, name in enumerate(names)
    ]


def _slice(category: str, name: str, start: float, duration: float, /, **args: Any) -> dict[str, Any]:
    at = {"pid": 1, "tid": 1, "ts": start, "dur": duration}
    return {"ph": "X", "cat": category, "name": name, **at, "args": args}


def _ops(node: Node, start: float, batch: int, correlation: int, **of_call: Any) -> list[dict[str, Any]]:
    """Return the events of the host for one node: a module, an op, an op in it, and the call that launches."""
    shapes = {"Input Dims": [[node.number, batch]], "Input type": ["float"], "Concrete Inputs": [""]}
    return [
        _slice("python_function", f"nn.Module: {node.module}", start, 8),
        _slice("cpu_op", f"outer::{node.kernel}", start + 1, 6),
        _slice("cpu_op", node.op, start + 2, 4, **shapes),
        _slice("cuda_runtime", "cudaLaunchKernel", start + 3, 2, correlation=correlation, **of_call),
    ]


def capture(
    graphs: Sequence[Sequence[Node]],
    batches: Sequence[int] = (32,),
    *,
    is_named: bool = True,
    has_sizes: bool = True,
    **args: Any,
) -> bytes:
    """Return the trace of the capture of graphs, of one for each batch: launches, and no kernels.

    `args` have further arguments of calls, by the node and the batch.
    """
    events: list[dict[str, Any]] = []
    start, correlation = 100.0, 1
    for nodes, batch in zip(graphs, batches, strict=True):
        if has_sizes:
            events.append(_slice("user_annotation", f"capture_{batch}_FULL", start - 3, 10 * len(nodes) + 8))
        events.append(_slice("cuda_runtime", "cudaStreamBeginCapture", start - 2, 1, correlation=correlation))
        for node in nodes:
            correlation += 1
            names = {"kernel": node.kernel} if is_named else {}
            of_call = {name: value(node, batch) for name, value in args.items()}
            events += _ops(node, start, batch, correlation, **names, **of_call)
            start += 10
        correlation += 1
        events.append(_slice("cuda_runtime", "cudaStreamEndCapture", start, 1, correlation=correlation))
        start += 100
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def _kernel(node: Node, start: float, correlation: int, /, **args: Any) -> dict[str, Any]:
    of_device = {"device": 0, "stream": node.stream, "correlation": correlation, "External id": 0}
    return {**_slice("kernel", node.kernel, start, 4, **of_device, **args), "pid": 0, "tid": node.stream}


def launches(graphs: Sequence[Sequence[Node]], labels: Sequence[str] = (), **args: Any) -> bytes:
    """Return the trace of launches of graphs, whose kernels run in the order of their nodes; each within an annotation.

    The n-th kernel of each launch has the duration of n + 1 nanoseconds more, which tests don't use otherwise.
    """
    events: list[dict[str, Any]] = []
    start = 1000.0
    for number, nodes in enumerate(graphs):
        label = labels[number] if labels else "decode"
        events.append(_slice("user_annotation", label, start, 50))
        events.append(_slice("cpu_op", "aten::copy_", start + 1, 5, **{"Input Dims": [[1]], "Input type": ["float"]}))
        call = 100_000 + number
        events.append(_slice("cuda_runtime", "cudaGraphLaunch", start + 10, 20, correlation=call))
        for place, node in enumerate(nodes):
            given = {name: value(node, number) for name, value in args.items()}
            events.append(
                _kernel(
                    node, start + 40 + 5 * place, call, **{name.replace("_", " "): each for name, each in given.items()}
                )
            )
        start += 100 + 5 * len(nodes)
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def in_stream(node: Node, stream: int) -> Node:
    """Return a node that runs in another stream."""
    return replace(node, stream=stream)
