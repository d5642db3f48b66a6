"""Results as text for terminals, notebooks and files."""
