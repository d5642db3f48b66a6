"""Messages of commands beside their output: notes, results and errors on stderr."""

from __future__ import annotations

import sys

import click

from etq.errors import printable
from etq.render.terminal import style_of, wrapped


def say(text: str, *, bold: bool | None = None) -> None:
    """Print a text on stderr, with control characters escaped; on a terminal, its lines fit."""
    click.secho(wrapped(printable(text), style_of(sys.stderr)), err=True, bold=bold)
