"""The command that writes comments on changes, and accepts them."""

from __future__ import annotations

import getpass
from contextlib import suppress
from typing import Final

import click

from etq.analysis.series import check_keys
from etq.annotations.comments import ALL
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_existing
from etq.cli.trends import item_of, item_options, order_options
from etq.render.writers import write

# All comments, the latest first.
_COMMENTS: Final = """
    SELECT
        c.comment_id AS number, c.verdict, c.series, c.what, c.item, c.ordered_by AS "over", c.first_bad, c.text,
        c.author, strftime(c.written_at, '%Y-%m-%d %H:%M:%S') AS written_at
    FROM change_comments AS c
    ORDER BY c.comment_id DESC
"""


@main.command()
@click.argument("first_bad", required=False)
@click.argument("selector", required=False)
@click.option("--accept", "accepted", metavar="TEXT", help="Accept the change, for this reason: its level starts anew.")
@click.option("--note", metavar="TEXT", help="Write this about the change, without accepting it.")
@item_options
@click.option("--total", metavar="METHOD", help="The total of that method; by default of all.")
@click.option("--all", "of_all", is_flag=True, help="All that changed there: the total, ops, modules and metrics.")
@order_options
@click.option("--author", metavar="NAME", help="Who writes it.  [default: the user's name]")
@click.option("--remove", metavar="NUMBER", type=int, multiple=True, help="Remove that comment; may be repeated.")
@warehouse_option
@output_options
def comment(
    first_bad: str | None,
    selector: str | None,
    accepted: str | None,
    note: str | None,
    op: str | None,
    module: str | None,
    metric: str | None,
    total: str | None,
    of_all: bool,
    over: str | None,
    by: str | None,
    author: str | None,
    remove: tuple[int, ...],
    db: str,
    format: str | None,
    output: str | None,
    force: bool,
) -> None:
    """Accept a change of a series, or write about it. Without a change, list all comments.

    FIRST_BAD is the label of the first capture after the change, and SELECTOR the series' labels: both are in etq
    regressions. An accepted change is no regression any more, and later ones are measured against the level after it.

    \b
    etq comment 120 device=pixel8 --accept "new tokenizer" --db lab.duckdb
    etq comment 120 device=pixel8 --op addmm@0 --note "a slower kernel, see the bug"
    etq comment --remove 3
    """
    text = accepted if accepted is not None else note
    if (first_bad is None) != (text is None) or (accepted is not None and note is not None):
        raise click.UsageError("a change needs --accept TEXT or --note TEXT")
    what, item = item_of(op, module, metric)
    if sum((what != "total", total is not None, of_all)) > 1:
        raise click.UsageError("give one of --op, --module, --metric, --total and --all, or none for the total")
    with open_existing(db, read_only=text is None and not remove) as warehouse:
        for number in remove:
            warehouse.remove_comment(number)
            click.echo(f"comment {number} removed", err=True)
        if first_bad is not None and text is not None:
            check_keys(warehouse, {"over": over, "by": by})
            if author is None:
                with suppress(OSError, KeyError):  # a user without a name
                    author = getpass.getuser()
            number = warehouse.comment(
                first_bad, text, selector, what=ALL if of_all else what, item=item if total is None else total,
                over=over, by=by, author=author, accepted=accepted is not None,
            )  # fmt: skip
            click.echo(f"{'accepted' if accepted is not None else 'noted'}, number {number}", err=True)
        elif not remove and not write(warehouse, _COMMENTS, format, output, force=force, needs_rows=True):
            say("Note: there are no comments")
