"""The command that shows a warehouse in a browser."""

from __future__ import annotations

import shlex
from datetime import time

import click

from etq.cli import main
from etq.cli.maintenance import prune as prune_command
from etq.cli.messages import say
from etq.cli.options import warehouse_option

# Options of `etq prune` that a server gives itself, or has no use for.
_NOT_IN_RULES = ("db", "yes", "dry_run")


def _rules(_: click.Context, __: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    for rule in rules:
        try:
            context = prune_command.make_context("prune", shlex.split(rule))
        except (click.UsageError, ValueError) as error:
            raise click.BadParameter(f"{rule!r}: {getattr(error, 'message', error)}") from None
        for name in _NOT_IN_RULES:
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise click.BadParameter(f"{rule!r}: leave out --{name.replace('_', '-')}")
    return rules


def _time_of_day(_: click.Context, __: click.Parameter, text: str) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a time of day, such as 03:00") from None


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option("--edit", "edits", is_flag=True, help="Let pages change what overviews watch.")
@click.option("--log", "logs", is_flag=True, help="Log requests to stderr, as a server with users does anyway.")
@click.option("--log-json", "logs_json", is_flag=True, help="Log them, a line of JSON each.")
@click.option(
    "--prune",
    metavar="RULE",
    multiple=True,
    callback=_rules,
    help='Remove captures each day, as etq prune does: "--keep-last 10 --by model,device". Repeatable.',
)
@click.option(
    "--prune-at",
    metavar="HH:MM",
    default="03:00",
    callback=_time_of_day,
    help="When, in this machine's time.  [default: 03:00]",
)
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@warehouse_option
def serve(
    host: str,
    port: int,
    opens: bool,
    edits: bool,
    logs: bool,
    logs_json: bool,
    prune: tuple[str, ...],
    prune_at: time,
    db: str,
) -> None:
    """Show a warehouse or lake in a browser. Pages have captures, reports, comparisons, trends, overviews and SQL.

    Pages only read, but for overviews with --edit; other processes can write meanwhile. Any page's link shows others
    the same. With a --host other than this machine, a link with a token is printed, which each browser opens once.

    \b
    etq serve --db lab.duckdb --open
    etq serve --db s3://lab/fleet --port 9000
    etq serve --db lab.duckdb --prune "--keep-last 10 --by model,device --keep-rollups"
    """
    from etq.serve.running import run
    from etq.serve.settings import Settings

    settings = Settings(edits=edits, logs=logs, logs_json=logs_json, prune=prune, prune_at=prune_at)
    run(db, host, port, settings, opens=opens, report=say)
