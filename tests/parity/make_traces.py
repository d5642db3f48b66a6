"""Make traces of `tests/captures/torch` again, with torch's answers: `memory_outside`, of which tensors die outside of all
ops, and `lists`, of which ops take lists of tensors.

ENV/bin/python -m tests.parity.make_traces tests/captures/torch [NAME...]    # in an environment with torch
ENV/bin/python -m tests.parity.make_traces tests/captures/torch_2_15 python_functions    # with torch 2.15
ENV/bin/python -m tests.parity.make_traces tests/captures/torch_threads replicas    # a thread for each part of a batch
ENV/bin/python -m tests.parity.make_traces tests/captures/torch_gloo gloo    # collectives of two processes
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function, schedule

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
    others = {"python_functions": make_python_functions, "replicas": make_replicas, "gloo": make_gloo}
    folder = Path(sys.argv[1])
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
    steps = schedule(wait=0, warmup=1, active=2, repeat=1)
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


RANKS = 2


def collectives(rank: int) -> None:
    half = torch.ones(6, 5, dtype=torch.bfloat16)
    dist.all_reduce(torch.ones(1000))
    dist.all_reduce(torch.ones(10, dtype=torch.int64))
    dist.all_reduce(torch.tensor(1.0))
    dist.all_gather([torch.empty_like(half) for _ in range(RANKS)], half)
    dist.broadcast(torch.ones(3, dtype=torch.float64), 0)
    dist.reduce(torch.ones(4, dtype=torch.half), 0)
    dist.all_to_all_single(torch.empty(4), torch.ones(4))
    dist.gather(torch.ones(7), [torch.empty(7) for _ in range(RANKS)] if rank == 0 else None)
    dist.barrier()


def write_rank(profiler: Any, folder: Path, rank: int) -> None:
    recorded = json.loads(trace_of(profiler, folder / f"rank{rank}.json"))
    kept = {key: value for key, value in recorded.items() if key not in ("host_name", "traceName")}
    write_json(folder / f"rank{rank}.pt.trace.json.gz", kept)


def run_rank(rank: int, folder: Path) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29644"}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=2),
        on_trace_ready=lambda profiler: write_rank(profiler, folder, rank),
    ) as profiler:
        for _ in range(3):
            collectives(rank)
            profiler.step()
    dist.destroy_process_group()


def make_gloo(folder: Path) -> None:
    """Collectives of gloo of two processes, with all that they are and all that is sent."""
    torch.multiprocessing.spawn(run_rank, (folder,), RANKS)


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
