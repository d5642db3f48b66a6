"""The report of one capture, section by section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from etq.analysis.advice import advised
from etq.analysis.delegates import unknown_times
from etq.analysis.focus import computed_once, of_trace
from etq.errors import EtqError
from etq.render.progress import stage
from etq.report import graph_extras, graph_section, memory, traces
from etq.report.columns import Table, ask
from etq.report.kit import Grid, Make, Rows, Section, declared, grid, shown_of
from etq.report.page import Report
from etq.report.target import Target, basis_of, target_of, without_record
from etq.report.timeline import timeline_section

if TYPE_CHECKING:
    from etq.database.handles import Answers, Capture

# The options of `report_of` except the unit.
OPTIONS: Final = ("method", "runs")


def report_of(
    warehouse: Answers,
    capture: str | Capture,
    unit: str | None = None,
    method: str | None = None,
    runs: str = "typical",
    part: str | None = None,
) -> Report:
    """Return the report of one capture: of one `method` or all, of `typical` runs or `all`; or a `part` of `PARTS`.

    Raises `QueryError` for an unknown capture or unit, and `EtqError` for a method without runs.
    """
    target = target_of(warehouse, capture, unit, method, runs)
    with ExitStack() as stack:
        for preparation in _prepared(target):
            stack.enter_context(preparation)
        sections = [*_made(target, _sections(target, part))]
    return Report("capture", target.name, sections)


def _made(target: Target, makes: Sequence[Make]) -> Iterator[Section]:
    """Yield the sections that the capture has."""
    for number, make in enumerate(makes, 1):
        stage(f"section {number} of {len(makes)}")
        if (section := make(target)) is not None:
            yield section


def _prepared(target: Target) -> Iterator[AbstractContextManager[None]]:
    """Provide a context that makes queries faster, if this saves more time than it takes."""
    # Advice about a file is computed before, because it reads views with other arguments than the page does.
    target.warehouse.connection_for(advised(target.warehouse, target.capture, {})[0])
    if target.is_trace:
        yield computed_once(target.warehouse, target.capture, of_trace(target.unit, target.has_devices))


def graph_of(
    warehouse: Answers,
    capture: str | Capture,
    unit: str | None,
    more: graph_extras.GraphExtras,
    method: str | None = None,
    runs: str = "typical",
) -> Report:
    """Return a report with only the graph; arguments and errors are those of `report_of`."""
    target = target_of(warehouse, capture, unit, method, runs)
    section = graph_section.graph(target, more)
    if not section.tables:
        raise EtqError(f"{target.name}: {graph_section.without_graph(target)}")
    # Without times, the choice of runs doesn't matter.
    is_timed = section.note not in (graph_section.EXPORTED_NOTE, graph_section.UNRUN_NOTE)
    notes = [section.note, basis_of(target) if is_timed else None]
    if more.gap is not None:
        notes.append(f"Gaps are differences from the values of {warehouse.capture(more.gap).name}.")
    return Report("graph", target.name, [replace(section, note=" ".join(filter(None, notes)) or None)])


COVERAGE: Final = Rows("delegate_coverage", sort="per_execute total")


def _headline(target: Target) -> Section:
    tables: dict[str, Table] = {}
    grids: list[Grid] = []
    if not target.is_trace:
        tables["numbers"] = target.view("headline")
    tables |= {
        "capture": target.table(
            "FROM capture_summary AS s WHERE s.name IN (SELECT c.name FROM captures AS c WHERE c.capture_id = $capture)"
        ),
        "labels": target.table("SELECT l.key, l.value FROM labels AS l WHERE l.capture_id = $capture ORDER BY l.key"),
        "findings": target.table(
            "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = $capture ORDER BY ALL"
        ),
    }
    if _has_modules(target) and (covered := COVERAGE.of(target)) is not None:
        tables["coverage"] = covered.rows
    if target.is_trace:
        tables["steps"] = target.view("average_step", rest="WHERE time > 0")
        grids = traces.top_grids(target)
    if target.has_devices:
        grids += filter(None, [Rows("gpu_utilization", "Devices").of(target)])
        tables |= traces.idle_cards(target) | traces.efficiency_cards(target)
    grids += filter(None, [Rows("metric_values", "Metrics").of(target)])
    facts = {"name": target.name, "is_trace": target.is_trace, "runs": target.runs}
    # This note is the only one that says why sections that need a record are left out.
    lacking = None if target.is_trace or target.has_record else without_record(target)
    note = " ".join(filter(None, [basis_of(target), lacking])) or None
    return Section("headline", "Overview", tables, facts, note, grids=grids)


def _advice(target: Target) -> Section:
    """Return the section with the findings. Texts and times are those of the report's options."""
    of_runs = {} if target.is_trace else {"method": target.method, "runs": target.runs}
    options = {"unit": target.unit, **of_runs}
    query, parameters = advised(target.warehouse, target.capture, options)
    rows = ask(target.warehouse, query, **parameters)
    return Section(
        "advice", "Advice", {"advice": rows}, note=None if rows.length else "No rule applies to this capture."
    )


def _breakdown(target: Target) -> Section:
    """Return the section about where the time goes, by module and op."""
    if not target.has_executes:
        missing = "Nothing was executed in this capture, so it has no time to break down."
        return Section("breakdown", "Where the time goes", missing=missing)
    if target.has_record:
        leaves = target.view("module_ops")
    else:
        leaves = target.table(
            """
            SELECT
                CASE WHEN starts_with(o.op, '(') THEN o.op ELSE '' END AS module_path,
                o.method, o.op, o.kind, o.calls, o.total AS self_time, o.share_percent, o.unit, o.executes
            FROM op_totals($capture, unit := $unit, method := $method, runs := $basis) AS o
            WHERE o.share_percent IS NOT NULL
            """
        )
    parts = Rows("execute_breakdown", "What an execute is made of").of(target)
    facts = {"separator": ".", "what": "self time within the executes", "leaves": "kernels", "per": "execute"}
    return Section("breakdown", "Where the time goes", {"leaves": leaves}, facts, grids=[*filter(None, [parts])])


def _graph(target: Target) -> Section | None:
    section = graph_section.graph(target)
    return section if section.tables or target.has_record else None


def _runs(target: Target) -> Section | None:
    runs = target.table(RUNS, most=MOST_RUNS)
    if not runs.length:
        return None
    all_runs = runs.columns[runs.names.index("all_runs")][0]
    note = None
    if runs.length < all_runs:
        note = f"The page has {runs.length:,} of {all_runs:,} runs: an even sample, and all warm-ups and outliers."
    return Section("runs", "Run to run", {"runs": runs}, note=note)


# The approximate number of runs in the plot of runs. With more runs, the plot would have more points than pixels.
MOST_RUNS: Final = 20_000
RUNS: Final = """
    SELECT
        t.run_index, t.execute, t.is_warm_up, t.is_outlier, t.block_median, t.unit, count(*) OVER () AS all_runs
    FROM run_times($capture, unit := $unit, method := $method) AS t
    QUALIFY
        t.is_warm_up
        OR t.is_outlier
        OR row_number() OVER (ORDER BY t.run_index) % ceil(all_runs / $most) = 0
    ORDER BY t.run_index
"""


def _modules(target: Target) -> Section | None:
    rows = target.view("module_totals", f"{shown_of('module_totals')}, depth") if _has_modules(target) else None
    if rows is None or not rows.length:
        return None
    depths, totals = (rows.columns[rows.names.index(name)] for name in ("depth", "total"))
    reason = unknown_times(zip(depths, totals, strict=True))
    note = reason and f"{reason[0].upper()}{reason[1:]}."
    return Section("modules", "Modules", note=note, grids=[grid("module_totals", rows, sort="per_execute")])


def _has_modules(target: Target) -> bool:
    return target.has_executes and target.has_record


def _events(target: Target) -> Section | None:
    """Return the section with percentiles and a histogram of each event, if there are several runs."""
    events = target.table(
        """
        SELECT
            p.block_index, p.event_block_name, p.method, p.slot, p.occurrence, p.event_name, s.kind,
            CASE WHEN s.chain_index <> -1 THEN p.instruction_id END AS instruction_id, p.runs,
            max(p.value) FILTER (WHERE p.quantile = 0.05) AS p5,
            max(p.value) FILTER (WHERE p.quantile = 0.25) AS p25,
            max(p.value) FILTER (WHERE p.quantile = 0.5) AS p50,
            max(p.value) FILTER (WHERE p.quantile = 0.75) AS p75,
            max(p.value) FILTER (WHERE p.quantile = 0.95) AS p95,
            max(p.value) FILTER (WHERE p.quantile = 0.99) AS p99,
            p.unit
        FROM percentiles(
            $capture, quantiles := [0.05, 0.25, 0.5, 0.75, 0.95, 0.99], unit := $unit, method := $method, runs := $basis
        ) AS p
        JOIN captures AS c ON c.capture_id = $capture
        JOIN signatures AS s ON s.capture_id = c.capture_id AND s.block_index = p.block_index AND s.slot = p.slot
        GROUP BY ALL
        ORDER BY p50 DESC NULLS LAST, p.block_index, p.slot, p.occurrence
        LIMIT $most
        """,
        most=MOST_EVENTS,
    )
    if not events.length:
        return None
    bars = target.table(
        """
        SELECT h.* EXCLUDE (unit)
        FROM event_histogram($capture, unit := $unit, method := $method, runs := $basis) AS h
        LIMIT $most
        """,
        most=MOST_EVENTS * 25,
    )
    note = f"The {MOST_EVENTS:,} longest events." if events.length == MOST_EVENTS else None
    grids = [
        grid(
            "percentiles",
            events,
            name="events",
            sort="p50",
            others=(*PERCENTILES, "kind"),
            kinds=dict.fromkeys(PERCENTILES, "time"),
        )
    ]
    return Section("events", "Events over runs", {"bars": bars}, note=note, grids=grids)


PERCENTILES: Final = ("p5", "p25", "p50", "p75", "p95", "p99")
# The most distinct events of a page. For larger programs, SQL is the better way.
MOST_EVENTS: Final = 5000


# Calls of delegates, with the backend if a record names it.
DELEGATE_CALLS: Final = """
    WITH backends AS (
        SELECT DISTINCT r.block_index, g.instruction_id, g.backend
        FROM captures AS c
        JOIN runs AS r ON r.capture_id = c.capture_id
        JOIN delegates AS g ON g.record_id = c.record_id AND g.method = r.method
        WHERE c.capture_id = $capture
    )
    SELECT d.*, b.backend
    FROM (SELECT {shown} FROM delegate_totals($capture, unit := $unit, method := $method, runs := $basis)) AS d
    LEFT JOIN backends AS b USING (block_index, instruction_id)
    ORDER BY d.per_execute DESC, d.block_index, d.instruction_id
"""


def _coverage(target: Target) -> Section | None:
    if not target.has_executes:
        return None
    calls = target.table(DELEGATE_CALLS.format(shown=shown_of("delegate_totals")))
    grids = [grid("delegate_totals", calls, "Calls of delegates", others=["backend"])] if calls.length else []
    # The backend is None if the record is of another program.
    covered = COVERAGE.of(target) if target.has_record else None
    grids = [*filter(None, [covered]), *grids]
    return Section("coverage", "Delegate coverage", grids=grids) if grids else None


OF_DUMPS: Final[tuple[Make, ...]] = (
    _headline,
    _advice,
    _breakdown,
    _graph,
    lambda target: timeline_section(target.table, False),
    _runs,
    declared(
        *("ops", "Ops"),
        Rows("op_totals", sort="per_execute total"),
        Rows("op_totals", "Op by op", given="by := 'instance'", sort="per_execute total", name="instances"),
    ),
    _modules,
    declared("sources", "Source lines", Rows("source_totals", sort="per_execute total"), when=_has_modules),
    _events,
    _coverage,
    memory.memory,
)
OF_TRACES: Final[tuple[Make, ...]] = (
    _headline,
    _advice,
    traces.idle,
    traces.critical_path,
    traces.breakdown,
    lambda target: timeline_section(target.table, True),
    traces.steps,
    traces.serving,
    traces.passes,
    traces.work,
    traces.ops,
    traces.kernels,
    traces.efficiency,
    traces.collectives,
    traces.launches,
    traces.modules,
    traces.peak_memory,
    traces.memory_timeline,
)

# Two parts of a report that a server computes at the same time: the sections up to the breakdown, and the rest. They
# take about equally long.
PARTS: Final = ("first", "rest")


def _sections(target: Target, part: str | None) -> Sequence[Make]:
    made, breakdown = (OF_TRACES, traces.breakdown) if target.is_trace else (OF_DUMPS, _breakdown)
    end = made.index(breakdown) + 1
    return made if part is None else made[:end] if part == "first" else made[end:]
