"""Evidence for the rule about idle devices: what the host does while a device is idle, and before and after all events
of the device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from etq.advice.contract import LONG, Claim
from etq.advice.trace_evidence import CALLS, LAUNCHING, SYNCHRONIZING, Evidence, Subject
from etq.advice.words import counted, percent, shortened, time

# Causes that first calls may explain, and causes whose time is longer because Python's functions are recorded.
_OF_FIRSTS: Final = (*CALLS, *LAUNCHING, "launching", "cpu_op", "data_loading")
_SLOWED: Final = (*LAUNCHING, "launching", "function", "after_synchronization", "low_use")
# The caller of a function is determined from this many of the function's longest calls.
_CALLS_READ: Final = 1000


class Outside(NamedTuple):
    """Time before or after all events of a device, and the shortest event of the host that covers half of it."""

    side: str
    ticks: int
    host: str | None


def op_of(evidence: Evidence, device: int | None, cause: str) -> tuple[str | None, int]:
    """Return the op with the most idle time of this device and cause, and that time."""
    query = f"""
        SELECT s.family, sum(i.ticks)::BIGINT AS ticks
        FROM {evidence.shared("idle")} AS i
        LEFT JOIN (
            SELECT p.period, arg_max(p.owner, p.ticks) AS owner
            FROM {evidence.shared("parts")} AS p
            WHERE p.cause = $cause
            GROUP BY p.period
        ) AS p ON p.period = i.gap
        JOIN (FROM device_events AS d WHERE d.capture_id = $key) AS d ON d.event_index = i.gap
        LEFT JOIN (FROM event_ticks AS e WHERE e.capture_id = $key) AS e ON e.event_index = d.op_index
        JOIN (FROM signatures AS s WHERE s.capture_id = $key) AS s
            ON s.signature_index = coalesce(p.owner, e.signature_index)
        WHERE i.cause = $cause AND i.device IS NOT DISTINCT FROM $device AND s.activity = 'op'
        GROUP BY s.family
        ORDER BY ticks DESC, s.family
        LIMIT 1
    """
    return next(iter(evidence.rows(tuple, query, device=device, cause=cause)), (None, 0))


def waits_of(evidence: Evidence, device: int | None) -> Counter[str | None]:
    """Return a device's idle time because the host waited for it, by the op that waits; None stands for calls outside
    ops.
    """
    query = f"""
        SELECT s.family, sum(i.ticks)::BIGINT
        FROM (
            FROM {evidence.shared("idle")} AS i
            WHERE i.cause IN ({", ".join(f"'{cause}'" for cause in SYNCHRONIZING)})
                AND i.device IS NOT DISTINCT FROM $device
        ) AS i
        ASOF LEFT JOIN (
            SELECT n.family AS label, t.start_ticks, t.op_index
            FROM signatures AS n
            JOIN trace_events AS t ON t.capture_id = n.capture_id AND t.event_signature = n.signature_index
            WHERE n.capture_id = $key AND n.activity = 'call' AND n.waits AND t.elapsed_ticks > 0
        ) AS c ON c.label = i.label AND row(i.start_ticks) >= row(c.start_ticks)
        LEFT JOIN (FROM event_ticks AS e WHERE e.capture_id = $key) AS o ON o.event_index = c.op_index
        LEFT JOIN (FROM signatures AS s WHERE s.capture_id = $key) AS s USING (signature_index)
        GROUP BY s.family
    """
    rows = evidence.rows(tuple, query, device=device)
    return Counter(dict(rows))


def awaited(evidence: Evidence, device: int | None, causes: Sequence[str]) -> tuple[Counter[str], Counter[str]]:
    """Return a device's idle time of these causes, in which launched events wait, by calls in which the host waits.

    The first result has the whole idle time, by the call in which the host waits for the end of these events, or of
    events that follow them without a gap. The second has only the part in which the host waits in that call.
    """
    query = f"""
        WITH gaps AS (
            SELECT g.next_index, g.start_ticks + g.ticks AS at_ticks,
                g.start_ticks + g.host_ticks AS launched_ticks,
                coalesce(lead(g.start_ticks) OVER (ORDER BY g.start_ticks), 9223372036854775807) AS end_ticks
            FROM {evidence.shared("gaps")} AS g
            WHERE g.device IS NOT DISTINCT FROM $device
        ),
        calls AS MATERIALIZED (
            SELECT n.family AS label, e.start_ticks, e.start_ticks + e.elapsed_ticks AS end_ticks
            FROM signatures AS n
            JOIN event_ticks AS e USING (capture_id, signature_index)
            WHERE n.capture_id = $key AND n.activity = 'call' AND n.waits AND e.elapsed_ticks > 0
        )
        SELECT c.label, sum(i.ticks)::BIGINT,
            sum(greatest(least(c.end_ticks, g.at_ticks) - greatest(c.start_ticks, g.launched_ticks), 0))::BIGINT
        FROM {evidence.shared("idle")} AS i
        JOIN gaps AS g ON g.next_index = i.gap
        ASOF JOIN calls AS c ON row(g.end_ticks) > row(c.start_ticks)
        WHERE i.cause IN ({", ".join(f"'{cause}'" for cause in causes)}) AND c.end_ticks > g.launched_ticks
        GROUP BY c.label
    """
    rows = evidence.rows(tuple, query, device=device)
    return Counter({label: ticks for label, ticks, _ in rows}), Counter({label: ticks for label, _, ticks in rows})


def _within_ops(evidence: Evidence) -> str:
    """Return the beginning of a query with three tables: `pieces` of a device's idle time of a cause; the `ops` of the
    trace; and `inner_ops`, the time and thread of the pieces that are in ops.
    """
    return f"""
        WITH pieces AS MATERIALIZED (
            SELECT p.name, p.at_ticks, p.ticks
            FROM {evidence.shared("parts")} AS p
            JOIN {evidence.shared("gaps")} AS g ON g.next_index = p.period
            WHERE p.cause = $cause AND g.device IS NOT DISTINCT FROM $device
        ),
        ops AS MATERIALIZED (
            SELECT s.signature_index, t.start_ticks, t.parent_index, t.thread_index, t.op_index IS NULL AS is_outer
            FROM (FROM trace_events AS i WHERE i.capture_id = $key) AS t
            JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = t.event_signature
            WHERE s.activity = 'op'
        ),
        inner_ops AS (
            SELECT p.ticks, p.at_ticks, o.thread_index
            FROM pieces AS p
            ASOF JOIN ops AS o ON o.signature_index = p.name AND row(p.at_ticks) >= row(o.start_ticks)
        ),
    """


def outermost(evidence: Evidence, device: int | None, cause: str) -> Counter[str]:
    """Return a device's idle time of a cause that is in outermost ops that launch nothing, by the names of these
    ops.
    """
    query = f"""
        {_within_ops(evidence)}
        outer_ops AS MATERIALIZED (
            SELECT o.signature_index, o.start_ticks, o.thread_index, s.family
            FROM ops AS o
            JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = o.signature_index
            WHERE o.is_outer
        ),
        launching AS (
            SELECT DISTINCT o.family
            FROM (
                SELECT t.thread_index, t.start_ticks AS at_ticks, t.op_index
                FROM (FROM trace_events AS i WHERE i.capture_id = $key) AS t
                JOIN (SELECT DISTINCT i.call_index FROM device_events AS i WHERE i.capture_id = $key) AS d
                    ON d.call_index = t.event_index
                WHERE t.op_index IS NOT NULL
            ) AS l
            ASOF JOIN outer_ops AS o ON o.thread_index = l.thread_index AND row(l.at_ticks) >= row(o.start_ticks)
        )
        SELECT o.family, sum(i.ticks)::BIGINT
        FROM inner_ops AS i
        ASOF JOIN outer_ops AS o ON o.thread_index = i.thread_index AND row(i.at_ticks) >= row(o.start_ticks)
        WHERE o.family NOT IN (SELECT n.family FROM launching AS n)
        GROUP BY o.family
    """
    return Counter(dict(evidence.rows(tuple, query, device=device, cause=cause)))


def broadcasts_buffers(evidence: Evidence) -> bool:
    """Whether DistributedDataParallel broadcasts buffers: the trace has annotations of both."""
    query = """
        SELECT count(DISTINCT CASE WHEN starts_with(s.label, 'DistributedDataParallel.forward') THEN 1
            WHEN regexp_matches(s.label, '^(nccl|gloo):broadcast') THEN 2 END)
        FROM signatures AS s WHERE s.capture_id = $key AND NOT s.on_device
    """
    return bool(evidence.rows(tuple, query)[0][0] == 2)


def around(evidence: Evidence, device: int | None, cause: str, names: Sequence[str | None]) -> tuple[str | None, float]:
    """Return the op, annotation or function that contains half of a device's idle time of a cause, and its share.

    It is an outermost op, or else the annotation or function around such an op. Names in `names` are left out.
    """
    query = f"""
        {_within_ops(evidence)}
        found AS (
            SELECT i.ticks, o.signature_index AS op, u.signature_index AS around
            FROM inner_ops AS i
            ASOF JOIN (FROM ops AS o WHERE o.is_outer) AS o
                ON o.thread_index = i.thread_index AND row(i.at_ticks) >= row(o.start_ticks)
            LEFT JOIN (FROM event_ticks AS e WHERE e.capture_id = $key) AS u ON u.event_index = o.parent_index
        )
        SELECT s.family, sum(f.ticks) / (SELECT sum(p.ticks) FROM pieces AS p) AS part
        FROM (
            SELECT f.op AS signature_index, f.ticks, 0 AS place FROM found AS f
            UNION ALL
            SELECT f.around, f.ticks, 1 FROM found AS f
        ) AS f
        JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = f.signature_index
        WHERE s.activity <> 'step'
        GROUP BY s.family, f.place
        HAVING part >= 0.5
        ORDER BY f.place, part DESC
    """
    found = evidence.rows(tuple, query, device=device, cause=cause)
    return next(((name, part) for name, part in found if name not in names), (None, 0.0))


def outside(evidence: Evidence, device: int | None) -> list[Outside]:
    """Return the time before a device's first event and after its last event, if it is a millisecond or more. Only time
    in steps counts, or, without steps, time of the recording.
    """
    query = f"""
        WITH whole AS MATERIALIZED (
            FROM _whole_steps($key, '{evidence.shared("launches")}', '{evidence.shared("steps")}')
        ),
        ran AS MATERIALIZED (
            SELECT min(w.start_ticks) AS first, max(w.end_ticks) AS last
            FROM {evidence.shared("launches")} AS w
            WHERE w.device IS NOT DISTINCT FROM $device
        ),
        sides AS MATERIALIZED (
            SELECT 'before its first event' AS side, min(s.start_ticks) AS start_ticks,
                any_value(r.first) AS end_ticks,
                sum(greatest(least(s.end_ticks, r.first) - s.start_ticks, 0))::BIGINT AS ticks
            FROM _merged_steps('whole') AS s CROSS JOIN ran AS r
            UNION ALL
            SELECT 'after its last event', any_value(r.last), max(s.end_ticks),
                sum(greatest(s.end_ticks - greatest(s.start_ticks, r.last), 0))::BIGINT
            FROM _merged_steps('whole') AS s CROSS JOIN ran AS r
        )
        SELECT o.side, o.ticks, (
            SELECT arg_min(n.label, (n.elapsed_ticks, -n.start_ticks))
            FROM (
                SELECT h.family AS label, e.elapsed_ticks, e.start_ticks
                FROM signatures AS h
                JOIN event_ticks AS e USING (capture_id, signature_index)
                WHERE h.capture_id = $key AND NOT h.on_device AND h.activity <> 'step'
                    AND h.purpose IS DISTINCT FROM 'profiler' AND e.elapsed_ticks >= {LONG // 2}
            ) AS n
            WHERE 2 * (
                    least(n.start_ticks + n.elapsed_ticks, o.end_ticks) - greatest(n.start_ticks, o.start_ticks)
                ) >= o.ticks
        )
        FROM sides AS o
        WHERE o.ticks >= {LONG}
    """
    rows = evidence.rows(tuple, query, device=device)
    return [Outside(*row) for row in rows]


def with_firsts(evidence: Evidence, claim: Claim, subject: Subject, text: str | None = None) -> Claim:
    """Add the number of recorded functions to a claim about time of the host. If first calls have half of the time, and
    later calls of the same names take much less, the claim becomes one about first calls, with this text.
    """
    spent, (_, whole) = sum(claim.times.values()), claim.whole
    if not spent or 100 * spent < claim.least * whole or not evidence.has_work:
        return claim
    if claim.cause in _SLOWED:
        claim = claim._replace(functions=evidence.functions[subject])
    first = evidence.firsts.get(subject) if claim.cause in _OF_FIRSTS else None
    if first is None or 2 * first.ticks < spent:
        return claim
    share = percent(100 * min(first.ticks / spent, 1))
    shown = (
        f"{share} of it in first calls, most in that of {shortened(first.name, 120)}: {time(first.first / 1e3, 'us')}, "
        f"where the median of {counted(first.calls, 'later call')} is {time(first.later / 1e3, 'us')}"
    )
    text = text or claim.text
    return claim._replace(
        text=text, cause="first_calls", times={"first_calls": spent}, evidence=[shown, *claim.evidence], functions=0
    )


def with_caller(evidence: Evidence, name: str) -> str:
    """Return the shortened name of what the host runs. For a library's function, add its caller: the innermost function
    or module around it that is not from a library. The caller is added if one name has half of the time.
    """
    told = shortened(name, 120)
    if not evidence.traits.has_functions:
        return told
    query = """
        SELECT s.signature_index, s.family, s.purpose IS NOT DISTINCT FROM 'library' FROM signatures AS s
        WHERE s.capture_id = $key AND s.activity IN ('python_function', 'module')
    """
    functions = evidence.rows(tuple, query)
    outer = [index for index, _, is_library in functions if not is_library]
    if all(family != name or not is_library for _, family, is_library in functions):
        return told
    query = """
        WITH RECURSIVE events AS (SELECT t.* FROM trace_events AS t WHERE t.capture_id = $key),
        chosen AS (
            SELECT t.event_index, t.parent_index, t.elapsed_ticks
            FROM events AS t
            JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = t.event_signature
            WHERE s.family = $name AND s.activity = 'python_function' AND t.elapsed_ticks > 0
        ),
        longest AS (FROM chosen AS c ORDER BY c.elapsed_ticks DESC, c.event_index LIMIT $most),
        callers AS (
            SELECT l.parent_index AS event_index, l.elapsed_ticks, NULL::BIGINT AS caller, 0 AS depth FROM longest AS l
            UNION ALL
            SELECT t.parent_index, c.elapsed_ticks,
                CASE WHEN list_contains($outer::BIGINT[], t.event_signature) THEN t.event_signature END, c.depth + 1
            FROM callers AS c
            JOIN events AS t ON t.event_index = c.event_index
            WHERE c.caller IS NULL AND c.depth < 200
        )
        SELECT s.family, sum(c.elapsed_ticks)::BIGINT AS ticks
        FROM callers AS c
        JOIN signatures AS s ON s.capture_id = $key AND s.signature_index = c.caller
        GROUP BY s.family
        HAVING 2 * ticks >= (SELECT sum(o.elapsed_ticks) FROM chosen AS o)
        ORDER BY ticks DESC, s.family
    """
    found = evidence.rows(tuple, query, name=name, most=_CALLS_READ, outer=outer)
    return f"{told}, called by {shortened(found[0][0], 120)}" if found else told
