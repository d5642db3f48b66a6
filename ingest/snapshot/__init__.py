"""Memory snapshots of torch.cuda: what the caching allocators of devices held, and who asked for it."""
