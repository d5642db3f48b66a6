"""`etq show VIEW`: any table or view, with its parameters as arguments and options, as the catalogue has them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from etq import catalog
from etq.cli import main
from etq.cli.commands import name_of, refuse_command
from etq.cli.coverage import show_unrun
from etq.cli.messages import say
from etq.cli.options import RATES, Command, output_options, total_option, warehouse_option
from etq.cli.ranks import note_unknown
from etq.cli.showing import show_view
from etq.cli.targets import (
    FileOptions,
    file_options,
    is_file,
    is_unrun,
    looks_like_path,
    not_for,
    open_file,
    open_file_or_warehouse,
    open_graphs,
    open_program,
    open_record,
    open_unrun,
    opened,
    pop_file_options,
    refuse_db,
)
from etq.errors import EtqError, counted
from etq.render.writers import Output, write

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

_KINDS: Final = ("table", "view", "table macro")
# The parameters with the default NULL that are numbers. Other parameters are lists or texts, because labels of builds
# and hash prefixes may look like numbers.
_NUMBERS: Final = frozenset(("launch_delay_us", "min_effect", "step"))


class _Views(click.Group):
    """A command for each table and view."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(known.name for known in catalog.public_objects() if known.kind in _KINDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if looks_like_path(name):
            raise EtqError(
                f"{name}: not a view; etq {name} summarizes the file, etq show VIEW {name} shows a view of it"
            )
        refuse_command(name)
        view = catalog.public_object(name)
        if view.kind not in _KINDS:
            raise EtqError(f"{name} is a function: call it in etq sql, as etq views {name} describes")
        return _command(view)


@main.command(cls=_Views, subcommand_metavar="VIEW [CAPTURE]... [OPTIONS]")
def show() -> None:
    """Show the rows of any table or view. Its parameters are options.

    etq views lists them, and etq views NAME describes the columns of one.

    \b
    etq show op_totals run --by instance
    etq show delegate_totals run.etdp --unit ms
    etq show compare_captures run_41 run_42
    etq show planned_memory net.pte
    etq show op_totals --help
    """


def _command(view: catalog.SqlObject) -> click.Command:
    """Return the command that prints a view: parameters without a default are arguments, the others are options."""
    names = [parameter.name for parameter in view.parameters]
    is_of_file = names[:1] == ["capture"] and all(parameter.default for parameter in view.parameters[1:])

    def command(db: str, output: Output, total: bool = False, **given: Any) -> None:
        file = given.pop("file", None)
        values = {parameter.name: _value(parameter, given.pop(parameter.name)) for parameter in view.parameters}
        values = {name: value for name, value in values.items() if value is not None}
        if is_of_file:
            capture = values.pop("capture")
            show_view(view.name, capture, db, output, pop_file_options(given), total=total, **values)
            return
        arguments = ", ".join(
            f"${parameter.name}" if parameter.default is None else f'"{parameter.name}" := ${parameter.name}'
            for parameter in view.parameters
            if parameter.name in values
        )
        call = f"{view.name}({arguments})" if view.kind == "table macro" else view.name
        if view.name == "delegates" and file is not None and is_unrun(file):
            show_unrun("delegates", file, FileOptions(), output)
            return
        with _opened(view.name, names[:1], values, db, file) as warehouse:
            needs_rows, query = bool(view.empty or file), f"FROM {call}"
            if view.name == "compare_graphs" and output.is_to_read:
                [(same,)] = warehouse.rows(f"SELECT count(*) FROM {call} WHERE change = 'same'", **values)[1]
                if same:
                    nodes = counted(same, "node is", "nodes are")
                    say(f"Note: {nodes} the same in both graphs; --format json lists them, too")
                query += " WHERE change <> 'same'"
            if write(warehouse, query, output, view=view, needs_rows=needs_rows, **values):
                note_unknown(warehouse, view.name, values)
            elif view.empty:
                say(f"Note: {dict(view.empty)[None].format(view=name_of(view.name))}")
            elif file is not None:
                say(f"Note: {view.name} has no rows for {file}")

    text = (
        f"{view.text.removeprefix(catalog.NEEDS_ETQ)}\n\nColumns: {', '.join(column.name for column in view.columns)}."
    )
    decorated = output_options(
        warehouse_option(file_options(command, [*names, *not_for(view.name)]) if is_of_file else command)
    )
    if view.sums and is_of_file:
        decorated = total_option(decorated)
    if view.kind != "table macro":
        decorated = click.argument("file", metavar="[FILE]", required=False)(decorated)
    for parameter in reversed(view.parameters):
        name = parameter.name
        if parameter.default is None or name == "selector":
            decorated = click.argument(name, required=parameter.default is None)(decorated)
        else:
            add: Callable[..., Any] = RATES.get(name, click.option)
            decorated = add(_option(parameter), name, help=_help(parameter))(decorated)
    return click.command(view.name, cls=Command, help=text, short_help=view.summary)(decorated)


@contextmanager
def _opened(view: str, first: Sequence[str], values: dict[str, Any], db: str, file: str | None) -> Iterator[Warehouse]:
    """Provide the warehouse. If arguments name files (for views of records, of a program or of a trace's ranks, and
    tables of a file), it is one in memory with these files.
    """
    from etq.warehouse.ephemeral import open_ephemeral_ranks

    if file is not None:
        refuse_db(file)
        if not os.path.exists(file) and not looks_like_path(file):
            raise EtqError(f"{view} takes a file, not a capture; etq show {view} shows the rows of all captures")
        with (open_unrun(file) if is_unrun(file) else open_file(file, FileOptions()))[0] as warehouse:
            yield warehouse
            return
    if view == "compare_graphs":
        with open_graphs(values["base"], values["new"], db) as (warehouse, values["base"], values["new"]):
            yield warehouse
        return
    for name, load in (("record", open_record), ("program", open_program)):
        if name in first:
            with open_file_or_warehouse(values[name], db, load) as (warehouse, loaded):
                if loaded is not None:
                    values[name] = loaded
                yield warehouse
            return
    is_of_ranks = first == ["selector"] and is_file(values.get("selector", ""), db)
    with open_ephemeral_ranks(values["selector"]) if is_of_ranks else opened(db) as warehouse:
        if is_of_ranks:
            values["selector"] = None
        yield warehouse


def _option(parameter: catalog.Column) -> str:
    return f"--{parameter.name.replace('_', '-')}"


def _help(parameter: catalog.Column) -> str:
    default = "" if parameter.default == "NULL" else f"  [default: {(parameter.default or '').strip(chr(39))}]"
    return f"{parameter.text}{default}"


def _value(parameter: catalog.Column, text: Any) -> Any:
    """Return the value of a parameter, given as a text: a number, true, false or a list is written as in JSON."""
    default = parameter.default
    if not isinstance(text, str) or default is None or default.startswith("'"):
        return text
    like: Any = 0 if parameter.name in _NUMBERS else []
    if default != "NULL":
        like = json.loads(default)
    elif like == [] and not text.startswith("["):
        return text
    is_number = type(like) in (int, float)
    with suppress(ValueError):
        value = json.loads(text)
        # No view has a parameter that can be negative.
        if type(value) in (int, float) and 0 <= value < float("inf") if is_number else type(value) is type(like):
            return value
    form = "a number from 0" if is_number else "a list"
    if default != "NULL":
        form = f"written like the default, {default}{': a number from 0' if is_number else ''}"
    raise click.BadParameter(f"{text!r} is not {form}", param_hint=_option(parameter))
