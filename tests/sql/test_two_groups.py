"""If two groups of ops moved apart, a comparison has no common shift, and a finding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import etq
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, run


def two_groups(first: float, second: float) -> Iterator[Labelled]:
    """Five captures per side of ten ops; in new the first five take `first` times as long, the others `second` times."""
    random = np.random.default_rng(round(1e6 * first + 1e3 * second))
    for number in range(10):
        side = "new" if number % 2 else "base"
        runs = []
        for _ in range(5):
            ends = [0]
            for op in range(10):
                factor = 1.0 if side == "base" else first if op < 5 else second
                ends.append(ends[-1] + round(20_000 * factor * random.normal(1, 0.003)))
            events = [kernel(f"op{op}", ends[op], ends[op + 1], op) for op in range(10)]
            runs.append(run("Execute", *events, execute(0, ends[-1])))
        yield Labelled(f"{first}-{second}-{number}", dump(*runs), {"side": f"{side}-{first}-{second}"})


@pytest.mark.long
def test_two_groups_of_ops_that_moved_apart() -> None:
    """It cannot be determined which one the program changed: with the shift included, those that moved are slower."""
    cases = [(1.0, 1.1), (1.04, 1.144), (1.04, 1.04), (0.97, 1.05)]
    with etq.open() as warehouse:
        ingest_all(warehouse, [capture for case in cases for capture in two_groups(*case)])
        query = """
            SELECT (SELECT count(*) FROM compare_findings($base, $new) WHERE rule = 'no common shift'),
                count(*) FILTER (WHERE verdict = 'slower'), count(*) FILTER (WHERE verdict = 'faster')
            FROM compare_ops($base, $new)
        """
        found = [warehouse.rows(query, base=f"side=base-{a}-{b}", new=f"side=new-{a}-{b}")[1] for a, b in cases]
    assert found == [[(1, 5, 0)], [(1, 10, 0)], [(0, 0, 0)], [(1, 5, 5)]]
