"""The command line: `etq COMMAND`. It queries the warehouse's views and prints the results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextvars import Context
from importlib import import_module
from typing import Any, NoReturn

import click

from etq.cli.commands import ALIASES, COMMANDS, FIRST, FOREMOST, GROUPS, JUDGING, NAMED_HERE
from etq.cli.interrupts import STATUS, install, is_interrupt
from etq.cli.messages import say
from etq.cli.numbers import FloatRange
from etq.cli.options import Command
from etq.database.limits import limits, set_limits
from etq.errors import EtqError, QueryError, message_of, nearest_files, printable_lines, shortened
from etq.render import pager
from etq.render.display import show_as
from etq.render.terminal import colours_of_environment

# The shell's completion function sets this variable.
COMPLETING = "_ETQ_COMPLETE"
# The key of a command's arguments among a context's `meta`.
ARGUMENTS = "etq.arguments"


class _Subgroup(click.Group):
    """The commands of `etq db` and `etq lake`."""

    command_class = Command


class _Group(click.Group):
    """Imports the module of a command when it is needed; prints expected failures as one line on stderr.

    The exit status of such a failure is 1; with --debug a traceback is shown instead. An interrupt ends the command
    with status 130.
    """

    command_class = Command
    group_class = _Subgroup

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if not args and not context.resilient_parsing:
            click.echo(_first_commands())
            context.exit()
        context.meta[ARGUMENTS] = [*args]
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            ops = self.get_command(context, "ops")
            if ops is None or not any(error.option_name in option.opts for option in ops.params):
                raise
            message = f"No such option {error.option_name!r} before the command; try: etq COMMAND {error.option_name}"
            raise click.UsageError(message, context) from None

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command with its own limits and selection: the Python process that calls it has others."""
        return Context().run(super().main, *arguments, **options)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        name = ALIASES.get(name, name)
        command = COMMANDS.get(name)
        if isinstance(command, str):
            import_module(f"etq.cli.{command}")
        elif command is not None and name not in self.commands:
            from etq.cli.views import command_of

            self.add_command(command_of(name, command))
        return super().get_command(context, name)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the most important commands, and the groups of all others; options are in `etq help options`."""
        with formatter.section("Commands"):
            formatter.write_dl(self.summaries(context, FOREMOST, formatter.width))
        with formatter.section("More commands, by group (etq help GROUP)"):
            formatter.write_dl([(name, group.summary) for name, group in GROUPS.items()])
        formatter.write_paragraph()
        formatter.write_text("etq help COMMAND describes one, etq help options the options that commands share.")

    def summaries(self, context: click.Context, names: Iterable[str], width: int) -> list[tuple[str, str]]:
        """Return lines of a width with commands and what they do."""
        room = width - 6 - max(map(len, COMMANDS))
        commands = [(name, self.get_command(context, name)) for name in names]
        return [(name, command.get_short_help_str(room)) for name, command in commands if command is not None]

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.exceptions.NoSuchCommand as error:
            from etq.catalog import found

            if _names_files(error.command_name):
                return "summary", self.get_command(context, "summary"), args
            if error.command_name in GROUPS:
                text = f"{error.command_name} is a group of commands: etq help {error.command_name} lists them"
                raise click.UsageError(text, context) from None
            name = error.command_name.replace("-", "_")
            if (view := found(name)) is not None and view.is_public:
                message = f"No such command {error.command_name!r}; {name} is a view: etq show {name}"
                raise click.UsageError(message, context) from None
            if error.command_name in NAMED_HERE:
                message = f"No such command or file {error.command_name!r}; try: etq {NAMED_HERE[error.command_name]}"
                raise click.UsageError(message, context) from None
            # click lists only commands that it knows, so names of modules not yet imported are added.
            known = [*COMMANDS, *ALIASES]
            message = f"No such command or file {error.command_name!r}{nearest_files(error.command_name)}."
            raise click.exceptions.NoSuchCommand(error.command_name, message, known, context) from None

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except (Exception, KeyboardInterrupt) as error:
            if is_interrupt(error):
                click.echo(err=True)
                sys.exit(STATUS)
            if isinstance(error, BrokenPipeError):
                # The reader has closed the pipe; Python must not report that at exit either.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                sys.exit(1 if context.invoked_subcommand in JUDGING else 0)
            message = expected_message(error)
            if message is None or context.params.get("debug"):
                raise
            show_failure(error, message)
            sys.exit(1)


def _first_commands() -> str:
    """Return a line for each command to begin with."""
    lines = "".join(f"  {command:<26}  {text}\n" for command, text in FIRST.items())
    text = "Turn profiling files of PyTorch models into tables, and query them."
    return f"{text}\n\n{lines}\netq --help lists all commands."


def _names_files(word: str) -> bool:
    """Whether a word given instead of a command names a file, a folder or a pattern."""
    from etq.cli.targets import looks_like_path

    return os.path.exists(word) or "*" in word or "://" in word or looks_like_path(word)


def show_failure(error: BaseException, message: str) -> None:
    """Print the message of an expected failure, and the place of a syntax error."""
    say(f"Error: {shortened(message)}")
    if isinstance(error, QueryError) and error.place:
        place = shortened(printable_lines(error.place))
        pager.after(lambda: click.echo(place, err=True))


def expected_message(error: BaseException) -> str | None:  # noqa: PLR0911 - a case a line
    """Return the message of an expected failure in one line, None for other errors."""
    if (limit := _exceeded_limit(error.__cause__ if isinstance(error, EtqError) else error)) is not None:
        return limit
    if isinstance(error, EtqError):
        return _about_file(error)
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, ImportError) and error.path is not None and not error.path.endswith(".py"):
        return f"a library can't be loaded, perhaps for lack of memory: {message_of(error)}"
    if isinstance(error, OSError):
        what = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        return f"{error.filename or 'output'}: {what}"
    if isinstance(error, Exception) and type(error).__module__ in ("duckdb", "_duckdb"):
        return message_of(error)
    return None


def _exceeded_limit(error: BaseException | None) -> str | None:
    """Return the message for a query that took more than --seconds or --megabytes."""
    seconds, megabytes = limits().query_seconds, limits().query_megabytes
    kind = type(error).__name__
    if kind == "InterruptException" and seconds is not None:
        return f"the query took longer than {seconds:g} s; allow more with --seconds"
    if kind == "OutOfMemoryException" and megabytes is not None:
        return f"the query took more than {megabytes} MB of memory; allow more with --megabytes"
    return None


def _about_file(error: EtqError) -> str:
    """Return an error's message, with a hint about files for an unknown name that looks like a path."""
    from etq.cli.targets import looks_like_path

    unknown = error.unknown if isinstance(error, QueryError) else None
    if unknown is not None and os.path.isdir(unknown.name):
        return f"{error}; the folder is {os.path.join(os.curdir, unknown.name)}"
    if unknown is None or "=" in unknown.name:
        return str(error)
    near = nearest_files(unknown.name)
    if not looks_like_path(unknown.name):
        return f"{error}{near}"
    if os.path.exists(unknown.name):
        return f"{unknown.name}: this command takes a {unknown.kind} of the warehouse, not a file; ingest it first"
    return f"{unknown.name}: no such file, and no {unknown.kind} of that name{unknown.near}{near}"


def _show_versions(context: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if not is_requested or context.resilient_parsing:
        return
    from etq.version import versions

    shown = versions()
    click.echo(f"etq, version {shown.pop('etq')}")
    for name, version in shown.items():
        click.echo(f"{name:<10}  {version}")
    context.exit()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_versions,
    help="Show the versions of etq and of the libraries that it uses.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours: by default on a terminal, unless NO_COLOR is set.",
)
@click.option(
    "--wait",
    type=FloatRange(0),
    envvar="ETQ_WAIT",
    help="Seconds to wait for a warehouse that other processes hold.  [default: 30]",
)
@click.option("--no-pager", is_flag=True, help="Show no long text in a pager ($ETQ_PAGER, else $PAGER, else less).")
@click.option("--debug", is_flag=True, help="Show a traceback at an error.")
@click.pass_context
def main(context: click.Context, color: str, wait: float | None, no_pager: bool, debug: bool) -> None:
    """Turn profiling files of PyTorch models on devices into SQL tables, and query them.

    \b
    etq demo                          see it work on bundled captures
    etq run.etdp                      one file, nothing stored
    etq ingest *.etdp --db lab.duckdb
    etq ops run --db lab.duckdb
    """
    show_as(is_paged=not no_pager)
    context.call_on_close(pager.wait)
    set_limits(wait=wait, notify=lambda text: say(f"Note: {text}"))
    context.color = colours_of_environment() if color == "auto" else color == "always"


def _open_standard_streams() -> None:
    """Connect the standard streams that the caller has closed to the null device.

    Otherwise a file that is opened later would get the descriptor of such a stream, and receive what is written to it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w"))


def run() -> NoReturn:
    """Run the command, and end the process as soon as all output is written and closed.

    A regular exit would spend 30 ms on unloading libraries, an eighth of the total time for a small file.
    """
    try:
        os._exit(_status())
    except KeyboardInterrupt:
        os._exit(STATUS)


def _status() -> int:
    """Run the command; return the exit status. Raises `KeyboardInterrupt`."""
    status: Any = 0
    install()
    # numpy's linear algebra would start a thread that keeps a processor busy: a tenth of the total time for a small
    # file. For the small matrices of series, threads take forty times as much processor time as they save.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _open_standard_streams()
    # A name with characters that the terminal's encoding lacks must not make a command fail.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if COMPLETING in os.environ:
        from etq.cli import completion

        completion.install()
    try:
        main(prog_name="etq")
    except SystemExit as end:
        status = end.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # the reader has closed the pipe
    return status if isinstance(status, int) else 1
