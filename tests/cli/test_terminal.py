"""Output of commands on a terminal: under a pseudo-terminal, compared with a pipe; pagers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from etq.render.table import table
from etq.render.terminal import PLAIN, TerminalStyle, bar, wrapped
from etq.render.writers import with_values
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES

CONVNET = str(CAPTURES / "convnet_xnn/convnet_xnn_100runs.etdp")
UNSET = {
    "NO_COLOR", "PAGER", "ETQ_PAGER", "LESS", "FORCE_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG", "ETQ_DB",
    "PYTHONIOENCODING",
}  # fmt: skip
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
BLOCKS = set("▏▎▍▌▋▊▉█")


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PAGER": "cat", **given}


def on_terminal(*arguments: str, width: int = 100, with_messages: bool = False, **given: str) -> str:
    """The output of `etq` on a terminal of this width, without messages unless requested."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-m", "etq", *arguments]
    stderr = theirs if with_messages else subprocess.DEVNULL
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=stderr, env=environment(**given)) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                read = os.read(ours, 65536)
            except OSError:  # on Linux, this is the end of the output
                break
            if not read:
                break
            written += read
    os.close(ours)
    assert process.returncode == 0, written
    # Without lines about what takes more than a second, which disappear.
    return re.sub(r"(?:\r[^\r\n]*)+\r", "", written.decode().replace("\r\n", "\n"))


def piped(*arguments: str, **given: str) -> str:
    """What `etq` writes to a pipe."""
    command = [sys.executable, "-m", "etq", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment(**given))
    return done.stdout.decode()


def is_rounded(exact: float, shown: str) -> bool:
    """Whether a number is shown with fewer decimals, or as less than the smallest that these can show."""
    if shown.startswith("<"):
        return 0 < exact < float(shown[1:])
    return abs(exact - float(shown)) <= 0.5001 * 10.0 ** -len(shown.partition(".")[2])


def plain(text: str) -> str:
    return ESCAPE.sub("", text)


def test_tables_have_bars_and_bold_heads_on_a_terminal() -> None:
    shown = on_terminal("ops", CONVNET, "--runs", "all", width=132)
    head, rule, *lines = shown.splitlines()
    assert head.startswith("\x1b[1mop\x1b[0m") and "\x1b[1mshare %\x1b[0m" in head
    assert plain(head).split() == "op kind per_execute per_call share % calls min max unit".split()
    assert set(plain(rule)) == {"-", " "}
    first = next(row for row in lines if "DELEGATE_CALL" in row)
    # 75.7 % of 24 cells are 18.2 of them: 18 whole ones and an eighth.
    assert f"75.7  \x1b[36m{'█' * 18}▏\x1b[0m" in first
    assert all(len(plain(row)) <= 132 for row in (head, rule, *lines))
    assert [plain(row).split()[0] for row in lines if row.startswith("\x1b[2m")] == ["(unattributed)"]
    # A pipe gets the same text, with all digits, and nothing else.
    text = run_etq("ops", CONVNET, "--runs", "all").stdout
    assert "\x1b" not in text and not BLOCKS & set(text)
    rounded_lines = plain("\n".join(lines)).translate(dict.fromkeys(map(ord, BLOCKS))).splitlines()
    for exact, rounded in zip(text.splitlines()[2:], rounded_lines, strict=True):
        for cell, other in zip(exact.split(), rounded.split(), strict=True):
            is_number = re.fullmatch(r"[\d.]+", cell) is not None
            assert cell == other or (is_number and is_rounded(float(cell), other)), (cell, other)


@pytest.mark.long
def test_other_formats_and_commands() -> None:
    narrow = plain(on_terminal("ops", CONVNET, width=40))
    assert max(map(len, narrow.splitlines())) <= 40
    fitting, note = narrow.split("Not shown:")
    whole = csv_rows(run_etq("ops", CONVNET, "--format", "csv").stdout)
    columns = fitting.splitlines()[0].split()
    assert len(fitting.splitlines()) == 2 + len(whole) and columns[0] == "op" and {"per_execute", "unit"} <= {*columns}
    assert [name for name in whole[0] if name not in columns and name in note] != []
    record = str(CAPTURES / "convnet_xnn/convnet_xnn.etrecord")
    assert "█" in on_terminal("ops", "--by", "module", CONVNET, "--etrecord", record, width=200)


@pytest.mark.long
def test_colours_are_chosen_by_the_environment() -> None:
    settings: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),  # https://no-color.org: when present and not an empty string
        ({"TERM": "dumb"}, False),
    ]
    for given, is_coloured in settings:
        shown = on_terminal("flame", CONVNET, **given)
        assert ("\x1b[" in shown, "█" in shown) == (is_coloured, True), given
    assert "\x1b[1m" in piped("show", "execute_breakdown", CONVNET, FORCE_COLOR="1")
    asked = piped("--color", "always", "show", "execute_breakdown", CONVNET, NO_COLOR="1")
    assert "\x1b[1m" in asked and not BLOCKS & set(asked)
    assert "\x1b" not in on_terminal("--color", "never", "show", "execute_breakdown", CONVNET, FORCE_COLOR="1")


@pytest.mark.long
def test_without_utf_8_there_is_ascii_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(dump(run("Execute", kernel("añadir", 10, 30), execute(0, 60))))
    settings: list[tuple[str, dict[str, Any]]] = [("ops", {"LC_ALL": "C"}), ("flame", {"PYTHONIOENCODING": "ascii"})]
    for command, given in settings:
        shown = on_terminal(command, CONVNET, width=132, **given)
        assert shown.isascii() and "####" in shown
    assert "~" in on_terminal("flame", CONVNET, width=40, LC_ALL="C")
    assert "a\\xf1adir" in on_terminal("ops", str(path), PYTHONIOENCODING="ascii")
    assert "a\\xf1adir" in piped("ops", str(path), "--format", "csv", PYTHONIOENCODING="ascii")
    assert "añadir" in on_terminal("ops", str(path))


def test_sql_without_a_query_lists_the_ways_to_give_one() -> None:
    """If stdin is a terminal, the command doesn't wait for it, as users would not expect that."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "etq", "sql"]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=environment(), check=False)
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 2
    assert done.stderr.endswith(
        "Error: no query; give one: etq sql 'FROM captures', or statements in a file: -f FILE, or on stdin: -f -\n"
    )


# Pagers


LONG = ("views",)


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that notes what it got, and shows it in capitals."""
    path = tmp_path / "pager"
    path.write_text(f'#!/bin/sh\necho "$LESS" > {shlex.quote(str(tmp_path / "less"))}\ntr a-z A-Z\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.long
def test_a_table_longer_than_the_screen_is_paged_whole(pager: Path) -> None:
    shown, less = on_terminal(*LONG, width=80, ETQ_PAGER=str(pager), PAGER="false"), pager.with_name("less")
    assert (
        shown == on_terminal(*LONG, width=80, ETQ_PAGER="cat").upper() == on_terminal(*LONG, width=80, PAGER=str(pager))
    )
    assert less.read_text() == "FRX\n"
    less.unlink()
    for arguments in (("views", "--limit", "3"), ("--no-pager", *LONG), (*LONG, "-o", os.devnull, "--force")):
        on_terminal(*arguments, width=80, ETQ_PAGER=str(pager))
    on_terminal(*LONG, ETQ_PAGER=str(pager), TERM="dumb")
    piped(*LONG, ETQ_PAGER=str(pager))
    assert not less.exists()


@pytest.mark.long
def test_without_a_pager_all_is_printed() -> None:
    lines = run_etq(*LONG).stdout.count("\n")
    for other in ("", "no-such-pager --x", "'"):
        assert on_terminal(*LONG, ETQ_PAGER=other).count("\n") == lines
    # Leaving the pager is no failure: `on_terminal` checks the status. There is more than a pipe holds.
    arguments = ("show", "timeline", str(CAPTURES / "transformer/transformer_100runs.etdp"))
    assert on_terminal(*arguments, PAGER="head -1").count("\n") == 1


# Tables and texts of a width


def test_bars() -> None:
    ascii_alone = TerminalStyle(has_blocks=False)
    for start, length, style, expected in (
        (0, 1, PLAIN, "████████"),
        (0.5, 0.25, PLAIN, "    ██"),
        (0, 1 / 64, PLAIN, "▏"),
        (0, 1e-9, PLAIN, "▏"),  # a value above zero is visible; zero is not
        (0, 0, PLAIN, ""),
        (0, -1, PLAIN, ""),
        (1, 1e-9, PLAIN, "       ▏"),
        (0, 7, PLAIN, "████████"),
        (0.5, 0.25, ascii_alone, "    ##"),
        (0, 1e-9, ascii_alone, "#"),
    ):
        assert bar(start, length, 8, style) == expected


def test_columns_that_answer_a_question_stay_on_narrow_terminals() -> None:
    columns = ["op", "module", "calls", "roof_percent", "bound"]
    rows: list[tuple[object, ...]] = [
        (f"op{at}", "layers.0.attention.projection", at, 33.4, "compute") for at in range(3)
    ]
    narrow = table(columns, rows, TerminalStyle(width=24), foremost=("op", "bound", "roof_percent"))
    assert narrow.split("\n")[0].split() == ["op", "roof", "%", "bound"]
    assert "Not shown: module, calls" in " ".join(narrow.split())
    # As in `etq regressions`: neither a column of units alone, nor a number without its unit.
    columns = ["series", "item", "change_percent", "cost", "unit", "runs"]
    rows = [("device=pixel8", "relu@1", 3.5, 12.25, "us", 7), ("device=pixel9", "relu@2", 4.5, 1.25, "us", 8)]
    for width in range(30, 80, 5):
        foremost = ("series", "item", "change_percent", "unit", "cost")
        shown = table(columns, rows, TerminalStyle(width), foremost=foremost).splitlines()[0].split()
        # By hand: columns of 13, 6, 8, 5 and 4 letters with two blanks between them are 44 wide.
        assert ("unit" in shown) == ("cost" in shown) == (width >= 44)


def test_columns_without_a_value_are_left_out() -> None:
    columns, rows = ["op", "block", "reason", "calls"], [("a", None, "", 1), ("b", None, "", 0)]
    assert with_values(columns, rows) == (["op", "calls"], [["a", 1], ["b", 0]])
    assert with_values(columns, []) == (columns, [])


def test_notes_fit_the_terminal_and_numbers_stay_with_their_units() -> None:
    text = "Note: it takes 12.5 us of 39 % in all"
    for width in range(20, 40):
        lines = wrapped(text, TerminalStyle(width=width)).split("\n")
        assert max(map(len, lines)) <= width and not any(line.strip().startswith(("us", "%")) for line in lines)
        assert " ".join(line.strip() for line in lines) == text
    assert wrapped("Note: " + "a word " * 30, PLAIN) == "Note: " + "a word " * 30
