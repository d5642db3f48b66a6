"""A fleet of 150 captures, drawn with a fixed seed: 5 models, 20 devices, 40 commits, and three planted faults.

mlp ran on all devices, at the last four commits; transformer at all commits, and each other model at the last ten, on
one device. Captures are a minute apart, commit by commit, so that those of all devices are measured in turns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Final, NamedTuple

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import Run, dump, execute, kernel, run

START: Final = datetime(2026, 3, 1)
DEVICES: Final = tuple(f"pixel8-{number:02}" for number in range(1, 21))
COMMITS: Final = tuple(f"{number:02}" + "c0ffee" * 6 + "ab" for number in range(1, 41))
# The ops of each model, and what they take in ns.
OPS: Final[Mapping[str, Sequence[tuple[str, int]]]] = {
    "mlp": [("addmm", 40_000), ("relu", 6_000), ("permute_copy", 9_000)] * 4 + [("softmax", 30_000)],
    "transformer": [("bmm", 50_000), ("permute_copy", 8_000), ("softmax", 20_000), ("add", 4_000)] * 6,
    "convnet": [("convolution", 90_000), ("relu", 9_000), ("max_pool2d", 12_000)] * 3,
    "lstm": [("addmm", 20_000), ("sigmoid", 7_000), ("tanh", 7_000), ("mul", 3_000)] * 4,
    "embedder": [("embedding", 15_000), ("layer_norm", 25_000), ("mean", 8_000)] * 3,
}
RUNS: Final = 12


class Fault(NamedTuple):
    """What takes `factor` times as long: an op, or all kernels, of a model, on a device or from a commit on."""

    model: str
    op: str | None
    factor: float
    device: str | None = None
    commit: str | None = None

    def of(self, op: str, labels: Mapping[str, str]) -> float:
        is_there = (
            labels["model"] == self.model
            and self.op in (None, op)
            and self.device in (None, labels["device"])
            and (self.commit is None or labels["commit"] >= self.commit)
        )
        return self.factor if is_there else 1.0


FAULTS: Final[tuple[Fault, ...]] = (
    Fault("transformer", "permute_copy", 1.5, commit=COMMITS[20]),
    Fault("mlp", None, 1.28, device="pixel8-13"),
    Fault("mlp", "addmm", 1.4, device="pixel8-07"),
)


def _captures() -> Iterator[dict[str, str]]:
    """The labels of the captures, in the order in which they are measured."""
    for place, commit in enumerate(COMMITS):
        models = {"transformer": DEVICES[:1]}
        if place >= 30:
            models |= dict.fromkeys(("convnet", "lstm", "embedder"), DEVICES[:1])
        if place >= 36:
            models["mlp"] = DEVICES
        for model, devices in models.items():
            for device in devices:
                yield {
                    "model": model,
                    "device": device,
                    "commit": commit,
                    "commit_time": (START + timedelta(days=place)).isoformat() + "Z",
                }


@cache
def fleet(
    faults: tuple[Fault, ...] = FAULTS, seed: int = 1, model: str | None = None, devices: tuple[str, ...] = DEVICES
) -> tuple[Labelled, ...]:
    """The captures, or those of a model and of some devices: writing the others takes a second. Devices, captures, ops
    and runs vary by 0.3, 0.6, 0.4 and 1 % of a time.
    """
    drawn = random.Random(seed)
    speeds = {device: drawn.gauss(0, 0.003) for device in DEVICES}
    found = []
    for place, labels in enumerate(_captures()):
        common = 1 + speeds[labels["device"]] + drawn.gauss(0, 0.006)
        levels = [
            (op, time * common * (1 + drawn.gauss(0, 0.004)) * _product(fault.of(op, labels) for fault in faults))
            for op, time in OPS[labels["model"]]
        ]
        name = f"{labels['model']}-{labels['device']}-{labels['commit'][:2]}"
        moment = START + timedelta(days=int(labels["commit"][:2]), minutes=place)
        runs = [_run(levels, drawn) for _ in range(RUNS)]
        if model in (None, labels["model"]) and labels["device"] in devices:
            found.append(Labelled(name, dump(*runs), labels, moment))
    return tuple(found)


def _product(factors: Iterator[float]) -> float:
    product = 1.0
    for factor in factors:
        product *= factor
    return product


def _run(levels: Sequence[tuple[str, float]], drawn: random.Random) -> Run:
    kernels, at = [], 1_000
    for place, (op, time) in enumerate(levels):
        end = at + round(time * (1 + drawn.gauss(0, 0.01)))
        kernels.append(kernel(op, at, end, instruction=place))
        at = end + 300
    return run("Execute", *kernels, execute(0, at + 700))


def ingest_fleet(warehouse: Warehouse, faults: tuple[Fault, ...] = FAULTS, seed: int = 1) -> None:
    ingest_all(warehouse, fleet(faults, seed))
