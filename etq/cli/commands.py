"""The commands by topic: some have their own module; those that print a view are made from this table.

A view's parameter is an option of its command if commands share it (`etq.cli.views`) or the table has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from etq.errors import EtqError


class Option(NamedTuple):
    """An option: a choice of words, a number, a text if it has a metavar, otherwise a flag.

    `instead` maps values to views that are shown in place of the command's view.
    """

    text: str
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    is_integer: bool = False
    instead: Mapping[Any, str] = {}


class ViewCommand(NamedTuple):
    """A command that prints a view of one capture; people see the columns in the view's line `Shown:`."""

    view: str
    text: str = ""
    examples: tuple[str, ...] = ("run --db lab.duckdb", "run.etdp --format json")
    options: Mapping[str, Option] = {}


_TRACE: Final = "train.pt.trace.json.gz"
_DB: Final = "run --db lab.duckdb"


def _trace(*examples: str) -> tuple[str, ...]:
    return (_DB, *(f"{_TRACE} {example}" for example in examples))


class Group(NamedTuple):
    """Commands that `etq help` lists together: each with its view, or with its module, which is imported when
    it runs.
    """

    text: str
    commands: Mapping[str, str | ViewCommand]

    @property
    def summary(self) -> str:
        """The group's text, and the group's commands that have no line on the first page of the help."""
        return f"{self.text}: {', '.join(name for name in self.commands if name not in FOREMOST)}"


GROUPS: Final[Mapping[str, Group]] = {
    "files": Group(
        "One file or capture",
        {
            "summary": "summary",
            "ops": "ops",
            "flame": "flame",
            "inspect": "files",
            "memory": "memory",
            "delegates": ViewCommand(
                "delegate_totals",
                text="Show the delegates' calls and the events within them. In tables, times are per execute.",
            ),
            "advice": ViewCommand(
                "advice",
                text="Show advice about a capture, the most severe finding first. Each finding has evidence, cost and "
                "remedy.\n\nFor a job, by a selector or a folder of its ranks: which rank is late and why, which link "
                "is slow, which clock differs.",
                examples=("run --db lab.duckdb", "run.etdp --format json", "job=train --db lab.duckdb", "traces/"),
            ),
            "report": "report",
            "export": "export",
        },
    ),
    "programs": Group(
        "With its record or program",
        {"coverage": "coverage", "graph": "graph", "roofline": "costs", "values": "values", "gap": "values"},
    ),
    "traces": Group(
        "PyTorch traces",
        {
            "steps": ViewCommand(
                "step_breakdown",
                text="Show how the time of each step was spent, or its MFU.",
                examples=_trace("--unit ms", "--wide", "--efficiency"),
                options={
                    "wide": Option(
                        "Print one row per step, with a column per category; on a terminal all columns.",
                        instead={True: "wide_steps"},
                    ),
                    "efficiency": Option(
                        "Print one row per step: its operations, and MFU, its operations per second in percent of the "
                        "peak of its devices.",
                        instead={True: "step_efficiency"},
                    ),
                },
            ),
            "kernels": ViewCommand(
                "kernel_table",
                text="Show the kernels that devices ran in a PyTorch trace.\n\nWith --by family, by what kernels "
                "compute; with --by annotation, by the innermost annotation around their launches, such as one of "
                "record_function. Both include copies and fills.",
                examples=_trace("--unit ms", "--by family"),
                options={
                    "by": Option(
                        "By name, by what they compute, or by name and the annotation that launched them.  "
                        "[default: kernel]",
                        ("kernel", "family", "annotation"),
                        instead={"family": "kernel_families", "annotation": "annotation_kernels"},
                    )
                },
            ),
            "critical-path": ViewCommand(
                "critical_ops",
                text="Show which ops determine how long a step takes.\n\nA faster op shortens the step by at most "
                "its time on the critical path.",
                examples=(
                    "run --step 12 --db lab.duckdb",
                    f"{_TRACE} --step-name forward",
                    f"{_TRACE} --step 12 --parts",
                ),
                options={
                    "step": Option(
                        "Number of a step; with --step-name, number of the call, from 0.  [default: all]",
                        is_integer=True,
                    ),
                    "step_name": Option("An annotation or op whose calls are the steps.", metavar="NAME"),
                    "parts": Option("Print each part of the path, in order of time.", instead={True: "critical_path"}),
                },
            ),
            "idle": ViewCommand(
                "device_idle_causes",
                text="Show why a trace's devices were idle, and for how long.",
                examples=_trace("--by stream", "--each --limit 10"),
                options={
                    "by": Option("Idle time of whole devices or of each stream.", ("device", "stream")),
                    "each": Option(
                        "Print each gap between device events, the longest first.", instead={True: "device_idle"}
                    ),
                },
            ),
        },
    ),
    "changes": Group(
        "Many captures",
        {
            "compare": "compare",
            "gate": "gate",
            "trend": "trends",
            "regressions": "trends",
            "fleet": "fleet",
            "comment": "comment",
            "bench": "bench",
        },
    ),
    "warehouses": Group(
        "A warehouse",
        {
            "ingest": "files",
            "push": "serve",
            "token": "serve",
            "link": "files",
            "captures": "labels",
            "label": "label",
            "db": "maintenance",
            "lake": "lake",
            "mcp": "agents",
        },
    ),
    "other": Group(
        "Anything else",
        {
            "serve": "serve",
            "show": "show",
            "sql": "sql",
            "views": "sql",
            "demo": "sql",
            "completion": "completion",
            "help": "help",
        },
    ),
}

COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.commands.items()}
# The commands that the first page of the help describes.
FOREMOST: Final = (
    *("summary", "ops", "flame", "advice", "report", "coverage", "graph", "steps", "kernels", "compare", "gate"),
    *("trend", "ingest", "serve", "sql", "show"),
)

# The views that commands with their own module print.
_VIEWS_OF_MODULES: Final[Mapping[str, str]] = {
    "op_totals": "ops",
    "key_averages": "ops",
    "roofline": "roofline",
    "op_efficiency": "roofline",
    "memory_totals": "memory",
    "logged_values": "values",
    "delegate_coverage": "coverage",
    "module_totals": "ops --by module",
    "source_totals": "ops --by source",
}

# Commands whose exit status is a result: they must not exit with 0 on a broken pipe.
JUDGING: Final = ("compare", "gate", "db")
# Aliases of commands.
ALIASES: Final[Mapping[str, str]] = {"list": "captures", "ls": "captures", "diff": "compare"}
# Names of commands in other tools, each with etq's command for it.
NAMED_HERE: Final[Mapping[str, str]] = {
    "add": "ingest FILE", "analyze": "advice FILE", "convert": "export FILE", "delete": "db remove CAPTURE",
    "efficiency": "roofline FILE",
    "fallback": "coverage FILE", "fallbacks": "coverage FILE", "flamegraph": "flame FILE", "hotspot": "ops FILE",
    "hotspots": "ops FILE", "import": "ingest FILE", "info": "summary FILE", "load": "ingest FILE",
    "mfu": "steps FILE --efficiency", "open": "report FILE --open", "operators": "ops FILE",
    "profile": "summary FILE, or measure: etq bench PROGRAM", "query": "sql QUERY", "remove": "db remove CAPTURE",
    "rm": "db remove CAPTURE", "schema": "views", "slow": "regressions", "stats": "ops FILE", "store": "ingest FILE",
    "tables": "views", "top": "ops FILE", "tree": "flame FILE",
    "ui": "serve WAREHOUSE --open", "version": "--version", "view": "report FILE --open",
}  # fmt: skip
# Bare `etq` prints these commands, which answer the first questions about a file.
FIRST: Final[Mapping[str, str]] = {
    "etq demo": "see it work on bundled captures",
    "etq FILE...": "what a file contains, or how two files differ",
    "etq ops FILE": "where the time went, op by op",
    "etq advice FILE": "what to change, the most severe finding first",
    "etq report FILE --open": "everything about a file as a page in a browser",
    "etq compare BASE NEW": "what is slower, and whether that is noise",
    "etq ingest FOLDER --db DB": "store files, to follow many builds and devices",
    "etq serve --db DB --open": "captures, comparisons and trends in a browser",
}


def refuse_command(view: str) -> None:
    """Raise `EtqError` for the name of a command in the place of a view's."""
    from etq.catalog import found

    if view in COMMANDS and found(view) is None:
        raise EtqError(f"{view} is a command, not a view: etq {view} --help")


def name_of(view: str) -> str:
    """Return the command that prints a view, or a grouping of it, such as key_averages by module."""
    view, _, by = view.partition(" by ")
    if by:
        return f"{name_of(view)} --by {by}"
    if view in _VIEWS_OF_MODULES:
        return f"etq {_VIEWS_OF_MODULES[view]}"
    names = (
        f"etq {name}" for name, command in COMMANDS.items() if isinstance(command, ViewCommand) and command.view == view
    )
    return next(names, f"etq show {view}")
