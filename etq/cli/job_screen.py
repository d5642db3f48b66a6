"""The screen of `etq DIR` about a job: which rank the others wait for, in which collective, and other findings."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli.job_targets import Job, opened_job, opened_jobs
from etq.cli.jobs import note_ranks
from etq.cli.lines import next_commands, shown_size, wrapped
from etq.errors import counted, printable
from etq.render.table import shortened
from etq.render.terminal import TerminalStyle, style_of, width_of
from etq.render.times import quantities
from etq.render.writers import Output, write
from etq.verdicts.words import share_text

if TYPE_CHECKING:
    from etq.advice.finding import Finding
    from etq.advice.job_evidence import Clock, Rank, Ranks
    from etq.warehouse.warehouse import Warehouse

# How many ranks of a larger job are listed: half are the ranks that others wait for most, half the ranks that wait
# most.
_MOST_RANKS: Final = 8
_MOST: Final = 4
_LONGEST: Final = 44
_UNKNOWN: Final = "-"
# Proposed commands have fewer words than this.
_MOST_WORDS: Final = 12
_WAITS: Final = """
    SELECT list(w.rank ORDER BY w.rank), w.last_rank, w.collective, w.process_group, max(w.calls),
        fsum(w.waited) AS time, fsum(w.share_percent), count(*) OVER () AS number
    FROM rank_waits($selector, unit := 'ns') AS w
    GROUP BY w.last_rank, w.collective, w.process_group
    ORDER BY time DESC, w.last_rank, w.process_group, w.collective
    LIMIT $most
"""
# What the critical paths of all steps are spent on: ranks that work, and transfers.
_PATH: Final = """
    WITH parts AS MATERIALIZED (FROM job_critical_path($selector, unit := 'ns')),
    ops AS (
        SELECT p.kind, CASE p.kind WHEN 'transfer' THEN p.collective END AS collective,
            CASE p.kind WHEN 'transfer' THEN p.process_group END AS process_group,
            CASE WHEN p.kind <> 'transfer' THEN p.rank END AS rank, p.op, fsum(p.op_time) AS op_time,
            fsum(p.duration) AS time
        FROM parts AS p
        GROUP BY ALL
    )
    SELECT o.kind, o.collective, o.process_group, o.rank, fsum(o.time) AS time,
        100 * fsum(o.time) / (SELECT fsum(w.duration) FROM parts AS w) AS share,
        CASE WHEN 2 * max(o.op_time) >= fsum(o.time) THEN max_by(o.op, o.op_time) END AS op,
        (SELECT count(DISTINCT coalesce(w.step, -1)) FROM parts AS w) AS steps, count(*) OVER () AS number
    FROM ops AS o
    GROUP BY o.kind, o.collective, o.process_group, o.rank
    ORDER BY time DESC, o.kind, o.collective, o.process_group, o.rank
    LIMIT $most
"""
_COLLECTIVES: Final = """
    SELECT c.collective, c.process_group, c.group_size, c.message_bytes, c.kernels, c.waited, c.transfer, c.total,
        c.bus_bandwidth_gb_per_s, c.link_percent, c.reason, c.unit, count(*) OVER () AS number
    FROM collective_waits($selector, unit := 'ns') AS c
    ORDER BY coalesce(c.waited + c.transfer, c.total) DESC, c.process_group, c.collective
    LIMIT $most
"""
# The MFU of each rank, and whether it is a lower bound.
_EFFICIENCY: Final = """
    SELECT k.rank, e.mfu_percent, e.is_least
    FROM _job_ranks($selector, NULL) AS k JOIN _trace_efficiency AS e USING (capture_id)
    WHERE e.mfu_percent IS NOT NULL
"""
# The captures of ranks. For a few ranks in memory, this is computed first; for many, it would take long.
_KEYS: Final = "SELECT k.rank, k.capture_id FROM _job_ranks($selector, NULL) AS k"
_MOST_RATED: Final = 8
_OPS: Final = """
    SELECT o.rank, o.op, o.per_step, o.others, o.change_percent, o.unit
    FROM rank_ops($selector, unit := 'ns') AS o
    WHERE o.excess > 0 AND o.change_percent > 2
    LIMIT $most
"""


def lines_of_job(job: Job, shown: Sequence[str], db: str, style: TerminalStyle) -> Iterator[str]:
    """Yield the lines about a job; `shown` are the arguments that name it."""
    from etq.advice.jobs import judged

    with opened_job(job, db) as warehouse:
        with warehouse.locked() as connection:
            found = judged(connection, job.selector)
        name = " ".join(shown) if len(shown) == 1 else job.name
        yield from (style.styled(line, "bold") for line in wrapped(_title(found.of_job, name), "", style))
        yield ""
        yield from (style.styled(line, "bold") for line in wrapped(printable(found.sentence), "", style))
        yield from _ranks(warehouse, job, found.by_rank, style)
        yield from _waits(warehouse, job, style)
        yield from _path(warehouse, job, style)
        yield from _collectives(warehouse, job, style)
        yield from _ops(warehouse, job, style)
        if found.findings:
            yield from ("", style.styled("Advice", "bold"))
        for finding in found.findings:
            yield from _finding(finding, found.sentence, style)
        if found.of_job is not None and found.of_job.job is not None:
            note_ranks(warehouse, found.of_job.job)
    yield from _next(shown, db if job.selector is not None else None, style)


def rows_of_job(job: Job, db: str) -> list[list[Any]]:
    """Return the same as rows of a summary: part, name, method, value, low, high, share, unit, text."""
    from etq.advice.job_evidence import foremost
    from etq.advice.jobs import judged

    with opened_job(job, db) as warehouse:
        with warehouse.locked() as connection:
            found = judged(connection, job.selector)
        shares = _efficiencies(warehouse, job, foremost(found.by_rank, _MOST_RANKS))
    of_job = found.of_job
    if of_job is None:
        return []
    steps = None if of_job.step is None else of_job.step / 1000
    rows: list[list[Any]] = [
        ["job", job.name, None, of_job.ranks, None, None, None, "ranks", found.sentence],
        ["time", "step", None, steps, None, None, None, "us", f"median of {counted(of_job.steps or 0, 'step')}"],
        ["share", "waited", None, None, None, None, of_job.waited_percent, None, None],
        ["share", "exposed", None, None, None, None, of_job.exposed_percent, None, None],
    ]
    for rank in found.by_rank:
        text = None if rank.waited_for is None else f"others wait {_times([rank.waited_for])[0]} for it in a step"
        rows.append(["rank", str(rank.rank), None, rank.step / 1000, None, None, None, "us", text])
    for number, (mfu, is_least) in sorted(shares.items()):
        rows.append(
            ["share", f"MFU of rank {number}", None, None, None, None, mfu, None, "at least" if is_least else None]
        )
    for finding in found.findings:
        text = f"{finding.severity}: {finding.text}"
        rows.append(["advice", finding.rule, None, None, None, None, finding.share_percent, None, text])
    return rows


def show_advice(job: Job, db: str, output: Output, unit: str | None) -> None:
    """Print the findings about a job as rows of `advice`."""
    from etq import catalog
    from etq.advice.collecting import rows as rows_of
    from etq.advice.evidence import scale_of
    from etq.advice.filling import as_query
    from etq.advice.jobs import judged
    from etq.cli.messages import say

    with opened_job(job, db) as warehouse:
        with warehouse.locked() as connection:
            found = judged(connection, job.selector).findings
        query, rows = as_query(rows_of(found, scale_of("ns", unit)))
        parameters: dict[str, Any] = dict(rows)
        view = catalog.named("advice")
        if not write(warehouse, f"FROM ({query})", output, view=view, needs_rows=True, **parameters):
            say(f"etq advice has no rows: no rule of advice applies to job {job.name}")


def show_jobs(jobs: tuple[Job, Job], db: str, output: Output, unit: str | None) -> None:
    """Print two jobs side by side, rank by rank; for people, the sentence comes first."""
    from etq import catalog

    with opened_jobs(*jobs, db) as (warehouse, base, new):
        if output.is_to_read:
            for line in _of_two(warehouse, base, new, style_of(sys.stdout)):
                click.echo(line)
            click.echo()
        arguments: dict[str, Any] = {"base": base, "new": new, **({} if unit is None else {"unit": unit})}
        query = f"FROM compare_jobs({catalog.arguments(arguments)})"
        write(warehouse, query, output, view=catalog.named("compare_jobs"), **arguments)


def lines_of_jobs(jobs: tuple[Job, Job], shown: Sequence[str], db: str, style: TerminalStyle) -> Iterator[str]:
    """Yield what differs between two jobs."""
    with opened_jobs(*jobs, db) as (warehouse, base, new):
        yield from _of_two(warehouse, base, new, style)
    options = ["--db", db] if jobs[0].selector is not None else []
    yield from _commands(style, (["etq", "compare", *shown, *options], "rank by rank"))


def _of_two(warehouse: Warehouse, base: str, new: str, style: TerminalStyle) -> Iterator[str]:
    """Yield the sentence about two jobs."""
    from etq.advice.jobs import compared

    keys = [key for side in (base, new) for _, key in warehouse.rows(_KEYS, selector=side)[1]]
    if len(keys) <= _MOST_RATED:
        warehouse.complete_steps(keys)

    with warehouse.locked() as connection:
        text = compared(connection, base, new)
    yield from (style.styled(line, "bold") for line in wrapped(printable(text), "", style))


def _finding(finding: Finding, sentence: str, style: TerminalStyle) -> list[str]:
    """The lines of a finding; if the headline already states the finding, only what to do."""
    text = finding.remedy if finding.text in sentence else finding.text
    colour = {"high": "red", "medium": "yellow"}.get(finding.severity)
    first, *others = wrapped(printable(f"{finding.severity} {finding.rule}: {text}"), "  ", style)
    coloured = style.styled(finding.severity, colour) if colour else finding.severity
    return [first.replace(finding.severity, coloured, 1), *others]


def _title(of_job: Ranks | None, name: str) -> str:
    if of_job is None:
        return printable(f"{name}: a job without traces of ranks")
    size = of_job.world_size
    of = f" of {size:,}" if size is not None and size > of_job.ranks else ""
    time = "" if of_job.step is None else f" of {_times([of_job.step])[0]}"
    return printable(f"{name}: job of {counted(of_job.ranks, 'rank')}{of}, {counted(of_job.steps or 0, 'step')}{time}")


def _efficiencies(warehouse: Warehouse, job: Job, ranks: Sequence[Rank]) -> dict[int, tuple[float, bool]]:
    """Return the MFU of ranks in percent, where known, and whether it is a lower bound."""
    keys = dict(warehouse.rows(_KEYS, selector=job.selector)[1])
    warehouse.complete_steps([keys[rank.rank] for rank in ranks[:_MOST_RATED] if rank.rank in keys])
    return {rank: (mfu, is_least) for rank, mfu, is_least in warehouse.rows(_EFFICIENCY, selector=job.selector)[1]}


def _ranks(warehouse: Warehouse, job: Job, ranks: Sequence[Rank], style: TerminalStyle) -> Iterator[str]:
    """Yield a table of the ranks, with means of their steps."""
    from etq.advice.job_evidence import foremost

    if not ranks:
        return
    shown = foremost(ranks, _MOST_RANKS)
    yield from ("", style.styled("Ranks, mean of a step", "bold"))
    times = ("step", "computation", "exposed", "waited", "transfer", "waited_for")
    table = [
        [str(rank.rank) for rank in shown],
        *(_times([getattr(rank, name) for rank in shown]) for name in times),
        [f"{rank.last} of {rank.steps}" if rank.waited_for is not None else _UNKNOWN for rank in shown],
        [_clock(rank.clock) for rank in shown],
    ]
    heads = ["rank", "step", "computes", "exposed", "waits", "transfers", "waited for", "last in", "clock"]
    if shares := _efficiencies(warehouse, job, shown):
        found = [shares.get(rank.rank) for rank in shown]
        table.append([_UNKNOWN if each is None else share_text(*each) for each in found])
        heads.append("MFU")
    yield from _grid(heads, table)
    if len(ranks) > len(shown):
        yield f"  and {len(ranks) - len(shown)} more: etq show stragglers"


def _clock(clock: Clock | None) -> str:
    """How far a clock is ahead of the job's, with the deviation of single collectives."""
    if clock is None:
        return "unknown"
    return f"{clock.offset / 1000:+,.1f} ±{clock.spread / 1000:,.1f} us"


def _waits(warehouse: Warehouse, job: Job, style: TerminalStyle) -> Iterator[str]:
    """Yield which rank waits for which, and in which collective."""
    rows = warehouse.rows(_WAITS, selector=job.selector, most=_MOST)[1]
    if not rows:
        return
    yield from ("", style.styled("Who waits for whom, directly", "bold"))
    waiting = [f"rank {ranks[0]}" if len(ranks) == 1 else counted(len(ranks), "rank") for ranks, *_ in rows]
    pairs = [f"{which} for rank {row[1]}" for which, row in zip(waiting, rows, strict=True)]
    places = [printable(f"{counted(row[4], row[2])} of group {row[3]}") for row in rows]
    shares = [f"{row[6]:.0f} % of all" for row in rows]
    yield from _grid(["", "in all", "", "in"], [pairs, _times([row[5] for row in rows]), shares, places], left=(0, 3))
    if left := rows[0][7] - len(rows):
        yield f"  and {left} more: etq show rank_waits"


def _path(warehouse: Warehouse, job: Job, style: TerminalStyle) -> Iterator[str]:
    """Yield what the critical path of a step, from rank to rank, is spent on, with the ops that take half of a part."""
    rows = warehouse.rows(_PATH, selector=job.selector, most=_MOST)[1]
    if not rows:
        return
    yield from ("", style.styled("Critical path from rank to rank, mean of a step", "bold"))
    parts, ops = [], []
    for kind, collective, group, rank, _, _, op, *_ in rows:
        parts.append(printable(f"{collective} of group {group}" if kind == "transfer" else f"rank {rank}, {kind}"))
        ops.append("" if op is None else f"most in {printable(op)}")
    times = _times([row[4] / row[7] for row in rows])
    shares = [f"{row[5]:.0f} % of it" for row in rows]
    ops = [*shortened(ops, _LONGEST, style)]
    yield from _grid(["", "takes", "", ""], [parts, times, shares, ops], left=(0, 3))
    if left := rows[0][8] - len(rows):
        yield f"  and {left} more: etq show job_critical_path"


def _collectives(warehouse: Warehouse, job: Job, style: TerminalStyle) -> Iterator[str]:
    """Yield the collectives that take the most time, with waits, transfers, and the rates of links."""
    rows = warehouse.rows(_COLLECTIVES, selector=job.selector, most=_MOST)[1]
    if not rows:
        return
    yield from ("", style.styled("Collectives, all ranks together", "bold"))
    names = [
        printable(f"{collective} of group {group}, {size or _UNKNOWN} ranks") for collective, group, size, *_ in rows
    ]
    table = [
        [*shortened(names, _LONGEST, style)],
        [shown_size(size) if size else _UNKNOWN for _, _, _, size, *_ in rows],
        [str(row[4]) for row in rows],
        _times([row[5] for row in rows]),
        _times([row[6] for row in rows]),
        [f"{row[8]:,.3g} GB/s" if row[8] is not None else _UNKNOWN for row in rows],
        [f"{row[9]:.0f} %" if row[9] is not None else _UNKNOWN for row in rows],
    ]
    yield from _grid(["collective", "message", "kernels", "waits", "transfers", "bus", "of link"], table, left=(0,))
    if left := rows[0][12] - len(rows):
        yield f"  and {left} more: etq show collective_waits"
    reasons = {row[10] for row in rows if row[10] is not None}
    for reason in sorted(reasons):
        yield from wrapped(printable(f"{_UNKNOWN}: {reason}"), "  ", style)


def _ops(warehouse: Warehouse, job: Job, style: TerminalStyle) -> Iterator[str]:
    """Yield the kernels and ops on which a rank spends more time than the other ranks, the largest excess first."""
    rows = warehouse.rows(_OPS, selector=job.selector, most=_MOST)[1]
    if not rows:
        return
    yield from ("", style.styled("What a rank spends more on than others, in a step", "bold"))
    names = shortened([printable(op) for _, op, *_ in rows], _LONGEST, style)
    own, others = _times([row[2] for row in rows]), _times([row[3] for row in rows])
    changes = [f"+{row[4]:.0f} %" for row in rows]
    ranks = [f"rank {rank}" for rank, *_ in rows]
    yield from _grid(
        ["rank", "op", "takes", "of others", "change"], [ranks, [*names], own, others, changes], left=(0, 1)
    )


def _times(values: Sequence[float | None]) -> list[str]:
    """Return times in ns as texts, in one unit."""
    known = [value for value in values if value is not None]
    texts = iter(quantities(known, "ns") if known else [])
    return [_UNKNOWN if value is None else next(texts) for value in values]


def _grid(heads: Sequence[str], columns: Sequence[Sequence[str]], left: Sequence[int] = ()) -> Iterator[str]:
    """Yield lines of columns with their heads, right-aligned except those in `left`."""
    whole = [[head, *column] for head, column in zip(heads, columns, strict=True)]
    widths = [max(map(width_of, column)) for column in whole]
    for row in zip(*whole, strict=True):
        cells = [
            f"{cell}{' ' * (width - width_of(cell))}" if at in left else f"{' ' * (width - width_of(cell))}{cell}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield f"  {'  '.join(cells)}".rstrip()


def _next(shown: Sequence[str], db: str | None, style: TerminalStyle) -> Iterator[str]:
    """Yield the commands to type next about a job."""
    options = [] if db is None else ["--db", db]
    advice = (["etq", "advice", *shown, *options], "all findings, with evidence and remedies")
    report = (["etq", "report", *shown, *options, "--open"], "all of it, as a page")
    commands = [report, advice] if len(shown) == 1 else [report]
    if db is None:
        commands += [(["etq", "ingest", *shown, "--job", "NAME", "--db", "lab.duckdb"], "store the ranks")]
    else:
        commands += [(["etq", "show", "rank_steps", *shown, *options], "each step of each rank")]
    yield from _commands(style, *commands)


def _commands(style: TerminalStyle, *commands: tuple[Sequence[str], str]) -> Iterator[str]:
    """Return lines with the commands to type next, without those that are long because of many files."""
    return next_commands(style, *(each for each in commands if len(each[0]) < _MOST_WORDS))
