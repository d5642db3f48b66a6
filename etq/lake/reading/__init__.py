"""Reads a lake: its Delta tables, its loads, and its rows in DuckDB. Writes nothing."""
