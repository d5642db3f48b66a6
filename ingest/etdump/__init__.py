"""ETDump: runs, events, allocations and logged values of ExecuTorch's runtime."""
