"""If two groups of ops moved apart and neither stayed, a comparison has a finding."""

from __future__ import annotations

import re
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
    """If neither group stayed, it cannot be determined which one the program changed, and that is a finding."""
    cases = [(1.0, 1.1), (1.04, 1.144), (1.04, 1.04), (0.97, 1.05)]
    with etq.open() as warehouse:
        ingest_all(warehouse, [capture for case in cases for capture in two_groups(*case)])
        query = "SELECT detail FROM compare_findings($base, $new) WHERE rule = 'two groups of ops'"
        found = {(a, b): warehouse.rows(query, base=f"side=base-{a}-{b}", new=f"side=new-{a}-{b}")[1] for a, b in cases}
    assert {case: len(rows) for case, rows in found.items()} == dict(zip(cases, (0, 1, 0, 1), strict=True))
    for case in ((1.04, 1.144), (0.97, 1.05)):
        percents = [float(each) for each in re.findall(r"-?[0-9.]+(?= %)", found[case][0][0])]
        assert percents == pytest.approx([100 * (factor - 1) for factor in case], abs=0.5)
