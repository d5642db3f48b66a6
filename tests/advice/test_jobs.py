"""Advice about jobs: each planted fault is named, and nothing else is; what is decided of waits and transfers by hand."""

from __future__ import annotations

import re
from fractions import Fraction
from math import comb
from pathlib import Path
from statistics import median

import pytest

from etq.advice.job_evidence import _passed_on
from etq.advice.jobs import CLOCK, LATE, LINK, Judged, judged
from etq.verdicts.ranks import at_least, late_ranks, slow_groups
from etq.warehouse.ephemeral import open_ephemeral_jobs
from tests.job_traces import Faults, Job, job
from tests.sampling import IS_WHOLE, thinned


def found(made: Job, folder: Path) -> Judged:
    made.write(folder)
    ranks = {rank: folder / f"rank{rank}.pt.trace.json" for rank in made.ranks}
    with open_ephemeral_jobs({"train": ranks}) as warehouse:
        return judged(warehouse.connection, None)


@pytest.mark.long
@pytest.mark.parametrize("seed", thinned([1, 2, 3, 4, 5], [1]))
def test_three_faults_are_named(tmp_path: Path, seed: int) -> None:
    """A rank with a slow kernel, a slow link and a clock, each drawn: by name, with what was planted."""
    late, pair, clock = (2 * seed + 1) % 8, 2 * (seed + 2) % 8, (seed + 3) % 8
    made = job(seed, Faults(late=late, kernel="sm90_gemm", slow_pair=pair, clock=clock, ahead=-700))
    answer = found(made, tmp_path)
    by_rule = {finding.rule: finding for finding in answer.findings}
    assert [*by_rule] == [LATE, LINK, CLOCK] and len(answer.findings) == 3
    assert f"Other ranks wait for rank {late}, " in answer.sentence and "sm90_gemm" in answer.sentence
    assert f"Transfers among ranks {pair} and {pair + 1} take " in answer.sentence
    [ratio] = re.findall(r"take ([\d.]+) times as long as those of other groups of 2", answer.sentence)
    assert float(ratio) == pytest.approx(3, rel=0.05)
    assert re.search(rf"The clock of rank {clock} is (69\d|70\d) us behind the job's median", by_rule[CLOCK].text)
    # What others waited for the late rank: directly, or for its neighbour, which had waited for it.
    neighbour = late ^ 1
    direct = sum(waited for (_, rank, last), waited in made.waits.items() if last == late and rank != late)
    passed = sum(waited for (_, rank, last), waited in made.waits.items() if last == neighbour and rank != late)
    lost = (by_rule[LATE].ticks or 0) * 7 / 1000
    assert 0.97 * direct <= lost <= 1.03 * (direct + passed)


@pytest.mark.long
@pytest.mark.parametrize("seed", thinned([11, 12, 13, 14, 15, 16], [11]))
@pytest.mark.parametrize("size", [8, (2, 4), (4, 2)])  # fmt: skip
def test_nothing_is_named_without_faults(tmp_path: Path, seed: int, size: int | tuple[int, int]) -> None:
    ranks, steps = (size, 8) if isinstance(size, int) else size
    answer = found(job(seed, ranks=ranks, steps=steps), tmp_path)
    assert answer.findings == []
    assert re.fullmatch(rf"No rank (or link )?stands out of {ranks} ranks in {steps} steps.*", answer.sentence)


@pytest.mark.long
@pytest.mark.parametrize(
    ("faults", "words"),
    [
        (Faults(late=5, loading=2000), ["rank 5,", "Its data loader takes 2,0"]),
        (Faults(late=6, factor=1.2), ["rank 6,", "Its kernels take"]),
        (Faults(slow_pair=2), ["Transfers among ranks 2 and 3"]),
    ],
)
@pytest.mark.parametrize("seed", [21, 22, 23] if IS_WHOLE else [21])
def test_single_faults_are_named_alone(tmp_path: Path, faults: Faults, words: list[str], seed: int) -> None:
    answer = found(job(seed, faults), tmp_path)
    assert len(answer.findings) == 1 and all(word in answer.sentence for word in words)


@pytest.mark.long
@pytest.mark.parametrize(("among_all", "percent"), [(2.3, None), (4.0, "19 %")])
def test_a_link_that_carries_little_is_named(tmp_path: Path, among_all: float, percent: str | None) -> None:
    """By hand: an all-reduce among 8 sends 2 x 7/8 of its 64 MiB, of which an H100's NVLink carries 450 GB/s: 1.4 ms are
    19 % of that, 805 us 32 %; at stake is what the same bytes would not take at the full rate. All links are equal.
    """
    made = job(41, Faults(among_all=among_all), steps=4)
    answer = found(made, tmp_path)
    least = 2 * 7 / 8 * 2**26 / 450e9 * 1e6
    spent = made.transfers[0, 8]
    if percent is None:
        assert answer.findings == [] and least / median(spent) > 0.3
        return
    [finding] = answer.findings
    assert finding.rule == LINK and f"{100 * least / median(spent):.0f} %" == percent
    assert finding.text == f"Transfers of allreduce among 8 ranks reach {percent} of what their links carry."
    assert (finding.ticks or 0) / 1000 == pytest.approx(sum(spent) * (1 - least / median(spent)), rel=0.01)


@pytest.mark.long
def test_of_few_steps_it_is_said_that_it_may_be_chance(tmp_path: Path) -> None:
    """Two ranks, three steps: one is late in all, which happens by chance with 2 x (1/2)**3."""
    answer = found(job(31, Faults(late=1, kernel="sm90_gemm"), ranks=2, steps=3), tmp_path)
    [finding] = answer.findings
    assert finding.severity == "medium" and "p = 0.25" in finding.evidence
    assert "Other ranks wait for rank 1, " in finding.text
    assert finding.text.endswith("In 3 of 3 steps, this may be chance: record more.")


@pytest.mark.long
def test_waits_for_a_rank_without_a_trace_are_unknown(tmp_path: Path) -> None:
    """The others wait for the rank whose trace is missing, all of them equally long; waits of pairs are known."""
    made = job(41, Faults(late=5, loading=2000))
    del made.ranks[5]
    answer = found(made, tmp_path)
    assert answer.findings == []
    assert re.fullmatch(
        r"No rank or link stands out of 7 ranks in 8 steps, and 3 groups of links\. (\d+) % of their time is "
        r"communication that nothing hides: whether they wait for ranks without a trace \(5\) is unknown\.",
        answer.sentence,
    )


def test_a_late_rank_is_told_from_chance() -> None:
    """By fractions: of 4 ranks, one is it in all of 2 steps with 4 x (1/4)**2, in all of 3 with 4 x (1/4)**3."""
    for k, n, p in ((2, 2, Fraction(1, 4)), (3, 8, Fraction(1, 8)), (7, 10, Fraction(1, 2))):
        exact = sum(comb(n, at) * p**at * (1 - p) ** (n - at) for at in range(k, n + 1))
        assert at_least(k, n, float(p)) == pytest.approx(float(exact))
    [late] = late_ranks([{3: 100, 1: 10}] * 2, range(4), 50)
    assert late[:4] == (3, 200, 2, 2) and late.p == pytest.approx(0.25)
    [late] = late_ranks([{3: 100, 1: 10}] * 3, range(4), 50)
    assert late.rank == 3 and late.p == pytest.approx(4 / 64)
    # The second is told from those that are left: 3 x (1/3)**4.
    waits = [{3: 100, 1: 60}] * 4
    first, second = late_ranks(waits, range(4), 50)
    assert (first.rank, second.rank) == (3, 1)
    assert first.p == pytest.approx(4 / 256) and second.p == pytest.approx(3 / 81)
    assert late_ranks(waits, range(4), 401) == [] and late_ranks(waits, [3], 0) == []


def test_slow_groups_by_hand() -> None:
    """All 6 calls of one of 3 groups are longer than the others' median: 3 x (1/2)**6; 1.2 times is not enough."""
    others = {"a": [10.0, 11, 12, 10, 11, 12], "b": [11.0, 10, 12, 11, 10, 12]}
    [slow] = slow_groups({**others, "c": [30.0, 33, 36, 30, 33, 36]})
    assert slow[:3] == ("c", (33, 11), (6, 6)) and slow.p == pytest.approx(3 / 64)
    assert slow_groups({**others, "c": [13.0] * 6}) == []
    assert slow_groups({**others, "c": [30.0] * 5}) == [] and slow_groups({"a": [1.0]}) == []


def test_waits_are_passed_on_to_the_rank_that_is_late() -> None:
    """Rank 1 waited 30 for rank 2, and others 50 for rank 1: 30 of these are due to rank 2, none to itself."""
    pairs = {(1, 2): 30, (0, 1): 50, (2, 1): 40}
    # Rank 2 waited for rank 1 after that, 40 of which 30 come back to it; the wait of 1 for 2 is all due to 1, then.
    assert _passed_on({(1, 2): 30, (0, 1): 50}) == {(1, 2): 30, (0, 1): 20, (0, 2): 30}
    assert _passed_on(pairs) == {(0, 1): 20, (0, 2): 30, (2, 1): 10}
