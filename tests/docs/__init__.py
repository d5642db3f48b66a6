"""The documentation: its examples are run, and its reference is complete."""
