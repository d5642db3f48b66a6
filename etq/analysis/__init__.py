"""Comparisons, plans for measuring, and how metadata of delegates is decoded."""
