"""Fuzzing: real files of every format, damaged with knowledge of their structure. See `python -m tests.fuzz --help`."""
