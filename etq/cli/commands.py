"""The commands by topic: those with a module of their own, and those that print a view, which are made from this table.

A view's parameters are options of its command, as far as commands share them (`etq.cli.views`) or the table has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Shown:
    """A view, and what is selected of it: for programs and for people."""

    view: str
    columns: str = "*"
    to_read: str | None = None  # None: the columns of the line `Shown:` of its comment, or else as `columns`
    sums: tuple[str, ...] = ()  # columns about all executes or steps, which people see with --total


@dataclass(frozen=True)
class Option:
    """An option: one of some words, a number from `least` on, a text if it has a metavar, or else a flag.

    `instead` has the views that are shown for its values, other than that of the command.
    """

    text: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    least: int | None = None
    is_integer: bool = False
    instead: Mapping[Any, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewCommand(Shown):
    """A command that prints a view of one capture."""

    text: str = ""
    examples: tuple[str, ...] = ("run --db lab.duckdb", "run.etdp --format json")
    options: Mapping[str, Option] = field(default_factory=dict)
    long: tuple[str, ...] = ()  # columns with long texts
    takes_program: bool = False


_TRACE: Final = "train.pt.trace.json.gz"
_DB: Final = "run --db lab.duckdb"
_OF_RECORD: Final = (_DB, "run.etdp --etrecord model.etrecord --format json")
_OF_TRACE: Final = (_DB, _TRACE)


def _trace(*examples: str) -> tuple[str, ...]:
    return (_DB, *(f"{_TRACE} {example}" for example in examples))


_SUMS: Final = ("total", "executes")
_SUMS_OF_STEPS: Final = ("total", "steps")
_BY_STREAM: Final = {"by": Option("Of whole devices or of each stream.", ("device", "stream"))}
_PATH: Final = """kind, name, op, device, stream, start, duration, share_percent, call_kind, correlation_id, unit"""

# A module is imported when one of its commands runs. The order is that of the help text.
COMMANDS: Final[Mapping[str, Mapping[str, str | ViewCommand]]] = {
    "One file or capture": {
        "summary": "summary",
        "inspect": "files",
        "ops": "ops",
        "events": ViewCommand(
            "inspector_events",
            """block_index, event_block_name, method, slot, occurrence, event_name, instruction_id, p10, p50, p90, avg,
            min, max, unit""",
            """event_name, instruction_id, event_block_name, block_index, method, slot, occurrence, p10, p50, p90, avg,
            min, max, unit""",
            text="Show a capture's events with statistics over their runs.",
        ),
        "percentiles": "percentiles",
        "flame": "flame",
        "breakdown": ViewCommand(
            "execute_breakdown",
            to_read="""component, method, block_index, instruction_id, per_execute, share_percent, calls, total,
            executes, unit""",
            sums=_SUMS,
            text="Show the parts of the time of an execute.",
        ),
        "tax": ViewCommand(
            "framework_tax",
            text="Show what each run costs besides its work.",
            options={"baseline": Option("A capture of the same program at level method_only.", metavar="CAPTURE")},
        ),
        "memory": "memory",
        "delegates": ViewCommand(
            "delegate_totals",
            to_read="""block_index, method, instruction_id, per_execute, avg AS per_call, share_percent,
            ops / executes AS ops, copies / executes AS copies, layout / executes AS layout,
            unaccounted / executes AS unaccounted, calls, events, other_events, total, executes, unit""",
            sums=_SUMS,
            text="Show the delegates' calls and the events within them. For people, times are those of an execute.",
        ),
        "advice": ViewCommand(
            "advice",
            "severity, rule, finding, evidence, time_at_stake, unit, share_percent, remedy",
            text="Show advice about a capture, the most costly finding first. Each finding has evidence, cost and "
            "remedy.",
            long=("finding", "evidence", "remedy"),
        ),
        "report": "report",
        "export": "export",
    },
    "With its record or program": {
        "modules": ViewCommand(
            "module_totals",
            """method, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module, module_class, calls,
            self_time, total, share_percent, mapping, unit, executes, self_per_execute, per_execute""",
            """method, CASE module_path WHEN '' THEN '(model)' ELSE module_path END AS module, per_execute,
            share_percent, self_per_execute, module_class, calls, mapping, total, self_time, executes, unit""",
            ("self_time", *_SUMS),
            text="Show the time of each module in an execute. Needs a linked record.",
            examples=_OF_RECORD,
        ),
        "sources": ViewCommand(
            "source_totals",
            "source, method, calls, total, share_percent, unit, executes, per_execute",
            sums=_SUMS,
            text="Show the time of each source line in an execute. Needs a linked record.",
            examples=_OF_RECORD,
        ),
        "coverage": "coverage",
        "delegate-ops": ViewCommand(
            "delegate_graph",
            """method, instruction_id, op_index, op, node_name, outputs, event_name, calls, self_time, share_percent,
            unit, executes, per_execute""",
            """method, instruction_id, op_index, op, node_name, per_execute, share_percent, outputs, event_name, calls,
            self_time, executes, unit""",
            ("self_time", "executes"),
            text="Show the ops of delegates' graphs, their nodes and times. Needs a linked program.",
            examples=(_DB, "run.etdp --etrecord model.etrecord --pte model.pte"),
            takes_program=True,
        ),
        "graph": "graphs",
        "graphs": "graphs",
        "flops": "costs",
        "roofline": "costs",
        "program": "programs",
        "values": "values",
        "reference": "values",
        "gap": "values",
    },
    "PyTorch traces": {
        "steps": ViewCommand(
            "step_breakdown",
            text="Show how the time of each step was spent.",
            examples=_trace("--unit ms", "--wide"),
            options={
                "wide": Option(
                    "Print one row per step, with a column per category; on a terminal all columns.",
                    instead={True: Shown("wide_steps")},
                )
            },
        ),
        "kernels": ViewCommand(
            "kernel_table",
            to_read="""kernel, family, per_step, mean AS per_call, calls, total, min, max, tensor_cores_used,
            tensor_cores_eligible, blocks_per_sm, occupancy_percent, nullif(outside_steps, 0) AS outside_steps, steps,
            unit""",
            sums=_SUMS_OF_STEPS,
            text="Show the kernels that devices ran in a PyTorch trace.\n\nWith --by family, by what kernels compute, "
            "copies and fills too. With --by annotation, copies and fills too: by the innermost annotation around "
            "their launches, such as one of record_function.",
            examples=_trace("--unit ms", "--by family"),
            options={
                "by": Option(
                    "By name, by what they compute, or by name and the annotation that launched them.  "
                    "[default: kernel]",
                    ("kernel", "family", "annotation"),
                    instead={
                        "family": Shown(
                            "kernel_families",
                            to_read="""coalesce(family, '(unknown)') AS family, per_step, total, share_percent, calls,
                            names, tensor_percent, nullif(outside_steps, 0) AS outside_steps, top_event, steps, unit""",
                            sums=_SUMS_OF_STEPS,
                        ),
                        "annotation": Shown(
                            "annotation_kernels",
                            to_read="* REPLACE (coalesce(annotation, '(no annotation)') AS annotation)",
                        ),
                    },
                )
            },
        ),
        "replay": "replay",
        "critical-path": ViewCommand(
            "critical_ops",
            to_read="* REPLACE (coalesce(op, '(no op)') AS op)",
            text="Show which ops determine how long a step takes.\n\nThe time of an op on the critical path is the "
            "most by which a faster op would shorten the step.",
            examples=("run --step 12 --db lab.duckdb", f"{_TRACE} --step-name forward", f"{_TRACE} --step 12 --parts"),
            options={
                "step": Option(
                    "Number of a step; with --step-name, of a call of it, from 0.  [default: all]", is_integer=True
                ),
                "step_name": Option("An annotation or op whose calls are the steps.", metavar="NAME"),
                "parts": Option(
                    "Print each part of the path, in the order of time.", instead={True: Shown("critical_path", _PATH)}
                ),
            },
        ),
        "idle": ViewCommand(
            "device_idle_causes",
            text="Show why a trace's devices were idle, and for how long.",
            examples=_trace("--by stream"),
            options=_BY_STREAM,
        ),
        "gaps": ViewCommand(
            "device_idle",
            """device, stream, step, start, duration, share_percent, cause, host_op, call, next_event, waited_for,
            unit""",
            text="Show each gap between device events, and its cause. The longest is first.",
            examples=_trace("--limit 10"),
            options=_BY_STREAM,
        ),
        "copies": ViewCommand(
            "copy_totals",
            to_read="""event, per_step, bytes_per_step, mean_bytes, bandwidth_gb_per_s AS gb_per_s, calls,
            synchronous_calls, total, bytes, min_bytes, max_bytes, min_gb_per_s, mean_gb_per_s, max_gb_per_s,
            nullif(outside_steps, 0) AS outside_steps, steps, unit""",
            sums=("bytes", *_SUMS_OF_STEPS),
            text="Show what copies and fills of devices move, and how fast.\n\nTimes and bytes are those of a step, if "
            "the trace has steps. A copy is synchronous if its call returned only after the copy had ended: the host "
            "waited for it.",
            examples=_trace("--each --limit 20"),
            options={
                "each": Option("Print each copy and fill, in the order of time.", instead={True: Shown("copies")})
            },
        ),
        "overlap": ViewCommand(
            "device_breakdown",
            text="Show how computation and communication overlap. Times are those of each device.",
            examples=_trace("--by step"),
            options={"by": Option("Of the whole trace or of each step.", ("device", "step"))},
        ),
        "collectives": ViewCommand(
            "collectives",
            to_read="""collective, message_bytes AS bytes, group_size AS ranks, process_group, calls, total,
            share_percent, best_bus_bandwidth_gb_per_s AS best_bus_gb_s, link_percent, reason,
            bus_bandwidth_gb_per_s AS bus_gb_s, min, mean, max, bandwidth_gb_per_s AS gb_s, group_description,
            message_type, unit""",
            text="Show collectives by process group and size. Bandwidths are those that nccl-tests reports.\n\nFor how "
            "long the ranks of a job wait in them: etq stragglers --by collective.",
            examples=_OF_TRACE,
        ),
        "serving": ViewCommand(
            "serving_phases",
            to_read="""coalesce(phase, '(unknown)') AS phase, steps, tokens_per_second AS tokens_s,
            time_per_output_token AS per_token, mean_time, sequences, share_percent, time, host_time, device_time,
            tokens_in, tokens_out, unit""",
            text="Show the steps of vLLM and SGLang by phase.\n\nTheir annotations tell the phase (prefill, decode or "
            "mixed), sequences and tokens. The time of a step is the longer of that on the host and that on devices.",
            examples=_trace("--each"),
            options={
                "each": Option(
                    "Print each step, in the order of time.",
                    instead={
                        True: Shown(
                            "serving_steps",
                            to_read="""step, phase, sequences, tokens_in, tokens_out, tokens_per_second AS tokens_s,
                            host_time, device_time, time, events, unit""",
                        )
                    },
                )
            },
        ),
        "stragglers": "ranks",
        "clocks": "ranks",
        "map": "ops",
    },
    "Many captures": {
        "compare": "compare",
        "gate": "gate",
        "trend": "trends",
        "regressions": "trends",
        "comment": "comment",
        "bench": "bench",
        "plan": "plan",
    },
    "A warehouse": {
        "ingest": "files",
        "push": "serve",
        "token": "serve",
        "link": "files",
        "captures": "labels",
        "label": "labels",
        "metric": "metrics",
        "phase": "metrics",
        "merge": "maintenance",
        "backup": "maintenance",
        "check": "maintenance",
        "remove": "maintenance",
        "prune": "maintenance",
        "compact": "maintenance",
        "lake": "lake",
        "mcp": "agents",
    },
    "Anything else": {
        "serve": "serve",
        "open": "opening",
        "show": "show",
        "sql": "sql",
        "views": "sql",
        "demo": "sql",
        "completion": "completion",
    },
}

# Of views, the columns that answer what their command is asked: on a terminal without room for all columns, they are
# left out last, the first ones at the very end. Views that aren't here have those of `FOREMOST` in etq/render/table.py.
ANSWERS: Final[Mapping[str, tuple[str, ...]]] = {
    "capture_groups": ("value", "captures", "runs", "last_captured_at"),
    "capture_summary": ("name", "labels", "captured_at", "stored_bytes"),
    "compare_captures": ("what", "method", "verdict", "change_percent", "base", "new", "low_percent", "high_percent"),
    "compare_graphs": ("change", "base_name", "new_name", "base_time", "new_time", "changed", "op"),
    "compare_metrics": ("name", "verdict", "change_percent", "base", "new"),
    "compare_modules": ("module", "verdict", "own_change_percent", "base", "new", "difference"),
    "compare_ops": ("op", "instruction_id", "verdict", "own_change_percent", "base", "new", "difference"),
    "compare_startup": ("what", "method", "verdict", "change_percent", "base", "new"),
    "copy_totals": ("event", "per_step", "bytes_per_step", "gb_per_s", "calls", "synchronous_calls"),
    "decode_trend": ("position", "execute", "slope", "tau"),
    "delegate_totals": ("instruction_id", "per_execute", "share_percent", "ops", "copies", "layout", "unaccounted"),
    "framework_tax": ("run_index", "execute", "tax", "tax_percent", "note"),
    "inspector_events": ("event_name", "instruction_id", "p50", "p90", "avg"),
    "kernel_sequences": ("op", "sequence", "calls", "device_time", "host_time", "length"),
    "kernel_launches": ("call", "event", "launch_delay", "start"),
    "launch_totals": ("call", "calls", "mean_call", "mean_delay", "p50_delay", "max_delay"),
    "model_map": ("module_path", "op", "etdump_time", "trace_time", "ratio", "excess"),
    "numeric_gap": ("base_op", "new_op", "gap", "problem", "metric"),
    "queue_summary": ("device", "stream", "launches", "mean", "max", "empty_percent", "unit", "empty_time"),
    "rank_steps": ("step", "rank", "duration", "waited", "waits_for"),
    "regressions": ("series", "item", "change_percent", "first_bad", "unit", "cost", "last_good", "verdict"),
    "op_efficiency": ("op", "family", "inputs", "per_step", "roof_percent", "bound", "share_percent", "tb_s"),
    "roofline": ("op", "instruction", "per_execute", "bound", "roof_percent", "gflop_s", "gb_s", "intensity"),
    "slow_runs": ("op", "instruction_id", "typical", "slow", "excess", "excess_percent"),
    "stragglers": ("rank", "steps", "waited_for", "waited", "waited_for_steps"),
}

# The views that commands with a module of their own print.
_VIEWS_OF_MODULES: Final[Mapping[str, str]] = {
    "op_totals": "ops",
    "key_averages": "ops",
    "roofline": "roofline",
    "memory_totals": "memory",
    "logged_values": "values",
    "delegate_coverage": "coverage",
}

# Commands whose exit status is an answer: it is no success if nobody has read what they print.
JUDGING: Final = ("compare", "gate", "check")
# Other words for commands.
ALIASES: Final[Mapping[str, str]] = {"list": "captures", "ls": "captures", "diff": "compare"}
# Commands that delete, which no mistyped one may become.
DELETING: Final = ("remove", "prune")
# What bare `etq` prints: with these, a file's first questions are answered.
FIRST: Final[Mapping[str, str]] = {
    "etq demo": "see it work on bundled captures",
    "etq FILE...": "what is in it; of two files, what differs",
    "etq ops FILE": "where the time went, op by op",
    "etq advice FILE": "what to change, the most costly finding first",
    "etq report FILE --open": "everything about a file as a page in a browser",
    "etq compare BASE NEW": "what is slower, and whether that is noise",
    "etq ingest FOLDER --db DB": "store files, to follow many builds and devices",
    "etq serve --db DB --open": "captures, comparisons and trends in a browser",
}


def name_of(view: str) -> str:
    """Return the command that prints a view."""
    if view in _VIEWS_OF_MODULES:
        return f"etq {_VIEWS_OF_MODULES[view]}"
    names = (
        f"etq {name}"
        for commands in COMMANDS.values()
        for name, command in commands.items()
        if isinstance(command, ViewCommand) and command.view == view
    )
    return next(names, f"etq show {view}")
