"""Pushing files to a team's server, and what is printed of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from etq.cli.found_files import LISTED, found_files, note_left_out
from etq.cli.labels import check_pattern
from etq.cli.messages import say
from etq.errors import EtqError, displayed
from etq.render.progress import Progress

if TYPE_CHECKING:
    from etq.remote.protocol import State
    from etq.remote.pushing import LocalFile, ToPush

# Bytes of a file whose sending is shown.
_LARGE: Final = 2**23


def push_files(
    url: str,
    files: Sequence[str],
    *,
    etrecord: str | None = None,
    pte: str | None = None,
    token: str | None = None,
    waits: bool = True,
    verbose: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Push files to a server, and print the results as `etq ingest` does. Exits with 1 if one can't be stored."""
    from etq.remote.client import Client
    from etq.remote.pushing import LocalFile, Pusher

    options = _checked(files, options)
    found, left = found_files(files)
    note_left_out([] if quiet else left, lists_all=verbose)
    check_pattern(options.get("label_from"), found)
    shared = {name: LocalFile(each) for name, each in (("pte", pte), ("etrecord", etrecord)) if each is not None}
    with (
        Client(url, token) as client,
        Progress("Sending", len(found), sys.stderr, is_quiet=quiet) as progress,
    ):
        printed = _Printed(len(found), progress, verbose=verbose, quiet=quiet)
        pusher = Pusher(client, printed.begun, printed.sent, printed.pushed, printed.ended, printed.noted)
        states = pusher.push(_prepared(found, shared, options, printed), waits=waits)
    waiting = [each for each in states if each.state == "waiting"]
    if waiting and not quiet:
        noun = "1 capture waits" if len(waiting) == 1 else f"{len(waiting)} captures wait"
        say(f"{noun} on the server; it stores them next")
    printed.end()
    if printed.failed:
        sys.exit(1)


def _checked(files: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options for each capture. Raises `click.UsageError` for those that don't go together."""
    from etq.annotations.discovery import labels_of_git

    options = dict(options)
    of_one = ("name", "debug_buffer", "graph_capture", "metrics")
    for name in of_one:
        if options.get(name) and len(files) > 1:
            raise click.UsageError(f"--{name.replace('_', '-')} goes with one file")
    job, labels = options.pop("job", None), dict(options.pop("labels", {}))
    if job is not None and labels.setdefault("job", job) != job:
        raise click.UsageError(f"--job {job} and --label job={labels['job']} differ")
    if options.get("values") and options.get("debug_buffer") is None:
        raise click.UsageError("--values goes with --debug-buffer")
    popped = ("clock_bits", "captured_at", "label_git", "graph_capture")
    bits, moment, git, traces = (options.pop(name, None) for name in popped)
    return {
        **options,
        "labels": labels,
        "clock_bits": None if bits is None else int(bits),
        "captured_at": None if moment is None else moment.isoformat(),
        "graph_captures": traces or (),
        "of_git": None if git is None else labels_of_git(git),
    }


def _prepared(
    files: Sequence[str], shared: Mapping[str, LocalFile], options: dict[str, Any], printed: _Printed
) -> Iterator[ToPush]:
    from etq.remote.pushing import prepared

    for file in files:
        try:
            yield prepared(file, shared, **options)
        except EtqError as error:
            printed.error(str(error))


class _Printed:
    """Prints what becomes of captures: of each, or, for more than `LISTED` files, only failures and totals."""

    def __init__(self, files: int, progress: Progress, *, verbose: bool, quiet: bool) -> None:
        self._files, self._progress, self._is_quiet = files, progress, quiet
        self._lists = not quiet and (verbose or files <= LISTED)
        self._numbers = dict.fromkeys(("new", "known already", "failed"), 0)
        self._rules: dict[str, int] = {}

    @property
    def failed(self) -> int:
        """The number of files that could not be stored."""
        return self._numbers["failed"]

    def begun(self, file: LocalFile) -> None:
        """Show that a file is being sent."""
        if file.size >= _LARGE:
            self._progress.relabel(f"Sending {displayed(file.path)[-30:]}")

    def sent(self, file: LocalFile, count: int) -> None:
        """Show how much of a large file was sent."""
        if file.size >= _LARGE:
            self._progress.relabel(f"Sending {displayed(file.path)[-30:]} ({count / file.size:.0%})")
            self._progress.redraw()

    def pushed(self, _: ToPush) -> None:
        """Count a capture that the server has taken."""
        self._progress.relabel("Sending")
        self._progress.advance()

    def error(self, text: str) -> None:
        """Print why a file could not be sent."""
        self._numbers["failed"] += 1
        self._say(f"Error: {text}")

    def ended(self, state: State) -> None:
        """Print what became of a capture."""
        if state.error is not None:
            self.error(state.error)
            return
        self._numbers["new" if state.is_new else "known already"] += 1
        if self._lists:
            what = "stored" if state.is_new else "known already, options applied"
            self._say(f"{state.capture}: {what}")
        for rule, detail in state.findings:
            is_warning = rule.startswith("foreign ")
            if self._lists or (is_warning and self._files <= LISTED):
                self._say(f"{'Warning' if is_warning else 'Note'}: {rule}: {detail}", bold=True if is_warning else None)
            else:
                self._rules[rule] = self._rules.get(rule, 0) + 1

    def noted(self, text: str) -> None:
        """Print why the server doesn't store captures now."""
        if not self._is_quiet:
            self._say(f"The server waits: {text}")

    def end(self) -> None:
        """Print the totals of all files."""
        for rule, number in self._rules.items():
            if not self._is_quiet or rule.startswith("foreign "):
                word = "Warning" if rule.startswith("foreign ") else "Note"
                say(f"{word}: {number} of {self._files} files: {rule}")
        if self._files <= LISTED:
            if self.failed:
                say(f"{self.failed} of {self._files} files could not be stored")
        elif not self._is_quiet:
            shown = [f"{number} {what}" for what, number in self._numbers.items() if number]
            say(f"{self._files} files: {', '.join(shown)}")

    def _say(self, text: str, bold: bool | None = None) -> None:
        self._progress.clear()
        say(text, bold=bold)
