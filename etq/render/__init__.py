"""Results on terminals, in notebooks and files."""
