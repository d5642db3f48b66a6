"""Rates at which comparisons of captures find changes and blame ops wrongly, on a real fleet, with their errors."""
