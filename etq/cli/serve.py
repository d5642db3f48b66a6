"""The command that shows a warehouse in a browser."""

from __future__ import annotations

from typing import Any

import click

from etq.cli import main
from etq.cli.keeping import keeping_options
from etq.cli.messages import say
from etq.cli.options import warehouse_option


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option("--edit", "edits", is_flag=True, help="Let pages change what overviews watch.")
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@keeping_options
@warehouse_option
def serve(host: str, port: int, opens: bool, db: str, **given: Any) -> None:
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

    run(db, host, port, Settings(**given), opens=opens, report=say)
