"""Messages of commands beside their output: notes, results and errors on stderr."""

from __future__ import annotations

import sys
from functools import partial

import click

from etq.errors import printable
from etq.render import pager
from etq.render.terminal import style_of, wrapped


def say(text: str, *, bold: bool | None = None) -> None:
    """Print a text on stderr, with control characters escaped; on a terminal, its lines fit.

    If a pager shows the output, it is printed when that is left.
    """
    pager.after(partial(click.secho, wrapped(printable(text), style_of(sys.stderr)), err=True, bold=bold))
