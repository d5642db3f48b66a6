"""`etq sql` on a terminal: a prompt for statements, with history and completion."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import click

from etq import catalog
from etq.cli import expected_message, show_failure
from etq.cli.interrupts import cancelling, is_cancelled_query
from etq.cli.messages import say

PROMPT: Final = "etq> "
CONTINUED: Final = "...> "
HELP: Final = """\
A statement may have several lines and ends with ;
.views         lists the tables and views; .views NAME documents one
.help          this text
.quit          ends the prompt, as Ctrl-D does; Ctrl-C cancels the statement
Tab completes names of views, columns, and within quotes of captures.
"""
_LONGEST_HISTORY: Final = 2000
# Parts in which a ; doesn't end a statement: texts, names in quotes, comments.
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_KEYWORDS: Final = frozenset(
    {"all", "and", "as", "by", "case", "desc", "describe", "distinct", "else", "end", "from", "group", "having", "in"}
    | {"is", "join", "left", "like", "limit", "not", "null", "or", "order", "select", "then", "union", "using"}
    | {"when", "where", "with"}
)


def run_prompt(answer: Callable[[str], object], show_views: Callable[[str | None], None], names: list[str]) -> None:
    """Read statements from the terminal until the user ends the input, and answer each.

    answer      prints the result of statements; its errors are printed
    show_views  prints the list of views, or the documentation of one
    names       names of captures, for completion
    """
    say("A statement ends with a semicolon; .help lists the commands.")
    text: str | None = ""
    with _lines(names), cancelling():
        while text is not None:
            try:
                text = _after_line(text, answer, show_views)
            except KeyboardInterrupt:  # at any time, including while an error is printed
                click.echo()
                text = ""


def _after_line(text: str, answer: Callable[[str], object], show_views: Callable[[str | None], None]) -> str | None:
    """Read a line that continues the text of a statement; return the text that is still incomplete, None at the end."""
    try:
        line = input(CONTINUED if text else PROMPT)
    except EOFError:
        click.echo()
        return None
    if not text and line.strip().lower() in ("help", "quit", "exit"):
        line = f".{line.strip().lower()}"
    if not text and line.strip().startswith("."):
        return "" if _directive(line.split(), show_views) else None
    text = f"{text}\n{line}" if text else line
    if is_whole(text):
        _answered(lambda: answer(text))
        return ""
    return text if text.strip() else ""


def is_whole(text: str) -> bool:
    """Whether a text ends with a complete statement: a ; outside quotes and comments."""
    rest = _QUOTED.sub("", text)
    return rest.rstrip().endswith(";") and not re.search(r"['\"]|/\*", rest)


def _directive(words: list[str], show_views: Callable[[str | None], None]) -> bool:
    """Run a line that begins with a dot; return whether the prompt continues."""
    name, *arguments = words
    if name in (".quit", ".exit", ".q"):
        return False
    if name == ".views" and len(arguments) < 2:
        _answered(lambda: show_views(arguments[0].rstrip(";") if arguments else None))
    elif name == ".help":
        click.echo(HELP, nl=False)
    else:
        say(f"Error: no command {' '.join(words)}; .help lists the commands")
    return True


def _answered(answer: Callable[[], object]) -> None:
    """Print an answer, or its error; an interrupt ends the query."""
    try:
        answer()
    except KeyboardInterrupt:
        say("Cancelled")
    except Exception as error:
        if is_cancelled_query(error):
            say("Cancelled")
            return
        message = expected_message(error)
        if message is None:
            raise
        show_failure(error, message)


@contextmanager
def _lines(names: list[str]) -> Iterator[None]:
    """Enable editing, completion and history of lines, if Python has readline."""
    try:
        import readline
    except ImportError:  # on Windows
        yield
        return
    path = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state", "etq", "sql_history")
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_LONGEST_HISTORY)
    readline.set_completer_delims(" \t\n\"'`!@#$%^&*()=+[{]}\\|;:,<>?/")
    completer = Completer(names, lambda: readline.get_line_buffer()[: readline.get_begidx()])
    readline.set_completer(completer)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)


class Completer:
    """Completes a word: in quotes with names of captures, else with views, columns and keywords."""

    def __init__(self, names: list[str], before: Callable[[], str]) -> None:
        """`before` returns the line up to the word."""
        self._names, self._before = names, before
        public = [*catalog.public_objects()]
        columns = {column.name for known in public for column in (*known.columns, *known.parameters)}
        self._words = sorted({*(known.name for known in public), *columns, *_KEYWORDS})
        self._matches: list[str] = []

    def __call__(self, begun: str, state: int) -> Any:
        if state == 0:
            is_quoted = self._before().count("'") % 2 == 1
            known = self._names if is_quoted else self._words
            self._matches = [word for word in known if word.startswith(begun if is_quoted else begun.lower())]
            if not is_quoted and begun.isupper():
                self._matches = [word.upper() for word in self._matches if word in _KEYWORDS]
        return self._matches[state] if state < len(self._matches) else None
