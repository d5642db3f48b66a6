"""Measures programs in turns until their comparison is decided."""
