"""Options of `etq serve` that keep a server alive: its log, and what it removes by rule."""

from __future__ import annotations

import shlex
from datetime import time
from typing import Final

import click
from click.core import ParameterSource

from etq.cli.maintenance import prune
from etq.cli.options import together

# Options of `etq prune` that a server gives itself, or has no use for.
_NOT_IN_RULES: Final = ("db", "yes", "dry_run")


def _rules(_: click.Context, __: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    """Check that each rule is the arguments of `etq prune`."""
    for rule in rules:
        try:
            context = prune.make_context("prune", shlex.split(rule))
        except click.UsageError as error:
            raise click.BadParameter(f"{rule!r}: {error.format_message()}") from None
        except ValueError as error:  # of quotes
            raise click.BadParameter(f"{rule!r}: {error}") from None
        for name in _NOT_IN_RULES:
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                raise click.BadParameter(f"{rule!r}: leave out --{name.replace('_', '-')}")
    return rules


def _time_of_day(_: click.Context, __: click.Parameter, text: str) -> time:
    try:
        found = time.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is not None:
        raise click.BadParameter(f"{text!r} is not a time of day, such as 03:00") from None
    return found


# Options that are named as the fields of `Settings`.
keeping_options: Final = together(
    click.option("--log", "logs", is_flag=True, help="Log requests to stderr; a server with a folder always does."),
    click.option("--log-json", "logs_json", is_flag=True, help="Log them, a line of JSON each."),
    click.option(
        "--prune",
        metavar="RULE",
        multiple=True,
        callback=_rules,
        help='Remove captures each day, as etq prune does by "--keep-last 10 --by model,device"; may be repeated.',
    ),
    click.option(
        "--prune-at",
        metavar="HH:MM",
        default="03:00",
        callback=_time_of_day,
        help="When --prune does, in this machine's time.  [default: 03:00]",
    ),
    click.option(
        "--audit-days", type=click.IntRange(1), default=90, help="Days that the audit log goes back.  [default: 90]"
    ),
    click.option(
        "--audit-megabytes", type=click.IntRange(1), default=100, help="Limit of the audit log.  [default: 100]"
    ),
)
