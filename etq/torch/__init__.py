"""Functions that need torch or serve it: reference runs, a handler for its profiler."""
