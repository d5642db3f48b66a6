"""Output of commands on a terminal: under a pseudo-terminal, compared with a pipe; pagers."""

from __future__ import annotations

import contextlib
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

from etq.catalog import foremost_in
from etq.render.display import shown_as
from etq.render.table import number_texts, table, table_parts
from etq.render.terminal import PLAIN, TerminalStyle, bar, width_of, wrapped
from etq.verdicts.words import number_text
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.processes import process

CONVNET = str(CAPTURES / "convnet_xnn/convnet_xnn_100runs.etdp")
UNSET = {
    "NO_COLOR", "PAGER", "ETQ_PAGER", "LESS", "FORCE_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG", "ETQ_DB",
    "PYTHONIOENCODING", "CI",
}  # fmt: skip
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
BLOCKS = set("▏▎▍▌▋▊▉█")


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PAGER": "cat", **given}


def on_terminal(*arguments: str, **options: Any) -> str:
    """The output of `etq` on a terminal; `options` are those of `terminal`."""
    written, status = terminal(*arguments, **options)
    assert status == 0, written
    return written


def terminal(*arguments: str, width: int = 100, with_messages: bool = False, **given: str) -> tuple[str, int]:
    """The output of `etq` on a terminal of this width, without messages unless requested, and its status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-m", "etq", *arguments]
    stderr = theirs if with_messages else subprocess.DEVNULL
    with process(command, stdin=theirs, stdout=theirs, stderr=stderr, env=environment(**given)) as started:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # on Linux, this is the end of the output
            while read := os.read(ours, 65536):
                written += read
    os.close(ours)
    # Without lines about what takes more than a second, which disappear.
    return re.sub(r"(?:\r[^\r\n]*)+\r", "", written.decode().replace("\r\n", "\n")), started.returncode


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


@pytest.mark.long
def test_tables_have_bars_and_bold_heads_on_a_terminal() -> None:
    shown = on_terminal("ops", CONVNET, "--runs", "all", width=132)
    above, head, rule, *lines = shown.splitlines()
    assert plain(above) == "In all rows: unit = us; no value: instruction_id; share % of the executes"
    assert head.startswith("\x1b[1mop\x1b[0m") and "\x1b[1mshare %\x1b[0m" in head
    assert plain(head).split() == "op kind per_execute per_call share % calls min max".split()
    assert set(plain(rule)) == {"-", " "}
    first = next(row for row in lines if "(delegate unaccounted)" in row)
    # 75.7 % of 24 cells are 18.2 of them: 18 whole ones and an eighth.
    assert f"75.7  \x1b[36m{'█' * 18}▏\x1b[0m" in first
    assert all(len(plain(row)) <= 132 for row in (head, rule, *lines))
    assert [plain(row).split()[0] for row in lines if row.startswith("\x1b[2m")] == ["(delegate", "(unattributed)"]
    # A pipe gets the same text and nothing else; data formats have all digits.
    text = run_etq("ops", CONVNET, "--runs", "all").stdout
    assert [line.split() for line in text.splitlines()] == [
        line.split() for line in plain(shown).translate(dict.fromkeys(map(ord, BLOCKS))).splitlines()
    ]
    for exact, line in zip(
        csv_rows(run_etq("ops", CONVNET, "--runs", "all", "--format", "csv").stdout), text.splitlines()[3:], strict=True
    ):
        shown = re.split("  +", line)[2]
        # What took less than the clock's step of 1 us in each run has a time of 0.
        assert shown == "<1" if float(exact["per_execute"]) == 0 else is_rounded(float(exact["per_execute"]), shown)


@pytest.mark.long
def test_other_formats_and_commands() -> None:
    narrow = plain(on_terminal("ops", CONVNET, width=40))
    assert max(map(len, narrow.splitlines())) <= 40
    fitting, note = narrow.split("Not shown:")
    whole = csv_rows(run_etq("ops", CONVNET, "--format", "csv").stdout)
    columns = fitting.splitlines()[3].split()
    assert len(fitting.splitlines()) == 5 + len(whole) and columns == ["op", "execute", "%", "calls"]
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
    on_terminal(*LONG, ETQ_PAGER=str(pager), CI="true")
    piped(*LONG, ETQ_PAGER=str(pager))
    assert not less.exists()


@pytest.mark.long
def test_who_reads_in_a_pager_holds_no_warehouse(pager: Path, tmp_path: Path) -> None:
    """The pager, after all text, changes the warehouse; the note about the rows comes when it is left."""
    db = str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", CONVNET, "--name", "run", "--db", db).exit_code == 0
    label = shlex.join([sys.executable, "-m", "etq", "--wait", "20", "label", "run", "read=yes", "--db", db])
    pager.write_text(f"#!/bin/sh\ncat\n{label} && echo Left\n")
    arguments = ("ops", "run", "--by", "instance", "--wide", "--db", db)
    lines = on_terminal(*arguments, with_messages=True, width=40, ETQ_PAGER=str(pager)).splitlines()
    assert "Left" in lines and lines[lines.index("Left") + 1].startswith("Note: ")


@pytest.mark.long
def test_without_a_pager_all_is_printed() -> None:
    lines = run_etq(*LONG).stdout.count("\n")
    for other in ("", "no-such-pager --x", "'"):
        assert on_terminal(*LONG, width=120, ETQ_PAGER=other).count("\n") == lines
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
        (0, 0, PLAIN, ""), (0, -1, PLAIN, ""), (1, 1e-9, PLAIN, "       ▏"), (0, 7, PLAIN, "████████"),
        (0.5, 0.25, ascii_alone, "    ##"), (0, 1e-9, ascii_alone, "#"),
    ):  # fmt: skip
        assert bar(start, length, 8, style) == expected


def cells(text: str) -> list[list[str]]:
    """The words of each line of a table."""
    return [line.split() for line in text.splitlines()]


def test_what_all_rows_share_is_above_the_table() -> None:
    columns = ["op", "block", "reason", "calls", "unit"]
    rows = [("a", None, "", 1, "us"), ("b", None, "", 0, "us")]
    above, head, _, *lines = table(columns, rows).splitlines()
    assert above == "In all rows: unit = us; no value: block, reason" and head.split() == ["op", "calls"]
    assert [line.split() for line in lines] == [["a", "1"], ["b", "0"]]
    assert table(columns, rows[:1]).splitlines()[:2] == [above, "op  calls"]
    assert cells("".join(table_parts(columns, [rows, [("c", 7, "", 1, "us")]])))[0] == columns, "a part may differ"
    with shown_as(is_wide=True):
        assert cells(table(columns, rows))[0] == columns
    same = [("a", 1), ("a", 1)]
    assert len(table(["op", "calls"], same).splitlines()) == 4, "rows that don't differ"


def test_columns_that_do_not_stay_are_left_out_from_the_right() -> None:
    columns = ["op", "bound", "roof_percent", "module", "calls"]
    rows = [(f"op{at}", "memory compute".split()[at], 33.4 + at, f"layers.{at}.projection", at) for at in range(2)]
    narrow = table(columns, rows, TerminalStyle(width=25), foremost=("bound", "calls"))
    # By hand: op 3, bound 7, roof % in two lines 4 and calls 5 wide, with two blanks between them.
    assert cells(narrow)[:2] == [["roof"], ["op", "bound", "%", "calls"]]
    assert "Not shown: module; " in " ".join(narrow.split())
    # The foremost that have no room follow, with what tells rows apart.
    texts = [("first", *"pqrs"), ("second", *"tuvw")]
    below = table(["op", *"abcd"], texts, TerminalStyle(width=13), foremost=[*"abcd"])
    assert [line for line in cells(below) if line[0] != "op" and "-" not in line[0]] == [
        ["first", "p", "q"], ["second", "t", "u"], ["first", "r", "s"], ["second", "v", "w"],
    ]  # fmt: skip


def test_rows_that_differ_never_look_the_same() -> None:
    names = [f"aten::convolution_overrideable_{at}_of_a_layer_with_a_long_name" for at in range(12)]
    for width in (22, 30, 45):
        lines = table(
            ["name", "n"], [(name, at % 2) for at, name in enumerate(names)], TerminalStyle(width)
        ).splitlines()
        assert len(lines) == len({*lines}) == 14 and max(map(len, lines)) <= width
    # Also letters that aren't ASCII, and columns without which rows would be the same.
    wide_names = ["畳み込み" * 9 + str(at) for at in range(3)]
    lines = table(["name", "calls"], [(name, 1) for name in wide_names], TerminalStyle(30)).splitlines()[3:]
    assert len({*lines}) == 3 and max(map(width_of, lines)) <= 30
    rows = [("add", "a text", 7.5, at) for at in range(3)] + [("mul", "another", 8.5, 0)]
    shown = table(["op", "note", "time", "instruction"], rows, TerminalStyle(width=24))
    assert cells(shown)[2:6] == [["add", "0"], ["add", "1"], ["add", "2"], ["mul", "0"]]


def test_texts_of_several_words_and_names_of_columns_are_wrapped() -> None:
    rows = [("a", "one two three four five six seven eight nine", 1234.0), ("b", "ten", 2.5)]
    text = table(["op", "what_it_is", "self_device_per_step"], rows, TerminalStyle(width=31))
    assert text == (
        "                          self_\n"
        "                        device_\n"
        "                           per_\n"
        "op  what_it_is             step\n"
        "--  ------------------  -------\n"
        "a   one two three four     1234\n"
        "    five six seven\n"
        "    eight nine\n"
        "b   ten                     2.5\n"
    )  # fmt: skip
    # Without a terminal, a line has 120 letters.
    assert max(map(len, table(["op", "text"], [("a", "word " * 60), ("b", "")]).splitlines())) <= 120


def test_numbers_have_three_to_four_digits_and_no_exponent() -> None:
    for values, expected in (
        ([47150.0, 3.25], ["47150.0", "3.2"]), ([47150.4, 12.5], ["47150", "12"]), ([12.3456, 0.5], ["12.35", "0.50"]),
        ([2.5, 4.0], ["2.5", "4.0"]), ([0.00123456, 1e-9], ["0.001235", "<0.000001"]), ([3.0, 4.0], ["3", "4"]),
    ):  # fmt: skip
        assert number_texts(values, "us") == expected
    assert [number_text(value) for value in (47154.6, 1234.5, 0.00012346, 0.0)] == ["47155", "1234", "0.0001235", "0"]
    assert cells(table(["op", "gap"], [("a", 47154.6), ("b", 1e-7)]))[2:] == [["a", "47155"], ["b", "1e-07"]]


def test_queries_keep_what_their_views_keep_on_narrow_terminals() -> None:
    assert {"op", "change_percent"} <= {*foremost_in("SELECT * FROM compare_ops('a', 'b') LIMIT 3")}
    assert foremost_in("SELECT 'op_totals' AS op_totals FROM captures") == []


def test_notes_fit_the_terminal_and_numbers_stay_with_their_units() -> None:
    text = "Note: it takes 12.5 us of 39 % in all"
    for width in range(20, 40):
        lines = wrapped(text, TerminalStyle(width=width)).split("\n")
        assert max(map(len, lines)) <= width and not any(line.strip().startswith(("us", "%")) for line in lines)
        assert " ".join(line.strip() for line in lines) == text
    assert wrapped("Note: " + "a word " * 30, PLAIN) == "Note: " + "a word " * 30
