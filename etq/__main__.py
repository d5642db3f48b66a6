"""`python -m etq`: the command line."""

from etq.cli import main

if __name__ == "__main__":
    main()
