"""A warehouse of many captures of one program on two sides, with labels, metrics and a record; and their files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.pairs import dumps
from tests.pairs.asking import keyed
from tests.pairs.dumps import Dump, Timed
from tests.pairs.etrecords import Record, kernels
from tests.sql.method import Sides
from tests.warehouses import empty_warehouse

COUNT: Final = 12
SELECTOR: Final = "device=desk"
BASE, NEW = "side=base,device=desk", "side=new,device=desk"
# A program whose third op is half as slow again from the eighth build on.
STEP, BUILDS = 8, 24
OPS: Final = {"mm": 40_000, "add": 9_000, "relu": 20_000, "sum": 5_000, "exp": 30_000}

Key = tuple[str, str, int]


@dataclass
class Fleet:
    """The warehouse, and each capture's dump by name in the order of time."""

    warehouse: Warehouse
    dumps: dict[str, Dump]
    metrics: dict[str, list[float]]

    def keyed(self, query: str, keys: int) -> dict[Any, list[Any]]:
        """The rows of a query by their first columns."""
        return keyed(self.warehouse.rows(query)[1], keys)

    @property
    def sides(self) -> list[str]:
        return ["new" if number % 2 else "base" for number in range(len(self.dumps))]

    def quantiles(self, quantile: float) -> tuple[list[Key], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The ops, and a quantile of each capture's runs of each op and of the executes."""
        ops = [_by_op(dump) for dump in self.dumps.values()]
        keys = list(ops[0])
        values = np.array([[np.quantile(of[key], quantile) for key in keys] for of in ops])
        totals = np.array([np.quantile(list(dump.executing.values()), quantile) for dump in self.dumps.values()])
        return keys, values, totals

    def outside(self) -> np.ndarray[Any, Any]:
        """The lower quartile over each capture's runs of what kernels and delegate calls leave of the execute."""
        found = []
        for capture in self.dumps.values():
            of_ops = by_run_of(
                capture, lambda event: event.kind in ("kernel", "delegate_call"), lambda event: event.ticks
            )
            rests = [total - of_ops[True][run] for run, total in capture.executing.items() if total is not None]
            found.append(np.quantile(rests, 0.25))
        return np.array(found)

    def compared(self) -> tuple[list[Key], Sides]:
        keys, values, totals = self.quantiles(0.25)
        return keys, Sides(self.sides, values, totals, np.ones(len(keys)))


def _by_op(dump: Dump) -> dict[Key, list[int]]:
    """The time of each op in each run."""

    def key(event: Timed) -> Key | None:
        of_ops = event.kind in ("kernel", "delegate_call", "delegate", "user")
        return (event.family, event.kind, event.raw.instruction_id) if of_ops else None

    return {key: list(by_run.values()) for key, by_run in by_run_of(dump, key, lambda event: event.ticks).items()}


def by_run_of(dump: Dump, key: Callable[[Timed], Any], value: Callable[[Timed], int]) -> dict[Any, dict[int, int]]:
    """Sums of the events within executes by key and run. Events without a key are left out."""
    found: defaultdict[Any, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for event in dump.within:
        if (of := key(event)) is not None:
            found[of][event.run] += value(event)
    return {key: dict(of) for key, of in found.items()}


def by_module(dump: Dump, record: Record) -> dict[str, list[int]]:
    """The time of each module, including nested modules, in each run."""
    ops = kernels(dump)
    found: defaultdict[str, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for event in dump.within:
        if event.kind == "operator_call" and event.children:
            continue
        own = record.own_nodes("forward", event, ops.get((dump.blocks[event.run], event.raw.instruction_id)))
        place = record.place("forward", event, ops.get((dump.blocks[event.run], event.raw.instruction_id)))
        if own and place.module is not None:
            levels = place.module.split(".") if place.module else []
            for depth in range(len(levels) + 1):
                found[".".join(levels[:depth])][event.run] += event.own
    return {module: list(of.values()) for module, of in found.items()}


@contextmanager
def built() -> Iterator[Fleet]:
    """The fleet."""
    with empty_warehouse() as warehouse:
        record = warehouse.ingest_record(CAPTURES / "mlp/mlp.etrecord")
        read: dict[str, Dump] = {}
        metrics: dict[str, list[float]] = {}
        recorded = []
        for number in range(COUNT):
            labels = {"side": "new" if number % 2 else "base", "device": "desk", "build": str(number), "model": "mlp"}
            moment = datetime(2026, 1, 1) + timedelta(hours=number)
            content = (CAPTURES / f"fleet/mlp/{number:02d}.etdp").read_bytes()
            read[f"fleet_{number:02d}"] = dumps.read(content)
            recorded.append(Labelled(f"fleet_{number:02d}", content, labels, moment))
        for number, capture in enumerate(ingest_all(warehouse, recorded, link_to=[record])):
            metrics[capture.name] = [10 + number / 7 + (number % 2) * 3, 40 + (number * 7) % 5]
            warehouse.metric(capture, "decode_tokens_per_second", metrics[capture.name][0])
            warehouse.metric(capture, "temperature", metrics[capture.name][1])
        made = {"device": "made", "model": "made"}
        builds = range(BUILDS)
        ingest_all(
            warehouse, [Labelled(f"made_{each:02d}", _made(each), {**made, "build": str(each)}) for each in builds]
        )
        yield Fleet(warehouse, read, metrics)


def _made(build: int) -> bytes:
    """Runs of a program that only runs its ops. The builds differ in their times."""
    runs = []
    at = 1000 + build
    for _ in range(5):
        events, begin = [], at
        for instruction, (op, length) in enumerate(OPS.items()):
            took = length * 3 // 2 if op == "relu" and build >= STEP else length
            events += [kernel(op, at, at + took, instruction), operator_call(at, at + took, instruction)]
            at += took
        runs.append(run("Execute", *events, execute(begin, at)))
    return dump(*runs)
