"""The command that shows a warehouse in a browser."""

from __future__ import annotations

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import warehouse_option


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option("--edit", "edits", is_flag=True, help="Let pages change overviews, and programs push.")
@click.option(
    "--team", metavar="DIR", help="Folder of the team's server.  [default: lab.duckdb.team beside lab.duckdb]"
)
@click.option(
    "--max-file-megabytes",
    type=click.IntRange(1),
    default=2048,
    show_default=True,
    help="Limit of a file that is sent.",
)
@click.option(
    "--max-day-gigabytes", type=click.FloatRange(0), default=20, show_default=True, help="Limit of a user on a day."
)
@click.option(
    "--max-waiting-gigabytes",
    type=click.FloatRange(0),
    default=50,
    show_default=True,
    help="Limit of all files that wait to be stored.",
)
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@warehouse_option
def serve(
    host: str,
    port: int,
    opens: bool,
    edits: bool,
    team: str | None,
    max_file_megabytes: int,
    max_day_gigabytes: float,
    max_waiting_gigabytes: float,
    db: str,
) -> None:
    """Show a warehouse or lake in a browser. Pages have captures, reports, comparisons, trends, overviews and SQL.

    Pages only read, but for overviews with --edit, which also lets etq push send captures; other processes can write
    meanwhile. Any page's link shows others
    the same. With a --host other than this machine, a link with a token is printed, which each browser opens once.

    \b
    etq serve --db lab.duckdb --open
    etq serve --db s3://lab/fleet --port 9000
    """
    from etq.serve.running import run
    from etq.serve.settings import Settings
    from etq.team.folder import TeamFolder, folder_of

    folder = folder_of(db, team)
    settings = Settings(
        folder=None if folder is None else TeamFolder(folder),
        edits=edits,
        file_megabytes=max_file_megabytes,
        day_gigabytes=max_day_gigabytes,
        waiting_gigabytes=max_waiting_gigabytes,
    )
    run(db, host, port, settings, opens=opens, report=say)
