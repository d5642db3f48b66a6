"""What needs torch or serves it: reference runs, a handler for its profiler."""
