"""`etq help`: a group of commands, a command, or the options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from etq.cli import main
from etq.cli.commands import GROUPS
from etq.cli.options import CommonOption, output_options, step_options, warehouse_option
from etq.cli.targets import file_options

_OPTIONS: Final = "options"


@main.command("help")
@click.argument("words", metavar="[GROUP|COMMAND|options]", nargs=-1)
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show a group of commands, one command, or the common options.

    \b
    etq help traces
    etq help ops
    etq help options
    """
    root = context.find_root()
    if not words:
        click.echo(root.get_help())
    elif words == (_OPTIONS,):
        click.echo(_common_options(root))
    elif len(words) == 1 and words[0] in GROUPS:
        click.echo(_group(root, words[0]))
    else:
        click.echo(_command(root, words).get_help())


def _command(context: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of a command, also of a command in a group, such as `db merge`."""
    from etq.catalog import found

    for word in words:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is None:
            if found(word) is not None:
                raise click.UsageError(f"{word} is a view: etq views {word} describes it", context)
            known = [*GROUPS, _OPTIONS] if context.parent is None else []
            if isinstance(context.command, click.Group):
                known += context.command.list_commands(context)
            raise click.exceptions.NoSuchCommand(word, possibilities=known, ctx=context)
        context = click.Context(command, info_name=word, parent=context)
    return context


def _group(root: click.Context, name: str) -> str:
    group = GROUPS[name]
    formatter = root.make_formatter()
    with formatter.section(group.text):
        formatter.write_dl(main.summaries(root, group.commands, formatter.width))
    formatter.write_paragraph()
    formatter.write_text(
        "etq help COMMAND has the options of one. Tables and views without a command: etq show NAME, etq views."
    )
    return formatter.getvalue().rstrip("\n")


def common_options(root: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the help of the options that commands share, by topic."""
    return {
        "Any command, before its name": [record for option in main.params if (record := option.get_help_record(root))],
        "Warehouse and output": _records(root, lambda command: output_options(warehouse_option(command))),
        "A file in place of a capture": _records(root, file_options),
        "Some of a capture's runs": _records(root, step_options),
    }


def _common_options(root: click.Context) -> str:
    formatter = root.make_formatter()
    for title, records in common_options(root).items():
        with formatter.section(title):
            formatter.write_dl(records)
    return formatter.getvalue().rstrip("\n")


def _records(root: click.Context, decorate: Callable[[Callable[..., None]], Any]) -> list[tuple[str, str]]:
    """Return the help of the common options that a decorator adds."""

    def command(**_: Any) -> None: ...

    added = reversed(decorate(command).__click_params__)
    options = [option for option in added if isinstance(option, CommonOption)]
    return [record for option in options if (record := option.get_help_record(root)) is not None]
