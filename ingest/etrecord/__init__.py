"""ETRecord: op graphs, debug handles and delegate maps of an exported program."""
