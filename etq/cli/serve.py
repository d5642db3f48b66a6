"""The command that shows a warehouse in a browser."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import click

from etq.cli import main
from etq.cli.keeping import keeping_options
from etq.cli.messages import say
from etq.cli.options import together, warehouse_option
from etq.errors import EtqError
from etq.team.users import ROLES


def _networks(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check addresses and networks."""
    for text in texts:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise click.BadParameter(
                f"{text!r} is no address or network; write it like 10.0.0.7 or 10.0.0.0/8"
            ) from None
    return texts


# Who may ask, and how they reach the server.
access_options: Final = together(
    click.option("--team", metavar="DIR", help="The server's folder, with its users.  [default: FILE.team]"),
    click.option("--cert", "certificate", metavar="FILE", help="Serve HTTPS, by a certificate in PEM."),
    click.option("--key", metavar="FILE", help="The key of --cert in PEM, unless it is in that file."),
    click.option("--name", "names", multiple=True, metavar="HOST", help="Another name of the server; may be repeated."),
    click.option("--user-header", metavar="HEADER", help="Header in which a proxy names users."),
    click.option(
        "--proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        callback=_networks,
        help="Address or network of a proxy, which is believed what it tells of clients; may be repeated.  "
        "[default: with --user-header this machine, else none]",
    ),
    click.option(
        "--default-role",
        type=click.Choice([*ROLES]),
        help="With --user-header: the role of users who were not added.  [default: none]",
    ),
    click.option(
        "--requests-per-minute",
        type=click.IntRange(1),
        default=1200,
        metavar="N",
        help="Limit of one user's requests.  [default: 1200]",
    ),
)


# What is told elsewhere.
webhook_options: Final = together(
    click.option("--webhook", metavar="URL", help="Tell this address when a regression in an overview begins or ends."),
    click.option(
        "--webhook-secret",
        metavar="SECRET",
        envvar="ETQ_WEBHOOK_SECRET",
        help="Key of the signature of what is told; better in the environment, as ETQ_WEBHOOK_SECRET.",
    ),
    click.option("--public-url", metavar="URL", help="The address at which people reach the server, for links."),
)


# The limits of what is pushed.
receiving_options: Final = together(
    click.option(
        "--max-file-megabytes",
        "file_megabytes",
        type=click.IntRange(1),
        default=2048,
        help="Limit of a file that is pushed.  [default: 2048]",
    ),
    click.option(
        "--max-day-gigabytes",
        "day_gigabytes",
        type=click.FloatRange(0),
        default=20,
        help="Limit of what a user pushes on a day.  [default: 20]",
    ),
    click.option(
        "--max-waiting-gigabytes",
        "waiting_gigabytes",
        type=click.FloatRange(0),
        default=50,
        help="Limit of all files that wait to be stored.  [default: 50]",
    ),
)


@main.command()
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [default: 127.0.0.1, this machine alone]")
@click.option("--port", type=click.IntRange(0, 65535), default=8650, help="Port; 0: any free one.  [default: 8650]")
@click.option(
    "--edit",
    "edits",
    is_flag=True,
    help="Without users: let pages change overviews and write comments, and programs push and label.",
)
@webhook_options
@click.option("--open", "opens", is_flag=True, help="Open the first page in a browser.")
@access_options
@receiving_options
@keeping_options
@warehouse_option
def serve(host: str, port: int, opens: bool, db: str, team: str | None, **given: Any) -> None:
    """Show a warehouse or lake in a browser. Pages have captures, reports, comparisons, trends, overviews and SQL.

    Pages only read, but for overviews and comments with --edit, which also lets etq push send captures; other processes
    can write meanwhile. Any page's link shows others the same. With a --host other than this machine, a link with a
    token is printed, by which browsers sign in. A server with users (etq users add) answers only them.

    \b
    etq serve --db lab.duckdb --open
    etq serve --db s3://lab/fleet --port 9000
    etq serve --db lab.duckdb --webhook https://chat.example.com/hooks/abc
    etq serve --host 0.0.0.0 --cert lab.pem --key lab.key
    etq serve --db lab.duckdb --prune "--keep-last 10 --by model,device --keep-rollups"
    """
    from etq.serve.running import run
    from etq.serve.settings import Settings
    from etq.team.folder import TeamFolder, folder_of

    path = folder_of(db, team)
    if given["key"] is not None and given["certificate"] is None:
        raise click.UsageError("--key goes with --cert")
    if given["default_role"] is not None and given["user_header"] is None:
        raise click.UsageError("--default-role goes with --user-header")
    if given["user_header"] is not None:
        if path is None:
            raise EtqError(f"{db}: a lake has no folder for users beside it; give one with --team DIR")
        given["proxies"] = given["proxies"] or ("127.0.0.1", "::1")
    role = given.pop("default_role")
    folder = None if path is None else TeamFolder(path)
    if given["webhook"] is not None:
        from etq.serve.webhook import check_webhook

        check_webhook(given["webhook"], folder)
        if folder is not None:
            folder.make()
    settings = Settings(folder=folder, default_role=None if role is None else ROLES[role], **given)
    run(db, host, port, settings, opens=opens, report=say)
