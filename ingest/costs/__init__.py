"""The operations and bytes of calls of ops, computed from the sizes, types and values of their arguments."""
