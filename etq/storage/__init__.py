"""Storing files: the rows that ingestors read, inserted into tables."""
