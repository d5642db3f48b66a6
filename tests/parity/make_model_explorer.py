"""Make `tests/captures/expected/NAME.model_explorer.json.gz` again: what Model Explorer calls the nodes of a record's
programs.

    ENV/bin/python -m tests.parity.make_model_explorer tests/captures MODEL_EXPLORER    # an environment with executorch

MODEL_EXPLORER is the folder `model_explorer` of ai-edge-model-explorer 0.1.34, which need not be installed. By stage and
method: the graph's id, and its nodes' labels by id.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

from executorch.devtools.etrecord import parse_etrecord

from tests.parity.making import programs_of, write_json

RECORDS = ("convnet", "mlp_xnn", "multimethod", "transformer")


def main() -> None:
    folder, package = Path(sys.argv[1]), types.ModuleType("model_explorer")
    # Without its __init__, which starts a server's imports.
    package.__path__ = [sys.argv[2]]
    sys.modules["model_explorer"] = package
    from model_explorer.pytorch_exported_program_adapter_impl import PytorchExportedProgramAdapterImpl

    for name in RECORDS:
        [path] = folder.glob(f"{name}/*.etrecord")
        found = {}
        for stage, program in programs_of(parse_etrecord(str(path))).items():
            [graph] = PytorchExportedProgramAdapterImpl(program, {"const_element_count_limit": 0}).convert()["graphs"]
            found[stage] = {"id": graph.id, "nodes": {node.id: node.label for node in graph.nodes}}
        write_json(folder / "expected" / f"{name}.model_explorer.json.gz", found)


if __name__ == "__main__":
    main()
