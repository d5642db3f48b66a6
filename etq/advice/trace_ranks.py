"""The rules about a job's processes: time in communication, and the rank that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etq.advice.contract import Claim
from etq.advice.trace_evidence import Evidence
from etq.advice.words import counted, percent

RULE: Final = "communication"
_LEAST: Final = 10.0


def communication(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the steps' time in communication that no computation hides."""
    steps = evidence.steps
    if not steps or not steps.communication:
        return
    own = [each for each in evidence.waits if each.is_own]
    waited, moved = sum(each.waited for each in own), sum(each.transfer for each in own)
    cause, rank = evidence.told_rank()
    spent = steps.communication
    for_rank = round(spent * waited / (waited + moved)) if waited + moved else 0
    times = {"unknown": spent} if cause == "unknown" else {"rank": for_rank, "transfer": spent - for_rank}
    text = {
        "rank": f"Steps wait for other processes: rank {rank} comes last to collectives.",
        "transfer": "Steps transfer data between processes.",
        "unknown": "Steps communicate; a single rank does not show whether they wait for another or for the transfer.",
    }[cause]
    shown = ["ingest the traces of all ranks as one job, then etq show collective_waits tells"]
    if cause != "unknown":
        calls = counted(sum(each.calls for each in own), "collective")
        shown = [f"{percent(100 * waited / (waited + moved))} of the time in {calls} is waiting for the last rank"]
    word = "of the steps" if steps.are_written else "of the recording"
    yield Claim(RULE, text, None, cause, ("rank", rank), times, (word, steps.ticks), shown, _LEAST)


def late_rank(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim if other ranks wait for that of the trace."""
    others = [each for each in evidence.waits if not each.is_own and each.rank != each.last_rank]
    mine = next((each.rank for each in evidence.waits if each.is_own), None)
    late = [each for each in others if each.last_rank == mine]
    if not late:
        return
    most = max(late, key=lambda each: (each.waited, -each.rank))
    yield Claim(
        "late rank",
        f"Other processes wait for this one: rank {mine} comes last to collectives.",
        None,
        "rank",
        ("rank", str(mine)),
        {"rank": most.waited},
        (f"of the steps of rank {most.rank}, which waits longest", most.steps or 0),
        [f"in {counted(most.calls, 'collective')}; etq show collective_waits lists them"],
        _LEAST,
    )
