"""Options that commands share, and how those that print a view go about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from etq.errors import EtqError
from etq.output import FORMATS, write

if TYPE_CHECKING:
    from etq.warehouse import Warehouse

DEFAULT_WAREHOUSE: Final = "etq.duckdb"
UNITS: Final = ("ns", "us", "ms", "s", "cycles")
SCHEDULE: Final = {
    "skip_first": "Runs to leave out at the start.",
    "wait": "Runs of a cycle to leave out.",
    "warmup": "Runs of a cycle to leave out behind these.",
    "active": "Runs of a cycle to use behind these.",
    "repeat": "Number of cycles; 0: to the end.",
    "skip_first_wait": "Not 0: no wait in the first cycle.",
}

Command = TypeVar("Command", bound=Callable[..., Any])


def warehouse_option(command: Command) -> Command:
    return click.option(
        "--db",
        metavar="FILE",
        envvar="ETQ_DB",
        default=DEFAULT_WAREHOUSE,
        help="The warehouse; by default $ETQ_DB, or etq.duckdb here.",
    )(command)


def output_options(command: Command) -> Command:
    command = click.option("--force", is_flag=True, help="Overwrite the file of -o.")(command)
    command = click.option("-o", "--output", metavar="FILE", help="Write there, not to stdout.")(command)
    return click.option("--format", "format", type=click.Choice(FORMATS), default="table", show_default=True)(command)


def unit_option(default: str | None) -> Callable[[Command], Command]:
    text = "ms" if default else "us; cycles where ticks are cycles"
    return click.option("--unit", type=click.Choice(UNITS), default=default, help=f"Unit of times.  [default: {text}]")


def schedule_options(command: Command) -> Command:
    for name, text in reversed(SCHEDULE.items()):
        command = click.option(f"--{name.replace('_', '-')}", type=int, help=text)(command)
    return command


@contextmanager
def asked(capture: str, db: str, view: str) -> Iterator[tuple[Warehouse, str]]:
    """A warehouse that holds the capture, and its name there: the file in memory, where the argument is a file."""
    from etq.warehouse import look_at, open

    if os.path.exists(capture):
        warehouse, found = look_at(capture, [view])
        with warehouse:
            tell_findings(warehouse, found.capture_id)
            yield warehouse, found.sha256
    elif not os.path.exists(db) and (os.sep in capture or capture.endswith(".etdp")):
        raise EtqError(f"{capture}: no such file")
    else:
        with open(db, read_only=True) as warehouse:
            yield warehouse, capture


def tell_findings(warehouse: Warehouse, capture_id: int) -> None:
    query = "SELECT f.rule, f.detail FROM findings AS f WHERE f.capture_id = ?"
    for rule, detail in warehouse.connection.execute(query, [capture_id]).fetchall():
        click.echo(f"Note: {rule}: {detail}", err=True)


def show_view(
    view: str, capture: str, db: str, output: tuple[str, str | None, bool], *, query: str = "FROM {view}", **given: Any
) -> None:
    """Print what a view says of a capture; `query` may choose of it, with the call of the view for {view}."""
    with asked(capture, db, view) as (warehouse, selector):
        parameters = {"capture": selector, **{name: value for name, value in given.items() if value is not None}}
        arguments = ", ".join("$capture" if name == "capture" else f'"{name}" := ${name}' for name in parameters)
        relation = warehouse.sql(query.format(view=f"{view}({arguments})"), **parameters)
        write(relation, output[0], output[1], force=output[2])
