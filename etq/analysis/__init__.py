"""Comparisons, measurement plans, and the runs that views aggregate."""
