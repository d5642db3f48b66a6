"""The report of one capture, section by section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from etq.analysis.delegates import unknown_times
from etq.errors import EtqError
from etq.report import graph, graph_extras, graph_section, memory, traces
from etq.report.page import Report, Section
from etq.report.target import Target, basis_of, target_of, without_record
from etq.report.timeline import timeline_section
from etq.warehouse.focus import computed_once, focused, of_dumps, of_trace

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# The views that these sections need, for the warehouse in memory of a file.
VIEWS: Final = (
    "_advice_of_runtime", "_advice_of_trace", "average_step", "capture_summary", "delegate_coverage", "delegate_totals",
    "delegates", "device_events", "event_histogram", "execute_breakdown", "findings", "framework_tax",
    "fusable_chains", "gpu_utilization", "kernel_families",
    "headline", "kernel_table", "key_averages", "labels", "memory_timeline", "memory_totals", "metric_values",
    "module_ops", "module_totals", "module_tree", "op_totals", "percentiles", "phase_totals", "planned_memory",
    "program_values", "programs", "records", "run_times", "signature_ops", "source_totals",
    "_timeline", "typical_runs", *graph.VIEWS, *traces.VIEWS,
)  # fmt: skip


# A warehouse of so many captures takes a report longer than copies of one of them.
MANY: Final = 100
# Views of an ETDump of so many events take longer than to plan one more query.
LONG: Final = 30_000
# The options of `report_of` except the unit.
OPTIONS: Final = ("method", "runs")


def report_of(
    warehouse: Warehouse,
    capture: str | Capture,
    unit: str | None,
    method: str | None = None,
    runs: str = "typical",
    part: str | None = None,
) -> Report:
    """Return the report of one capture: of one `method` or all, of `typical` runs or `all`; or a `part` of `PARTS`.

    Raises `QueryError` for an unknown capture or unit, and `EtqError` for a method without runs.
    """
    target = target_of(warehouse, capture, unit, method, runs)
    with ExitStack() as stack:
        for each in _prepared(target):
            stack.enter_context(each)
        chosen = SECTIONS if part is None else PARTS[part]
        sections = [section for make in chosen if (section := make(target)) is not None]
    return Report("capture", target.name, sections)


def _prepared(target: Target) -> Iterator[AbstractContextManager[None]]:
    """Yield what makes queries faster, where preparing it takes less time than it saves."""
    capture = target.warehouse.capture(target.capture)
    [(captures,)] = target.warehouse.rows("SELECT count(*) FROM captures")[1]
    if captures >= MANY:
        yield focused(target.warehouse, capture)
    if target.is_trace:
        yield computed_once(target.warehouse, capture, of_trace(target.unit))
    elif target.events >= LONG:
        yield computed_once(target.warehouse, capture, of_dumps(target.method, target.runs))


def graph_of(
    warehouse: Warehouse,
    capture: str | Capture,
    unit: str | None,
    more: graph_extras.GraphExtras,
    method: str | None = None,
    runs: str = "typical",
) -> Report:
    """Return a report with the graph alone; arguments and errors are those of `report_of`."""
    target = target_of(warehouse, capture, unit, method, runs)
    section = graph_section.graph(target, more)
    if section is None or not section.tables:
        raise EtqError(f"{target.name}: {graph_section.without_graph(target)}")
    # Without times, it doesn't matter which runs count.
    is_timed = section.note != graph_section.EXPORTED_NOTE
    notes = [section.note, basis_of(target) if is_timed else None]
    if more.gap is not None:
        notes.append(f"Gaps are differences from the values of {warehouse.capture(more.gap).name}.")
    return Report("graph", target.name, [replace(section, note=" ".join(filter(None, notes)) or None)])


def _headline(target: Target) -> Section:
    of_capture = "capture_id = (SELECT c.capture_id FROM captures AS c WHERE c.sha256 = $capture)"
    tables = {
        "numbers": target.table("FROM headline($capture, unit := $unit, method := $method, runs := $basis)"),
        "capture": target.table("FROM capture_summary AS s WHERE s.sha256 = $capture[:12]"),
        "labels": target.table(f"SELECT l.key, l.value FROM labels AS l WHERE l.{of_capture} ORDER BY l.key"),
        "metrics": target.table(
            "SELECT m.name, m.value, m.unit, m.meaning, m.run_index, m.sample FROM metric_values($capture) AS m"
        ),
        "findings": target.table(f"SELECT f.rule, f.detail FROM findings AS f WHERE f.{of_capture} ORDER BY ALL"),
    }
    if target.has_record and target.has_executes:
        tables["coverage"] = target.table(
            """
            SELECT sum(d.delegated)::BIGINT AS delegated, sum(d.not_delegated)::BIGINT AS not_delegated
            FROM delegate_coverage($capture, method := $method, runs := $basis) AS d
            """
        )
    if target.is_trace:
        tables["steps"] = target.table("FROM average_step($capture, unit := $unit) AS s WHERE s.time > 0")
        tables |= traces.top_tables(target)
    if target.has_devices:
        tables["devices"] = target.table("FROM gpu_utilization($capture)")
        tables |= traces.idle_cards(target)
    facts = {"name": target.name, "is_trace": target.is_trace, "runs": target.runs}
    return Section("headline", "Overview", tables, facts, basis_of(target))


def _advice(target: Target) -> Section:
    query = (
        "FROM _advice_of_trace($capture, unit := $unit)"
        if target.is_trace
        else "FROM _advice_of_runtime($capture, unit := $unit, method := $method, runs := $basis)"
    )
    rows = target.table(query)
    return Section(
        "advice", "Advice", {"advice": rows}, note=None if rows.length else "No rule applies to this capture."
    )


def _breakdown(target: Target) -> Section | None:
    """Return the section about where the time goes, by module and op."""
    if target.is_trace:
        leaves = target.table(
            """
            SELECT
                CASE WHEN k.name = '(no op)' THEN k.name ELSE coalesce(m.path, k.module, '') END AS module_path,
                k.name AS op, 'slice' AS kind, k.calls, k.self_cpu_time AS self_time, k.self_device_time, k.unit
            FROM key_averages($capture, by := 'module', unit := $unit) AS k
            -- A module that several others call has no single path.
            LEFT JOIN (
                SELECT t.module, max(t.module_path) AS path
                FROM module_tree($capture, unit := $unit) AS t
                GROUP BY t.module
                HAVING count(*) = 1
            ) AS m ON m.module = k.module
            WHERE NOT k.is_device AND (k.self_cpu_time > 0 OR k.self_device_time > 0)
            """
        )
        facts = {"separator": "/", "what": "self time on the host", "leaves": "ops", "has_devices": target.has_devices}
        return Section("breakdown", "Where the time goes", {"leaves": leaves, **traces.nested_times(target)}, facts)
    if not target.has_executes:
        missing = "Nothing was executed in this capture, so it has no time to break down."
        return Section("breakdown", "Where the time goes", missing=missing)
    note = None
    if target.has_record:
        leaves = target.table("FROM module_ops($capture, unit := $unit, method := $method, runs := $basis)")
    else:
        leaves = target.table(
            """
            SELECT
                CASE WHEN starts_with(o.op, '(') THEN o.op ELSE '' END AS module_path,
                o.method, o.op, o.kind, o.calls, o.total AS self_time, o.share_percent, o.unit
            FROM op_totals($capture, unit := $unit, method := $method, runs := $basis) AS o
            WHERE o.share_percent IS NOT NULL
            """
        )
        note = without_record(target, "which modules its ops belong to")
    parts = target.table(
        """
        SELECT b.component, b.method, b.instruction_id, b.calls, b.total, b.per_execute, b.share_percent, b.unit
        FROM execute_breakdown($capture, unit := $unit, method := $method, runs := $basis) AS b
        """
    )
    facts = {"separator": ".", "what": "self time within the executes", "leaves": "kernels"}
    return Section("breakdown", "Where the time goes", {"leaves": leaves, "parts": parts}, facts, note)


def _runs(target: Target) -> Section | None:
    if target.is_trace:
        return traces.steps(target)
    runs = target.table(RUNS, most=MOST_RUNS)
    if not runs.length:
        return None
    all_runs = runs.columns[runs.names.index("all_runs")][0]
    note = None
    if runs.length < all_runs:
        note = (
            f"The page has {runs.length:,} of {all_runs:,} runs: one in so many, and all that warm up or are outliers."
        )
    return Section("runs", "Run to run", {"runs": runs}, note=note)


# The approximate number of runs in the plot of all runs: more would be more points than pixels.
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


def _ops(target: Target) -> Section | None:
    if target.is_trace:
        ops = target.table(
            """
            SELECT
                k.name, nullif(k.shapes, '[]') AS shapes, k.calls, k.self_cpu_time, k.self_cpu_percent,
                k.cpu_time_total, k.cpu_time_avg, k.self_device_time, k.device_time_total, k.self_cpu_memory, k.unit
            FROM key_averages($capture, by := 'shape', unit := $unit) AS k
            WHERE NOT k.is_device
            """
        )
        return Section("calls", "Ops", {"rows": ops}) if ops.length else None
    ops = target.table(
        """
        SELECT o.op, o.kind, o.method, o.instruction_id, o.calls, o.total, o.avg, o.min, o.max, o.share_percent, o.unit
        FROM op_totals($capture, by := 'instance', unit := $unit, method := $method, runs := $basis) AS o
        """
    )
    families = target.table(
        """
        SELECT o.op, o.kind, o.method, o.calls, o.total, o.avg, o.min, o.max, o.share_percent, o.unit
        FROM op_totals($capture, unit := $unit, method := $method, runs := $basis) AS o
        """
    )
    return Section("ops", "Ops", {"rows": families, "instances": ops}) if families.length else None


def _kernels(target: Target) -> Section | None:
    if not target.has_devices:
        return None
    kernels = target.table("FROM kernel_table($capture, unit := $unit)")
    families = target.table("FROM kernel_families($capture, unit := $unit)")
    chains = target.table("FROM fusable_chains($capture, unit := $unit) LIMIT 100")
    copies = target.table("FROM work_totals($capture, unit := $unit) AS w WHERE w.type = 'memory'")
    tensor_cores = target.table(
        """
        FROM tensor_core_use($capture, unit := $unit, by := 'op') AS u
        WHERE u.tensor_time > 0 OR u.missed_time > 0 OR u.unknown_time > 0
        """
    )
    made = (
        *(("families", families), ("chains", chains), ("rows", kernels)),
        *(("copies", copies), ("tensor_cores", tensor_cores)),
    )
    tables = {name: table for name, table in made if table.length}
    return Section("kernels", "Kernels of devices", tables) if tables else None


def _modules(target: Target) -> Section | None:
    if target.is_trace:
        modules = target.table("FROM module_tree($capture, unit := $unit)")
        missing = "The trace has no modules: profile with with_modules=True, or with_stack=True."
        return Section("module_calls", "Modules", {"rows": modules}, missing=None if modules.length else missing)
    if not target.has_executes:
        return None
    if not target.has_record:
        return Section("modules", "Modules", missing=without_record(target, "which module an op belongs to"))
    rows = target.table("FROM module_totals($capture, unit := $unit, method := $method, runs := $basis)")
    depths, totals = (rows.columns[rows.names.index(name)] for name in ("depth", "total"))
    reason = unknown_times(zip(depths, totals, strict=True))
    return Section("modules", "Modules", {"rows": rows}, note=reason and f"{reason[0].upper()}{reason[1:]}.")


def _sources(target: Target) -> Section | None:
    if target.is_trace or not target.has_executes:
        return None
    if not target.has_record:
        return Section("sources", "Source lines", missing=without_record(target, "which line an op comes from"))
    return Section(
        "sources",
        "Source lines",
        {"rows": target.table("FROM source_totals($capture, unit := $unit, method := $method, runs := $basis)")},
    )


def _events(target: Target) -> Section | None:
    """Return the section with percentiles and a histogram of each event, if there are several runs."""
    if target.is_trace:
        return None
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
        JOIN captures AS c ON c.sha256 = $capture
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
    return Section("events", "Events over runs", {"events": events, "bars": bars}, note=note)


# How many distinct events a page shows: for larger programs, SQL is the better way.
MOST_EVENTS: Final = 5000


# Delegate calls, with the backend if a record names it.
DELEGATE_CALLS: Final = """
    SELECT
        d.block_index, d.method, d.instruction_id, any_value(g.backend) AS backend, d.calls, d.total, d.avg, d.ops,
        d.copies, d.layout, d.unaccounted, d.share_percent, d.unit
    FROM delegate_totals($capture, unit := $unit, method := $method, runs := $basis) AS d
    JOIN captures AS c ON c.sha256 = $capture
    LEFT JOIN runs AS r ON r.capture_id = c.capture_id AND r.block_index = d.block_index
    LEFT JOIN delegates AS g
        ON g.record_id = c.record_id AND g.method = r.method AND g.instruction_id = d.instruction_id
    GROUP BY ALL
    ORDER BY d.total DESC, d.block_index, d.instruction_id
"""


def _coverage(target: Target) -> Section | None:
    if target.is_trace or not target.has_executes:
        return None
    calls = target.table(DELEGATE_CALLS)
    tables = {"calls": calls} if calls.length else {}
    if not target.has_record:
        missing = without_record(target, "what delegates took, and what fell back")
        return Section("coverage", "Delegate coverage", tables, missing=missing)
    tables["rows"] = target.table("FROM delegate_coverage($capture, unit := $unit, method := $method, runs := $basis)")
    return Section("coverage", "Delegate coverage", tables)


def _timeline(target: Target) -> Section | None:
    return timeline_section(target.table, target.is_trace)


SECTIONS: Final[tuple[Callable[[Target], Section | None], ...]] = (
    _headline,
    _advice,
    traces.idle,
    traces.critical_path,
    _breakdown,
    graph_section.graph,
    _timeline,
    _runs,
    traces.passes,
    traces.work,
    _ops,
    _kernels,
    traces.collectives,
    traces.launches,
    _modules,
    _sources,
    _events,
    _coverage,
    traces.peak_memory,
    memory.memory,
)

# Two parts of a report that take about as long, which a server computes at the same time.
PARTS: Final = {"first": SECTIONS[:5], "rest": SECTIONS[5:]}
