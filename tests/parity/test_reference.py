"""References run by torch, against executorch's own reading and running of the same record. Needs torch."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq import FormatError
from etq.torch.reference import EDGE, EXPORTED, reference_values
from tests.conftest import CAPTURES

torch = pytest.importorskip("torch", reason="running a program needs torch")


@pytest.mark.parametrize("graph", [EXPORTED, EDGE])
@pytest.mark.parametrize("model", ["convnet", "demo_int", "mlp", "transformer"])
def test_values(model: str, graph: str) -> None:
    if graph == EDGE:
        pytest.importorskip("executorch", reason="running an edge program needs executorch")
    ours = reference_values(CAPTURES / model / f"{model}.etrecord", graph)
    with np.load(CAPTURES / "expected" / f"{model}.reference.npz") as arrays:
        theirs = {key.removeprefix(f"{graph}/"): arrays[key] for key in arrays if key.startswith(f"{graph}/")}
    found = {f"{node}/{at}": value for node, values in ours.items() for at, value in enumerate(values)}
    assert [key for key, value in found.items() if isinstance(value, np.ndarray)] == list(theirs)
    for key, expected in theirs.items():
        np.testing.assert_array_equal(found[key], expected)


def with_member(tmp_path: Path, name: str, content: bytes | None) -> Path:
    """The mlp's record with a member replaced, or left out."""
    path = tmp_path / "model.etrecord"
    with zipfile.ZipFile(CAPTURES / "mlp" / "mlp.etrecord") as source, zipfile.ZipFile(path, "w") as target:
        for member in source.namelist():
            if member != name or content is not None:
                target.writestr(member, source.read(member) if member != name else content or b"")
    return path


# Quantized models: integers of 8 bits, computed ahead and in each run, and of 4 bits; with the shape of the input.
QUANTIZED = {"conv_quantized": (1, 3, 16, 16), "mlp_dynamic": (2, 16), "mlp_four_bits": (2, 32)}
FRESH = """
import json, sys
from etq.torch.reference import reference_values
values = reference_values(sys.argv[1], sys.argv[2])
import torch
from executorch.devtools.etrecord import parse_etrecord
record = parse_etrecord(sys.argv[1])
expected = record.edge_dialect_program.module()(*torch.load(sys.argv[3]))
print(json.dumps([[*values.values()][-1][0].tolist(), expected.tolist()]))
"""


@pytest.mark.parametrize("graph", [EXPORTED, pytest.param(EDGE, marks=pytest.mark.long)])
@pytest.mark.parametrize("model", QUANTIZED)
def test_quantized_models_in_a_fresh_process(tmp_path: Path, model: str, graph: str) -> None:
    """Nothing but etq imports what registers their operators. Truth: executorch's own reading of the record."""
    pytest.importorskip("executorch", reason="quantized operators are in executorch and torchao")
    pytest.importorskip("torchao", reason="quantized operators are in executorch and torchao")
    path, inputs = tmp_path / "model.etrecord", tmp_path / "inputs.pt"
    torch.save([torch.randn(QUANTIZED[model])], inputs)
    shutil.copy(CAPTURES / "delegation" / model / f"{model}.etrecord", path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.write(inputs, "representative_inputs")
    answer = subprocess.run(
        [sys.executable, "-c", FRESH, str(path), graph, str(inputs)], stdout=subprocess.PIPE, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout  # fmt: skip
    ours, theirs = json.loads(answer.splitlines()[-1])
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


class Payload:
    def __init__(self, touched: Path) -> None:
        self.touched = touched

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.touched),)


@pytest.mark.parametrize("name", ["representative_inputs", "exported_program_state_dict", "exported_program_constants"])
def test_a_payload_is_not_run(tmp_path: Path, name: str) -> None:
    touched = tmp_path / "touched"
    saved = io.BytesIO()
    torch.save([Payload(touched)], saved)
    assert not touched.exists()
    for content in (saved.getvalue(), pickle.dumps(Payload(touched))):
        with pytest.raises(FormatError, match=f"member {name} can't be read as tensors"):
            reference_values(with_member(tmp_path, name, content))
        assert not touched.exists()
