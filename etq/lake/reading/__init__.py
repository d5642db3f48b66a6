"""Reading a lake: its Delta tables, the loads that it has, and its rows in DuckDB. Writes nothing."""
