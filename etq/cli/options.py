"""Options that commands share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from textwrap import fill
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from etq.choices import PHASES, RUNS, UNITS
from etq.cli.numbers import FloatRange, IntRange
from etq.database.limits import set_limits
from etq.render.display import display, show_as
from etq.render.selection import selection
from etq.render.writers import FORMATS, Output

DEFAULT_WAREHOUSE: Final = "etq.duckdb"
SCHEDULE: Final = {
    "skip_first": "Number of runs to leave out at the start.",
    "wait": "Number of runs to leave out at the start of each cycle.",
    "warmup": "Number of runs to leave out in each cycle after those of --wait.",
    "active": "Number of runs to use in each cycle, after those of --wait and --warmup.",
    "repeat": "Number of cycles; 0: up to the last run.",
    "skip_first_wait": "Not 0: skip the wait in the first cycle.",
}

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PREFIXES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
PREFIXES_OF_TWO: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_NUMBER: Final = r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*"
_FLOPS: Final = re.compile(_NUMBER + r"([kKMGTP]?)(?:FLOPS|FLOPs|FLOP/s|flops|flop/s)?\s*")
_BANDWIDTHS: Final = "15G, 15e9, 15GB/s or 14GiB/s; bytes, not bits"
_BANDWIDTH: Final = re.compile(_NUMBER + r"([KMGT]i|[kKMGTP]?)(?:B/s|byte/s|bytes/s)?\s*")


class CommonOption(click.Option):
    """An option of many commands: `etq help options` describes it, and the help of a command names it."""


common_option: Final = partial(click.option, cls=CommonOption)


class Command(click.Command):
    """A command whose help describes its own options, and only names common options."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        is_open, context.allow_extra_args = context.allow_extra_args, True
        try:
            rest = super().parse_args(context, args)
        except click.NoSuchOption as error:
            instead = _instead_of(error.option_name, self) or _neighbour_with(error.option_name, context)
            near = None if instead else error.possibilities
            raise click.NoSuchOption(error.option_name, error.message + instead, near, context) from None
        if rest and not is_open and not context.resilient_parsing:
            arguments = "argument" if len(rest) == 1 else "arguments"
            context.fail(f"Got unexpected extra {arguments} ({' '.join(rest)}){_use_of(rest[0], self)}")
        return rest

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        options = [option for option in self.get_params(context) if isinstance(option, click.Option)]
        shown = [option for option in options if not isinstance(option, CommonOption)]
        with formatter.section("Options"):
            formatter.write_dl([record for option in shown if (record := option.get_help_record(context)) is not None])
        common = [option.opts[0] for option in options if isinstance(option, CommonOption)]
        if common:
            indent = " " * 2
            names = fill(
                ", ".join(common), formatter.width, initial_indent=indent, subsequent_indent=indent,
                break_on_hyphens=False,
            )  # fmt: skip
            formatter.write(f"\nCommon options (etq help options):\n{names}\n")


def _use_of(argument: str, command: click.Command) -> str:
    """Return how a further argument may be meant, if it is a file."""
    ending = argument.rpartition(".")[2]
    if ending in ("etrecord", "pte") and any(f"--{ending}" in each.opts for each in command.params):
        return f"; write --{ending} {argument}"
    is_about_one = any(isinstance(each, click.Argument) and each.name == "capture" for each in command.params)
    is_file = is_about_one and os.path.exists(argument)
    return "; name one file, or compare two: etq compare BASE NEW" if is_file else ""


def _instead_of(option: str, command: click.Command) -> str:
    """Return what to write instead of an option of other tools, or of other commands: a format's name, --format, or
    --label to select captures.
    """
    forms = next((each.type for each in command.params if "--format" in each.opts), None)
    if isinstance(forms, click.Choice) and option[2:] in forms.choices:
        return f" Write --format {option[2:]}."
    if option == "--format" and any("--to" in each.opts for each in command.params):
        return " Write --to FORMAT."
    selects = any(each.name in ("capture", "selector", "base") for each in command.params)
    return " A label selects captures without an option: KEY=VALUE." if selects and option == "--label" else ""


def _neighbour_with(option: str, context: click.Context) -> str:
    """Return which other command of the group takes an option, for the error that this command doesn't take it."""
    from etq.cli.commands import GROUPS

    group = next((group for group in GROUPS.values() if context.info_name in group.commands), None)
    if group is None or not isinstance(parent := context.find_root().command, click.Group):
        return ""
    commands = {name: parent.get_command(context.find_root(), name) for name in group.commands}
    names = [name for name, other in commands.items() if other and any(option in each.opts for each in other.params)]
    return f" etq {names[0]} has it." if names else ""


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command; the command's help lists the options in this order."""

    def added(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return added


def is_given(name: str) -> bool:
    """Whether the command line has the parameter of this name."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def check_alone(option: str, *names: str) -> None:
    """Raise `click.UsageError` if the command line has options other than `option` and `names`."""
    context = click.get_current_context()
    known = (option, *(f"--{name}" for name in names))
    for other in context.command.params:
        if is_given(other.name or "") and isinstance(other, click.Option) and other.opts[-1] not in known:
            raise click.UsageError(f"{option} can't be used with {other.opts[-1]}, only with {', '.join(known[1:])}")


def classes_option(command: Decorated) -> Decorated:
    """Add --classes, which applies while the command runs, including to processes that it starts."""

    def use(context: click.Context, _: click.Parameter, file: str | None) -> None:
        if file is None:
            return
        from etq.ingest.trace.classes import VARIABLE

        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = file
        context.call_on_close(
            lambda: os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
        )

    return common_option(
        "--classes",
        metavar="FILE",
        expose_value=False,
        callback=use,
        help="For a trace: a file of categories and names that etq doesn't know.  [default: $ETQ_CLASSES]",
    )(command)


warehouse_option: Final = common_option(
    "--db",
    metavar="FILE",
    envvar="ETQ_DB",
    default=DEFAULT_WAREHOUSE,
    help="The warehouse, or a lake.  [default: $ETQ_DB, or etq.duckdb in this folder]",
)


def warehouse_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an argument for the warehouse, which may be given as --db instead; the command gets it as `db`."""

    @wraps(command)
    def naming(*args: Any, warehouse: str | None, db: str, **options: Any) -> Any:
        if warehouse is not None and is_given("db") and warehouse != db:
            raise click.UsageError(f"{warehouse} and --db {db} are two warehouses; name one")
        return command(*args, db=db if warehouse is None else warehouse, **options)

    return click.argument("warehouse", metavar="[WAREHOUSE]", required=False)(warehouse_option(naming))


def _file_of_output(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    return None if path == "-" else path


def as_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass --format, -o and --force to a command as one `Output`."""

    @wraps(command)
    def passed(*args: Any, format: str | None, output: str | None, force: bool, **options: Any) -> Any:
        return command(*args, output=Output(format, output, force), **options)

    return passed


# The time and memory limits for queries on untrusted files.
query_limits: Final = together(
    common_option(
        "--seconds",
        type=FloatRange(0, 86400, min_open=True),
        expose_value=False,
        callback=lambda _, __, number: set_limits(query_seconds=number),
        help="Time limit of each query in seconds, for files that aren't trusted.",
    ),
    common_option(
        "--megabytes",
        type=IntRange(16, 2**20),
        expose_value=False,
        callback=lambda _, __, number: set_limits(query_megabytes=number),
        help="Memory limit of each query in MB, for files that aren't trusted.",
    ),
)

# The file of a command's output.
_output_file: Final = together(
    query_limits,
    common_option(
        "-o", "--output", metavar="FILE", callback=_file_of_output, help="Write to that file instead of stdout (-)."
    ),
    common_option("--force", is_flag=True, help="Overwrite an existing file of -o."),
    common_option(
        "--full-names",
        is_flag=True,
        expose_value=False,
        callback=lambda _, __, is_set: show_as(has_full_names=is_set),
        help="In tables: show names of kernels in full, with namespaces and template arguments.",
    ),
    common_option(
        "--escape-formulas",
        is_flag=True,
        expose_value=False,
        callback=lambda _, __, is_set: show_as(escapes_formulas=is_set),
        help="In CSV and TSV: put an apostrophe before texts that begin like formulas.",
    ),
)
# The file of a command's output, and its format.
file_output_options: Final = together(
    common_option(
        "--format",
        "format",
        type=click.Choice(FORMATS),
        help="Format of the output.  [default: by the ending of -o, else table]",
    ),
    _output_file,
)


def formats_option(more: Sequence[str], text: str) -> Callable[[Any], Any]:
    """Add `file_output_options` to a command that has more formats; `text` is the help of --format."""
    formats = click.option("--format", "format", type=click.Choice([*FORMATS, *more]), help=text)
    return together(formats, _output_file, as_output)


def output_options(command: Callable[..., Any], *, has_wide: bool = False) -> Callable[..., Any]:
    """Add the options of commands that print a table: its rows, their order, its columns, its format and file.

    A command that `has_wide` has its own option --wide.
    """
    of_rows = [option for name, option in _row_options.items() if name != "wide" or not has_wide]
    decorated: Callable[..., Any] = together(*of_rows, file_output_options, as_output)(command)
    return decorated


def _selects(field: str) -> Callable[[Any, Any, Any], object]:
    """Return the callback of an option that sets this field of `Selection` until the command ends."""
    return lambda _, __, value: selection.set(selection.get()._replace(**{field: value}))


def _select_columns(context: click.Context, parameter: click.Parameter, text: str | None) -> None:
    if (columns := column_names(context, parameter, text)) is not None:
        selection.set(selection.get()._replace(columns=columns))
        show_as(is_wide=True)


def column_names(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Parse names that are separated by commas."""
    if text is None:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise click.BadParameter("names no column")
    return names


_row_option: Final = partial(common_option, expose_value=False)
# The options that select the rows and columns of a table, and their order.
_row_options: Final = {
    "limit": _row_option(
        "--limit", type=IntRange(1), metavar="N", callback=_selects("limit"), help="Show only the first N."
    ),
    "wide": _row_option(
        "--wide",
        is_flag=True,
        callback=lambda _, __, is_set: show_as(is_wide=is_set or display().is_wide),
        help="Show all columns of a table with their whole texts, also those that don't fit.",
    ),
    "columns": _row_option(
        "--columns", metavar="A,B,...", callback=_select_columns, help="Show only these columns, in this order."
    ),
    "sort_by": _row_option(
        "--sort-by",
        metavar="COLUMN",
        callback=_selects("sort_by"),
        help="Sort by that column: numbers from the largest, texts from A to Z.",
    ),
}


def unit_option(default: str | None) -> Callable[[Decorated], Decorated]:
    text = "ms" if default else "us; cycles where ticks are cycles"
    return click.option("--unit", type=click.Choice(UNITS), default=default, help=f"Unit of times.  [default: {text}]")


total_option: Final = click.option(
    "--total", is_flag=True, help="In a table: show the sums over all executes or steps, too."
)


def alpha_option(what: str) -> Callable[[Decorated], Decorated]:
    text = f"Accepted probability of a false {what}.  [default: 0.05]"
    return click.option("--alpha", type=FloatRange(0, 1, min_open=True, max_open=True), help=text)


quantile_option: Final = click.option(
    "--quantile",
    type=click.Choice(["0.25", "0.5", "0.9"]),
    callback=lambda _, __, text: None if text is None else float(text),
    help="Quantile of a capture's runs that is compared.  [default: 0.25]",
)
phase_option: Final = click.option(
    "--phase",
    type=click.Choice(PHASES),
    help="Only runs of that phase: steps of vLLM and SGLang, or as set with etq label --phase.",
)
method_option: Final = click.option("--method", metavar="METHOD", help="Only runs of that method.")


def runs_option(default: str) -> Callable[[Decorated], Decorated]:
    text = f"Only typical runs, which took about as long as most of their kind, or all.  [default: {default}]"
    return click.option("--runs", type=click.Choice(RUNS), help=text)


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select runs of a capture or file by schedule; the command gets them as `steps`,
    the text that views take.
    """

    @wraps(command)
    def with_steps(*args: Any, **options: Any) -> Any:
        numbers = {name: options.pop(name) for name in SCHEDULE}
        pairs = [f"{name}={number}" for name, number in numbers.items() if number is not None]
        return command(*args, steps=",".join(pairs) or None, **options)

    decorated: Callable[..., Any] = with_steps
    for name, text in reversed(SCHEDULE.items()):
        decorated = common_option(f"--{name.replace('_', '-')}", type=IntRange(0), help=text)(decorated)
    return decorated


# The options that select runs of a capture.
schedule_options: Final = together(step_options, phase_option)
run_options: Final = together(schedule_options, method_option, runs_option("typical"))


def percentage(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """Parse a percentage: 3% and 0.03 are both 0.03."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a fraction; write 3% or 0.03") from None
    if not text.endswith("%") and value >= 1:
        raise click.BadParameter(f"{text} would be {value:.0%} of a time; did you mean {text}%?")
    if not 0 <= value < 10:
        raise click.BadParameter(f"{text} is not a fraction of a time; write 3% or 0.03")
    return value


def share_of_whole(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a percentage of a whole."""
    value = percentage(context, parameter, text)
    if value is not None and value > 1:
        raise click.BadParameter(f"{text} is more than the whole; write a share up to 100%")
    return value


def _rate(pattern: re.Pattern[str], examples: str) -> Any:
    """Return a callback that checks an option and turns a text such as `20G` into 2e10."""

    def parsed(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        match = pattern.fullmatch(text)
        if match is None:
            raise click.BadParameter(f"{text!r} is not a rate; write it like {examples}")
        value = float(match[1]) * (PREFIXES | PREFIXES_OF_TWO)[match[2]]
        if not 0 < value < float("inf"):
            raise click.BadParameter(f"{text} must be above 0, and finite")
        return value

    return parsed


# Options that are rates, by the parameter of views: like `click.option`.
_bandwidth: Final = partial(click.option, metavar="RATE", callback=_rate(_BANDWIDTH, _BANDWIDTHS))
RATES: Final[dict[str, Callable[..., Any]]] = {
    "peak_flops": partial(click.option, metavar="RATE", callback=_rate(_FLOPS, "20G, 20e9 or 20GFLOP/s")),
    "peak_bandwidth": _bandwidth,
    "link_bandwidth": _bandwidth,
}
# The peak rates of the device.
peak_options: Final = together(
    RATES["peak_flops"]("--peak-flops", help="Peak rate of the device in operations per second, such as 20G."),
    RATES["peak_bandwidth"](
        "--peak-bandwidth", help="Peak bandwidth of its memory in bytes per second, such as 15GB/s."
    ),
)
