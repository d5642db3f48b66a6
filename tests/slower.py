"""Real captures with one op made slower, as a slower build would log them."""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import accumulate, groupby
from pathlib import Path

import etq
from tests.builders import ProfileEvent, Run, dump


def slower(source: Path, label: str, instruction: int | None, factor: float, every: int = 1) -> bytes:
    """A dump of the same runs in which an op takes `factor` times as long and later events are shifted; with `every`,
    only in one of that many runs.
    """
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
    runs = []
    for run_index, group in groupby(rows, key=lambda row: row[0]):
        events = list(group)
        longer = sorted(
            (end, round((factor - 1) * (end - start)))
            for _, _, _, named, _, of, _, _, start, end in events
            if named == label and instruction in (None, of) and run_index % every == 0
        )
        ends = [end for end, _ in longer]
        added = [0, *accumulate(more for _, more in longer)]
        runs.append(
            Run(
                events[0][1],
                tuple(
                    ProfileEvent(
                        name=name,
                        chain_index=chain,
                        instruction_id=-1 if of is None else of,
                        delegate_debug_id_int=-1 if number is None else number,
                        delegate_debug_id_str=text,
                        start_time=start + added[bisect_right(ends, start)],
                        end_time=end + added[bisect_right(ends, end)],
                    )
                    for _, _, name, _, chain, of, number, text, start, end in events
                ),
            )
        )
    return dump(*runs)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(slower(Path(sys.argv[1]), sys.argv[3], None, float(sys.argv[4])))
