"""The command that writes comments on changes, and accepts changes."""

from __future__ import annotations

import getpass
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from etq.analysis.series import check_keys
from etq.annotations.comments import ALL
from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import output_options, warehouse_option
from etq.cli.targets import open_existing
from etq.cli.trends import item_of, item_options, order_options
from etq.errors import counted
from etq.render.writers import Output, write, write_text

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Warehouse

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
@click.option("--accept", "accepted", metavar="TEXT", help="Accept the change, for this reason.")
@click.option("--note", metavar="TEXT", help="Write this about the change, without accepting it.")
@item_options
@click.option("--total", metavar="METHOD", help="The total of that method; by default of all methods.")
@click.option("--all", "of_all", is_flag=True, help="All that changed there: the total, ops, modules and metrics.")
@order_options
@click.option(
    "--since", metavar="AGE", help="Instead, print what is slower and recorded since then, as Markdown for a chat: 7d."
)
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
    since: str | None,
    author: str | None,
    remove: tuple[int, ...],
    db: str,
    output: Output,
) -> None:
    """Accept a change of a series, or write about it. Without a change, list all comments.

    FIRST_BAD is the label of the first capture after the change, and SELECTOR the series' labels: both are in etq
    regressions. An accepted change is no longer a regression; later changes are measured against the level after it.

    \b
    etq comment 120 device=pixel8 --accept "new tokenizer" --db lab.duckdb
    etq comment 120 device=pixel8 --op addmm@0 --note "a slower kernel, see the bug"
    etq comment --remove 3
    etq comment --since 7d --db lab.duckdb
    """
    text = accepted if accepted is not None else note
    if (first_bad is None) != (text is None) or (accepted is not None and note is not None):
        raise click.UsageError("a change needs --accept TEXT or --note TEXT")
    what, item = item_of(op, module, metric)
    if sum((what != "total", total is not None, of_all)) > 1:
        raise click.UsageError("give one of --op, --module, --metric, --total and --all, or none for the total")
    if since is not None:
        if first_bad is not None or remove:
            raise click.UsageError("--since prints what is slower: give no change, and no comment to remove")
        with open_existing(db, read_only=True) as warehouse:
            write_text(_digest(warehouse, since, over=over, by=by), output)
        return
    with open_existing(db, read_only=text is None and not remove) as warehouse:
        for number in remove:
            warehouse.remove_comment(number)
            click.echo(f"comment {number} removed", err=True)
        if first_bad is not None and text is not None:
            check_keys(warehouse, {"over": over, "by": by})
            if author is None:
                with suppress(OSError, KeyError):  # the user has no name
                    author = getpass.getuser()
            number = warehouse.comment(
                first_bad, text, selector, what=ALL if of_all else what, item=item if total is None else total,
                over=over, by=by, author=author, accepted=accepted is not None,
            )  # fmt: skip
            click.echo(f"{'accepted' if accepted is not None else 'noted'}, number {number}", err=True)
        elif not remove and not write(warehouse, _COMMENTS, output, needs_rows=True):
            say("Note: there are no comments")


def _digest(warehouse: Warehouse, since: str, **given: str | None) -> str:
    """Return in Markdown what is slower and recorded in the last days, hours or weeks, the most costly first."""
    from etq.analysis import causes
    from etq.render.markdown import inline

    if not re.fullmatch(r"\d{1,6}[hdw]", since):
        text = f"{since!r} is not an age; give hours, days or weeks: 12h, 7d or 2w"
        raise click.BadParameter(text, param_hint="--since")
    options = {name: value for name, value in given.items() if value is not None}
    check_keys(warehouse, options)
    # Not before 1970: no capture is older.
    query = "SELECT greatest(make_timestamp(epoch_us(now())) - $since::INTERVAL, TIMESTAMP '1970-01-01')"
    [(begin,)] = warehouse.rows(query, since=since)[1]
    found = [cause for cause in causes.causes_of(warehouse, **options) if cause["recorded_at"] >= begin]
    groups = causes.compared_devices(warehouse, **options)
    judged = causes.judged(causes.all_series(warehouse, **options), groups)
    lines = [f"### {counted(len(found), 'finding') if found else 'No findings'} since {begin:%Y-%m-%d %H:%M} UTC", ""]
    for cause in found:
        share = "" if cause["share_percent"] is None else f"{cause['share_percent']:+.1f} % "
        lines.append(f"- **{share}{inline(cause['title'])}**: {inline(cause['detail'])}")
    return "\n".join([*lines, *([""] if found else []), f"{inline(judged)}.", ""])
