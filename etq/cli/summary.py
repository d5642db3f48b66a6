"""`etq FILE...`: what files are, and the most important facts about them, on one screen."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from etq.analysis.efficiency import efficiency_of
from etq.analysis.formats import TRACE, stored_rows
from etq.cli import main
from etq.cli.job_targets import found_job, found_jobs
from etq.cli.lines import next_commands, shown_size, wrapped
from etq.cli.options import as_output, file_output_options, warehouse_option
from etq.cli.targets import FileOptions, file_options, is_file, is_warehouse, open_target, open_unrun, pop_file_options
from etq.errors import EtqError, counted, printable
from etq.render.table import VERDICT_STYLES, Rows, shortened
from etq.render.terminal import TerminalStyle, bar, width_of
from etq.render.times import quantities
from etq.render.writers import Output, write_rows
from etq.verdicts.words import share_text

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

NAMES: Final = {
    "etdump": "ETDump",
    TRACE: "PyTorch trace",
    "prof_result": "prof_result file",
    "reference": "capture of reference values",
}
# The option for each kind of file that belongs to a capture.
LINKS: Final = {"ETRecord": "etrecord", "program": "pte"}
WAREHOUSE: Final = "warehouse"
FOLDER: Final = "folder"
_MOST: Final = 5  # ops
_MOST_FINDINGS: Final = 2
_BAR: Final = 24
_LONGEST_NAME: Final = 40
_MOST_OPS_OF_LINK: Final = 10
_CAPTURE: Final = """
    SELECT
        k.size_bytes, k.profiling_level,
        (SELECT string_agg(l.key || '=' || l.value, ', ' ORDER BY l.key) FROM labels AS l
         WHERE l.capture_id = k.capture_id),
        k.record_id IS NOT NULL
    FROM captures AS k WHERE k.capture_id = $capture
"""
_HEADLINE: Final = """
    SELECT h.number, h.part, h.value, h.mean, h.low, h.high, h.runs, h.unit
    FROM {rows} AS h
    WHERE h.value > 0
"""
# The smallest difference between the mean of steps and that of their annotations that is reported.
_DIFFERS: Final = 0.01
_RUNS: Final = "SELECT 1 FROM runs AS r WHERE r.capture_id = $capture LIMIT 1"
# Whether torch.compile compiled, or graphs were captured: this query takes less time than the query for the durations.
_COMPILES: Final = """
    SELECT 1 FROM signatures AS s
    WHERE s.capture_id = $capture AND NOT s.on_device
        AND (_is_compilation(s.purpose) OR s.purpose LIKE 'graph_%' AND _is_capture(s.purpose, s.label))
    LIMIT 1
"""
_COMPILATION: Final = """
    SELECT fsum(c.time), fsum(c.graph_capture), fsum(c.inductor), fsum(c.aot_autograd), fsum(c.dynamo),
        fsum(c.autotuning), fsum(c.step_time)
    FROM compilation($capture) AS c
"""
# How many compilations are recompilations, among those for which this is known.
_RECOMPILATIONS: Final = """
    SELECT count(*) FILTER (WHERE c.recompilation > 0), count(c.recompilation) FROM compilations($capture) AS c
    WHERE NOT c.is_backward
    HAVING count(*) FILTER (WHERE c.recompilation > 0) > 0
"""
# The smallest reported share of the time of compilation, or of captures.
_COMPILED: Final = 0.01
# The note on the mean of a figure.
_MEANT: Final = {
    "execute": "of these runs, which the parts below add up to",
    "step": "of these steps, as the times below",
}
# Whether the events of a capture have modules.
_IS_LINKED: Final = """
    SELECT 1 FROM captures AS k JOIN records AS r ON r.record_id = k.record_id
    WHERE k.capture_id = $capture AND r.is_complete
"""
# The titles and queries of lists of times: name, method, time, share, unit, executes or steps, and the total outside of
# these. The first list with rows is shown. Traces without steps have sums.
_OPS: Final = {
    "Mean time{} by op, and % of {}": """
        SELECT o.op, o.method, coalesce(o.per_execute, o.total), o.share_percent, o.unit, nullif(o.executes, 0), NULL
        FROM {rows} AS o WHERE o.share_percent > 0
    """
}
_MODULES: Final = {
    "Mean self time{} by module, and % of {}": """
        SELECT CASE m.module_path WHEN '' THEN '(model)' ELSE m.module_path END, m.method, fsum(m.per_execute),
            fsum(m.share_percent), any_value(m.unit), any_value(m.executes), NULL
        FROM module_ops($capture) AS m
        GROUP BY m.module_path, m.method
        HAVING sum(m.self_ticks) > 0
        QUALIFY bool_or(m.module_path <> '' AND NOT starts_with(m.module_path, '(')) OVER ()
        ORDER BY sum(m.self_ticks) DESC, m.method, m.module_path
    """
}
_OPS_OF_TRACES: Final = {
    "Time of devices{} by family of kernels, and % of {}": """
        SELECT coalesce(k.family, '(unknown)'), NULL, coalesce(k.per_step, k.total), k.share_percent, k.unit, k.steps,
            sum(k.outside_steps) OVER ()
        FROM kernel_families($capture) AS k
    """,
    "Self time of the host's threads{} by op, waits included, and % of {}": """
        SELECT k.name, NULL, coalesce(k.self_cpu_per_step, k.self_cpu_time),
            coalesce(k.self_cpu_step_percent, k.self_cpu_percent) AS share, k.unit, k.steps,
            sum(k.cpu_outside_steps) OVER ()
        FROM key_averages($capture, include_python_functions := false) AS k
        QUALIFY share > 0 ORDER BY share DESC, k.name
    """,
}
_ALLOCATED: Final = """
    SELECT coalesce(m.allocator, '(unnamed)'), max(m.largest_run_bytes) FROM {rows} AS m
    WHERE m.largest_run_bytes > 0 GROUP BY ALL ORDER BY 2 DESC, 1
"""
_HAS_MEMORY: Final = "SELECT 1 FROM trace_memory AS m WHERE m.capture_id = $capture LIMIT 1"
# Devices with the numbers that their kernels have, as elsewhere on the screen.
_PEAKS: Final = """
    SELECT DISTINCT
        CASE
            WHEN n.is_other THEN p.device || ' (as allocations number it)' ELSE coalesce('GPU' || n.used, p.device)
        END,
        p.peak_bytes
    FROM peak_memory($capture) AS p
    LEFT JOIN _memory_devices($capture) AS n ON p.device = 'GPU' || n.device
    ORDER BY ALL
"""


# The methods of a record or program, and its ops: how many there are, and how many of them delegates run.
# Without the format of a backend's data, the number of ops that it runs is NULL, and so is each sum with this number.
_OPS_OF_LINK: Final = """
    SELECT 'method' AS part, d.method AS name, d.method,
        CASE WHEN count(d.delegated) = count(*) THEN sum(d.delegated + d.not_delegated)::BIGINT END AS ops,
        sum(d.delegated)::BIGINT AS delegated, sum(d.not_delegated)::BIGINT AS not_delegated,
        string_agg(DISTINCT d.backends, ', ' ORDER BY d.backends) AS backends
    FROM {rows} AS d GROUP BY d.method
    UNION ALL
    SELECT 'op', d.op_type, d.method, d.delegated + d.not_delegated, d.delegated, d.not_delegated, d.backends
    FROM {rows} AS d
    ORDER BY part, ops DESC, name, method
"""
# The columns of a summary for programs.
_COLUMNS: Final = ("part", "name", "method", "value", "low", "high", "share_percent", "unit", "text")


@main.command()
@click.argument("captures", metavar="FILE...", nargs=-1, required=True)
@file_options
@warehouse_option
@file_output_options
@as_output
def summary(captures: tuple[str, ...], db: str, output: Output, **options: Any) -> None:
    """Show on one screen what a file is and what took its time. For two files, show what differs.

    For the traces of a job's ranks, in a folder or as files: which rank the others wait for, and why. For another
    folder or pattern: what is in it. An ETRecord or program that is given with a capture is linked to it. Before a
    file, the word summary can be left out. A capture may also be one of a warehouse. With --format, for one file: its
    times, advice and memory as rows.

    \b
    etq summary run.etdp
    etq run.etdp net.etrecord
    etq base.etdp new.etdp
    etq traces/
    etq summary job=train --db lab.duckdb
    etq summary run --db lab.duckdb
    """
    read_options = pop_file_options(options)
    if output.is_screen:
        for line in _lines(captures, db, read_options, output.style):
            click.echo(line)
    else:
        write_rows(_COLUMNS, _rows(captures, db, read_options), output)


def _rows(captures: Sequence[str], db: str, read_options: FileOptions) -> list[list[Any]]:
    """Return the summary of one file, or of a job, as rows of `_COLUMNS`."""
    if (job := found_job(captures, db)) is not None:
        from etq.cli.job_screen import rows_of_job

        return rows_of_job(job, db)
    kinds = [kind_of_argument(capture, db) for capture in captures]
    if len(kinds) == 1 and kinds[0] in LINKS:
        return [
            [part, name, method, ops, None, None, None, "ops", _of_delegates(ops, *numbers) or None]
            for part, name, method, ops, *numbers in _ops_of_link(captures[0], kinds[0])
        ]
    found = _capture_with_links(captures, kinds, read_options)
    if found is None or kinds[0] in (FOLDER, WAREHOUSE):
        raise EtqError(
            "--format is for one file; for two: etq compare BASE NEW --format FORMAT; for more: etq ingest FILE... "
            "--db DB, then etq captures --db DB --format FORMAT"
        )
    with open_target(found[0], db, found[1]) as (warehouse, target):
        figures = _figures(warehouse, target, _of_steps(warehouse, target))
        rows: list[list[Any]] = [
            ["time", number, part, value, low, high, None, unit, f"median of {counted(runs, _noun(number))}"]
            for number, part, value, _, low, high, runs, unit in figures
        ]
        if (close := efficiency_of(warehouse, target)) is not None:
            text = f"at least: {close.reason}" if close.is_least else close.reason
            shares = (
                ("MFU", close.mfu_percent, text), ("HFU", close.hfu_percent, text),
                ("known costs", close.known_percent, None),
            )  # fmt: skip
            rows += [["share", name, None, None, None, None, share, None, told] for name, share, told in shares]
        _, times = _times(warehouse, target)
        rows += [
            ["op", name, method, time, None, None, share, unit, None] for name, method, time, share, unit, *_ in times
        ]
        for severity, rule, finding in _findings(warehouse, target):
            rows.append(["advice", rule, None, None, None, None, None, None, f"{severity}: {finding}"])
        for what, size in _sizes(warehouse, target):
            rows.append(["memory", what, None, size, None, None, None, "bytes", None])
    return rows


def _capture_with_links(
    captures: Sequence[str], kinds: Sequence[str | None], read_options: FileOptions
) -> tuple[str, FileOptions] | None:
    """Return the capture that is summarized, with the record or program beside it; None for several captures."""
    if len(captures) == 1:
        return captures[0], read_options
    links = [at for at, kind in enumerate(kinds) if kind in LINKS]
    if len(captures) != 2 or len(links) != 1:
        return None
    given: dict[str, Any] = {LINKS[kinds[links[0]] or ""]: captures[links[0]]}
    return captures[1 - links[0]], read_options._replace(**given)


def _lines(captures: Sequence[str], db: str, read_options: FileOptions, style: TerminalStyle) -> Iterator[str]:
    """Yield the lines of a summary."""
    if (lines := _of_jobs(captures, db, style)) is not None:
        _refuse(read_options)
        return lines
    if len(captures) > 2 or (len(captures) == 1 and _holds_files(captures[0], db)):
        missing = [capture for capture in captures if not glob.has_magic(capture) and not os.path.exists(capture)]
        if missing:
            raise EtqError(f"no such file: {', '.join(missing)}; of a warehouse, name one capture at a time")
        _refuse(read_options)
        return _of_many(captures, style)
    kinds = [kind_of_argument(capture, db) for capture in captures]
    found = _capture_with_links(captures, kinds, read_options)
    if found is None:
        _refuse(read_options._replace(etrecord=None))
        return _of_two(captures[0], captures[1], db, read_options.etrecord, style)
    if len(captures) == 1 and kinds[0] in LINKS:
        _refuse(read_options)
        return _of_link(captures[0], kinds[0], style)
    if kinds[0] == WAREHOUSE:
        _refuse(read_options)
        return _of_warehouse(captures[0], style)
    return lines_of_capture(found[0], db, found[1], style)


def _refuse(read_options: FileOptions) -> None:
    """Raise `EtqError` if there are options for reading one profiling file, as something else is summarized."""
    given = [f"--{name.replace('_', '-')}" for name, value in read_options._asdict().items() if value is not None]
    if given:
        raise EtqError(f"{given[0]} is for one profiling file; for several: etq ingest FILE... {given[0]} ...")


def _of_jobs(captures: Sequence[str], db: str, style: TerminalStyle) -> Iterator[str] | None:
    """The lines about one or two jobs; None if the arguments name no jobs."""
    from etq.cli.job_screen import lines_of_job, lines_of_jobs

    if len(captures) == 2 and (jobs := found_jobs(captures[0], captures[1], db)) is not None:
        return lines_of_jobs(jobs, captures, db, style)
    job = found_job(captures, db)
    return None if job is None else lines_of_job(job, captures, db, style)


def _holds_files(argument: str, db: str) -> bool:
    """Whether an argument is a folder of files or a pattern."""
    return kind_of_argument(argument, db) == FOLDER or (glob.has_magic(argument) and not os.path.exists(argument))


def kind_of_argument(argument: str, db: str) -> str | None:
    """Return the kind of a file, as `kind_of` does, or the kind of a warehouse or a folder; None for anything else."""
    from etq.ingest.recognition import kind_of

    if is_warehouse(argument):
        return WAREHOUSE
    if os.path.isdir(argument):
        return FOLDER
    return kind_of(argument) if is_file(argument, db) else None


def lines_of_capture(capture: str, db: str, read_options: FileOptions, style: TerminalStyle) -> Iterator[str]:
    with open_target(capture, db, read_options) as (warehouse, target):
        of_file = warehouse.path is None
        name = capture if of_file else target.name
        yield from _title(warehouse, target, name, style)
        if _of_memory(warehouse, target) is None:
            of_steps = _of_steps(warehouse, target)
            yield from _latency(warehouse, target, of_steps)
            yield from _compilation(warehouse, target, of_steps)
            yield from _efficiency(warehouse, target, style)
            yield from _shares(warehouse, target, style)
        yield from _advice(warehouse, target, style)
        yield from _memory(warehouse, target)
    given = read_options._asdict() if of_file else {"db": db}
    options = [word for option, value in given.items() if value for word in (f"--{option.replace('_', '-')}", value)]
    without_program = [word for word in options if word not in ("--pte", read_options.pte)]
    yield from next_commands(
        style,
        (["etq", "report", name, *options, "--open"], "all of it, as a page"),
        (["etq", "advice", name, *without_program], "all findings, with evidence and remedies"),
    )


def _title(warehouse: Warehouse, capture: Capture, name: str, style: TerminalStyle) -> Iterator[str]:
    """Yield a line with what a capture is."""
    [(size, level, labels, has_record)] = warehouse.rows(_CAPTURE, capture=capture.capture_id)[1]
    facts = [_of_memory(warehouse, capture) or NAMES[capture.format], shown_size(size)]
    facts += [f"level {level}"] if level not in (None, "all") else []
    facts += ["with its record"] if has_record else []
    facts += [labels] if labels else []
    yield from (style.styled(line, "bold") for line in wrapped(printable(f"{name}: {', '.join(facts)}"), "", style))


# Kinds of captures that have only memory, by the rule of their finding. Their ops have no times.
_OF_MEMORY: Final = {
    "memory snapshot": "memory snapshot of torch.cuda", "memory timeline": "memory timeline of torch.profiler"
}  # fmt: skip


def _of_memory(warehouse: Warehouse, capture: Capture) -> str | None:
    """Return the kind of a capture that has only memory; None for other captures."""
    query = "SELECT f.rule FROM findings AS f WHERE f.capture_id = $capture AND list_contains($rules, f.rule)"
    found = warehouse.rows(query, capture=capture.capture_id, rules=[*_OF_MEMORY])[1]
    return _OF_MEMORY[found[0][0]] if found else None


def _rows_of(warehouse: Warehouse, view: str) -> str:
    """The stored rows of a view, or a call of the view."""
    return stored_rows(warehouse, view, {}, is_with_advice=True) or f"{view}($capture)"


def _of_steps(warehouse: Warehouse, capture: Capture) -> dict[str, Any]:
    """Return the row of `step_headline` of a trace; for a dump, nothing."""
    if capture.format != TRACE:
        return {}
    columns, [row] = warehouse.rows("FROM step_headline($capture)", capture=capture.capture_id)
    return dict(zip(columns, row, strict=True))


def _figures(warehouse: Warehouse, capture: Capture, of_steps: Mapping[str, Any]) -> Rows:
    """Return the key figures, as `_HEADLINE`."""
    if capture.format != TRACE:
        return warehouse.rows(_HEADLINE.format(rows=_rows_of(warehouse, "headline")), capture=capture.capture_id)[1]
    if steps := of_steps["steps"]:
        spread = (of_steps["low"], of_steps["high"])
        return [("step", None, of_steps["median"], of_steps["mean"], *spread, steps, of_steps["unit"])]
    recording = of_steps["recording"]
    return [("recording", None, recording, None, None, None, 1, of_steps["unit"])] if recording else []


def _noun(number: str) -> str:
    """Return the word for what a key figure is the median of."""
    return {"load": "load", "step": "step"}.get(number, "typical run")


def _latency(warehouse: Warehouse, capture: Capture, of_steps: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each key figure, with its spread over runs or steps."""
    yield ""
    rows = _figures(warehouse, capture, of_steps)
    if not rows and capture.format != TRACE:
        yield (
            "no execute has a time" if warehouse.rows(_RUNS, capture=capture.capture_id)[1] else "nothing was executed"
        )
    parts = Counter(number for number, *_ in rows)
    names = [printable(f"{number} of {part}" if parts[number] > 1 else number) for number, part, *_ in rows]
    widest = max(map(width_of, names), default=0)
    for name, (number, _, value, *means, low, high, runs, unit) in zip(names, rows, strict=True):
        shown, *ends = quantities([each for each in (value, low, high) if each is not None], unit)
        spread = "  of the execute" if unit == "percent" else f"  median of {counted(runs, _noun(number))}" * bool(ends)
        spread += f"; p10 {ends[0].split(' ')[0]}, p90 {ends[1]}" if ends else ""
        yield f"{name}{' ' * (widest - width_of(name))}  {shown:>8}{spread}"
        if ends and number in _MEANT and means[0] is not None:
            [mean] = quantities(means, unit)
            yield f"{'  mean':{widest}}  {mean:>8}  {_MEANT[number]}"
    yield from _about_steps(**of_steps) if of_steps else ()


def _about_steps(
    *,
    steps: int | None, mean: float | None, annotation: float | None, far_step: int | None, far_time: float | None,
    mean_of_others: float | None, earlier_work: float | None, longest_wait: float | None, after_wait: float | None,
    unit: str, **_: Any,
) -> Iterator[str]:  # fmt: skip
    """Yield what a row of `step_headline` tells besides durations: a step far from the others, the length of the steps'
    annotations with the definition of a step, if steps are longer, and what steps wait for.
    """
    if far_step is not None and far_time is not None and mean_of_others is not None:
        far, others = quantities([far_time, mean_of_others], unit)
        line = f"  mean    {others}  without step {far_step}, which takes {far}"
        if earlier_work is not None:
            [earlier] = quantities([earlier_work], unit)
            line += f"; work launched before the recording runs for its first {earlier}"
        yield line
    if mean is not None and annotation is not None and abs(mean - annotation) > _DIFFERS * annotation:
        [annotated] = quantities([annotation], unit)
        step = "the step" if steps == 1 else "mean; each step"
        lasts = f"{step} is from its start, or the end of earlier steps' work, until its work ends"
        yield f"  annotation  {annotated}  {lasts}"
    if longest_wait is not None and after_wait is not None:
        before, after = quantities([longest_wait, after_wait], unit)
        yield f"  waits  {before}  for what isn't recorded, such as earlier work; then the step goes on for {after}"


def _compilation(warehouse: Warehouse, capture: Capture, of_steps: Mapping[str, Any]) -> Iterator[str]:
    """Yield the times in which torch.compile compiled, and graphs were captured, if they take at least 1 % of all
    steps.
    """
    key = capture.capture_id
    if capture.format != TRACE or not warehouse.rows(_COMPILES, capture=key)[1]:
        return
    [(time, captures, *parts, step_time)] = warehouse.rows(_COMPILATION, capture=key)[1]
    steps, unit = of_steps["steps"], of_steps["unit"]
    place = f"in {counted(steps, 'step')}" if steps else "of the recording"
    whole = step_time if steps else of_steps["recording"]
    for does, spent in (("torch.compile compiles", time), ("graphs are captured", captures)):
        if spent is None or spent < _COMPILED * whole:
            continue
        doing, of_whole = quantities([spent, whole], unit)
        details = f" ({100 * spent / whole:.1f} %)"
        if does.startswith("torch"):
            named = zip(("Inductor", "AOTAutograd", "Dynamo", "autotuning"), parts, strict=True)
            shares = [f"{name} {100 * part / time:.0f} %" for name, part in named if part >= _COMPILED * time]
            details += f": {', '.join(shares)}" if shares else ""
        yield f"{does} for {doing} of {of_whole} {place}{details}"
    for again, known in warehouse.rows(_RECOMPILATIONS, capture=key)[1]:
        yield f"  {again} of {counted(known, 'compilation')} are of functions compiled before: etq show compilations"


def _efficiency(warehouse: Warehouse, capture: Capture, style: TerminalStyle) -> Iterator[str]:
    """Yield lines with the MFU of a step, which may be a lower bound, or why it is unknown."""
    found = efficiency_of(warehouse, capture)
    if found is None:
        return
    if found.mfu_percent is None:
        yield from wrapped(printable(f"MFU  unknown: {found.reason}"), "  ", style)
        return
    known = f"costs are known of {found.known_percent or 0:.0f} % of devices' time"
    without = f"; most of the rest: {found.reason}" if found.is_least else ""
    without += f"; assumed: {found.assumed}" if found.assumed else ""
    share, rate = share_text(found.mfu_percent, found.is_least), _rate(found.flops_per_second or 0)
    yield from wrapped(printable(f"MFU  {share}  of the peak of {found.device}, {rate}; {known}{without}"), "  ", style)
    if found.recomputed_flops and found.hfu_percent is not None:
        share = share_text(found.hfu_percent, found.is_least)
        yield f"  HFU  {share}  with activations that are computed again in the backward pass"


def _rate(flops: float) -> str:
    """Return operations per second with a unit that suits them."""
    size, unit = next(((size, unit) for size, unit in ((1e12, "T"), (1e9, "G")) if flops >= size), (1e6, "M"))
    return f"{flops / size:,.3g} {unit}FLOP/s"


def _times(warehouse: Warehouse, capture: Capture) -> tuple[str, Rows]:
    """Return the title and rows of the first list of times that has rows."""
    of_dumps = {**_MODULES, **_OPS} if warehouse.rows(_IS_LINKED, capture=capture.capture_id)[1] else _OPS
    for title, query in (_OPS_OF_TRACES if capture.format == TRACE else of_dumps).items():
        rows = warehouse.rows(query.format(rows=_rows_of(warehouse, "op_totals")), capture=capture.capture_id)[1]
        if any(share or outside for *_, share, _, _, outside in rows):
            return title, rows
    return "", []


def _shares(warehouse: Warehouse, capture: Capture, style: TerminalStyle) -> Iterator[str]:
    """Yield a bar for each of the longest modules or ops, with its time per execute or step."""
    title, rows = _times(warehouse, capture)
    if not rows:
        return
    *_, unit, executes, outside = rows[0]
    per = "" if executes is None else " in a step" if capture.format == TRACE else " in an execute"
    if not per:  # of steps without the first instruction's, no execute begins: sums, not means
        title = title.replace("Mean time", "Time")
    rows = [row for row in rows if row[3] and row[2] is not None]
    has_several = len({method for _, method, *_ in rows}) > 1
    yield from ("", style.styled(title.format(per, "all executes" if has_several else "it"), "bold"))
    what = "whose launch is in no recorded step" if "devices" in title else "begun in no step"
    besides = f"{quantities([outside], unit)[0]} in the whole trace, {what}" if outside else ""
    if not rows:
        yield f"  none, but {besides}"
        return
    rows = rows[:_MOST]
    names = [printable(f"{name} of {method}" if has_several else name) for name, method, *_ in rows]
    names = [*shortened(names, _LONGEST_NAME, style)]
    times = quantities([time for _, _, time, *_ in rows], unit)
    widest, longest = max(map(width_of, names)), max(map(len, times))
    for name, time, (_, _, _, share, *_) in zip(names, times, rows, strict=True):
        drawn = style.styled(bar(0, share / 100, _BAR, style), "cyan")
        yield f"  {name}{' ' * (widest - width_of(name))}  {time:>{longest}}  {share:4.1f} %  {drawn}"
    if outside:
        yield f"  besides these {besides}"


def _findings(warehouse: Warehouse, capture: Capture) -> Rows:
    query = "SELECT a.severity, a.rule, a.finding FROM all_advice AS a WHERE a.capture_id = $capture ORDER BY a.place"
    return warehouse.rows(query, capture=capture.capture_id)[1]


def _advice(warehouse: Warehouse, capture: Capture, style: TerminalStyle) -> Iterator[str]:
    """Yield the most severe findings of advice."""
    findings = _findings(warehouse, capture)
    if findings:
        left = f", the first {_MOST_FINDINGS} of {len(findings)} findings" if len(findings) > _MOST_FINDINGS else ""
        yield from ("", style.styled(f"Advice{left}", "bold"))
    for severity, rule, finding in findings[:_MOST_FINDINGS]:
        head = f"{severity} {rule}: "
        colour = {"high": "red", "medium": "yellow"}.get(severity)
        lines = wrapped(printable(head + finding), "  ", style)
        coloured = style.styled(severity, colour) if colour else severity
        yield lines[0].replace(severity, coloured, 1)
        yield from lines[1:]


def _sizes(warehouse: Warehouse, capture: Capture) -> Rows:
    """Return memory use: of allocators, or at the peak of devices."""
    key = capture.capture_id
    if capture.format == TRACE:
        # Planning the search for peaks takes longer than checking whether there are any.
        return warehouse.rows(_PEAKS, capture=key)[1] if warehouse.rows(_HAS_MEMORY, capture=key)[1] else []
    return warehouse.rows(_ALLOCATED.format(rows=_rows_of(warehouse, "memory_totals")), capture=key)[1]


def _memory(warehouse: Warehouse, capture: Capture) -> Iterator[str]:
    """Yield a line with memory use."""
    if rows := _sizes(warehouse, capture):
        is_trace = capture.format == TRACE
        # Torch's total for the CPU counts only what is allocated while memory is profiled, also in earlier recordings;
        # totals of devices are those of their allocators.
        parts = [
            f"{what} {shown_size(size)}{' allocated while memory was profiled' if is_trace and what == 'CPU' else ''}"
            for what, size in rows[:3]
        ]
        yield from ("", printable(f"Memory {'at the peak' if is_trace else 'of one run at most'}: {', '.join(parts)}"))


def _of_two(base: str, new: str, db: str, etrecord: str | None, style: TerminalStyle) -> Iterator[str]:
    from etq.analysis.comparison import OPTIONS, Comparison
    from etq.cli.compare import sides

    options = ["--etrecord", etrecord] if etrecord is not None else []
    with sides(base, new, db, etrecord) as (warehouse, base_selector, new_selector):
        options += ["--db", db] if warehouse.path is not None else []
        comparison = Comparison(warehouse, base_selector, new_selector, dict.fromkeys(OPTIONS))
        for text, verdict in comparison.lines():
            colours = [VERDICT_STYLES[verdict]] if verdict in VERDICT_STYLES else []
            yield from (style.styled(line, "bold", *colours) for line in wrapped(printable(text), "", style))
        for rule, detail in comparison.rows("findings")[1]:
            yield from (style.styled(line, "yellow") for line in wrapped(printable(f"! {rule}: {detail}"), "", style))
    yield from next_commands(
        style,
        (["etq", "compare", base, new, *options], "op by op"),
        (["etq", "report", base, new, *options, "--open"], "all of it, as a page"),
    )


def _of_many(arguments: Sequence[str], style: TerminalStyle) -> Iterator[str]:
    from etq.ingest.found_files import found_files
    from etq.ingest.recognition import kind_of

    found, left = found_files(arguments)
    kinds = Counter(kind_of(path) for path in found)
    first = next((path for path in found if kind_of(path) in NAMES), None)
    kinds.update(reason for _, reason in left)
    counts = [counted(number, NAMES.get(kind, kind)) for kind, number in kinds.most_common()]
    what = arguments[0] if len(arguments) == 1 else counted(len(arguments), "file")
    yield from wrapped(printable(f"{what}: {', '.join(counts)}"), "", style)
    if first is not None:
        folders = [Path(path).resolve().parent for path in found]
        named = arguments[0] if len(arguments) == 1 else os.path.relpath(os.path.commonpath(folders))
        yield from next_commands(
            style,
            (["etq", "ingest", named, "--db", "lab.duckdb"], "store them, to ask about all"),
            (["etq", first], "a summary of the first"),
        )


def _ops_of_link(file: str, kind: str | None) -> Rows:
    """Return the methods of a record or program, and its ops, as `_OPS_OF_LINK`."""
    from etq.ingest.recognition import RECORD

    warehouse = open_unrun(file)[0]
    rows = "_delegation(1, NULL)" if kind == RECORD else "_program_delegation(1)"
    with warehouse:
        return warehouse.rows(_OPS_OF_LINK.format(rows=rows))[1]


def _of_delegates(ops: int | None, delegated: int | None, not_delegated: int, backends: str | None) -> str:
    """Return how many ops delegates run; empty if they run none."""
    if ops is None:
        return f"an unknown number in {backends}" + (f"; {not_delegated} in kernels" if not_delegated else "")
    return f"{delegated} in {backends}" if delegated else ""


def _of_link(file: str, kind: str | None, style: TerminalStyle) -> Iterator[str]:
    from etq.ingest.recognition import RECORD

    found = _ops_of_link(file, kind)
    yield style.styled(printable(f"{file}: {kind}, {shown_size(Path(file).stat().st_size)}"), "bold")
    has_several = sum(part == "method" for part, *_ in found) > 1
    for part, title in (("method", "Methods, with their ops"), ("op", "Ops")):
        rows = [row for row in found if row[0] == part]
        yield from ("", style.styled(title, "bold")) if rows else ()
        texts = [f"{name} of {method}" if has_several and part == "op" else name for _, name, method, *_ in rows]
        names = list(map(printable, texts))[:_MOST_OPS_OF_LINK]
        widest = max(map(width_of, names), default=0)
        for name, (_, _, _, ops, *numbers) in zip(names, rows, strict=False):
            parts = (None if ops is None else f"{ops:>5}", printable(_of_delegates(ops, *numbers)))
            yield f"  {name}{' ' * (widest - width_of(name))}  {', '.join(filter(None, parts))}"
        if len(rows) > len(names):
            yield f"  and {len(rows) - len(names)} more"
    view = "op_costs" if kind == RECORD else "program_size"
    text = "operations and bytes of each op by its shapes" if kind == RECORD else "the parts that it is made of"
    yield from next_commands(
        style, (["etq", "graph", file], "its graph, as a page"), (["etq", "show", view, file], text)
    )


def _of_warehouse(path: str, style: TerminalStyle) -> Iterator[str]:
    from etq.cli.warehouse_summary import of_causes, of_warehouse
    from etq.warehouse.warehouse import open

    query = """
        SELECT k.format, count(*) FROM captures AS k GROUP BY ALL
        UNION ALL SELECT 'ETRecord', count(*) FROM records UNION ALL SELECT 'program', count(*) FROM programs
        ORDER BY 2 DESC, 1
    """
    with open(path, read_only=True) as warehouse:
        rows = warehouse.rows(query)[1]
        counts = [counted(number, NAMES.get(kind, kind)) for kind, number in rows if number]
        yield style.styled(printable(f"{path}: warehouse of {', '.join(counts) or 'nothing yet'}"), "bold")
        if sum(number for kind, number in rows if kind not in ("ETRecord", "program")) > 2:
            yield from of_causes(warehouse, style)
        yield from of_warehouse(warehouse, style)
    yield from next_commands(
        style,
        (["etq", "serve", "--db", path, "--open"], "all of it in a browser"),
        (["etq", "captures", "--db", path], "its captures"),
        (["etq", "show", "causes", "--db", path], "what is slower, as rows"),
        (["etq", "regressions", "--db", path], "which totals and ops changed, and since when"),
    )
