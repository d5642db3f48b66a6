"""Real captures with ops made slower, as a slower build would log them."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import etq
from tests.builders import ProfileEvent, Run, dump

# A label and an instruction, or any instruction.
Op = tuple[str, int | None]


def runs_of(source: Path) -> list[list[Any]]:
    """The events of each run of a dump."""
    query = """
        SELECT e.run_index, r.name AS run, e.name, e.label, e.chain_index, e.instruction_id, e.delegate_debug_id,
            e.delegate_debug_str, e.start_ticks, e.end_ticks
        FROM events AS e
        JOIN runs AS r ON r.capture_id = e.capture_id AND r.run_index = e.run_index
        ORDER BY e.run_index, e.event_index
    """
    with etq.open() as warehouse:
        warehouse.ingest(source)
        rows = warehouse.rows(query)[1]
    return [list(group) for _, group in groupby(rows, key=lambda row: row[0])]


def slower_run(events: Sequence[Any], ops: Collection[Op], factor: float, everything: float = 1.0) -> Run:
    """A run in which ops take `factor` times as long and later events are shifted, and all `everything` times."""
    longer = sorted(
        (end, round((factor - 1) * (end - start)))
        for _, _, _, label, _, at, _, _, start, end in events
        if (label, at) in ops or (label, None) in ops
    )
    ends = [end for end, _ in longer]
    added = [0, *accumulate(more for _, more in longer)]
    return Run(
        events[0][1],
        tuple(
            ProfileEvent(
                name=name, chain_index=chain, instruction_id=-1 if at is None else at,
                delegate_debug_id_int=-1 if number is None else number, delegate_debug_id_str=text,
                start_time=round(everything * (start + added[bisect_right(ends, start)])),
                end_time=round(everything * (end + added[bisect_right(ends, end)])),
            )
            for _, _, name, _, chain, at, number, text, start, end in events
        ),
    )  # fmt: skip


def slower(source: Path, label: str, instruction: int | None, factor: float, every: int = 1) -> bytes:
    """A dump of the same runs in which an op takes `factor` times as long; with `every`, only in one of that many."""
    op = {(label, instruction)}
    return dump(*(slower_run(events, op if events[0][0] % every == 0 else (), factor) for events in runs_of(source)))


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(slower(Path(sys.argv[1]), sys.argv[3], None, float(sys.argv[4])))
