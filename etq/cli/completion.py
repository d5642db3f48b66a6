"""Shell completion: names of captures, records, views and labels, by the name of an argument.

The shell waits for completions, so nothing here waits, writes or fails. It inserts them into a command line, so names
with characters that are special to a shell are left out.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from etq.cli import COMPLETING, main
from etq.cli.commands import COMMANDS, GROUPS
from etq.cli.options import DEFAULT_WAREHOUSE

if TYPE_CHECKING:
    import duckdb

# How many completions are shown: nobody reads more.
MOST: Final = 500
_SAFE: Final = re.compile(r"[\w@%+=:,./][\w@%+=:,./-]*", re.ASCII)
# A selector: complete parts; then a key, a sign and complete values; then the beginning of a value.
_BEGUN: Final = re.compile(r"((?:[^,]*,)*)([^,=<>!]*)(?:(!=|=|[<>]=?)((?:[^,|]*\|)*)[^,|]*)?")
_CAPTURES: Final = "SELECT c.name FROM captures AS c ORDER BY c.capture_id DESC"
_LABELS: Final = "SELECT DISTINCT l.key || '=' || l.value FROM labels AS l ORDER BY ALL"
_PARTS: Final = "SELECT DISTINCT l.key || '=' || _selector_value(l.key, l.value) FROM labels AS l ORDER BY ALL"
_KEYS: Final = "SELECT DISTINCT l.key FROM labels AS l ORDER BY ALL"
_METRICS: Final = "SELECT DISTINCT m.name FROM _measured_metrics AS m ORDER BY ALL"
_SELECTED: Final = (_CAPTURES, "SELECT unnest(['@latest', '@previous'])", _PARTS)
# The queries for names, by the name of an argument or option.
ASKED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("capture", "captures", "base", "new", "other", "sides", "etdump", "trace", "baseline"), _SELECTED),
    **dict.fromkeys(("selector", "selectors", "history"), _SELECTED),
    "labels": (_LABELS,),
    **dict.fromkeys(("by", "over", "remove"), (_KEYS,)),
    **dict.fromkeys(("metric", "metrics"), (_METRICS,)),
    "record": ("SELECT r.name FROM records AS r ORDER BY r.record_id DESC",),
    "file_or_name": ("SELECT p.name FROM programs AS p ORDER BY p.program_id DESC",),
}


def completed(
    type: click.ParamType[Any], context: click.Context, parameter: click.Parameter, begun: str
) -> list[CompletionItem[str]]:
    """Return the completions of the text begun for an argument or option; file names if no name fits."""
    if (context.info_name, parameter.name) == ("views", "name"):
        from etq import catalog

        known = [known_object.name for known_object in catalog.public_objects()]
    elif (context.info_name, parameter.name) == ("help", "words"):
        known = [*GROUPS, *COMMANDS]
    else:
        is_file = parameter.metavar == "FILE"
        known = [] if is_file else _found(_warehouse_of(context), ASKED.get(parameter.name or "", ()))
    known = [name for name in known if _SAFE.fullmatch(name)]
    is_selector = _PARTS in ASKED.get(parameter.name or "", ())
    matches = [
        CompletionItem(name) for name in (_continued(known, begun) if is_selector else known) if name.startswith(begun)
    ]
    return matches or [CompletionItem(begun, type="file")]


def _continued(known: list[str], begun: str) -> list[str]:
    """Return names as completions of a selector: they complete its last part, or the last of several values."""
    begun_part = _BEGUN.fullmatch(begun)
    if begun_part is None:
        return known
    before, key, sign, values = begun_part.groups()
    if not sign:
        return [before + name for name in known] if before else known
    of_key = [name.removeprefix(f"{key}=") for name in known if name.startswith(f"{key}=")]
    return [f"{before}{key}{sign}{values}{value}" for value in of_key]


def _warehouse_of(context: click.Context) -> str:
    """Return the warehouse that the command line names, or the default one."""
    return context.params.get("lake") or context.params.get("db") or os.environ.get("ETQ_DB") or DEFAULT_WAREHOUSE


def _found(path: str, queries: tuple[str, ...]) -> list[str]:
    """Return the results of queries to a warehouse or a lake; nothing if it is locked by a writer or damaged."""
    matches: list[str] = []
    if queries and ("://" in path or Path(path).expanduser().exists()):
        with suppress(Exception), _connected(path) as connection:
            for query in queries:
                matches += [text for (text,) in connection.execute(f"{query} LIMIT {MOST}").fetchall()]
    return matches


def _connected(path: str) -> duckdb.DuckDBPyConnection:
    from etq.database.connection import connect, expanded, is_lake_path

    path = expanded(path)
    if not is_lake_path(path):
        from etq.database.schema import check

        # Unlike commands, a completion must not wait until a writer ends.
        connection = connect(path, True, 0)
        check(connection, path)
        return connection
    from etq.lake.reading.connection import connect_tables
    from etq.lake.reading.state import read
    from etq.lake.reading.tables import Lake

    return connect_tables(read(Lake.at(path)))


class _Bash(BashComplete):
    """Completes whole words: bash splits words at = and @ as well, and replaces only the part after them."""

    source_template = BashComplete.source_template.replace(
        "env COMP_WORDS=", 'env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" COMP_WORDS='
    )
    typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:] + [""] * line[-1:].isspace()
        *before, last = words or [""]
        ends = [last.rfind(character) for character in os.environ.get("COMP_WORDBREAKS", "") if character in "=@:"]
        self.typed = last[: max(ends, default=-1) + 1]
        return before, last

    def format_completion(self, item: CompletionItem[Any]) -> str:
        return f"{item.type},{item.value.removeprefix(self.typed)}"


def install() -> None:
    """Make this process, which a shell started, complete texts with these functions without ever failing."""
    click.types.StringParamType.shell_complete = completed  # type: ignore[method-assign, assignment]
    for shell in (_Bash, ZshComplete, FishComplete):
        add_completion_class(_quiet(shell))


def _quiet(shell: type[ShellComplete]) -> type[ShellComplete]:
    class Quiet(shell):  # type: ignore[misc, valid-type]
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
            with suppress(Exception):
                return list(super().get_completions(args, incomplete))
            return []

    return Quiet


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for completion in a shell. It completes commands, options, and names of captures, labels and
    views.

    \b
    eval "$(etq completion bash)"          in ~/.bashrc (bash 4.4 or later); with zsh in ~/.zshrc
    etq completion fish > ~/.config/fish/completions/etq.fish
    """
    install()
    matches = get_completion_class(shell)
    assert matches is not None
    click.echo(matches(main, {}, "etq", COMPLETING).source())
