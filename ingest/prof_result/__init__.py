"""prof_result: the blob of ExecuTorch's profiler before ETDump."""
