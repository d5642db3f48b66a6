"""Reading a lake: its files and logs, what it holds at a version, and its tables in DuckDB. Writes nothing."""
