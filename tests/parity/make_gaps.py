"""Make `tests/captures/gaps/` again: models of which XNNPACK runs parts, with the values that a runtime logged.

    ENV/bin/python -m tests.parity.make_gaps tests/captures/gaps RUNTIME [NAME ...]

ENV has executorch 1.4.1. RUNTIME is a folder that the wheel of executorch 1.5.1 is unpacked in: its runtime logs values,
that of 1.4.1's wheel does not.

Of each model: NAME.etrecord (packed, without weights), NAME.etdp, NAME.bin (the debug buffer), NAME.reference.npz (the values of
the exported program's nodes, by torch), and NAME.outputs.json: of each call of a delegate, in order, the nodes of the
lowered program that are its outputs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from torch import nn
from torch.export import export
from torch.nn import functional

from tests.parity.making import call_outputs, pack

CONFIG = EdgeCompileConfig(_check_ir_validity=False)


class Attention(nn.Module):  # type: ignore[misc]
    """Queries, keys and values have the same shape; `cut` puts ops between that XNNPACK doesn't run."""

    def __init__(self, size: int = 8, heads: int = 2, *, fused: bool = False, cut: bool = False) -> None:
        super().__init__()
        self.heads, self.fused, self.cut = heads, fused, cut
        self.q, self.k, self.v, self.out = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        if self.cut:
            q, k = torch.sin(q), torch.cos(k)
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-2, -1), -1) @ v
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, size))


class Stacked(Attention):
    """Queries, keys and values are parts of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        q, k, v = self.all(x).view(batch, length, 3, self.heads, size // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = torch.softmax(q @ k.transpose(-2, -1), -1) @ v
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, size))


class Vit(nn.Module):  # type: ignore[misc]
    """A vision transformer."""

    def __init__(self, size: int = 8, blocks: int = 2) -> None:
        super().__init__()
        self.patch, self.classes = nn.Conv2d(3, size, 4, 4), nn.Parameter(torch.randn(1, 1, size))
        self.positions = nn.Parameter(torch.randn(1, 5, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(blocks))
        self.mixers = nn.ModuleList(Attention(size) for _ in range(blocks))
        self.up = nn.ModuleList(nn.Linear(size, 2 * size) for _ in range(blocks))
        self.down = nn.ModuleList(nn.Linear(2 * size, size) for _ in range(blocks))
        self.head = nn.Linear(size, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.classes.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for norm, mixer, up, down in zip(self.norms, self.mixers, self.up, self.down, strict=True):
            x = x + mixer(norm(x))
            x = x + down(functional.gelu(up(x)))
        return self.head(x[:, 0])


class Tied(nn.Module):  # type: ignore[misc]
    """Three ops use one weight, and their results have the same shape."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight, self.second.bias = self.first.weight, self.first.bias

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one = self.first(x)
        two, three = self.second(torch.sin(x)), self.first(torch.cos(one))
        return one, two, three, torch.sin(one + two)


class Outputs(nn.Module):  # type: ignore[misc]
    """Returns values in another order than it computes them, one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b, c = self.a(x), self.b(x), self.c(x)
        return c, torch.relu(a + b), a, torch.sigmoid(b), b, c


class Lstm(nn.Module):  # type: ignore[misc]
    """One op with three outputs, which many nodes in several calls compute."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        all, (last, cell) = self.lstm(x)
        return self.out(all[:, -1]), last, cell


class Halves(nn.Module):  # type: ignore[misc]
    """Batch norm, pooling, an op with two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left = functional.max_pool2d(torch.relu(self.norm(self.left(x))), 2)
        right = functional.max_pool2d(torch.relu(self.right(x)), 2)
        return torch.sin(left), torch.cos(right), *torch.max(left, 1)


TOKENS, ROWS = (1, 6, 8), (4, 8)
# The model, the shape of its input, and whether it is lowered in two steps, which decomposes more ops.
KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "vit": (Vit, (1, 3, 8, 8), False), "vit_steps": (Vit, (1, 3, 8, 8), True),
    "cut": (lambda: Attention(cut=True), TOKENS, False),
    "fused": (lambda: Attention(fused=True, cut=True), TOKENS, False), "stacked": (Stacked, TOKENS, False),
    "tied": (Tied, ROWS, False), "tied_steps": (Tied, ROWS, True), "outputs": (Outputs, ROWS, False),
    "lstm_states": (Lstm, (1, 3, 4), False), "halves": (Halves, (1, 3, 8, 8), True),
}  # fmt: skip

# Run by itself, with RUNTIME before the environment's executorch.
RUNNER = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch
module = _load_for_executorch(sys.argv[2] + ".pte", enable_etdump=True, debug_buffer_size=10**7)
module.forward(torch.load(sys.argv[2] + ".pt"))
module.write_etdump_result_to_file(sys.argv[2] + ".etdp", sys.argv[2] + ".bin")
"""


def make(name: str, folder: Path, runtime: Path, scratch: Path) -> None:
    torch.manual_seed(3)
    kind, shape, in_steps = KINDS[name]
    inputs = (torch.randn(shape),)
    exported = export(kind().eval(), inputs)
    if in_steps:
        lowered = to_edge(exported, compile_config=CONFIG, generate_etrecord=True).to_backend(XnnpackPartitioner())
    else:
        lowered = to_edge_transform_and_lower(
            exported, partitioner=[XnnpackPartitioner()], compile_config=CONFIG, generate_etrecord=True
        )
    graph = lowered.exported_program().graph_module
    calls = [node.args[0].target for node in graph.graph.nodes if "call_delegate" in str(node.target)]
    outputs = [
        [each.name for each in getattr(graph, call).original_module.graph.output_node().args[0]] for call in calls
    ]
    program = lowered.to_executorch()
    stem = scratch / name
    with stem.with_suffix(".pte").open("wb") as file:
        program.write_to_file(file)
    program.get_etrecord().save(str(stem.with_suffix(".etrecord")))
    torch.save(inputs, stem.with_suffix(".pt"))
    subprocess.run([sys.executable, "-c", RUNNER, str(runtime), str(stem)], check=True, stderr=subprocess.DEVNULL)
    into = folder / name / name
    into.parent.mkdir(parents=True, exist_ok=True)
    weights = ("_state_dict", "_constants", "_example_inputs")
    pack(stem.with_suffix(".etrecord"), into.with_suffix(".etrecord"), without=weights)
    into.with_suffix(".etdp").write_bytes(stem.with_suffix(".etdp").read_bytes())
    # What was not written is zeros; the last tensors may end in some.
    into.with_suffix(".bin").write_bytes(stem.with_suffix(".bin").read_bytes().rstrip(b"\0") + bytes(64))
    values = call_outputs(exported, inputs)
    arrays = {f"{node}/{at}": value for node, each in values.items() for at, value in enumerate(each)}
    np.savez_compressed(into.with_suffix(".reference.npz"), **arrays)
    into.with_suffix(".outputs.json").write_text(json.dumps(outputs) + "\n")


def main() -> None:
    folder, runtime, names = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as scratch:
        for name in names or KINDS:
            make(name, folder, runtime, Path(scratch))
            print(name, sum(each.stat().st_size for each in (folder / name).iterdir()), flush=True)


if __name__ == "__main__":
    main()
