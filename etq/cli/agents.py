"""The command that serves a warehouse to agents."""

from __future__ import annotations

import click

from etq.cli import main
from etq.cli.messages import say
from etq.cli.options import warehouse_option


@main.command()
@click.option(
    "--allow", "allowed", metavar="FOLDER", multiple=True, help="Allow reading files below it; may be repeated."
)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output.")
@click.option(
    "--host", help="With --http: the host to bind to; others than the loopback need a token.  [default: 127.0.0.1]"
)
@click.option("--port", type=click.IntRange(0, 65535), help="With --http: the port; 0: any free one.  [default: 8651]")
@warehouse_option
def mcp(allowed: tuple[str, ...], http: bool, host: str | None, port: int | None, db: str) -> None:
    """Serve a warehouse to agents (MCP). The Model Context Protocol's clients read it, and can't write.

    The tools list, summarize and compare captures, find regressions, and run SQL that isn't trusted. Other processes
    can write the warehouse meanwhile. With --allow, files can be inspected before there is a warehouse. Needs etq[mcp].

    \b
    etq mcp --db lab.duckdb
    etq mcp --db lab.duckdb --allow ~/captures --http --port 8651
    """
    from etq.mcp.serving import check_warehouse, serve_http, serve_stdio

    if not http and (host is not None or port is not None):
        raise click.UsageError("--host and --port go with --http")
    check_warehouse(db, list(allowed), lambda text: say(f"Note: {text}"))
    if http:
        serve_http(db, list(allowed), host or "127.0.0.1", 8651 if port is None else port)
    else:
        serve_stdio(db, list(allowed))
