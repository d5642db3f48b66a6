"""What the ranks of a job share while advice about them is computed."""

from __future__ import annotations

from typing import NamedTuple

from etq.advice.finding import Finding


class Waits(NamedTuple):
    """The time that a rank waits in collectives for the last rank, and the time that the transfers take."""

    capture_id: int
    rank: int
    last_rank: int
    waited: int
    transfer: int


class Jobs:
    """The evidence and findings that the ranks of a job share, by the label job: the ranks' waits, and the findings
    about the job.
    """

    def __init__(self) -> None:
        self.waits: dict[str, list[Waits]] = {}
        self.findings: dict[str, list[Finding]] = {}
