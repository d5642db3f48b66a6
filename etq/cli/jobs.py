"""Notes about the ranks of a job after its traces were ingested."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from etq.cli.messages import say
from etq.errors import counted

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

RANKS: Final = """
    SELECT c.name, try_cast(r.value AS BIGINT) AS rank, try_cast(w.value AS BIGINT) AS world_size
    FROM captures AS c
    JOIN labels AS j ON j.capture_id = c.capture_id AND j.key = 'job' AND j.value = $job
    LEFT JOIN labels AS r ON r.capture_id = c.capture_id AND r.key = 'rank'
    LEFT JOIN labels AS w ON w.capture_id = c.capture_id AND w.key = 'world_size'
    WHERE c.format = 'torch_trace'
    ORDER BY rank NULLS LAST, c.name
"""


def note_ranks(warehouse: Warehouse, job: str) -> None:
    """Print which ranks of a job are missing, double or unknown, on stderr."""
    rows = warehouse.rows(RANKS, job=job)[1]
    ranks = [(name, rank) for name, rank, _ in rows if rank is not None]
    sizes = sorted({size for _, _, size in rows if size is not None})
    notes = []
    double = {rank: (one, other) for (one, rank), (other, following) in pairwise(ranks) if rank == following}
    if double:
        example = " and ".join(next(iter(double.values())))
        which = example if len(double) == 1 else f"such as {example}"
        notes.append(f"{_ranks(double, 'has', 'have')} several traces, {which}, added up; give them different jobs")
    if unknown := len(rows) - len(ranks):
        traces = counted(unknown, "trace has", "traces have")
        notes.append(f"{traces} no rank; give it by --label-from 'rank{{rank}}.pt.trace.json.gz'")
    if len(sizes) > 1:
        notes.append(f"its traces are of jobs with {_listed([str(size) for size in sizes])} processes")
    elif sizes and ranks:
        missing = sorted({*range(min(sizes[0], MOST_RANKS))} - {rank for _, rank in ranks})
        if missing:
            notes.append(f"of {sizes[0]} processes, {_ranks(missing, 'is', 'are')} missing")
    for note in notes:
        say(f"Note: job {job}: {note}")


# More processes than any job has: a damaged file may claim any number.
MOST_RANKS: Final = 1_000_000


def _listed(texts: list[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]


def _ranks(numbers: Collection[int], one: str, several: str) -> str:
    """Return sorted numbers of ranks as text, neighbours as a range, with a verb: ranks 1, 4 to 7 and 9 are."""
    if len(numbers) == 1:
        return f"rank {next(iter(numbers))} {one}"
    known = [*numbers]
    starts = [at for at, number in enumerate(known) if not at or known[at - 1] != number - 1]
    spans = [known[start:end] for start, end in pairwise([*starts, len(known)])]
    ranges = _listed([str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans])
    return f"ranks {ranges} {several}"
