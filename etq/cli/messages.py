"""Messages of commands beside their output: notes, results and errors on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from etq.errors import printable
from etq.render import pager
from etq.render.terminal import style_of, wrapped

if TYPE_CHECKING:
    from etq.ingest.found_files import Left


def say(text: str, *, bold: bool | None = None) -> None:
    """Print a text on stderr, with control characters escaped; on a terminal, its lines fit.

    If a pager shows the output, the text is printed after the pager ends.
    """
    pager.after(partial(click.secho, wrapped(printable(text), style_of(sys.stderr)), err=True, bold=bold))


def note_left_out(left: Sequence[Left], *, lists_all: bool = False) -> None:
    """Print which files of folders were left out, and why."""
    if left:
        from etq.ingest.found_files import NAMED, listed

        say(f"Note: not read as profiling files: {listed(left, len(left) if lists_all else NAMED)}")
