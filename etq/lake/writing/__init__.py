"""Writing a lake: loads, commits, compaction, going back, upgrades."""
