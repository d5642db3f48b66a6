"""The rule about a job's processes: time in communication, and the rank that others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from etq.advice.contract import Claim
from etq.advice.trace_evidence import SHORT, Evidence, SmallCollectives
from etq.advice.words import counted, percent, time

RULE: Final = "communication"
_LEAST: Final = 10.0
# At least this number of short collectives are many.
_MANY: Final = 100


def communication(evidence: Evidence) -> Iterator[Claim]:
    """Yield a claim about the time of steps in communication that doesn't overlap with computation."""
    steps = evidence.steps
    if not steps or not steps.communication:
        return
    own = evidence.own_waits
    waited, moved = sum(each.waited for each in own), sum(each.transfer for each in own)
    cause, rank = evidence.told_rank()
    spent = steps.communication
    for_rank = round(spent * waited / (waited + moved)) if waited + moved else 0
    late = f"rank {rank} comes" if rank else "several come"
    times = {cause: spent} if cause == "communication" else {"rank": for_rank, "transfer": spent - for_rank}
    text = {
        "rank": f"Steps wait for other processes: {late} last to collectives.",
        "transfer": "Steps transfer data between processes.",
        "communication": "Steps communicate; one rank does not show whether they wait for another or for the transfer: "
        "ingest all ranks as one job.",
    }[cause]
    word = "step time" if steps.are_known else "recording"
    where = "while devices compute nothing" if evidence.has_work else "on the host"
    shown = f"{percent(100 * spent / steps.ticks)} of the {word} is in communication {where}"
    small = evidence.small_collectives
    # A long collective may wait for another rank.
    is_small = small.number >= _MANY and 2 * small.ticks >= small.all_ticks and cause != "rank"
    listed = [_listed(small)] if is_small else []
    kind = "small" if is_small else "rank"
    # If hardly any of this time is on this rank's path, other ranks may still wait for the transfers.
    path = evidence.communication_path if evidence.has_work and evidence.device_path is not None else spent
    is_beside = cause == "communication" and 10 * path < spent
    beside = [f"{time(path / 1e3, 'us')} of it on the critical path of this rank"] if is_beside else []
    yield Claim(
        RULE, text, None, cause, (kind, rank), times, (word, steps.ticks), [shown, *beside, *listed], least=_LEAST,
        is_lost=not is_beside,
    )  # fmt: skip


def _listed(small: SmallCollectives) -> str:
    """Return text with the number of short collectives, and their part of the time of all collectives."""
    share = percent(100 * small.ticks / small.all_ticks)
    return (
        f"{small.number:,} of {counted(small.all, 'collective')} take at most {SHORT / 1e3:.0f} us, {share} of the time"
    )
