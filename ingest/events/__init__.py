"""What events of all formats have in common: keys, kinds, event blocks, nesting, clocks."""
