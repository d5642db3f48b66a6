"""Pruning, compacting and merging warehouses."""
