"""Record collectives of gloo of two processes, with all that they are and all that is sent: `-m tests.parity.make_gloo`, with torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile, schedule

from tests.parity.making import trace_of, write_json

FOLDER = Path(__file__).parents[1] / "captures" / "torch_gloo"
RANKS = 2


def step(rank: int) -> None:
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


def write(profiler: Any, rank: int) -> None:
    recorded = json.loads(trace_of(profiler, FOLDER / f"rank{rank}.json"))
    kept = {key: value for key, value in recorded.items() if key not in ("host_name", "traceName")}
    write_json(FOLDER / f"rank{rank}.pt.trace.json.gz", kept)


def run(rank: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29644"}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=2),
        on_trace_ready=lambda profiler: write(profiler, rank),
    ) as profiler:
        for _ in range(3):
            step(rank)
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    mp.spawn(run, (), RANKS)
