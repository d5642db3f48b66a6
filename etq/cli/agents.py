"""The command that serves a warehouse to agents."""

from __future__ import annotations

from contextlib import suppress

from etq.cli import main
from etq.cli.options import warehouse_option


@main.command()
@warehouse_option
def mcp(db: str) -> None:
    """Serve a warehouse to agents (MCP).

    Speaks the Model Context Protocol over standard input and output. Needs etq[mcp].

    The tools list views, describe one, run one SELECT within limits, and compare two sides. Nothing is written. The
    warehouse is opened for each call, so other processes can write to it between calls.

    \b
    etq mcp --db lab.duckdb
    """
    from etq.agents import server_of
    from etq.database.locking import HeldError
    from etq.warehouse.warehouse import open

    # A wrong path ends here, where people see it, not in each answer. Another process may write to the warehouse now.
    with suppress(HeldError), open(db, read_only=True, wait=0):
        pass
    server_of(db).run("stdio")
