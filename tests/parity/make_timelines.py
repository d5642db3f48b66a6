"""Make `tests/captures/torch_timeline` again: the memory of two steps of training, as export_memory_timeline writes it.

ENV/bin/python -m tests.parity.make_timelines tests/captures/torch_timeline    # in an environment with torch
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile


def main(folder: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.Adam(net.parameters())
    recorded = {"record_shapes": True, "profile_memory": True, "with_stack": True}
    with profile(activities=[ProfilerActivity.CPU], **recorded) as profiled:
        for _ in range(2):
            net(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for name in ("memory.json.gz", "memory.raw.json.gz"):
        profiled.export_memory_timeline(str(folder / name), "cpu")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
