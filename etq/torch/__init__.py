"""Functions that use torch or are used with it: reference runs, a handler for its profiler."""
