"""Make `tests/captures/torch_checkpoint` again: a step of training whose activations are computed again, and what it does.

    ENV/bin/python -m tests.parity.make_checkpoints tests/captures/torch_checkpoint    # in an environment with torch

The same net trains without torch.utils.checkpoint, with it in both of its forms, and with a gradient that is itself
differentiated. `flops.json` has the operations of a step as torch's FlopCounterMode counts them, null where it can't. Two
of three blocks are computed again: with hooks, torch stops at the last tensor that it needs, in the op that would save the
next one, which the trace has nevertheless.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from tests.parity.making import trace_of

MODES = ("plain", "reentrant", "hooks", "differentiated")


def net() -> torch.nn.ModuleList:
    linear, activation = torch.nn.Linear, torch.nn.GELU
    return torch.nn.ModuleList(torch.nn.Sequential(linear(32, 48), activation(), linear(48, 32)) for _ in range(3))


def train(blocks: torch.nn.ModuleList, given: torch.Tensor, mode: str) -> None:
    found = given
    for number, block in enumerate(blocks):
        is_repeated = mode in ("reentrant", "hooks") and number != 1
        found = checkpoint(block, found, use_reentrant=mode == "reentrant") if is_repeated else block(found)
    loss = found.square().sum()
    if mode == "differentiated":
        [gradient] = torch.autograd.grad(loss, given, create_graph=True)
        loss = gradient.square().sum()
    loss.backward()


def counted(blocks: torch.nn.ModuleList, given: torch.Tensor, mode: str) -> int | None:
    try:
        with FlopCounterMode(display=False) as counter:
            train(blocks, given, mode)
    except RuntimeError:  # it doesn't take torch.autograd.grad
        return None
    return int(counter.get_total_flops())


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    flops: dict[str, Any] = {}
    for mode in MODES:
        torch.manual_seed(0)
        blocks, given = net(), torch.randn(8, 32, requires_grad=True)
        train(blocks, given, mode)
        flops[mode] = counted(blocks, given, mode)
        path, written = folder / f"{mode}.pt.trace.json", list[bytes]()
        with profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda done, path=path, written=written: written.append(trace_of(done, path)),
        ) as profiler:
            for _ in range(2):
                train(blocks, given, mode)
                profiler.step()
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(written[0], mtime=0))
    (folder / "flops.json").write_text(json.dumps(flops, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
