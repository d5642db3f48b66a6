"""Make answers about the records of `tests/captures` again, as executorch has read them, in `tests/captures/expected`.

    ENV/bin/python -m tests.parity.make_records tests/captures [MODEL_EXPLORER]    # an environment with executorch

`NAME.reference.npz`: each array is an output of a node, run by torch, under `GRAPH/NODE/POSITION`, nodes in the order of
running. `flops.json` has what torch's FlopCounterMode counts, in `records` by record and stage (`STAGE/METHOD`) of the
nodes that it counts something of, by name, and in `calls` of ops on tensors without data, with shapes and counts.
`NAME.model_explorer.json.gz`, with MODEL_EXPLORER, the folder `model_explorer` of ai-edge-model-explorer 0.1.34, which
need not be installed: by stage and method the graph's id, and its nodes' labels by id.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.devtools.etrecord import parse_etrecord
from torch.utils.flop_counter import FlopCounterMode

from tests.parity.make_call_costs import convolved, tensor
from tests.parity.making import call_outputs, programs_of, write_json

ATEN = torch.ops.aten


def flops_of_nodes(program: Any) -> dict[str, int]:
    """FlopCounterMode's counts for the calls of a program's graph, by the node's name, without zeros."""
    found: dict[str, int] = {}

    class Counter(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            if isinstance(n.target, torch._ops.HigherOrderOperator):  # Not all of them can be run while it counts.
                return super().run_node(n)
            with FlopCounterMode(display=False) as counter:
                result = super().run_node(n)
            if n.op == "call_function" and counter.get_total_flops():
                found[n.name] = counter.get_total_flops()
            return result

    with torch.no_grad():
        Counter(program.module()).run(*inputs_of(program))
    return found


def inputs_of(program: Any) -> list[Any]:
    """Zeros as the program's inputs."""
    named = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    given = [named[name] for name in program.graph_signature.user_inputs]
    return [torch.zeros(each.shape, dtype=each.dtype) if isinstance(each, torch.Tensor) else each for each in given]


def counted_records(folder: Path) -> dict[str, dict[str, dict[str, int]]]:
    """The counts of nodes by record and program. Programs that executorch can't read are left out."""
    found = {}
    for path in sorted(folder.glob("*/*.etrecord")):
        try:
            programs = programs_of(parse_etrecord(str(path)))
        except (KeyError, RuntimeError, ValueError) as error:
            print(f"{path.name}: {error!r:.100}", file=sys.stderr)
            continue
        found[path.stem] = {name: flops_of_nodes(program) for name, program in programs.items()}
    return found


def products() -> list[tuple[Any, list[Any]]]:
    calls: list[tuple[Any, list[Any]]] = []
    for m, k, n in ((1, 1, 1), (2, 3, 5), (1, 64, 10), (128, 256, 512), (3, 0, 2)):
        calls += [
            (ATEN.mm.default, [tensor(m, k), tensor(k, n)]),
            (ATEN.addmm.default, [tensor(n), tensor(m, k), tensor(k, n)]),
            (ATEN.bmm.default, [tensor(4, m, k), tensor(4, k, n)]),
            (ATEN.baddbmm.default, [tensor(4, m, n), tensor(4, m, k), tensor(4, k, n)]),
        ]
    return calls


def attentions() -> list[tuple[Any, list[Any]]]:
    calls: list[tuple[Any, list[Any]]] = []
    for query, key, value in (
        ((1, 1, 1, 8), (1, 1, 1, 8), (1, 1, 1, 8)),
        ((2, 4, 16, 8), (2, 4, 16, 8), (2, 4, 16, 8)),
        ((1, 8, 1, 64), (1, 2, 128, 64), (1, 2, 128, 64)),
    ):
        given = [tensor(*query), tensor(*key), tensor(*value)]
        calls += [
            (ATEN._scaled_dot_product_efficient_attention.default, [*given, None, False]),
            (ATEN._scaled_dot_product_flash_attention.default, given),
        ]
    # The composite, as its parts: two matrix products. Its values may have another size.
    same = [tensor(2, 4, 16, 8), tensor(2, 4, 20, 8), tensor(2, 4, 20, 6)]
    return [*calls, (ATEN.scaled_dot_product_attention.default, same)]


def described(value: Any) -> Any:
    return {"sizes": list(value.shape)} if isinstance(value, torch.Tensor) else value


def counted_calls() -> list[dict[str, Any]]:
    convolutions = [
        (ATEN.convolution.default, [tensor(*sizes), tensor(*weight), None, *rest])
        for sizes, weight, *rest in convolved()
    ]
    found = []
    for op, arguments in [*products(), *convolutions, *attentions()]:
        with FlopCounterMode(display=False) as counter:
            result = op(*arguments)
        outputs = result if isinstance(result, tuple) else (result,)
        names = [each.name for each in op._schema.arguments]
        found.append(
            {
                "target": str(op),
                "arguments": {name: described(each) for name, each in zip(names, arguments, strict=False)},
                "outputs": [list(each.shape) for each in outputs if isinstance(each, torch.Tensor)],
                "flops": counter.get_total_flops(),
            }
        )
    return found


def make_flops(folder: Path) -> None:
    records = [f"{json.dumps(name)}: {json.dumps(counts)}" for name, counts in counted_records(folder).items()]
    lines = [
        '"records": {\n' + ",\n".join(records) + "\n}",
        '"calls": [\n' + ",\n".join(map(json.dumps, counted_calls())) + "\n]",
    ]
    (folder / "expected" / "flops.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def make_references(folder: Path) -> None:
    for name in ("convnet", "demo_int", "mlp", "transformer"):
        record = parse_etrecord(str(folder / name / f"{name}.etrecord"))
        arrays = {
            f"{graph.partition('/')[0]}/{node}/{position}": value
            for graph, program in programs_of(record).items()
            for node, values in call_outputs(program, [record._representative_inputs]).items()
            for position, value in enumerate(values)
            if value is not None
        }
        np.savez_compressed(folder / "expected" / f"{name}.reference.npz", **arrays)


def make_names(folder: Path, model_explorer: str) -> None:
    """What Model Explorer calls the nodes of records' programs."""
    package = types.ModuleType("model_explorer")
    # Without its __init__, which starts a server's imports.
    package.__path__ = [model_explorer]
    sys.modules["model_explorer"] = package
    from model_explorer.pytorch_exported_program_adapter_impl import PytorchExportedProgramAdapterImpl

    for name in ("convnet", "mlp_xnn", "multimethod", "transformer"):
        found = {}
        for stage, program in programs_of(parse_etrecord(str(folder / name / f"{name}.etrecord"))).items():
            [graph] = PytorchExportedProgramAdapterImpl(program, {"const_element_count_limit": 0}).convert()["graphs"]
            found[stage] = {"id": graph.id, "nodes": {node.id: node.label for node in graph.nodes}}
        write_json(folder / "expected" / f"{name}.model_explorer.json.gz", found)


if __name__ == "__main__":
    captures = Path(sys.argv[1])
    make_references(captures)
    make_flops(captures)
    for path in sys.argv[2:]:
        make_names(captures, path)
