"""The command line, run within the process of the tests."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from etq import cli


def run_etq(*arguments: str, **options: Any) -> Result:
    """Run a command and return its output and status. `options` are those of `CliRunner.invoke`, such as input."""
    return CliRunner().invoke(cli.main, list(arguments), **options)
