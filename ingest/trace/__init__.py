"""Traces of PyTorch's profiler: Chrome JSON of Kineto."""
