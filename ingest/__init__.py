"""Ingestors: profiling files as Arrow tables, keyed by the names of the base tables. No database here."""
