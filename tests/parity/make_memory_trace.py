"""Make `tests/captures/torch/memory_outside.*` again: a trace of which tensors die outside of all ops, and torch's answers.

ENV/bin/python tests/parity/make_memory_trace.py tests/captures/torch    # in an environment with torch
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

NAME = "memory_outside"
KEPT = (
    *("key", "count", "self_cpu_time_total", "cpu_time_total", "cpu_time"),
    *("self_cpu_memory_usage", "cpu_memory_usage", "flops"),
)


def rows(averages: Any) -> list[dict[str, Any]]:
    return [
        {name: getattr(each, name) for name in KEPT}
        | {"input_shapes": str(each.input_shapes), "stack": list(each.stack or [])}
        for each in averages
    ]


def train() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        once = model(torch.randn(32, 64))
        twice = once * 2
        del once, twice
        with record_function("kept"):
            ones = torch.ones(16, 16)
            del ones
        loss = model(torch.randn(32, 64)).sum()
        loss.backward()
        del loss
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as recorded:
        train()
    path = folder / f"{NAME}.pt.trace.json"
    recorded.export_chrome_trace(str(path))
    written = path.read_bytes().replace(f'"{path}"'.encode(), f'"./{path.name}"'.encode())
    path.unlink()
    averages = recorded.key_averages()
    said = {
        "by_name": rows(averages),
        "by_shape": rows(recorded.key_averages(group_by_input_shape=True)),
        "by_stack_5": rows(recorded.key_averages(group_by_stack_n=5)),
        "table": averages.table(sort_by="self_cpu_time_total", row_limit=10),
        "self_cpu_time_total": averages.self_cpu_time_total,
        "torch": torch.__version__,
    }
    for name, content in ((path.name, written), (f"{NAME}.key_averages.json", json.dumps(said).encode())):
        (folder / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
