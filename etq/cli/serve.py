"""The commands about the server: run it, make its tokens, and send captures to it."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.numbers import FloatRange, IntRange
from etq.cli.options import warehouse_argument
from etq.errors import EtqError, FormatError
from etq.tokens import ROLES


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option("--tokens", metavar="FILE", help="Require a token of this file for each request; allow pushes.")
@click.option("--seconds", type=FloatRange(0.1, 3600), default=30, help="Seconds that a query may take.  [default: 30]")
@click.option("--megabytes", type=IntRange(1), help="MB that a push may have.  [default: 2048]")
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@warehouse_argument
def serve(
    host: str,
    port: int,
    tokens: str | None,
    seconds: float,
    megabytes: int | None,
    opens: bool,
    db: str,
) -> None:
    """Show a warehouse or lake in a browser.

    Pages show captures, reports, comparisons, trends and SQL, and change nothing.

    Without --tokens, only this machine can connect. With it, each request needs a token, --host may be any address, and
    etq push can send captures. The address of a page shows the same page to others.

    \b
    etq serve lab.duckdb --open
    etq serve s3://lab/fleet --port 9000
    etq serve lab.duckdb --host 0.0.0.0 --tokens tokens.toml
    """
    from etq.serve.running import run

    if megabytes is not None and tokens is None:
        raise click.UsageError("--megabytes needs --tokens: without tokens, nobody can push")
    run(db, host, port, tokens, seconds=seconds, megabytes=megabytes or 2048, opens=opens, report=say)


@main.command()
@click.argument("name")
@click.option(
    "--role",
    "roles",
    type=click.Choice(ROLES),
    multiple=True,
    default=("read",),
    help="What the token allows; may be repeated.  [default: read]",
)
@click.option("--ends", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Its last day, in UTC.")
@click.option("--file", metavar="FILE", default="tokens.toml", help="The file to add it to.  [default: tokens.toml]")
def token(name: str, roles: tuple[str, ...], ends: datetime | None, file: str) -> None:
    """Make a token for a server, and print its secret once.

    The role read is for pages, sql for pages and queries, push for sending captures. The file has a line for each
    token, with its name, its roles, the SHA-256 of its secret, and its last day. To revoke a token, remove its line.

    \b
    etq token ci --role push --file tokens.toml
    etq token anna --role sql --ends 2027-01-31
    """
    from etq.tokens import add

    click.echo(add(file, name, roles, None if ends is None else ends.date()))


@main.command()
@click.argument("url")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label of the captures; may be repeated.")
@click.option("--name", help="Name of the capture; with one file only.  [default: from the file's name]")
@click.option("--etrecord", metavar="FILE", help="The ETRecord of the files' program.")
@click.option("--pte", metavar="FILE", help="The files' program.")
@click.option(
    "--metrics", metavar="FILE", multiple=True, help="Metrics of the capture, with one file; may be repeated."
)
def push(
    url: str,
    files: tuple[str, ...],
    labels: tuple[str, ...],
    name: str | None,
    etrecord: str | None,
    pte: str | None,
    metrics: tuple[str, ...],
) -> None:
    """Send profiling files to a server, which stores them. The token is in $ETQ_TOKEN.

    A file that the server has is stored once, so a push can be repeated. If the server can't be reached, the push is
    repeated for two minutes. A file that can't be stored is reported, and the exit status is 1.

    \b
    etq push http://lab:8650 run.etdp --label build=41 --label device=pixel8
    etq push https://lab.example.org nightly/*.etdp --etrecord net.etrecord
    """
    from etq.push import Pusher

    if len(files) > 1 and (name is not None or metrics):
        raise click.UsageError("--name and --metrics need a single file")
    shared = [(field, path) for field, path in (("etrecord", etrecord), ("pte", pte)) if path is not None]
    pusher = Pusher(url, notify=lambda text: say(f"Note: {text}"))
    failed = 0
    for file in files:
        fields = [("label", label) for label in labels] + ([] if name is None else [("name", name)])
        try:
            sent = pusher.push([("file", file), *shared, *(("metrics", path) for path in metrics)], fields)
        except EtqError as error:
            failed += 1
            # The server's errors may name the file, too.
            text = str(error).removeprefix(f"{Path(file).name}: ")
            say(f"Error: {error}" if isinstance(error, FormatError) else f"Error: {file}: {text}")
            continue
        applied = ", options applied" if fields or shared or metrics else ""
        say(f"{sent.name}: {'stored' if sent.is_new else f'known already{applied}'}")
        for rule, detail in sent.findings:
            say(f"Note: {rule}: {detail}")
    if failed:
        say(f"{failed} of {len(files)} files could not be stored")
        sys.exit(1)
