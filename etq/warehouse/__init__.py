"""A warehouse: a DuckDB database with etq's tables and views."""
