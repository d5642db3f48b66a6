"""Storing files: inserts the rows that readers yield into tables."""
