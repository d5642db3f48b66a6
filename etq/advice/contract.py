"""Judges the claims of rules about a trace: a claim becomes a finding, or is dropped.

A finding names a cause only if times of that cause cover at least half of the claimed time; otherwise, it says that the
cause is unknown. Time between steps doesn't explain time within steps. A remedy belongs to a kind of thing. Each share
names its whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from etq.advice import remedies
from etq.advice.finding import Finding, at_most_medium, severity_of
from etq.advice.remedies import Stretch, Traits
from etq.advice.words import counted, percent, time

# A part is long if it has at least this many ticks. Launches, and the time between them, only take microseconds.
LONG: Final = 1_000_000
# If the profiler recorded at least one Python function per this many ticks, much of the time may be spent on recording.
_FUNCTION: Final = 20_000
# Causes of time outside steps. Such time is never added to time within steps.
APART: Final = ("between_steps", "not_recorded")
# By cause, the reason why no remedy is known.
_REASONS: Final = {
    **dict.fromkeys(("launch", "copy", "call"), "why these calls take so long isn't recorded"),
    **dict.fromkeys(("host", "step", "op_function", "launching"), "what takes so long there isn't recorded"),
}  # fmt: skip
# Causes whose text already says that no remedy is known.
_TOLD: Final = (*APART, "unknown", "unknown_wait", "communication", "blocking")
# Phrases for causes whose names don't fit into a sentence.
_WORDS: Final = {
    "host": "ops that launch", "step": "between ops", "op_function": "functions within ops",
    "cpu_op": "ops of the CPU", "function": "functions",
    "device": "devices", "wide": "devices", "unfused": "devices", "product": "devices",
    "wide_product": "devices", "wait": "waits", "launch": "calls that launch",
    "copy": "calls that copy", "call": "other calls", "blocking": "launches that wait",
}  # fmt: skip


class Claim(NamedTuple):
    """The statement of a rule, before its evidence is judged.

    rule         the rule
    text         the finding in a sentence, if the cause holds
    unexplained  the finding without its cause; None if the claim is dropped without a cause
    cause        what the rule says the time is spent on
    subject      what a remedy is for: its kind (op, step, annotation, module, function, call, wait, rank, device), and
                 its name
    times        the time that is claimed, by what it is spent on, in ticks
    whole        the whole that the share refers to, and its ticks
    evidence     further evidence
    places       the number of the time's parts, with the longest; '' if the rule itself states the share
    least        the share in percent below which there is no finding
    longest      the time of the longest part
    before       the time from the start of the recording to the longest part
    in_long      the time in parts that are long
    part         what the parts are: gaps, intervals or calls
    recorded     the time of the recording, if it may be more than the whole
    is_lost      whether the time is known to be lost; otherwise, severity is low
    besides      a second thing of the subject's kind, if the first doesn't have nearly all of the time
    functions    how many Python functions the profiler recorded within the time, if it is time of the host
    """

    rule: str
    text: str
    unexplained: str | None
    cause: str
    subject: tuple[str, str | None]
    times: Mapping[str, int]
    whole: tuple[str, int]
    evidence: Sequence[str] = ()
    places: str = ""
    least: float = 5.0
    longest: int = 0
    before: int = 0
    in_long: int = 0
    part: str = "gap"
    recorded: int = 0
    is_lost: bool = True
    besides: str | None = None
    functions: int = 0

    @property
    def is_slowed(self) -> bool:
        """Whether recording Python's functions may account for much of the time."""
        return is_slowed(sum(self.times.values()), self.functions)

    @property
    def stretch(self) -> Stretch:
        """Whether half of the time is in long parts, and the share of the longest part if that part alone has half of
        the time. A part with more than its own length before it isn't at the start of the program.
        """
        spent = sum(self.times.values())
        is_long = 0 < spent <= 2 * self.in_long
        is_once = self.longest >= max(LONG, self.before) and 2 * self.longest >= spent
        return Stretch(is_long, 100 * self.longest / spent if is_once else None, self.part)


def is_slowed(ticks: int, functions: int) -> bool:
    """Whether recording this many Python functions may account for much of a time of the host."""
    return 0 < ticks <= _FUNCTION * functions


def judged(claim: Claim, traits: Traits) -> Finding | None:
    """Return the finding that a claim's evidence supports; None if its share is too small."""
    word, whole = claim.whole
    times = {cause: ticks for cause, ticks in claim.times.items() if (cause in APART) == (claim.cause in APART)}
    spent = sum(times.values())
    share = 100 * spent / whole if whole > 0 else 0.0
    if spent <= 0 or share < claim.least:
        return None
    is_borne_out = 2 * times.get(claim.cause, 0) >= spent
    text = claim.text if is_borne_out else claim.unexplained
    if text is None:
        return None
    kind, name = claim.subject
    of_whole = (
        [f"{time(spent / 1e3, 'us')} of {time(whole / 1e3, 'us')} ({word}) in {claim.places}"] if claim.places else []
    )
    severity = severity_of(share, 100 * spent / max(whole, claim.recorded)) if claim.is_lost else "low"
    remedy = remedies.remedy(claim.cause, kind, name, traits, claim.stretch, claim.besides) if is_borne_out else ""
    reasons: list[str] = []
    if claim.is_slowed and claim.cause != "first_calls":
        recorded = f"the profiler recorded {counted(claim.functions, 'function')} of Python meanwhile"
        reasons = [f"{recorded}: these times are of a profiled run"]
        text = f"{text} Recording Python's functions slows the host."
        severity = at_most_medium(severity)
        remedy = remedies.without_stack(remedy)
    if severity == "high" and not remedy and is_borne_out and claim.cause not in _TOLD:
        reasons = [_REASONS[claim.cause]] if claim.cause in _REASONS else []
        severity = severity if reasons else "medium"
    return Finding(
        claim.rule,
        severity,
        text,
        "; ".join([*claim.evidence, *reasons, *of_whole, *([] if is_borne_out else [parts_of(times)])]),
        remedy,
        _cause(claim) if is_borne_out else None,
        spent,
        word,
        whole,
    )


def _cause(claim: Claim) -> str:
    """Return the cause by which findings are grouped. Each op or function that the host runs is a cause of its own."""
    kind, name = claim.cause, claim.subject[1]
    return f"{kind} {name}" if kind in ("cpu_op", "function") and name else kind


def parts_of(times: Mapping[str, int]) -> str:
    """Return the causes of a time with their shares, the largest first."""
    spent = sum(times.values())
    most = sorted(times.items(), key=lambda part: (-part[1], part[0]))[:3]
    return ", ".join(
        f"{_WORDS.get(cause, cause.replace('_', ' '))} {percent(100 * ticks / spent)}" for cause, ticks in most
    )
