"""References run by torch, against executorch's own reading and running of the same record. Needs torch."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from etq import EtqError, FormatError
from etq.inspector.references import exported_program
from etq.torch.exported import run_program
from etq.torch.reference import EDGE, EXPORTED, _check_sizes, reference_values
from tests.conftest import CAPTURES

torch = pytest.importorskip("torch", reason="running a program needs torch")
# Of executorch's and torch's own code.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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
        # Another processor's kernels round otherwise.
        is_rounded = expected.dtype.kind == "f" and expected.size
        unit = np.finfo(expected.dtype).eps * np.abs(expected).max() if is_rounded else 0
        np.testing.assert_allclose(found[key], expected, rtol=0, atol=16 * unit)


def test_an_edge_program_of_several_methods() -> None:
    parsed = pytest.importorskip("executorch.devtools.etrecord", reason="executorch reads the edge program")
    path = CAPTURES / "twins" / "twins.etrecord"
    record = parsed.parse_etrecord(str(path))
    expected = record.edge_dialect_program["forward"].module()(*record._representative_inputs)
    for graph in (EDGE, f"{EDGE}/forward"):
        *_, (found,) = reference_values(path, graph).values()
        np.testing.assert_array_equal(found, expected.detach())


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


class Sizes(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Sizes of the inputs, and arithmetic on them."""

    def forward(self, x: Any) -> Any:
        rows = x.shape[0]
        return x.reshape(rows * 2, -1) * rows, torch.arange(rows), torch.zeros(rows + 1, 3)


class Kinds(torch.nn.Module):  # type: ignore[misc, name-defined]
    """Arguments of many kinds; a buffer that changes; results that are lists, and of which some are unused."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("kept", torch.ones(3), persistent=False)
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any, flag: bool, number: int, nested: Any, missing: Any = None) -> Any:
        self.count.add_(1)
        y = x * self.weight + self.count + self.kept + number
        y = (y + nested["a"][0] if flag else y).to(torch.float64).clamp(min=-math.inf, max=math.inf)
        first, _, last = torch.split(y, [1, 1, 1], dim=-1)
        y = y.index_put((torch.tensor([0]),), torch.tensor(5.0, dtype=torch.float64))
        real = torch.view_as_real(torch.complex(y.float(), y.float()))
        return torch.cat([first, last], -1), torch.topk(y.flatten(), 2).values, torch.full_like(y, math.nan), real


class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A branch of several results, and one of a single one."""

    def forward(self, x: Any) -> Any:
        y, z = torch.cond(x.sum() > 0, lambda x: (x + 1, x * 2), lambda x: (x - 1, x / 2), (x,))
        return y + z, torch.cond(x.sum() < 0, lambda x: x.relu(), lambda x: x.sin(), (x,))


PROGRAMS: dict[str, tuple[Any, ...]] = {
    "sizes": (Sizes(), (torch.arange(24.0).reshape(4, 6),), {"x": {0: torch.export.Dim("rows", min=2, max=16)}}),
    "kinds": (Kinds(), (torch.arange(6.0).reshape(2, 3), True, 7, {"a": [torch.ones(3)]}, None), None),
    "branches": (Branches(), (torch.tensor([1.0, 2.0]),), None),
    "other_branches": (Branches(), (torch.tensor([-1.0, -2.0]),), None),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    """Truth: the module itself, run by torch."""
    from torch._export.serde.serialize import serialize

    module, inputs, dynamic = PROGRAMS[name]
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    tensors = {**exported.state_dict, **exported.constants}
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    program = json.loads(serialize(exported).exported_program)
    found = dict(run_program(program, tensors, inputs))
    results = [found[each["as_tensor"]["name"]] for each in program["graph_module"]["graph"]["outputs"]]
    # Outputs begin with the new contents of buffers.
    expected = list(module(*inputs))
    for [value], truth in zip(results[-len(expected) :], expected, strict=True):
        torch.testing.assert_close(value, truth, rtol=0, atol=0, equal_nan=True)


def changed_program(tmp_path: Path, change: Any) -> Path:
    with zipfile.ZipFile(CAPTURES / "mlp" / "mlp.etrecord") as source:
        program = json.loads(source.read(EXPORTED))
    change(program["graph_module"]["graph"])
    return with_member(tmp_path, EXPORTED, json.dumps(program).encode())


def test_a_size_is_not_evaluated(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    size = {"as_expr": {"expr_str": f"__import__('os').mkdir({str(touched)!r})", "hint": None}}

    def change(graph: Any) -> None:
        for tensor in graph["tensor_values"].values():
            tensor["sizes"] = [size for _ in tensor["sizes"]]

    expected = reference_values(CAPTURES / "mlp" / "mlp.etrecord")
    assert list(reference_values(changed_program(tmp_path, change))) == list(expected)
    assert not touched.exists()


@pytest.mark.parametrize(
    "target",
    [
        *("torch.ops.aten.from_file.default", "torch.ops.load_library.x", "torch.ops.aten", "torch.ops.aten.add"),
        *("torch.load", "torch.hub.load", "torch.sym_int.x", "_operator.call", "math.factorial", "os.mkdir"),
        *("torch.ops.__class__.mro", "torch.ops.aten.add.__class__", "torch.ops.higher_order.nothing", ""),
    ],
)
def test_nothing_but_operators_is_called(tmp_path: Path, target: str) -> None:
    def change(graph: Any) -> None:
        graph["nodes"][0]["target"] = target

    with pytest.raises(EtqError, match="can't be run by torch|which torch doesn't know"):
        reference_values(changed_program(tmp_path, change))


@pytest.mark.parametrize("nested", [False, True])
def test_executorch_evaluates_no_size(tmp_path: Path, nested: bool) -> None:
    """It reads texts of sizes with sympy, which evaluates them as Python."""
    pytest.importorskip("executorch", reason="executorch reads the edge program")
    touched = tmp_path / "touched"
    size = {"expr_str": f"__import__('os').mkdir({str(touched)!r})", "hint": None}
    member = f"{EDGE}/forward"
    with zipfile.ZipFile(CAPTURES / "mlp" / "mlp.etrecord") as source:
        program = json.loads(source.read(member))
    held = [{"as_expr": json.dumps(size) if nested else size}]
    for tensor in program["graph_module"]["graph"]["tensor_values"].values():
        tensor["sizes"] = held
    path = with_member(tmp_path, member, json.dumps(program).replace("expr_str", "\\u0065xpr_str").encode())
    for ask in (partial(reference_values, path, EDGE), partial(exported_program, str(path), None)):
        with pytest.raises(FormatError, match="is more than arithmetic"):
            ask()
    assert not touched.exists()


ARITHMETIC = ("s0", "2*s77 + 1", "Max(1, s0//2)", "FloorDiv(s0 - 1, 2) + Mod(u3, 4)", "(s0 < 3) & (s1 >= 2)", "1.5e3")
MORE = (
    *("open(0)", "open (0)", "x.y", "(open)(0)", "'a'", "f[0]", "lambda: 0", "a__b", "exec\t(x)", "1 .real", 3),
)  # fmt: skip


def test_sizes() -> None:
    for size in ARITHMETIC:
        assert _check_sizes("x.etrecord", {"expr_str": size})
    for other in MORE:
        with pytest.raises(FormatError, match="is more than arithmetic"):
            _check_sizes("x.etrecord", {"expr_str": other})
