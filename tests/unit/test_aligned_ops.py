"""How ops of two programs without records are matched: as a diff matches lines."""

from __future__ import annotations

import numpy as np
import pytest

from etq.verdicts.alignment import align

Ops = list[tuple[str, float]]


def aligned(*programs: Ops) -> list[list[str]]:
    """The keys of the ops of programs, each made of names and times."""
    ops = [
        (program, place, str(program), name, False, ticks)
        for program, each in enumerate(programs, 1)
        for place, (name, ticks) in enumerate(each, 1)
    ]
    names = ("capture_id", "op_index", "program", "name", "is_by_module", "ticks")
    kinds = ("int64", "int64", "object", "object", "bool", "float64")
    columns = zip(names, kinds, zip(*ops, strict=True), strict=True)
    answer = align({name: np.array(values, kind) for name, kind, values in columns})
    found: list[list[str]] = [[] for _ in programs]
    for program, item in zip(answer["capture_id"], answer["item"], strict=True):
        found[program - 1].append(item)
    return found


def test_ops_are_aligned_as_lines_are() -> None:
    layer = [("view", 1.0), ("permute", 9.0), ("mm", 5.0), ("permute", 3.0), ("mm", 7.0)]
    # The second permute of each of 12 layers is gone.
    first, other = aligned(layer * 12, [op for op in layer * 12 if op != ("permute", 3.0)])
    assert other == [item for place, item in enumerate(first) if place % 5 != 3]
    # One op is added, and another has a different name at the same place.
    first, other = aligned(layer * 3, [*layer, ("mm", 5.0), *layer, *layer[:3], ("copy", 3.0), layer[4]])
    assert [item for item in other if item not in first] == [other[5], other[14]]
    assert [item for item in first if item not in other] == [first[13]]
    # A program that has no op in common with the other.
    first, other = aligned(layer, [("add", 1.0)] * 3)
    assert len({*first, *other}) == len(first) + len(other)


@pytest.mark.parametrize("gone", range(4))
@pytest.mark.parametrize("scale", [1, 2.5])
def test_among_like_ops_the_one_with_another_time_is_removed(gone: int, scale: float) -> None:
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
            found = aligned(*programs)
            longer, shorter = sorted(found, key=len, reverse=True)
            assert shorter == [item for place, item in enumerate(longer) if place not in places]


def test_programs_of_too_many_differences_are_aligned_at_both_ends() -> None:
    ends = [("view", 1.0), ("mm", 2.0), ("view", 3.0)]
    first, other = aligned([*ends, *[("add", 1.0)] * 150, *ends], [*ends, *[("mul", 1.0)] * 150, *ends])
    assert [item for item in first if item in other] == [*first[:3], *first[-3:]]


def test_ops_with_unique_names_match_at_any_position() -> None:
    first, other = aligned([("mm", 1.0), ("add", 2.0), ("mul", 3.0)], [("mul", 9.0), ("add", 2.0), ("mm", 1.0)])
    assert first == other[::-1]
