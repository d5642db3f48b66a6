"""How every command and view that reads captures is called: found in the command tree and in the catalog, not listed.

In arguments, `{capture}` and other names of `FILLED` stand for what an input has: its files, or the names of its captures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import click

from etq.catalog import SqlObject, public_objects
from etq.cli import main

# Values for arguments and parameters of these names.
FILLED: Final = {
    "capture": "{capture}", "captures": "{capture}", "file": "{capture}", "base": "{base}", "new": "{new}",
    "selector": "{capture}", "selectors": "{capture}", "etdump": "{etdump}", "trace": "{trace}",
}  # fmt: skip
# Required parameters of views that have no command's argument of their name.
VALUES: Final = FILLED | {"by": "device", "module": "layers.0", "record": "transformer", "program": "transformer"}
# Parameters by which many captures are asked for at once.
MANY: Final = {"base", "new", "selector", "selectors", "captures"}
# Options without which a command answers nothing here: one of several that it requires; and a label of which the
# captures of one device have several values.
CHOSEN: Final = {"graph": ("--format", "dot"), "fleet": ("--by", "host")}
_REASONS: Final = {
    "writes a warehouse": (
        "comment", "link", "db backup", "db compact", "db merge", "db prune", "db remove", "lake export",
    ),
    "writes the warehouse; measured where the inputs are made": ("ingest",),
    "writes a lake": ("lake add", "lake compact"),
    "reads no capture": ("bench", "completion", "db view", "token", "views"),
    "reads all of a warehouse": ("db check",),
    "has captures of its own": ("demo",),
    "needs a trace with the shapes of ops, which no input has": ("export --to replay",),
    "serves until it is interrupted, or its client ends": ("mcp", "serve"),
    "sends files to a server": ("push",),
    "takes any query, or prints any view; the views are asked for themselves": ("show", "sql"),
}  # fmt: skip
NOT_CALLED: Final = {name: reason for reason, names in _REASONS.items() for name in names}
# Views that no input made here is for.
NOT_ASKED: Final = {
    "compare_graphs": "compares records; reads only totals of captures",
    "compare_programs": "compares programs; reads no capture",
    "delegate_graph": "needs a program with XNNPACK's graphs, which no input has",
    **dict.fromkeys(("prof_result_memory", "prof_result_profile", "prof_result_tax"), "prof_results are small"),
}


@dataclass(frozen=True)
class Call:
    """A command line, with names to fill in."""

    name: str
    arguments: tuple[str, ...]
    is_view: bool = False
    takes_db: bool = False
    takes_record: bool = False
    takes_many: bool = False

    @property
    def names(self) -> set[str]:
        """What it is chosen by: its name, and its command's."""
        return {self.name, self.name.split()[0]}

    @property
    def title(self) -> str:
        return f"{self.name}()" if self.is_view else self.name


def commands(group: click.Group = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups with the group's name before theirs."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group) and name not in NOT_CALLED:
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def not_fillable(command: click.Command) -> list[str]:
    """The parameters that a command requires and that nothing here has a value for."""
    required = (each for each in command.params if each.required)
    return [str(each.name) for each in required if each.name not in FILLED and not _is_choice(each)]


def _is_choice(parameter: click.Parameter) -> bool:
    """Whether a parameter's possible values are known: it is a flag, or one of some words."""
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    return isinstance(parameter, click.Option) and (is_flag or isinstance(parameter.type, click.Choice))


def calls_of(name: str, command: click.Command) -> Iterator[Call]:
    """The command with its arguments; once for each of the words that a required option takes."""
    options = {str(each.name): each for each in command.params if isinstance(each, click.Option)}
    required = [
        [(each.opts[-1],)] if each.is_flag else [(each.opts[-1], word) for word in _words(each)]
        for each in options.values()
        if each.required
    ]
    filled = [str(each.name) for each in command.params if isinstance(each, click.Argument) and each.name in FILLED]
    # Texts that are no tables go to a file named after the capture otherwise.
    to_screen = ("-o", "-") if "output" in options and "format" not in options else ()
    for chosen in product(*required):
        given = (*CHOSEN.get(name, ()), *(word for words in chosen for word in words))
        yield Call(
            name=" ".join((name, *given)),
            arguments=(*name.split(), *(FILLED[each] for each in filled), *given, *to_screen),
            takes_db="db" in options,
            takes_record="etrecord" in options,
            takes_many=bool(MANY.intersection(filled)),
        )


def _words(option: click.Option) -> list[str]:
    assert isinstance(option.type, click.Choice)
    return [str(word) for word in option.type.choices]


def command_calls() -> list[Call]:
    """All calls of commands but those of `NOT_CALLED`."""
    found = [(name, command) for name, command in commands() if name not in NOT_CALLED]
    return [call for name, command in found for call in calls_of(name, command) if call.name not in NOT_CALLED]


def views() -> list[SqlObject]:
    """The public views and table macros but those of `NOT_ASKED`."""
    return [each for each in public_objects() if each.kind in ("view", "table macro") and each.name not in NOT_ASKED]


def required_parameters(view: SqlObject) -> list[str]:
    return [each.name for each in view.parameters if each.default is None]


def view_calls() -> list[Call]:
    """A query of each view, with all of its columns and rows."""
    made = []
    for view in views():
        required = required_parameters(view)
        values = ", ".join(f"'{VALUES[each]}'" for each in required)
        query = f"FROM {view.name}({values})" if view.kind == "table macro" else f"FROM {view.name}"
        takes_many = set(required) <= MANY | {"by"}
        arguments = ("sql", query, "--format", "arrow")
        made.append(Call(view.name, arguments, is_view=True, takes_db=True, takes_many=takes_many))
    return made
