"""`compare_memory`: against sums of the files' sizes in plain Python."""

from __future__ import annotations

from typing import Any

import pytest

from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import AllocationEvent, dump, execute, kernel, run
from tests.program_builders import kernel as kernel_of
from tests.program_builders import method, program
from tests.sql.planting import rows_of


def allocating(*sizes: tuple[int, ...], place: int = 0) -> bytes:
    """A run for each of these, with an allocation of each size, by two allocators in turns."""
    return dump(*(
        run(
            "Execute",
            *(AllocationEvent(1 + at % 2, size) for at, size in enumerate(of_run)),
            kernel("add", 5, 900 + place),
            execute(0, 1_000 + place),
            allocators=("first", "second"),
        )
        for of_run in sizes
    ))  # fmt: skip


def judged(warehouse: Warehouse, base: list[bytes], new: list[bytes], **options: Any) -> dict[str, Any]:
    sides = [("base", each) for each in base] + [("new", each) for each in new]
    ingest_all(warehouse, [Labelled(f"c{at}", each, {"side": side}) for at, (side, each) in enumerate(sides)])
    [row] = rows_of(warehouse, "compare_memory", **options)
    return dict(row)


def test_the_most_of_a_run(warehouse: Warehouse) -> None:
    """The first run of base allocates 300 bytes in all, that of new 400: a third more."""
    row = judged(
        warehouse, [allocating((100, 200), (50,), place=at) for at in range(2)], [allocating((10,), (300, 60, 40))]
    )
    assert (row["what"], row["method"], row["verdict"], row["note"]) == ("allocated", None, "worse", None)
    assert (row["base"], row["new"], row["base_captures"], row["new_captures"]) == (300, 400, 2, 1)
    assert row["change_percent"] == pytest.approx(100 / 3)


@pytest.mark.parametrize(
    ("base", "new", "min_effect", "verdict"),
    [
        ([1_000], [1_000], None, "~"),
        ([1_000], [1_019], None, "~"),
        ([1_000], [1_020], None, "worse"),
        ([1_000], [1_020], 0.03, "~"),
        ([1_000], [970], None, "better"),
        ([1_000, 1_100, 1_200], [1_150, 1_160], None, "not decided"),  # as much within base
        ([1_000, 1_100, 1_200], [1_201, 1_202], None, "worse"),
    ],
)
def test_verdicts(
    warehouse: Warehouse, base: list[int], new: list[int], min_effect: float | None, verdict: str
) -> None:
    sides = [
        [allocating((size,), place=100 * (sizes is new) + at) for at, size in enumerate(sizes)] for sizes in (base, new)
    ]
    row = judged(warehouse, *sides, min_effect=min_effect)
    assert row["verdict"] == verdict
    assert row["note"] == ("the captures of a side differ as much" if verdict == "not decided" else row["note"])


@pytest.mark.long
def test_planned(warehouse: Warehouse) -> None:
    """The sum of a method's buffers but the reserved one: 64 bytes in base, 100 in new, of one capture each."""
    for side, buffers in (("base", (8, 64)), ("new", (8, 64, 36))):
        made = program(method("forward", [], [kernel_of("aten::add.out")], buffers=buffers))
        capture = warehouse.ingest(allocating((10,), place=len(buffers)), name=side, labels={"side": side})
        warehouse.link(capture, warehouse.ingest_program(made, name=f"of {side}"))
    rows = {row["what"]: row for row in rows_of(warehouse, "compare_memory")}
    planned, allocated = rows["planned"], rows["allocated"]
    assert (planned["method"], planned["base"], planned["new"], planned["verdict"]) == ("forward", 64, 100, "worse")
    assert planned["change_percent"] == pytest.approx(56.25)
    assert (allocated["base"], allocated["new"], allocated["verdict"]) == (10, 10, "~")


def test_sides_without_files(warehouse: Warehouse) -> None:
    """Memory that only one side has files for is not judged."""
    warehouse.ingest(allocating((10,)), name="base", labels={"side": "base"})
    warehouse.ingest(allocating((), place=1), name="new", labels={"side": "new"})
    assert rows_of(warehouse, "compare_memory") == []
