"""The statistics of etq: what decides verdicts. Pure functions of numpy arrays, which know no files and no database."""
