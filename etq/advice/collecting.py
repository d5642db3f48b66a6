"""Collects the findings about captures: one per cause, the most severe first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from etq import catalog
from etq.advice import kernels, trace_evidence, traces
from etq.advice.dumps import findings_of
from etq.advice.evidence import Scale, evidence_of, scale_of
from etq.advice.finding import SEVERITIES, Finding
from etq.advice.jobs import found_in
from etq.database.clocks import write_clocks
from etq.database.rollups import answered_times

if TYPE_CHECKING:
    import duckdb

TRACE: Final = "torch_trace"
# The columns of the rows of advice.
COLUMNS: Final = tuple(column.name for column in catalog.named("advice").columns)
Row = tuple[Any, ...]
_IDLE: Final = "device idle"
_PATH: Final = "critical path"


class Given(NamedTuple):
    """The arguments of `advice` after the capture. For a trace, arguments about runs have no effect."""

    unit: str | None = None
    steps: str | None = None
    phase: str | None = None
    method: str | None = None
    runs: str = "typical"


DEFAULT: Final = Given()


def rows_of(connection: duckdb.DuckDBPyConnection, key: int, given: Given = DEFAULT) -> list[Row]:
    """Compute the rows of `advice` about a capture anew, with the columns `COLUMNS`. The caller has checked `given`."""
    query = "SELECT c.format FROM captures AS c WHERE c.capture_id = ?"
    if connection.execute(query, [key]).fetchall() == [(TRACE,)]:
        return rows_of_trace(connection, key, given.unit)
    with _chosen(connection, key, given):
        return rows_of_dumps(connection, key, key, given).get(key, [])


def rows_of_trace(
    connection: duckdb.DuckDBPyConnection,
    key: int,
    unit: str | None = None,
    jobs: trace_evidence.Jobs | None = None,
    also: Callable[[trace_evidence.Evidence], None] | None = None,
) -> list[Row]:
    """Return the rows about a trace. Texts have the default unit. `jobs` keeps evidence and findings that the ranks of
    a job share. `also` is called with the evidence.
    """
    query = "SELECT c.time_scale FROM captures AS c WHERE c.capture_id = ?"
    [(time_scale,)] = connection.execute(query, [key]).fetchall()
    return rows(trace_findings(connection, key, jobs, also), scale_of(time_scale, unit))


def trace_findings(
    connection: duckdb.DuckDBPyConnection,
    key: int,
    jobs: trace_evidence.Jobs | None = None,
    also: Callable[[trace_evidence.Evidence], None] | None = None,
) -> list[Finding]:
    """Return the findings about a trace, unordered. `jobs` and `also` are as in `rows_of_trace`."""
    evidence = trace_evidence.Evidence(connection, key, jobs)
    try:
        found = [*traces.findings(evidence), *kernels.findings(evidence), *_of_job(connection, evidence)]
        if also is not None:
            also(evidence)
        return found
    finally:
        evidence.drop()


def _of_job(connection: duckdb.DuckDBPyConnection, evidence: trace_evidence.Evidence) -> list[Finding]:
    """Return the findings about a trace's job that concern the trace's rank."""
    own = next((each.rank for each in evidence.own_waits), None)
    if own is None or evidence.job is None:
        return []
    known = evidence.jobs.findings
    if evidence.job not in known:
        known[evidence.job] = found_in(connection, evidence.job)
    return [finding for finding in known[evidence.job] if own in finding.ranks]


def rows_of_dumps(
    connection: duckdb.DuckDBPyConnection, first: int, last: int, given: Given = DEFAULT
) -> Mapping[int, list[Row]]:
    """Return the rows about each dump from one key up to another. Call this within `answered_times`."""
    with _steady(connection, given.runs):
        found = evidence_of(connection, first, last, given.unit, runs=given.runs)
    return {key: rows(findings_of(evidence), evidence.scale) for key, evidence in found.items()}


@contextmanager
def _chosen(connection: duckdb.DuckDBPyConnection, key: int, given: Given) -> Iterator[None]:
    """Within the block, provide the times of a dump, and the executes of the chosen runs."""
    write_clocks(connection, key, key)
    with answered_times(connection, key, key):
        if (given.steps, given.phase, given.method) != (None, None, None):
            chosen = "SELECT r.run_index FROM _selected_runs(?, ?, ?, ?, 'all') AS r"
            connection.execute(
                f"DELETE FROM _filled_runs WHERE run_index NOT IN ({chosen})",
                [key, given.steps, given.phase, given.method],
            )
        yield


@contextmanager
def _steady(connection: duckdb.DuckDBPyConnection, runs: str) -> Iterator[None]:
    """Within the block, provide `_advised_times`: the times of the runs to which shares refer."""
    connection.execute(
        f"""
        CREATE OR REPLACE TEMP VIEW _advised_times AS
        SELECT t.*, x.scope FROM _filled_times AS t
        JOIN _filled_runs AS x USING (capture_id, run_index)
        WHERE {"x.is_typical" if runs == "typical" else "true"}
        """
    )
    try:
        yield
    finally:
        connection.execute("DROP VIEW IF EXISTS _advised_times")


def rows(findings: Iterable[Finding], scale: Scale) -> list[Row]:
    """Return findings as rows, the most severe first, one per cause."""
    kept = sorted(distinct([*findings]), key=_place)
    return [
        (
            *(finding.rule, finding.severity, finding.text, finding.evidence),
            None if finding.ticks is None else scale.of(finding.ticks),
            finding.share_percent,
            None if finding.share_percent is None or finding.whole is None else finding.whole.removeprefix("of "),
            finding.remedy,
            None if finding.ticks is None else scale.unit,
        )
        for finding in kept
    ]


def distinct(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings to keep. If several rules have findings with the same cause, keep those of the rule with the
    most time.

    Findings about idle devices are always kept. If idle time is a fifth of the whole, they replace other findings with
    the same cause. A finding about low utilization is dropped if idle time is a fifth, or if the host has half of the
    critical path, because these say why.
    """
    shares = [finding.share_percent or 0.0 for finding in findings if finding.rule == _IDLE]
    of_host = [finding.share_percent or 0.0 for finding in findings if finding.rule == _PATH and _is_of_host(finding)]
    tells_why = max(shares, default=0.0) >= 20 or max(of_host, default=0.0) >= 50

    def rank(finding: Finding) -> tuple[bool, float, str]:
        share = finding.share_percent
        is_first = finding.rule == _IDLE and share is not None and share >= 20
        return not is_first, float("inf") if share is None else -share, finding.rule

    first = {finding.cause: finding for finding in sorted(findings, key=rank, reverse=True)}
    return [
        finding
        for finding in findings
        if not (finding.rule == "gpu utilization" and tells_why)
        and (finding.rule == _IDLE or finding.cause is None or finding.rule == first[finding.cause].rule)
    ]


def _is_of_host(finding: Finding) -> bool:
    """Whether a finding about the critical path names what the host does."""
    return finding.cause is not None and finding.cause.split(" ")[0] in trace_evidence.OF_HOST


def _place(finding: Finding) -> tuple[int, float, str, str]:
    share = finding.share_percent
    return SEVERITIES.index(finding.severity), float("-inf") if share is None else -share, finding.rule, finding.text
