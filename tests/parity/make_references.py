"""Make `tests/captures/expected/NAME.reference.npz` again: what executorch's own reading of a record gives, run by torch.

    ENV/bin/python -m tests.parity.make_references tests/captures    # in an environment with executorch

Each array is an output of a node, under `GRAPH/NODE/POSITION`, nodes in the order of running.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from executorch.devtools.etrecord import parse_etrecord

from tests.parity.making import call_outputs, programs_of

RECORDS = ("convnet", "demo_int", "mlp", "transformer")


def main() -> None:
    folder = Path(sys.argv[1])
    for name in RECORDS:
        record = parse_etrecord(str(folder / name / f"{name}.etrecord"))
        arrays = {
            f"{graph.partition('/')[0]}/{node}/{position}": value
            for graph, program in programs_of(record).items()
            for node, values in call_outputs(program, [record._representative_inputs]).items()
            for position, value in enumerate(values)
            if value is not None
        }
        np.savez_compressed(folder / "expected" / f"{name}.reference.npz", **arrays)


if __name__ == "__main__":
    main()
