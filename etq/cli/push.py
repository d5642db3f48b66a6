"""Commands of a team's server for those who send to it: push, login."""

from __future__ import annotations

from typing import Any, Final

import click

from etq.cli import main
from etq.cli.files import ingest
from etq.cli.messages import say
from etq.cli.pushed import push_files
from etq.errors import printable

# Options of `etq ingest` that are about a warehouse of this machine.
_OF_WAREHOUSE: Final = ("db", "to", "classes", "files")
token_option: Final = click.option(
    "--token", metavar="TOKEN", help="Token for the server.  [default: $ETQ_TOKEN, or that of etq login]"
)


@main.command(
    params=[
        click.Argument(["url"], metavar="URL"),
        click.Argument(["files"], metavar="FILE...", nargs=-1, required=True, type=str),
        *(each for each in ingest.params if each.name not in (*_OF_WAREHOUSE, "token", "waits")),
    ]
)
@click.option("--wait/--no-wait", "waits", default=True, help="Whether to wait until the captures are stored.")
@token_option
def push(url: str, files: tuple[str, ...], **options: Any) -> None:
    """Send profiling files to a team's server, which stores them. Options are those of etq ingest.

    What the server has is not sent again; after an interrupt, the same command goes on. While the server can't be
    reached or is busy, it is tried again for two minutes. A file that can't be stored is reported, and the exit status
    is 1.

    \b
    etq login http://lab:8650
    etq push http://lab:8650 run.etdp --etrecord net.etrecord --label device=pixel8 --label-git=.
    etq push http://lab:8650 lab/*/*/*.etdp --label-from '{model}/{device}/{build}.etdp'
    """
    push_files(url, files, **options)


@main.command()
@click.argument("url")
@click.option("--forget", is_flag=True, help="Remove the token that is kept for the server.")
def login(url: str, forget: bool) -> None:
    """Keep the token for a server.

    It is asked for, tried, and kept in ~/.config/etq/servers.toml, which only you can read.

    The token is sent to that server alone, by scheme, host and port.

    \b
    etq login https://lab.example.org
    """
    from etq.remote.client import owner_of
    from etq.remote.servers import keep, origin_of, place

    origin = origin_of(url)
    if forget:
        keep(url, None)
        say(f"{origin}: its token is forgotten")
        return
    token = click.prompt("Token", hide_input=True, err=True).strip()
    user, role = owner_of(url, token)
    keep(url, token)
    say(f"{origin}: the token is that of {printable(user)}, of the role {role}; it is kept in {place()}")
