"""The database of a warehouse: its file, its lock, its schema."""
