"""SQL that isn't trusted runs in a process of its own."""
