"""Make traces of `tests/captures/torch` again, with torch's answers: `memory_outside`, of which tensors die outside of all
ops, and `lists`, of which ops take lists of tensors.

ENV/bin/python -m tests.parity.make_traces tests/captures/torch [NAME...]    # in an environment with torch
ENV/bin/python -m tests.parity.make_traces tests/captures/torch_2_15 python_functions    # with torch 2.15
ENV/bin/python -m tests.parity.make_traces tests/captures/torch_threads replicas    # a thread for each part of a batch
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tests.parity.making import trace_of, write_json

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


def memory_outside() -> None:
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


def lists() -> None:
    recurrent, last = torch.nn.LSTM(8, 6, batch_first=True), torch.nn.Linear(6, 3)
    for steps in (5, 5, 7):
        hidden, _ = recurrent(torch.randn(2, steps, 8))
        joined = last(torch.cat([hidden[:, :2], hidden[:, 2:]], 1))
        products = torch.einsum("bij,bkj->bik", hidden, hidden)
        (joined.sum() + torch.stack([hidden, hidden]).sum() + products.sum()).backward()


PROGRAMS = {"memory_outside": memory_outside, "lists": lists}


def main() -> None:
    folder, others = Path(sys.argv[1]), {"python_functions": make_python_functions, "replicas": make_replicas}
    for name in sys.argv[2:] or PROGRAMS:
        others[name](folder) if name in others else make(folder, name)


def make_python_functions(folder: Path) -> None:
    """What PyTorch 2.15 answers with and without Python functions, which other versions can't be asked for."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True) as recorded:
        for _ in range(2):
            with record_function("forward"):
                result = model(torch.randn(4, 8)).sum()
            result.backward()
    written = trace_of(recorded, folder / "python_functions.pt.trace.json")
    packages = str(Path(torch.__file__).parents[1])
    asked = {name: recorded.key_averages(include_python_functions=name == "with") for name in ("with", "without")}
    answers = {name: [{**row, "stack": []} for row in rows(each)] for name, each in asked.items()}
    content = json.dumps({**answers, "torch": torch.__version__}).replace(packages, ".").encode()
    for kind, each in (("pt.trace.json", written.replace(packages.encode(), b".")), ("json", content)):
        (folder / f"python_functions.{kind}.gz").write_bytes(gzip.compress(each, mtime=0))


def make_replicas(folder: Path) -> None:
    """Three threads run the forward pass of their parts of a batch, as DataParallel does, and one the backward pass."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    every_thread = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    steps = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, experimental_config=every_thread) as recorded:
        for _ in range(3):
            results: dict[int, torch.Tensor] = {}

            def forward(part: int, results: dict[int, torch.Tensor]) -> None:
                results[part] = model(torch.randn(8 * (part + 1), 16))

            threads = [threading.Thread(target=forward, args=(part, results)) for part in range(3)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            torch.cat([results[part] for part in range(3)]).sum().backward()
            recorded.step()
    content = json.loads(trace_of(recorded, folder / "replicas.pt.trace.json"))
    write_json(folder / "replicas.pt.trace.json.gz", content | {"host_name": "host"})


def make(folder: Path, name: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as recorded:
        PROGRAMS[name]()
    written = trace_of(recorded, folder / f"{name}.pt.trace.json")
    (folder / f"{name}.pt.trace.json.gz").write_bytes(gzip.compress(written, mtime=0))
    averages = recorded.key_averages()
    answers = {
        "by_name": rows(averages),
        "by_shape": rows(recorded.key_averages(group_by_input_shape=True)),
        "by_stack_5": rows(recorded.key_averages(group_by_stack_n=5)),
        "table": averages.table(sort_by="self_cpu_time_total", row_limit=10),
        "self_cpu_time_total": averages.self_cpu_time_total,
        "torch": torch.__version__,
    }
    write_json(folder / f"{name}.key_averages.json.gz", answers)


if __name__ == "__main__":
    main()
