"""The statistics that decide verdicts: pure functions of numpy arrays, without files and databases."""
