"""SQL that isn't trusted, asked in a process of its own."""
