"""Memory snapshots of torch.cuda: the memory held by the devices' caching allocators, and the stacks that
allocated it.
"""
