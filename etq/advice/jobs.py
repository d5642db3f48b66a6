"""Advice about jobs: late ranks, for which others wait, and the cause; slow links; clocks that differ. Also words the
first sentence of a job's screen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from etq.advice.finding import Finding, at_most_medium, severity_of
from etq.advice.job_evidence import JobEvidence, Link, Part, Rank, Ranks
from etq.advice.words import counted, percent, shortened, time
from etq.selectors import JOB, selector_of
from etq.verdicts.ranks import ALPHA, Late, Slow, late_ranks, slow_groups
from etq.verdicts.words import share_text

if TYPE_CHECKING:
    import duckdb


LATE: Final = "late rank"
LINK: Final = "slow link"
CLOCK: Final = "clock offset"
# The least share of the steps, in percent, of waits and of transfers in findings. The limit for waits is that for other
# findings about time. The limit for transfers is lower, because a slow link costs all ranks time.
_LEAST_WAIT: Final = 5.0
_LEAST_TRANSFER: Final = 2.0
# If there are too few steps to exclude chance, a rank is still named if it causes at least this part of all waiting,
# and if the waiting is at least this share of the steps, in percent.
_NEARLY_ALL: Final = 0.75
_MUCH: Final = 10.0
# The smallest offset in a finding, in ns. Times of devices are converted to the host's clock with errors of some us.
_LEAST_OFFSET: Final = 10_000
# Messages of at least this size can reach a link's full rate. A share of that rate below this percentage is low.
_LARGE: Final = 16 * 2**20
_LITTLE: Final = 30.0
_LONGEST: Final = 48
# The parts of a step as words, and where the kernels or ops run that explain the part.
_PARTS: Final = {
    "kernel": ("its kernels", "device"),
    "memcpy": ("its copies", "device"),
    "memset": ("its fills", "device"),
    "runtime": ("its calls of the runtime", None),
    "data_loader": ("its data loader", None),
    "cpu_exec": ("its ops on the host", "host"),
    "other": ("what its host does between ops", None),
}
_SINGULAR: Final = ("data_loader", "other")
_REMEDIES: Final = {
    "kernel": "If all kernels are slower, check its device's clock and temperature; else compare their inputs.",
    "memcpy": "Compare what it copies with what other ranks copy.",
    "memset": "Compare what it fills with what other ranks fill.",
    "runtime": "Compare its calls of the runtime with those of other ranks.",
    "data_loader": "Give it a share of the data as large as others', and more workers.",
    "cpu_exec": "Look at its host: cores, affinity, other processes.",
    "other": "Look at its host: garbage collection, logging, work of this rank alone.",
    "": "Compare its steps with those of other ranks: etq show rank_ops.",
}


class Judged(NamedTuple):
    """The advice about a job: a sentence, findings with the most severe first, and their evidence."""

    sentence: str
    findings: list[Finding]
    of_job: Ranks | None
    by_rank: list[Rank]


def judged(connection: duckdb.DuckDBPyConnection, selector: str | None) -> Judged:
    """Return the advice about the job that a selector chooses; without a selector, about the only job of the
    database.
    """
    evidence = JobEvidence(connection, selector)
    try:
        slow = [*_slow_links(evidence)]
        late = _late_ranks(evidence, {rank for link, _ in slow for rank in link.ranks})
        of_late = [each for each in late if each.p <= ALPHA or _dominates(evidence, each)]
        found = [*(_of_late(evidence, each) for each in of_late), *(_of_link(evidence, *each) for each in slow)]
        found += [] if slow else _little(evidence)
        sentence = " ".join(each.text for each in found) or _nothing(evidence, late)
        return Judged(sentence, [*found, *_clocks(evidence)], evidence.of_job, evidence.by_rank)
    finally:
        evidence.drop()


def found_in(connection: duckdb.DuckDBPyConnection, job: str) -> list[Finding]:
    """Return the findings about a job, by its label."""
    return judged(connection, selector_of({JOB: job})).findings


def _late_ranks(evidence: JobEvidence, of_links: set[int]) -> list[Late]:
    """The ranks that others wait for. A rank of a slow link is included only if a part of its step makes it late."""
    steps = sum(evidence.ticks.values())
    if not steps:
        return []
    least = _LEAST_WAIT / 100 * steps / len(evidence.ticks)
    ranks = {
        rank
        for rank in evidence.ticks
        if rank not in of_links or _cause(evidence, rank, sum(of.get(rank, 0) for of in evidence.waits.values()))[0]
    }
    return [each for each in late_ranks(evidence.waits.values(), ranks, least) if _share(evidence, each) >= _LEAST_WAIT]


def _share(evidence: JobEvidence, late: Late) -> float:
    """How long ranks wait for this rank, in percent of the time of their steps."""
    return 100 * late.waited / max(_whole(evidence, late), 1)


def _dominates(evidence: JobEvidence, late: Late) -> bool:
    """Whether nearly all waiting is for this rank, and is long. Then the rank is named although this may be chance."""
    waited = sum(ticks for of_step in evidence.waits.values() for ticks in of_step.values())
    return late.waited >= _NEARLY_ALL * waited and _share(evidence, late) >= _MUCH


def _whole(evidence: JobEvidence, late: Late) -> float:
    """The time of the steps of those ranks that wait for this rank."""
    others = [ticks for rank, ticks in evidence.ticks.items() if rank != late.rank]
    return evidence.waiting.get(late.rank, 1) * sum(others) / max(len(others), 1)


def _cause(evidence: JobEvidence, rank: int, waited: float) -> tuple[str, Part | None]:
    """The part of the step on which a rank spends more than others, if the excess is at least half of the time that
    each of them waits for it.
    """
    parts = [part for part in evidence.beyond(rank, "part") if part.name in _PARTS]
    if not parts or not waited:
        return "", None
    of_step = waited / evidence.waiting.get(rank, 1) / max(len(evidence.waits), 1)
    return (parts[0].name, parts[0]) if 2 * parts[0].excess >= of_step else ("", None)


def _of_late(evidence: JobEvidence, late: Late) -> Finding:
    cause, part = _cause(evidence, late.rank, late.waited)
    share = _share(evidence, late)
    who = counted(evidence.waiting.get(late.rank, 1), "other rank")
    reason = f" {_reason(evidence, late.rank, cause, part)}" if part else " The cause isn't in its steps."
    waited = f"{who} waited {time(late.waited / 1e3, 'us')} for it in all"
    by = "in collectives that end together, also by waiting for a rank that waited for it (etq show rank_waits)"
    if not evidence.is_by_clocks:
        by = f"measured by time in collectives, because {_unclocked(evidence)} (etq show collective_waits says why)"
    often = f"longest in {late.steps} of {counted(late.of, 'step')}, by chance with {_p(late.p)}"
    severity = severity_of(share)
    is_sure = evidence.is_by_clocks and late.p <= ALPHA
    few = "" if late.p <= ALPHA else f" In {late.steps} of {counted(late.of, 'step')}, this may be chance: record more."
    return Finding(
        LATE,
        severity if is_sure else at_most_medium(severity),
        f"Other ranks wait for rank {late.rank}, for {percent(share)} of their steps.{reason}{few}",
        f"{waited}, {by}; {often}",
        _REMEDIES[cause],
        f"{LATE} {late.rank}",
        late.waited / evidence.waiting.get(late.rank, 1),
        "step time of those that wait",
        _whole(evidence, late) / evidence.waiting.get(late.rank, 1),
        ranks=(late.rank,),
    )


def _reason(evidence: JobEvidence, rank: int, cause: str, part: Part) -> str:
    """Return a sentence about the part of the step on which a late rank spends more time."""
    what, place = _PARTS[cause]
    takes = f"{what} {'takes' if cause in _SINGULAR else 'take'}"
    takes = f"{takes[0].upper()}{takes[1:]} {_beside(part)}"
    ops = [each for each in evidence.beyond(rank, "op") if each.place == place and each.excess > 0] if place else []
    more = sum(each.excess for each in ops)
    if ops and 2 * ops[0].excess >= more:
        return f"{takes}, most of that in {shortened(ops[0].name, _LONGEST)}: {_beside(ops[0])}."
    return f"{takes}, in {len(ops)} of them." if len(ops) > 1 else f"{takes}."


def _beside(part: Part) -> str:
    own, others = (time(ticks / 1e3, "us") for ticks in (part.per_step, part.others))
    return f"{own} a step, of others {others}"


def _slow_links(evidence: JobEvidence) -> Iterator[tuple[Link, Slow]]:
    """Yield groups whose transfers are slower than other groups' transfers and take enough of the steps."""
    kinds: defaultdict[object, dict[str, Link]] = defaultdict(dict)
    for link in evidence.links:
        kinds[link.collective, link.message_type, link.message_bytes, link.group_size][link.group] = link
    seen = set()
    for links in kinds.values():
        for slow in slow_groups({group: link.transfers for group, link in links.items()}):
            link = links[slow.group]
            if 100 * _lost(slow) >= _LEAST_TRANSFER * _of_ranks(evidence, link) and slow.group not in seen:
                seen.add(slow.group)
                yield link, slow


def _lost(slow: Slow) -> float:
    """Return how much longer a slow group's transfers take than other groups' transfers."""
    return (slow.times[0] - slow.times[1]) * slow.longer[1]


def _of_ranks(evidence: JobEvidence, link: Link) -> float:
    """The time of the steps of a group's ranks, a mean."""
    return sum(evidence.ticks.get(rank, 0) for rank in link.ranks) / max(len(link.ranks), 1)


def _of_link(evidence: JobEvidence, link: Link, slow: Slow) -> Finding:
    own, others = (time(ticks / 1e3, "us") for ticks in slow.times)
    lost, whole = _lost(slow), _of_ranks(evidence, link)
    ratio = f"{slow.times[0] / slow.times[1]:.1f}"
    return Finding(
        LINK,
        severity_of(100 * lost / whole),
        f"Transfers among ranks {_listed(link.ranks)} take {ratio} times as long as those of other groups of "
        f"{link.group_size}, with the same messages.",
        f"{_message(link)} in group {link.group}: {own}, of others {others}, without waits; longer than theirs in "
        f"{slow.longer[0]} of {slow.longer[1]} calls, by chance with {_p(slow.p)} (etq show collective_waits)",
        "Check the link among these devices, and what else uses it.",
        f"{LINK} {link.group}",
        lost,
        "step time of these ranks",
        whole,
        ranks=tuple(link.ranks),
    )


def _little(evidence: JobEvidence) -> list[Finding]:
    """A finding about large messages that are transferred at a small part of the link's rate."""
    found = []
    for link in evidence.links:
        whole, spent = _of_ranks(evidence, link), sum(link.transfers)
        is_little = link.percent is not None and link.percent < _LITTLE and (link.message_bytes or 0) >= _LARGE
        if not is_little or not whole:
            continue
        lost = spent * (1 - (link.percent or 0) / 100)
        if 100 * lost >= _LEAST_WAIT * whole:
            text = (
                f"Transfers of {link.collective} among {link.group_size} ranks reach {percent(link.percent or 0)} of "
            )
            found.append(
                Finding(
                    LINK,
                    at_most_medium(severity_of(100 * lost / whole)),
                    f"{text}what their links carry.",
                    f"{_message(link)} in group {link.group}, without waits (etq show collective_waits)",
                    "Check the links, and how the ranks communicate: NCCL_DEBUG=INFO shows it.",
                    f"{LINK} {link.group}",
                    lost,
                    "step time of these ranks",
                    whole,
                    ranks=tuple(link.ranks),
                )
            )
    return sorted(found, key=lambda finding: -(finding.ticks or 0))[:1]


def _clocks(evidence: JobEvidence) -> list[Finding]:
    """A finding about clocks whose difference from the job's median exceeds the estimate's error."""
    apart = [
        each for each in evidence.clocks if abs(each.offset) > 2 * each.spread and abs(each.offset) > _LEAST_OFFSET
    ]
    if not apart:
        return []
    most = max(apart, key=lambda each: abs(each.offset))
    offset, spread = time(abs(most.offset) / 1e3, "us"), time(most.spread / 1e3, "us")
    way = "ahead of" if most.offset > 0 else "behind"
    text = f"The clock of rank {most.rank} is {offset} {way} the job's median."
    if len(evidence.clocks) == 2:
        (one, offset_of_one, _), (other, offset_of_other, _) = evidence.clocks
        between = time(abs(offset_of_one - offset_of_other) / 1e3, "us")
        text = f"Clocks of ranks {one} and {other} differ by {between}."
    elif len(apart) > 1:
        ranks = _listed([each.rank for each in apart])
        most_of = f"that of rank {most.rank} most: it is {offset} {way} it"
        text = f"Clocks of ranks {ranks} differ from the job's median, {most_of}."
    return [
        Finding(
            CLOCK,
            "low",
            text,
            f"single collectives differ from this by {spread}, the median (etq show clock_offsets)",
            "Waits here use aligned clocks; align the clocks before you compare traces or logs of hosts.",
            CLOCK,
            ranks=tuple(sorted(each.rank for each in apart)),
        )
    ]


def compared(connection: duckdb.DuckDBPyConnection, base: str, new: str) -> str:
    """Return what differs between two jobs, in a sentence or more. Each is a single recording, so nothing is
    certain.
    """
    query = """
        SELECT c.rank, c.base, c.new, c.base_waited, c.new_waited, c.base_mfu_percent, c.new_mfu_percent,
            coalesce(c.base_mfu_is_least, false), coalesce(c.new_mfu_is_least, false), c.base_computation,
            c.new_computation, c.note
        FROM compare_jobs($base, $new, 'us') AS c
    """
    rows = connection.execute(query, {"base": base, "new": new}).fetchall()
    if not rows or rows[0][1] is None or rows[0][2] is None:
        return "The jobs have no steps to compare."
    (_, before, after, waited_before, waited_after, *of_efficiency, _, _, _), *ranks = rows
    texts = [f"Steps take {_change(before, after)}."]
    pairs = [(rank, old, young) for rank, *_, old, young, note in ranks if note is None and old]
    if pairs:
        rank, old, young = max(pairs, key=lambda pair: abs(pair[2] - pair[1]))
        if 2 * abs(young - old) >= abs(after - before) and abs(young - old) >= _LEAST_WAIT / 100 * old:
            texts.append(f"Most of the difference in kernels is at rank {rank}: {_change(old, young)}.")
    if waited_before is not None and waited_after is not None:
        texts.append(f"A rank waits for {time(waited_after, 'us')} of a step; before, for {time(waited_before, 'us')}.")
    old_share, new_share, is_least_before, is_least = of_efficiency
    if old_share is not None and new_share is not None:
        shares = f"{share_text(new_share, is_least)}; before, {share_text(old_share, is_least_before)}"
        texts.append(f"The mean MFU of a rank is {shares}.")
    if missing := [rank for rank, *_, note in ranks if note is not None]:
        texts.append(f"{counted(len(missing), 'rank')} of one job only: {_listed(missing)}.")
    return " ".join([*texts, "One recording of each job shows at most a possible difference: take 3 each, in turns."])


def _change(before: float, after: float) -> str:
    return f"{time(after, 'us')} instead of {time(before, 'us')} ({100 * (after - before) / before:+.1f} %)"


def _nothing(evidence: JobEvidence, late: Sequence[Late]) -> str:
    """The sentence if nothing stands out. It says what was compared, or why nothing could be compared."""
    of_job = evidence.of_job
    if of_job is None or not of_job.steps:
        return "No step of a rank is known."
    if of_job.ranks < 2:
        return "One rank of a job: only the traces of other ranks show which rank it waits for."
    if of_job.waited_by is None:
        return "Waits are unknown: the traces have no collective that all ranks are known to end together."
    if late:
        [*_, most] = late
        return (
            f"Other ranks wait for rank {most.rank}, for {percent(_share(evidence, most))} of their steps, longest in "
            f"{most.steps} of {counted(most.of, 'step')}, which may be chance ({_p(most.p)})."
        )
    groups = len({link.group for link in evidence.links})
    links = f", and {counted(groups, 'group')} of links" if groups > 1 else ""
    compared = f"{counted(of_job.ranks, 'rank')} in {counted(of_job.steps or 0, 'step')}{links}"
    text = f"No rank{' or link' if groups > 1 else ''} stands out of {compared}"
    if of_job.missing_ranks:
        exposed = percent(of_job.exposed_percent or 0.0).capitalize()
        return (
            f"{text}. {exposed} of their time is communication that nothing hides: whether they wait for ranks without "
            f"a trace ({of_job.missing_ranks}) is unknown."
        )
    by = "" if evidence.is_by_clocks else ", measured by time in collectives, because clocks don't show the waits"
    return f"{text}: ranks wait for {percent(of_job.waited_percent or 0.0)} of their steps{by}."


def _unclocked(evidence: JobEvidence) -> str:
    """Why waits aren't known by clocks."""
    is_partial = evidence.of_job is not None and evidence.of_job.missing_ranks is not None
    return "traces of ranks are missing" if is_partial else "clocks don't show the waits"


def _message(link: Link) -> str:
    size = f" of {link.message_bytes / 2**20:,.3g} MiB" if link.message_bytes else ""
    return f"{counted(len(link.transfers), link.collective)}{size}"


def _listed(ranks: Sequence[int], most: int = 8) -> str:
    shown = [str(rank) for rank in ranks[:most]]
    if len(ranks) > most:
        return f"{', '.join(shown)} and {len(ranks) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
