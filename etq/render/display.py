"""How a command shows its results: settings from its options, for all tables and texts that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple


class Display(NamedTuple):
    """How results are shown.

    is_wide           whether tables have all columns and whole texts (--wide); if a terminal has no room, as several
                      tables below each other
    has_full_names    whether tables and charts on terminals show names of kernels in full: --full-names
    escapes_formulas  whether CSV and TSV put an apostrophe before texts that a spreadsheet would take for formulas
    is_paged          whether long texts are given to a pager: --no-pager
    """

    is_wide: bool = False
    has_full_names: bool = False
    escapes_formulas: bool = False
    is_paged: bool = True


_display: Final[ContextVar[Display]] = ContextVar("display", default=Display())  # noqa: B039 - it is immutable


def display() -> Display:
    """Return how results are shown."""
    return _display.get()


def show_as(**options: bool) -> None:
    """Set these fields of `Display` until the command ends."""
    _display.set(_display.get()._replace(**options))


@contextmanager
def shown_as(**options: bool) -> Iterator[None]:
    """Set these fields of `Display` until the block ends."""
    token = _display.set(_display.get()._replace(**options))
    try:
        yield
    finally:
        _display.reset(token)
