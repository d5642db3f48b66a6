"""The command line: `etq COMMAND`. It asks the warehouse's views and prints what they say."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

import etq
from etq.errors import EtqError, message_of, printable
from etq.terminal import colours_of_environment
from etq.waiting import patience, told_of_waiting

# Which module of this package defines which commands: it is imported when one of them is asked for.
_MODULES = {
    "compare": ["compare"],
    "costs": ["flops", "roofline"],
    "export": ["export"],
    "files": ["ingest", "inspect", "link"],
    "flame": ["flame"],
    "gate": ["gate"],
    "house": ["compact", "merge", "prune", "remove"],
    "labels": ["captures", "label"],
    "lake": ["lake"],
    "metrics": ["metric", "phase"],
    "ops": ["map", "ops"],
    "plan": ["plan"],
    "programs": ["program"],
    "questions": [
        "advice", "breakdown", "coverage", "decode", "delegates", "demo", "events", "graph", "kernels", "load",
        "memory", "modules", "percentiles", "sources", "sql", "steps", "tax", "views",
    ],
    "report": ["report"],
    "spark": ["transpile"],
    "trends": ["regressions", "trend"],
    "values": ["gap", "reference", "values"],
}  # fmt: skip
_MODULE_OF = {command: module for module, commands in _MODULES.items() for command in commands}


class _Group(click.Group):
    """Imports the module of a command when it is asked for; turns expected failures into one line on stderr.

    The status is 1 then; with --debug a traceback is shown instead.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_MODULE_OF)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in _MODULE_OF:
            import_module(f"etq.cli.{_MODULE_OF[name]}")
        return super().get_command(context, name)

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except EtqError as error:
            _fail(str(error), context)
        except BrokenPipeError:
            # The reader of a pipe has seen enough; Python must not complain at exit either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except MemoryError:
            _fail("not enough memory", context)
        except OSError as error:
            _fail(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}", context)
        except Exception as error:
            if type(error).__module__ not in ("duckdb", "_duckdb"):
                raise
            _fail(message_of(error), context)


def _fail(message: str, context: click.Context) -> NoReturn:
    if context.params.get("debug"):
        raise  # noqa: PLE0704 - called while an exception is handled
    click.echo(f"Error: {printable(message)}", err=True)
    sys.exit(1)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(etq.__version__, prog_name="etq")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="By default on a terminal, unless NO_COLOR is set.",
)
@click.option(
    "--wait",
    type=click.FloatRange(0),
    envvar="ETQ_WAIT",
    help="Seconds to wait for a warehouse that others hold.  [default: 30]",
)
@click.option("--debug", is_flag=True, help="Show a traceback at an error.")
@click.pass_context
def main(context: click.Context, color: str, wait: float | None, debug: bool) -> None:
    """Turn profiling files of PyTorch models on devices into SQL tables, and ask them.

    \b
    etq demo                          see it work on bundled captures
    etq inspect run.etdp              one file, nothing stored
    etq ingest *.etdp --db lab.duckdb
    etq ops run --db lab.duckdb
    """
    patience.set(wait)
    told_of_waiting.set(lambda text: click.echo(f"Note: {printable(text)}", err=True))
    context.color = colours_of_environment() if color == "auto" else color == "always"


def run() -> NoReturn:
    """The command's entry: ends the process as soon as all is written and closed.

    Taking the libraries apart at a regular exit takes 30 ms, an eighth of what a small file takes in all.
    """
    status: Any = 0
    # A name that the terminal's encoding has no letters for is no reason to fail.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        main()
    except SystemExit as end:
        status = end.code
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        status = 1
    os._exit(status if isinstance(status, int) else 1)
