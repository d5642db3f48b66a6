"""Writes a lake: loads, their commits, compaction."""
