"""The warehouse for agents: a server of the Model Context Protocol, by its official SDK.

    etq mcp --db lab.duckdb

The server reads no file itself: `etq.mcp.worker` is the process that answers, one call at a time, and is killed if a
call is cancelled or takes too long. All numbers are from views. Needs `pip install 'etq[mcp]'`.
"""
