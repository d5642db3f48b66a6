"""How ops of two programs without records are matched: as a diff matches lines."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from etq.warehouse.warehouse import Warehouse
from tests.warehouses import empty_warehouse

Ops = list[tuple[str, float]]


@pytest.fixture(scope="module")
def empty() -> Iterator[Warehouse]:
    """A warehouse whose macros are called on given values."""
    with empty_warehouse() as opened:
        yield opened


def aligned(warehouse: Warehouse, *programs: Ops) -> list[list[str]]:
    """The keys of the ops of programs, each made of names and times."""
    rows = [
        {"capture_id": program, "op_index": place, "family": name, "p25": ticks}
        for program, ops in enumerate(programs, 1)
        for place, (name, ticks) in enumerate(ops, 1)
    ]
    warehouse.connection.register("made", pa.Table.from_pylist(rows))
    warehouse.connection.execute("""
        CREATE OR REPLACE TEMP TABLE op_times AS
        SELECT *, 'm' AS scope, 'kernel' AS kind, NULL::VARCHAR AS module_path, NULL::VARCHAR AS op_type, NULL AS phase
        FROM made
    """)
    sides = [
        {"capture_id": program, "ops": str(program), "only_scope": "m", "matched": "name"}
        for program in range(1, len(programs) + 1)
    ]
    query = "SELECT a.capture_id, a.item FROM _aligned_ops($sides) AS a ORDER BY a.capture_id, a.op_index"
    found: list[list[str]] = [[] for _ in programs]
    for program, item in warehouse.rows(query, sides=sides)[1]:
        found[program - 1].append(item)
    return found


def test_ops_are_aligned_as_lines_are(empty: Warehouse) -> None:
    layer = [("view", 1.0), ("permute", 9.0), ("mm", 5.0), ("permute", 3.0), ("mm", 7.0)]
    # The second permute of each of 12 layers is gone.
    first, other = aligned(empty, layer * 12, [op for op in layer * 12 if op != ("permute", 3.0)])
    assert other == [item for place, item in enumerate(first) if place % 5 != 3]
    # One op is added, and another has a different name at the same place.
    first, other = aligned(empty, layer * 3, [*layer, ("mm", 5.0), *layer, *layer[:3], ("copy", 3.0), layer[4]])
    assert [item for item in other if item not in first] == [other[5], other[14]]
    assert [item for item in first if item not in other] == [first[13]]
    # A program that has no op in common with the other.
    first, other = aligned(empty, layer, [("add", 1.0)] * 3)
    assert len({*first, *other}) == len(first) + len(other)


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("scale", [1, 2.5])
def test_among_like_ops_the_one_with_another_time_is_removed(empty: Warehouse, gone: int, scale: float) -> None:
    """Neighbours with one name, and pairs of them. The program may have become slower as a whole."""
    for names in (["expand"] * 4, ["view", "expand"] * 4):
        ops = [
            ("mm", 4.0),
            *zip(names, [1.0, 5.0, 20.0, 2.0, 7.0, 3.0, 11.0, 0.5][: len(names)], strict=True),
            ("mm", 4.0),
        ]
        step = len(names) // 4
        places = range(1 + gone * step, 1 + gone * step + step)
        others = [(name, scale * ticks) for place, (name, ticks) in enumerate(ops) if place not in places]
        for programs in ((ops, others), (others, ops)):
            found = aligned(empty, *programs)
            longer, shorter = sorted(found, key=len, reverse=True)
            assert shorter == [item for place, item in enumerate(longer) if place not in places]


def test_programs_of_too_many_differences_are_aligned_at_both_ends(empty: Warehouse) -> None:
    ends = [("view", 1.0), ("mm", 2.0), ("view", 3.0)]
    first, other = aligned(empty, [*ends, *[("add", 1.0)] * 150, *ends], [*ends, *[("mul", 1.0)] * 150, *ends])
    assert [item for item in first if item in other] == [*first[:3], *first[-3:]]


def test_ops_with_unique_names_match_at_any_position(empty: Warehouse) -> None:
    first, other = aligned(empty, [("mm", 1.0), ("add", 2.0), ("mul", 3.0)], [("mul", 9.0), ("add", 2.0), ("mm", 1.0)])
    assert first == other[::-1]
