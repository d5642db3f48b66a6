"""Make `tests/captures/versions/` again: what other versions of executorch write, and how their Inspectors read it.

    PATH=ENV/bin:$PATH ENV/bin/python -m tests.parity.make_versions tests/captures/versions TRACER

ENV has a version of executorch from 0.4.0 on, whose `flatc` is in PATH; TRACER is the Python of an environment with
executorch 1.5.1, whose runtime runs the programs of all versions, and traces them; those of older wheels do not.

Of each model: NAME.etdp (3 runs), NAME.etrecord (packed, paths of source files shortened) and NAME.json.gz, what that version's
Inspector reads of each event with the record. They are in a folder of the
version's name.
"""

from __future__ import annotations

import copy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import Inspector, generate_etrecord
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from torch import nn
from torch.export import export
from torch.nn import functional

from tests.parity.delegation_models import Mlp
from tests.parity.making import pack, write_json

CONFIG = EdgeCompileConfig(_check_ir_validity=False)
RUNNER = """
import sys, torch
from executorch.runtime import Runtime, Verification
stem = sys.argv[1]
program = Runtime.get().load_program(stem + ".pte", verification=Verification.Minimal, enable_etdump=True)
method = program.load_method("forward")
for _ in range(3):
    method.execute(torch.load(stem + ".inputs"))
program.write_etdump_result_to_file(stem + ".etdp", stem + ".buffer")
"""


class Convolutions(nn.Module):  # type: ignore[misc]
    """Several ops have several results, of which one is used."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.groups = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.classify = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.groups(torch.relu(self.norm(self.conv(x))))
        x = functional.max_pool2d(functional.max_pool2d(x, 2, 2), 2, 2)
        return self.classify(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):  # type: ignore[misc]
    """`split` has a list of results."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(x).split(8, dim=2)
        return self.out(torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1), v)).topk(2)[0]


def edge_of(model: nn.Module, x: torch.Tensor) -> Any:
    return to_edge(export(model.eval(), (x,)), compile_config=CONFIG)


def delegated(model: nn.Module, x: torch.Tensor) -> Any:
    partitioners = [XnnpackPartitioner()]
    return to_edge_transform_and_lower(export(model.eval(), (x,)), partitioner=partitioners, compile_config=CONFIG)


MODELS: dict[str, tuple[Callable[[nn.Module, torch.Tensor], Any], type[nn.Module], tuple[int, ...]]] = {
    "convolutions": (edge_of, Convolutions, (1, 3, 8, 8)),
    "attention": (edge_of, Attention, (1, 4, 8)),
    "delegated": (delegated, Mlp, (2, 16)),
}


def answer(stem: Path) -> None:
    """Write what this version's Inspector reads of each event."""
    inspector = Inspector(etdump_path=f"{stem}.etdp", etrecord=f"{stem}.etrecord")
    rows = [
        {
            "block": block.name, "event": event.name, "raw": list(event.perf_data.raw) if event.perf_data else None,
            "op_types": list(event.op_types), "stack_traces": event.stack_traces,
            "module_hierarchy": event.module_hierarchy, "is_delegated_op": event.is_delegated_op,
            "backend": event.delegate_backend_name,
        }
        for block in inspector.event_blocks
        for event in block.events
    ]  # fmt: skip
    write_json(stem.with_suffix(".json.gz"), rows)


def make(name: str, stem: Path, tracer: str) -> None:
    torch.manual_seed(3)
    lower, model, shape = MODELS[name]
    x = torch.randn(shape)
    edge = lower(model(), x)
    kept = copy.deepcopy(edge)
    program = edge.to_executorch()
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / stem.name
        run.with_suffix(".pte").write_bytes(program.buffer)
        torch.save((x,), run.with_suffix(".inputs"))
        generate_etrecord(str(run.with_suffix(".etrecord")), edge_dialect_program=kept, executorch_program=program)
        pack(run.with_suffix(".etrecord"), stem.with_suffix(".etrecord"))
        subprocess.run([tracer, "-c", RUNNER, str(run)], check=True)
        stem.with_suffix(".etdp").write_bytes(run.with_suffix(".etdp").read_bytes())
    answer(stem)


def main() -> None:
    folder, tracer = Path(sys.argv[1]) / version("executorch"), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        make(name, folder / name, tracer)


if __name__ == "__main__":
    main()
