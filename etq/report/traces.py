"""The sections of a report about the devices and the memory of a PyTorch trace.

Each function returns None if the trace has nothing to show.
"""

from __future__ import annotations

from typing import Any, Final

from etq.report.columns import Table
from etq.report.page import Section
from etq.report.target import Target

# The number of ops and kernels in the overview.
TOP: Final = 8
# The most gaps, and the most rows of memory at its peak, on a page: the largest.
MOST_ROWS: Final = 500


def top_tables(target: Target) -> dict[str, Table]:
    """Return the ops, and the kernels and copies, that take most time: ops by device time, if devices ran anything."""
    query = """
        SELECT w.event, w.per_step, w.total, w.calls, w.unit
        FROM work_totals($capture, unit := $unit) AS w
        ORDER BY coalesce(w.per_step, w.total) DESC, w.event
        LIMIT $most
    """
    kernels = target.table(query, most=TOP) if target.has_devices else None
    on_devices = kernels is not None and kernels.length > 0
    of = "device" if on_devices else "cpu"
    ops = target.table(
        f"""
        SELECT
            k.name, k.self_device_time, k.self_cpu_time, k.self_device_per_step, k.self_cpu_per_step, k.calls, k.unit
        FROM _key_averages($capture, 'name', $unit, 0, NULL, NULL, NULL, 'all', true) AS k
        WHERE NOT k.is_device AND coalesce(k.self_{of}_per_step, k.self_{of}_time) > 0
        ORDER BY coalesce(k.self_{of}_per_step, k.self_{of}_time) DESC, k.name
        LIMIT $most
        """,
        most=TOP,
    )
    tables = {"top_ops": ops} if ops.length else {}
    return {**tables, "top_kernels": kernels} if kernels is not None and on_devices else tables


def nested_times(target: Target) -> dict[str, Table]:
    """Return the times of events within events, for a trace that doesn't name modules."""
    # The section of modules has the same query, which runs once.
    if target.table("FROM module_tree($capture, unit := $unit)").length:
        return {}
    query = "SELECT n.path, n.calls, n.self_time, n.unit FROM _nested_times($capture, $unit) AS n ORDER BY n.node_index"
    return {"nested": target.table(query)}


def idle_cards(target: Target) -> dict[str, Table]:
    """Return how long each device was idle, with the cause that took most of it."""
    rows = target.table(
        """
        SELECT d.device, d.idle, d.idle_percent, d.unit, c.cause, c.share_percent
        FROM device_breakdown($capture, unit := $unit) AS d
        LEFT JOIN device_idle_causes($capture, unit := $unit) AS c ON c.device IS NOT DISTINCT FROM d.device
        WHERE d.idle > 0
        QUALIFY row_number() OVER (PARTITION BY d.device ORDER BY c.total DESC NULLS LAST, c.cause) = 1
        ORDER BY d.device
        LIMIT $most
        """,
        most=TOP,
    )
    return {"idle": rows} if rows.length else {}


def idle(target: Target) -> Section | None:
    """Return the section about why devices were idle: by cause, and gap by gap."""
    if not target.has_devices:
        return None
    gaps = target.table(
        """
        SELECT
            i.device, i.step, i.start, i.duration, i.share_percent, i.cause, i.host_op, i.call, i.next_event,
            i.waited_for, i.unit, count(*) OVER () AS all_gaps
        FROM device_idle($capture, unit := $unit) AS i
        ORDER BY i.duration DESC, i.device, i.start
        LIMIT $most
        """,
        most=MOST_ROWS,
    )
    if not gaps.length:
        return None
    tables = {
        "devices": target.table("FROM device_breakdown($capture, unit := $unit)"),
        "causes": target.table("FROM device_idle_causes($capture, unit := $unit)"),
        "gaps": gaps,
    }
    all_gaps = gaps.columns[gaps.names.index("all_gaps")][0]
    note = f"The page has the {gaps.length:,} longest of {all_gaps:,} gaps." if gaps.length < all_gaps else None
    return Section("idle", "Idle devices", tables, note=note)


def critical_path(target: Target) -> Section | None:
    """Return the section about the critical path of the recording: by op, and its longest parts."""
    if not target.has_devices:
        return None
    ops = target.table("FROM critical_ops($capture, unit := $unit)")
    if not ops.length:
        return None
    parts = target.table(
        """
        SELECT p.kind, p.name, p.op, p.stream, p.start, p.duration, p.share_percent, p.unit,
            count(*) OVER () AS all_parts
        FROM critical_path($capture, unit := $unit) AS p
        ORDER BY p.duration DESC, p.start
        LIMIT $most
        """,
        most=MOST_ROWS,
    )
    all_parts = parts.columns[parts.names.index("all_parts")][0]
    note = f"The page has the {parts.length:,} longest of {all_parts:,} parts." if parts.length < all_parts else None
    return Section("critical_path", "Critical path", {"ops": ops, "parts": parts}, note=note)


def efficiency(target: Target) -> Section | None:
    """Return the section about the distance of ops from the peaks of the device, if the costs of some are known."""
    if not target.has_devices:
        return None
    tables = {
        name: target.table(f"FROM op_efficiency($capture, by := '{by}', unit := $unit) LIMIT $most", most=MOST_ROWS)
        for name, by in (("families", "family"), ("ops", "op"), ("shapes", "shape"))
    }
    families = tables["families"]
    if not any(families.columns[families.names.index("bytes_per_second")]) and not any(tables["ops"].columns[0]):
        return None
    [(device, bandwidth)] = target.warehouse.rows(
        "SELECT p.named_device, p.bandwidth FROM _trace_peaks(_capture_id($it), NULL, NULL, NULL) AS p",
        it=target.capture,
    )[1]
    facts = {"device": None if bandwidth is None else device, "bandwidth": bandwidth}
    return Section("efficiency", "How far from the peak", tables, facts)


def steps(target: Target) -> Section | None:
    """Return the section with the time of each step by category."""
    rows = target.table("FROM wide_steps($capture, unit := $unit)")
    return Section("steps", "Steps", {"steps": rows}) if rows.length else None


def serving(target: Target) -> Section | None:
    """Return the section about the steps of vLLM and SGLang: by phase, and each."""
    phases = target.table("FROM serving_phases($capture, unit := $unit)")
    if not phases.length:
        return None
    steps = target.table(
        "SELECT *, count(*) OVER () AS all_steps FROM serving_steps($capture, unit := $unit) ORDER BY time DESC, step "
        "LIMIT $most",
        most=MOST_ROWS,
    )
    all_steps = steps.columns[steps.names.index("all_steps")][0]
    note = f"The page has the {steps.length:,} longest of {all_steps:,} steps." if steps.length < all_steps else None
    return Section("serving", "Serving", {"phases": phases, "steps": steps}, note=note)


def passes(target: Target) -> Section | None:
    """Return the section about the forward pass, the backward pass and the optimizer, of traces of training."""
    rows = target.table("FROM passes($capture, unit := $unit)")
    names = rows.columns[rows.names.index("pass")]
    times = rows.columns[rows.names.index("host_time")]
    trained = {name for name, time in zip(_texts(names), times, strict=True) if time}
    if not trained & {"backward", "optimizer"}:
        return None
    tables = {"passes": rows}
    for by in ("module", "op"):
        costs = target.table(
            f"""
            SELECT * FROM backward_times($capture, by := '{by}', unit := $unit) AS b
            WHERE b.backward_calls > 0
            LIMIT $most
            """,
            most=MOST_ROWS,
        )
        if costs.length:
            tables[f"{by}s"] = costs
    return Section("passes", "Forward and backward", tables)


def _texts(column: Any) -> list[str | None]:
    """Return the values of a column of texts."""
    return [None if at < 0 else column["texts"][at] for at in column["at"]] if isinstance(column, dict) else column


def work(target: Target) -> Section | None:
    """Return the section about computation, communication and their overlap, by device and by step."""
    if not target.has_devices:
        return None
    devices = target.table("FROM device_breakdown($capture, unit := $unit)")
    if not devices.length:
        return None
    steps = target.table("FROM device_breakdown($capture, unit := $unit, by := 'step')")
    # A trace without profiler steps has one step per device.
    tables = {"devices": devices, "steps": steps} if steps.length > devices.length else {"devices": devices}
    return Section("work", "Device time", tables)


def collectives(target: Target) -> Section | None:
    """Return the section about collectives by process group and size."""
    if not target.has_devices:
        return None
    rows = target.table("FROM collectives($capture, unit := $unit)")
    return Section("collectives", "Collectives", {"rows": rows}) if rows.length else None


def launches(target: Target) -> Section | None:
    """Return the section about launches and the queues of streams."""
    if not target.has_devices:
        return None
    rows = target.table("FROM launch_totals($capture, unit := $unit)")
    if not rows.length:
        return None
    queues = target.table("FROM queue_summary($capture, unit := $unit)")
    return Section("launches", "Launches", {"rows": rows, "queues": queues})


def peak_memory(target: Target) -> Section | None:
    """Return the section about what is held when most memory is in use."""
    rows = target.table(
        """
        SELECT p.*, count(*) OVER () AS all_rows
        FROM peak_memory($capture, unit := $unit) AS p
        ORDER BY p.held_bytes DESC, p.device, p.op, p.step
        LIMIT $most
        """,
        most=MOST_ROWS,
    )
    if not rows.length:
        return None
    all_rows = rows.columns[rows.names.index("all_rows")][0]
    note = f"The page has the {rows.length:,} largest of {all_rows:,} rows." if rows.length < all_rows else None
    return Section("peak_memory", "Memory at its peak", {"rows": rows}, note=note)


def breakdown(target: Target) -> Section:
    """Return the section about where the time goes, by module and op."""
    leaves = target.table(
        """
        SELECT
            CASE WHEN k.name = '(no op)' THEN k.name ELSE coalesce(m.path, k.module, '') END AS module_path,
            k.name AS op, 'slice' AS kind, k.calls,
            coalesce(k.self_cpu_per_step * k.steps, k.self_cpu_time) AS self_time,
            coalesce(k.self_device_per_step * k.steps, k.self_device_time) AS self_device_time,
            k.unit, k.steps AS executes
        FROM _key_averages($capture, 'module', $unit, 0, NULL, NULL, NULL, 'all', true) AS k
        -- A module that several others call has no single path.
        LEFT JOIN (
            SELECT t.module, max(t.module_path) AS path
            FROM module_tree($capture, unit := $unit) AS t
            GROUP BY t.module
            HAVING count(*) = 1
        ) AS m ON m.module = k.module
        WHERE NOT k.is_device AND (k.self_cpu_time > 0 OR k.self_device_time > 0)
        -- Not as `key_averages` is: it would compute device times with children, a third of the query.
        ORDER BY k.self_ticks DESC, k.name, k.module, k.is_annotation
        """
    )
    facts = {
        **{"separator": "/", "what": "self time on the host", "leaves": "ops", "per": "step"},
        "has_devices": target.has_devices,
    }
    return Section("breakdown", "Where the time goes", {"leaves": leaves, **nested_times(target)}, facts)


def ops(target: Target) -> Section | None:
    ops = target.table(
        """
        SELECT
            k.name, nullif(k.shapes, '[]') AS shapes, k.calls, k.self_cpu_time,
            coalesce(k.self_cpu_step_percent, k.self_cpu_percent) AS self_cpu_percent,
            k.cpu_time_total, k.cpu_time_avg, k.self_device_time, k.device_time_total, k.self_cpu_memory, k.unit,
            k.self_cpu_per_step, k.cpu_per_step, k.self_device_per_step, k.device_per_step,
            k.cpu_outside_steps, k.device_outside_steps, k.steps
        FROM key_averages($capture, by := 'shape', unit := $unit) AS k
        WHERE NOT k.is_device
        """
    )
    return Section("calls", "Ops", {"rows": ops}) if ops.length else None


def modules(target: Target) -> Section:
    modules = target.table("FROM module_tree($capture, unit := $unit)")
    missing = "The trace has no modules: profile with with_modules=True, or with_stack=True."
    return Section("module_calls", "Modules", {"rows": modules}, missing=None if modules.length else missing)


def kernels(target: Target) -> Section | None:
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


def memory_timeline(target: Target) -> Section | None:
    timeline = target.table("FROM memory_timeline($capture, unit := $unit)")
    return Section("memory_timeline", "Memory over time", {"rows": timeline}) if timeline.length else None
