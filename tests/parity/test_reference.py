"""References run by torch, against executorch's own reading and running of the same record. Needs torch."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq import EtqError, FormatError
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


def test_missing_parts_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the ETRecord has no representative_inputs, which a reference needs"):
        reference_values(with_member(tmp_path, "representative_inputs", None))
    with pytest.raises(FormatError, match="no ETRecord"):
        reference_values(CAPTURES / "mlp" / "mlp.etdp")
    with pytest.raises(EtqError, match="no graph 'nope'; known are exported_program and edge_dialect_exported_program"):
        reference_values(CAPTURES / "mlp" / "mlp.etrecord", "nope")
    broken = with_member(tmp_path, "exported_program", b"{")
    with pytest.raises(FormatError, match="member exported_program: "):
        reference_values(broken)
    shutil.copy(CAPTURES / "mlp" / "mlp.etrecord", broken)
    with pytest.raises(FormatError, match="no ETRecord"):
        reference_values(tmp_path / "none.etrecord")
