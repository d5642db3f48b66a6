"""Files with pages that commands write, and open in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Final

import click

from etq.cli.messages import say
from etq.database.publishing import check_folder
from etq.errors import EtqError
from etq.render.writers import SUFFIXES, Output, file_of, write_text
from etq.report.page import Report, subject_of

# The place where a page names its subject: before its style.
_HEAD: Final = 4096
# Names that other programs would open as something else.
_OTHER_FORMATS: Final = frozenset((*SUFFIXES, ".jsonl", ".pdf", ".png", ".svg", ".txt"))

open_option: Final = click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")


def check_page(path: str | None, *, force: bool, opens: bool) -> None:
    """Raise `EtqError` before a page is made: if its file exists (unless `force` is set or it is a page of etq), if its
    folder can't be written, if its name is that of another format, or if stdout is to be opened in a browser.
    """
    if path is not None and Path(path).suffix.lower() in _OTHER_FORMATS:
        raise EtqError(f"{path}: the page is HTML; give it a name that ends with .html")
    if opens and path == "-":
        raise EtqError("--open needs a file; name one other than -")
    written = file_of(path, force or _subject_of(path) is not None)
    if written is not None:
        check_folder(written)


def write_page(report: Report, path: str, of: str, *, force: bool, opens: bool) -> None:
    """Write a report to a file or to stdout (-), print what it shows, and open it if asked to.

    Raises `EtqError` if the file exists, unless `force` is set or it is an earlier page of etq about the same.
    """
    check_page(path, force=force, opens=opens)
    force = force or _subject_of(path) == report.subject
    written = file_of(path, force)
    write_text(report.page(), Output(None, written, force))
    if written is not None:
        say(f"{path}: {of}")
    if opens and not webbrowser.open(Path(path).resolve().as_uri()):
        say("Note: found no browser; open the file in one")


def _subject_of(path: str | None) -> str | None:
    """Return what the page in a file is about; None if there is none."""
    if path is None or not Path(path).is_file():
        return None
    with Path(path).open(encoding="utf-8", errors="replace") as file:
        return subject_of(file.read(_HEAD))


def file_name_of(name: str) -> str:
    """Return a name as a file name: without folders, leading dots and control characters."""
    kept = "".join(letter if letter.isalnum() or letter in "-_.@=," else "_" for letter in name)
    return kept.strip(".")[:100] or "report"
