"""Traces of a job of ranks in a mesh, drawn with a seed: faults are planted, and what is true of them is known.

Neighbours share a group, as of tensor parallelism, and reduce after each layer; all ranks reduce at the end of a step.
Each rank computes until its next collective, which begins when its last rank has come and takes what its link takes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.launch_traces import ALL_REDUCE, Machine, message

H100: Final = "NVIDIA H100 80GB HBM3"
LAYERS: Final = 4
# The kernels of a layer, and of the end of a step, in us; what they take differs by 2 % from time to time.
LAYER: Final = (("sm90_gemm", 400), ("layer_norm_kernel", 60))
END: Final = (("sm90_gemm", 300), ("fused_adam_kernel", 200))
# The elements of both messages, and the times of their transfers in us, which differ by 3 %.
PAIR, ALL = (1 << 21, 60), (1 << 24, 350)
LOADER: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


class Faults(NamedTuple):
    """What is planted: a rank whose kernels of that name (or all, or its data loader) take longer, a pair of
    neighbours whose link is slower, named by its first rank, how much longer the messages among all ranks take, and a
    clock that is ahead by some us.
    """

    late: int | None = None
    kernel: str | None = None
    factor: float = 1.5
    loading: int = 0
    slow_pair: int | None = None
    slower: float = 3.0
    among_all: float = 1.0
    clock: int | None = None
    ahead: int = 5_000


@dataclass
class Job:
    """The traces by rank, and the truth: waits by step, rank that waits and rank that is last, in us; the transfers
    by the first rank of the group and its size; the times of steps.
    """

    ranks: dict[int, Machine] = field(default_factory=dict)
    waits: defaultdict[tuple[int, int, int], int] = field(default_factory=lambda: defaultdict(int))
    transfers: defaultdict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    steps: list[int] = field(default_factory=list)

    def contents(self) -> dict[int, bytes]:
        properties = [{"id": number, "name": H100} for number in range(8)]
        return {rank: made.trace(deviceProperties=properties) for rank, made in self.ranks.items()}

    def write(self, folder: Path, name: str = "rank{}.pt.trace.json") -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for rank, content in self.contents().items():
            (folder / name.format(rank)).write_bytes(content)
        return folder


def job(seed: int, faults: Faults = Faults(), ranks: int = 8, steps: int = 8) -> Job:  # noqa: B008 - a NamedTuple
    """Return a job. Its clocks agree but for the planted one, as far as the ends of collectives tell: to 3 us."""
    drawn = random.Random(seed)
    made = Job({rank: Machine(rank, ranks, device=rank % 8) for rank in range(ranks)})
    ahead: Mapping[int, int] = {} if faults.clock is None else {faults.clock: faults.ahead}
    at = dict.fromkeys(range(ranks), 10**7)

    def compute(rank: int, name: str, time: int) -> None:
        is_slow = rank == faults.late and not faults.loading and faults.kernel in (None, name)
        length = round(time * drawn.lognormvariate(0, 0.02) * (faults.factor if is_slow else 1))
        run(rank, name, at[rank] + 2, at[rank] + 2 + length, 7)
        at[rank] += length + 3

    def run(rank: int, name: str, start: int, end: int, stream: int, **given: Any) -> None:
        """Launch it 30 us ahead, from an op."""
        machine, clock = made.ranks[rank], ahead.get(rank, 0)
        machine.correlation += 1
        call, thread = start - 30 + clock, 1 if stream == 7 else 2
        number = machine.correlation
        machine.write("cpu_op", f"aten::{name[:4]}", call - 3, call + 6, thread)
        machine.write("cuda_runtime", "cudaLaunchKernel", call, call + 4, thread, correlation=number)
        machine.run(name, start + clock, end + clock, stream, correlation=number, **given)

    def reduce(step: int, group: str, members: range, message_of: tuple[int, int], factor: float) -> None:
        elements, time = message_of
        starts = {rank: at[rank] + drawn.randrange(2, 5) for rank in members}
        last = max(members, key=lambda rank: (starts[rank], -rank))
        transfer = round(time * drawn.lognormvariate(0, 0.03) * factor)
        made.transfers[members[0], len(members)].append(transfer)
        for rank in members:
            made.waits[step, rank, last] += starts[last] - starts[rank]
            end = starts[last] + transfer + drawn.randrange(3)
            given: dict[str, Any] = message("allreduce", group, "Float", elements, elements, len(members))
            run(rank, ALL_REDUCE, starts[rank], end, 24, **given)
            at[rank] = end

    for step in range(steps):
        begun = dict(at)
        for rank in range(ranks):
            at[rank] += 40 + (faults.loading if rank == faults.late else 0)
            if rank == faults.late and faults.loading:
                start = begun[rank] + ahead.get(rank, 0)
                made.ranks[rank].write("user_annotation", LOADER, start + 2, start + 2 + faults.loading)
        for _ in range(LAYERS):
            for rank in range(ranks):
                for name, time in LAYER:
                    compute(rank, name, time)
            for first in range(0, ranks, 2):
                factor = faults.slower if first == faults.slow_pair else 1
                reduce(step, f"{first // 2 + 1}", range(first, first + 2), PAIR, factor)
        for rank in range(ranks):
            for name, time in END:
                compute(rank, name, time)
        reduce(step, "0", range(ranks), ALL, faults.among_all)
        for rank, machine in made.ranks.items():
            clock = ahead.get(rank, 0)
            machine.write("user_annotation", f"ProfilerStep#{step}", begun[rank] + clock, at[rank] + 1 + clock)
            at[rank] += 2
        made.steps.append(max(at[rank] - begun[rank] for rank in range(ranks)))
    return made
