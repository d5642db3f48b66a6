"""`python -m etq`: the command line."""

from etq.cli import run

if __name__ == "__main__":
    run()
