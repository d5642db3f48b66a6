"""The findings about traces, as rows of advice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from etq.advice import kernels, trace_evidence, traces
from etq.advice.collecting import Row, rows
from etq.advice.evidence import scale_of
from etq.advice.finding import Finding
from etq.advice.jobs import found_in
from etq.advice.shared import Jobs

if TYPE_CHECKING:
    import duckdb


def rows_of_trace(
    connection: duckdb.DuckDBPyConnection,
    key: int,
    jobs: Jobs | None = None,
    also: Callable[[trace_evidence.Evidence], None] | None = None,
) -> list[Row]:
    """Return the rows about a trace. `jobs` keeps evidence and findings that the ranks of a job share. `also` is called
    with the evidence.
    """
    query = "SELECT c.time_scale FROM captures AS c WHERE c.capture_id = ?"
    [(time_scale,)] = connection.execute(query, [key]).fetchall()
    return rows(trace_findings(connection, key, jobs, also), scale_of(time_scale, None))


def trace_findings(
    connection: duckdb.DuckDBPyConnection,
    key: int,
    jobs: Jobs | None = None,
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
