"""Measuring programs in turn until a comparison of them is decided."""
