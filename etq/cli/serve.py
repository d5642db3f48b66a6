"""The command that shows a warehouse in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import warehouse_option

if TYPE_CHECKING:
    from etq.team.folder import TeamFolder


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option("--edit", "edits", is_flag=True, help="Let pages change overviews, and write comments.")
@click.option(
    "--webhook", metavar="URL", help="Tell this address, in JSON, when a regression in an overview begins or ends."
)
@click.option(
    "--webhook-secret",
    metavar="SECRET",
    envvar="ETQ_WEBHOOK_SECRET",
    help="Key of the signature of what is told; better in the environment, as ETQ_WEBHOOK_SECRET.",
)
@click.option("--public-url", metavar="URL", help="The address at which people reach the server, for links elsewhere.")
@click.option(
    "--team", metavar="DIR", help="The folder that the server keeps beside the warehouse.  [default: DB.team]"
)
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@warehouse_option
def serve(
    host: str,
    port: int,
    opens: bool,
    edits: bool,
    webhook: str | None,
    webhook_secret: str | None,
    public_url: str | None,
    team: str | None,
    db: str,
) -> None:
    """Show a warehouse or lake in a browser. Pages have captures, reports, comparisons, trends, overviews and SQL.

    Pages only read, but for overviews and comments with --edit; other processes can write meanwhile. Any page's link
    shows others the same. With a --host other than this machine, a link with a token is printed, which each browser
    opens once.

    \b
    etq serve --db lab.duckdb --open
    etq serve --db s3://lab/fleet --port 9000
    etq serve --db lab.duckdb --webhook https://chat.example.com/hooks/abc
    """
    from etq.serve.running import run
    from etq.serve.settings import Settings

    folder = _folder(db, team, webhook)
    settings = Settings(
        folder=folder, edits=edits, webhook=webhook, webhook_secret=webhook_secret, public_url=public_url
    )
    run(db, host, port, settings, opens=opens, report=say)


def _folder(db: str, team: str | None, webhook: str | None) -> TeamFolder | None:
    """Return the server's folder, which is made for a webhook; None if there is none, and none is needed."""
    from etq.team.folder import TeamFolder, folder_of

    place = folder_of(db, team)
    folder = None if place is None else TeamFolder(place)
    if webhook is not None:
        from etq.serve.webhook import check_webhook

        check_webhook(webhook, db, folder)
        if folder is not None:
            folder.make()
    return folder if folder is not None and folder.exists else None
