"""Events of all formats: keys, kinds, event blocks, nesting, clocks."""
