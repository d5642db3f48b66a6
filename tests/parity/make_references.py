"""Make `tests/captures/expected/NAME.reference.npz` again: what executorch's own reading of a record gives, run by torch.

    ENV/bin/python tests/parity/make_references.py tests/captures    # in an environment with executorch

Each array is an output of a node, under `GRAPH/NODE/POSITION`, nodes in the order of running.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from executorch.devtools.etrecord import parse_etrecord

RECORDS = ("convnet", "demo_int", "mlp", "transformer")


def outputs(program: Any, inputs: Any) -> dict[str, list[Any]]:
    """The outputs of each call of a program's graph by its node's name."""
    found: dict[str, list[Any]] = {}

    class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            if n.op == "call_function":
                each = result if isinstance(result, tuple | list) else [result]
                found[n.name] = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in each]
            return result

    Recorder(program.module()).run(inputs)
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    for name in RECORDS:
        record = parse_etrecord(str(folder / name / f"{name}.etrecord"))
        graphs = {
            "exported_program": record.exported_program,
            "edge_dialect_exported_program": record.edge_dialect_program,
        }
        arrays = {
            f"{graph}/{node}/{position}": value.numpy()
            for graph, program in graphs.items()
            for node, values in outputs(program, record._representative_inputs).items()
            for position, value in enumerate(values)
            if isinstance(value, torch.Tensor)
        }
        np.savez_compressed(folder / "expected" / f"{name}.reference.npz", **arrays)


if __name__ == "__main__":
    main()
