"""What calls of ops compute and move, by the sizes, types and values of their arguments."""
