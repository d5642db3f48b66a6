"""Writing a lake: loads, their commits, compaction."""
