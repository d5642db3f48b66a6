"""The sections of a report about a PyTorch trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etq.analysis.efficiency import efficiency_of
from etq.report.columns import Table, table
from etq.report.kit import Grid, Rows, Section, declared, grid, shown_of
from etq.report.target import Target

# The number of ops and kernels in the overview.
TOP: Final = 8
# The most gaps, and the most rows of memory at its peak, on a page. The largest are shown.
MOST_ROWS: Final = 500


def top_grids(target: Target) -> list[Grid]:
    """Return the longest ops, and the longest kernels and copies. Ops are ordered by device time if devices ran
    anything.
    """
    kernels = target.view(
        "work_totals",
        "event, per_step, total, calls, unit",
        rest=f"ORDER BY coalesce(per_step, total) DESC, event LIMIT {TOP}",
    )
    of = "device" if kernels.length else "cpu"
    device = "k.self_device_per_step, k.self_device_time, " if kernels.length else ""
    ops = target.table(
        f"""
        SELECT k.name, {device}k.self_cpu_per_step, k.self_cpu_time, k.calls, k.unit
        FROM _key_averages($capture, 'name', $unit, 0, NULL, NULL, NULL, 'all', true) AS k
        WHERE NOT k.is_device AND coalesce(k.self_{of}_per_step, k.self_{of}_time) > 0
        ORDER BY coalesce(k.self_{of}_per_step, k.self_{of}_time) DESC, k.name
        LIMIT $most
        """,
        most=TOP,
    )
    title = f"Top ops, by {'device' if kernels.length else 'host'} time"
    made = (
        grid("key_averages", _per_step(ops), title, name="top_ops", kinds=_times_of(ops), is_own=True),
        grid("work_totals", _per_step(kernels), "Top kernels and copies", name="top_kernels", is_own=True),
    )
    return [each for each in made if each.rows.length]


def _times_of(rows: Table) -> dict[str, str]:
    return {name: "time" for name in rows.names if name.endswith(("_per_step", "_time"))}


def _per_step(rows: Table) -> Table:
    """Return rows with only their times per step, or, without these, with only their times of the whole trace."""
    has_steps = any(
        any(value is not None for value in values)
        for name, values in zip(rows.names, rows.columns, strict=True)
        if name.endswith("per_step")
    )
    kept = [
        at
        for at, name in enumerate(rows.names)
        if not name.endswith(("_time", "total") if has_steps else ("per_step",))
    ]
    return Table([rows.names[at] for at in kept], [rows.columns[at] for at in kept], rows.length)


def nested_times(target: Target) -> dict[str, Table]:
    """Return the times of events within events, for a trace that doesn't name modules."""
    # The section of modules uses the same query, so the query runs once.
    if target.view("module_tree", shown_of("module_tree")).length:
        return {}
    query = "SELECT n.path, n.calls, n.self_time, n.unit FROM _nested_times($capture, $unit) AS n ORDER BY n.node_index"
    return {"nested": target.table(query)}


def idle_cards(target: Target) -> dict[str, Table]:
    """Return how long each device was idle, with the main cause."""
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


def efficiency_cards(target: Target) -> dict[str, Table]:
    """Return the MFU of the steps of a trace of devices, or why it is unknown."""
    found = efficiency_of(target.warehouse, target.capture)
    return {} if found is None else {"efficiency": table(found._fields, [found])}


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


def _has_devices(target: Target) -> bool:
    return target.has_devices


idle = declared(
    *("idle", "Idle devices"),
    Rows("device_idle_causes"),
    Rows("device_idle", "The longest gaps", rest="ORDER BY duration DESC, device, start", most=MOST_ROWS),
    when=_has_devices,
)
critical_path = declared(
    *("critical_path", "Critical path"),
    Rows(
        "critical_ops",
        text="The chain of events that the end of the recording waited for. A faster op shortens the recording by at "
        "most its time here.",
    ),
    Rows("critical_path", "The longest parts", rest="ORDER BY duration DESC, start", most=MOST_ROWS),
    when=_has_devices,
)
serving = declared(
    *("serving", "Serving"),
    Rows(
        "serving_phases",
        text="By the annotations of vLLM and SGLang. The time of a step is its time on the host or on devices, "
        "whichever is longer.",
    ),
    Rows("serving_steps", "Steps", rest="ORDER BY time DESC, step", most=MOST_ROWS),
)
work = declared(
    *("work", "Device time"),
    Rows("device_breakdown"),
    # A trace without profiler steps has a single step per device.
    Rows(
        "device_breakdown",
        "By step",
        given="by := 'step'",
        rest="QUALIFY count(*) OVER (PARTITION BY device) > 1",
        name="step_device_time",
    ),
    when=_has_devices,
)
collectives = declared(
    *("collectives", "Collectives"),
    Rows(
        "collectives",
        text="The kernel of a collective also waits for the other processes, so bandwidths are lower bounds.",
        sort="total",
    ),
    when=_has_devices,
)
launches = declared(
    *("launches", "Launches"),
    Rows(
        "launch_totals",
        text="The delay is the time from the end of the call until the device starts what it launched.",
        sort="call_time",
    ),
    Rows(
        "queue_summary",
        "Queues of streams",
        "How many events were launched and had not started. If none waits, a stream is idle as soon as its last event "
        "ends.",
    ),
    when=_has_devices,
)
peak_memory = declared(
    *("peak_memory", "Memory at its peak"),
    Rows("peak_memory", rest="ORDER BY held_bytes DESC, device, op, step", most=MOST_ROWS),
)
ops = declared(
    *("calls", "Ops"),
    Rows(
        "key_averages",
        given="by := 'shape'",
        rest="WHERE NOT is_device",
        sort="self_device_per_step self_device_time self_cpu_per_step self_cpu_time",
    ),
)
modules = declared(
    *("module_calls", "Modules"),
    Rows("module_tree", sort="host_per_step host_total_time"),
    missing="The trace has no modules: record it with with_stack=True.",
)
kernels = declared(
    *("kernels", "Kernels of devices"),
    Rows("kernel_families"),
    Rows("fusable_chains", "Chains of ops that torch.compile would fuse", rest="LIMIT 100", sort="saves_at_most"),
    Rows("kernel_table", "Kernels", sort="per_step total"),
    Rows(
        "tensor_core_use",
        "Ops that tensor cores could run",
        given="by := 'op'",
        rest="WHERE tensor_time > 0 OR missed_time > 0 OR unknown_time > 0",
        sort="missed_time",
    ),
    Rows("work_totals", "Copies and fills", rest="WHERE type = 'memory'"),
    when=_has_devices,
)


passes = declared(
    *("passes", "Forward and backward"),
    # Only for training, in which a backward pass or an optimizer took time.
    Rows("passes", rest="QUALIFY bool_or(pass IN ('backward', 'optimizer') AND host_time > 0) OVER ()"),
    *(
        Rows(
            "backward_times",
            f"{by.capitalize()}s in the backward pass",
            given=f"by := '{by}'",
            rest="WHERE backward_calls > 0",
            most=MOST_ROWS,
            sort="backward_device_time backward_host_time",
            name=f"backward_{by}",
        )
        for by in ("module", "op")
    ),
)


def steps(target: Target) -> Section | None:
    """Return the section with the time of each step by category, and their average."""
    rows = target.view("wide_steps")
    if not rows.length:
        return None
    mean = target.view("wide_steps", f"avg(COLUMNS(* EXCLUDE ({_NO_TIMES}))), any_value(unit) AS unit")
    values = {name: mean.columns[mean.names.index(name)] if name in mean.names else [None] for name in rows.names}
    listed = replace(grid("wide_steps", rows), foot=Table(rows.names, [*values.values()], 1))
    return Section("steps", "Steps", {"average": mean}, grids=[listed])


# The columns of `wide_steps` that aren't times.
_NO_TIMES: Final = "run_index, step, is_slow, unit"


def efficiency(target: Target) -> Section | None:
    """Return the section about how far ops are from the device's peaks, if the costs of some ops are known."""
    grids = (
        Rows("op_efficiency", title, given=f"by := '{by}'", most=MOST_ROWS, name=f"efficiency_{by}")
        for by, title in (("family", None), ("op", "By op"), ("shape", "By shape"))
    )
    if not target.has_devices:
        return None
    shapes = target.view("op_efficiency", given="by := 'shape'", rest=f"LIMIT {MOST_ROWS}")
    if not shapes.length:
        return None
    if not any(shapes.columns[shapes.names.index("bytes_per_second")]):
        reasons = target.view("op_efficiency", "reason", "by := 'op'", "WHERE reason IS NOT NULL")
        why = f": {reasons.columns[0]['texts'][0]}" if reasons.length else ""
        return Section("efficiency", "How far from the peak", missing=f"No op's costs are known{why}.")
    made = declared("efficiency", "How far from the peak", *grids)(target)
    if made is None:
        return None
    [(device, bandwidth)] = target.warehouse.rows(
        "SELECT p.named_device, p.bandwidth FROM _trace_peaks(_capture_id($it), NULL, NULL, NULL) AS p",
        it=target.capture,
    )[1]
    note = (
        "The peaks of the device are not known: only rates are shown."
        if bandwidth is None
        else f"Against the peaks of {device}. An op can save at most its time above the roof."
    )
    return replace(made, tables={"shapes": shapes}, facts={"bandwidth": bandwidth}, note=note)


def memory_timeline(target: Target) -> Section | None:
    """Return the section with the memory of each device over time."""
    rows = target.view("memory_timeline")
    return Section("memory_timeline", "Memory over time", {"rows": rows}) if rows.length else None
