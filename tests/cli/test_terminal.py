"""Output of commands on a terminal, byte for byte: under a pseudo-terminal, compared with a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

import etq
from etq.render.table import Rows, table, table_parts
from etq.render.terminal import PLAIN, TerminalStyle, bar, wrapped
from tests.asserts import csv_rows
from tests.builders import dump, execute, kernel, run
from tests.cli.test_trends import lab as trends_lab  # noqa: F401 - a fixture: thirty builds, slower from the 18th on
from tests.conftest import CAPTURES
from tests.sampling import thinned

CONVNET = str(CAPTURES / "convnet_xnn/convnet_xnn_100runs.etdp")
UNSET = (
    "NO_COLOR",
    "PAGER",
    "ETQ_PAGER",
    "LESS",
    "FORCE_COLOR",
    "COLUMNS",
    "LC_ALL",
    "LC_CTYPE",
    "LANG",
    "ETQ_DB",
    "PYTHONIOENCODING",
)
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


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dump whose names move the cursor, colour, ring and turn the writing round."""
    path = tmp_path_factory.mktemp("evil") / "evil.etdp"
    named = kernel("\x1b[31mred\x07\r\u202eevil\x9b2J", 10, 30)
    path.write_bytes(dump(run("Exe\x1b]0;title\x07cute", named, execute(0, 60))))
    return str(path)


@pytest.mark.long
@pytest.mark.parametrize("command", thinned(["ops", "breakdown"], ["ops"]))
def test_a_narrow_terminal_shows_the_columns_that_fit(command: str) -> None:
    whole = csv_rows(piped(command, CONVNET, "--format", "csv"))
    shown = plain(on_terminal(command, CONVNET, width=40))
    assert max(map(len, shown.splitlines())) <= 40
    rows, note = shown.split("Not shown:")
    columns = rows.splitlines()[0].split()
    assert len(rows.splitlines()) == 2 + len(whole) and columns[0] == next(iter(whole[0]))
    assert {"per_execute", "unit"} <= {*columns}
    assert [name for name in whole[0] if name not in columns and name in note] != []
    assert "Not shown" not in on_terminal(command, CONVNET, width=200)


def test_tables_have_bars_and_bold_heads_on_a_terminal() -> None:
    shown = on_terminal("ops", CONVNET, "--runs", "all", width=132)
    head, rule, *rows = shown.splitlines()
    assert head.startswith("\x1b[1mop\x1b[0m") and "\x1b[1mshare %\x1b[0m" in head
    assert plain(head).split() == "op kind per_execute per_call share % calls min max unit".split()
    assert set(plain(rule)) == {"-", " "}
    first = next(row for row in rows if "DELEGATE_CALL" in row)
    # 75.7 % of 24 cells are 18.2 of them: 18 whole ones and an eighth.
    assert f"75.7  \x1b[36m{'█' * 18}▏\x1b[0m" in first
    assert all(len(plain(row)) <= 132 for row in (head, rule, *rows))
    dim = [plain(row).split()[0] for row in rows if row.startswith("\x1b[2m")]
    assert dim == ["(unattributed)"]


@pytest.mark.long
def test_inspect_has_a_unit_that_people_read() -> None:
    """The Inspector's unit is milliseconds, in which an op of some microseconds has one digit or two."""
    exact = {row["event_name"]: float(row["p50"]) for row in csv_rows(piped("inspect", CONVNET, "--format", "csv"))}
    head, _, *lines = plain(on_terminal("inspect", CONVNET, width=80)).splitlines()
    columns = head.split()
    name = "DELEGATE_CALL"
    shown = dict(zip(columns, next(line for line in lines if name in line).split(), strict=True))
    assert is_rounded(1000 * exact[name], shown["p50"]) and shown["unit"] == "us"
    assert {"p50", "p90", "avg"} <= {*columns}
    assert " ms\n" in on_terminal("inspect", CONVNET, "--unit", "ms", width=80)


def test_a_pipe_gets_the_same_text_and_nothing_else() -> None:
    table = piped("ops", CONVNET)
    assert "\x1b" not in table and not BLOCKS & set(table)
    shown = plain(on_terminal("ops", CONVNET, width=400)).replace("share %", "share_percent")
    without_bars = shown.translate(dict.fromkeys(map(ord, BLOCKS)))
    for exact, rounded in zip(table.splitlines()[2:], without_bars.splitlines()[2:], strict=True):
        for cell, other in zip(exact.split(), rounded.split(), strict=True):
            is_number = re.fullmatch(r"[\d.]+", cell) is not None
            assert cell == other or (is_number and is_rounded(float(cell), other)), (cell, other)
    for form in ("csv", "tsv", "json", "markdown"):
        text = on_terminal("ops", CONVNET, "--format", form)
        assert text == piped("ops", CONVNET, "--format", form)
        assert "\x1b" not in text and not BLOCKS & set(text)


@pytest.mark.long
@pytest.mark.parametrize("command", thinned(["modules", "sources", "breakdown", "delegates"], ["modules"]))
def test_shares_of_other_tables_have_bars(command: str) -> None:
    record = str(CAPTURES / "convnet_xnn/convnet_xnn.etrecord")
    shown = on_terminal(command, CONVNET, "--etrecord", record, width=200)
    assert "█" in shown and "█" not in piped(command, CONVNET, "--etrecord", record)


@pytest.mark.long
@pytest.mark.parametrize(
    ("given", "coloured"),
    thinned(
        [
            ({}, True),
            ({"NO_COLOR": "1"}, False),
            ({"NO_COLOR": ""}, True),  # https://no-color.org: when present and not an empty string
            ({"TERM": "dumb"}, False),
            ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ],
        [{}, {"NO_COLOR": "1"}],
    ),
)
def test_colours_are_refused_by_the_environment(given: dict[str, str], coloured: bool) -> None:
    shown = on_terminal("flame", CONVNET, width=100, with_messages=False, **given)
    assert ("\x1b[" in shown) is coloured
    assert "█" in shown


@pytest.mark.long
def test_messages_are_coloured_likewise() -> None:
    """A warning about a record of another program, with a terminal as stderr."""
    command = ["ops", CONVNET, "--etrecord", str(CAPTURES / "mlp/mlp.etrecord"), "--format", "csv", "-o", os.devnull]
    assert "\x1b[1mWarning: foreign record" in on_terminal(*command, "--force", with_messages=True)
    quiet = on_terminal(*command, "--force", with_messages=True, NO_COLOR="1")
    assert quiet.startswith("Warning: foreign record") and "\x1b" not in quiet


@pytest.mark.long
def test_colours_are_asked_for() -> None:
    assert "\x1b" not in piped("breakdown", CONVNET)
    assert "\x1b[1m" in piped("breakdown", CONVNET, FORCE_COLOR="1")
    assert "\x1b[1m" in piped("--color", "always", "breakdown", CONVNET, NO_COLOR="1")
    assert "\x1b" not in on_terminal("--color", "never", "breakdown", CONVNET, FORCE_COLOR="1")
    assert not BLOCKS & set(piped("--color", "always", "breakdown", CONVNET))


@pytest.mark.long
@pytest.mark.parametrize(
    "given", thinned([{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"PYTHONIOENCODING": "ascii"}], [{"LC_ALL": "C"}])
)
def test_without_utf_8_there_is_ascii_alone(given: dict[str, str]) -> None:
    for command in ("ops", "flame"):
        shown = on_terminal(command, CONVNET, width=132, with_messages=False, **given)
        assert shown.isascii()
        assert "####" in shown
    assert "~" in on_terminal("flame", CONVNET, width=40, with_messages=False, **given)


@pytest.mark.long
def test_names_beyond_the_encoding_are_written_out(tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(dump(run("Execute", kernel("añadir", 10, 30), execute(0, 60))))
    assert "a\\xf1adir" in on_terminal("ops", str(path), PYTHONIOENCODING="ascii")
    assert "a\\xf1adir" in piped("ops", str(path), "--format", "csv", PYTHONIOENCODING="ascii")
    assert "añadir" in on_terminal("ops", str(path))


@pytest.mark.long
@pytest.mark.parametrize("width", thinned([40, 60, 80, 132, 300], [60]))
def test_a_flame_fits_any_width(width: int) -> None:
    shown = on_terminal("flame", CONVNET, width=width)
    assert max(len(plain(line)) for line in shown.splitlines()) <= width
    assert ("█" in shown) is (width >= 60)
    assert all(name in plain(shown) for name in ("total", "Execute", "DELEGATE_"))


@pytest.mark.parametrize("command", thinned(["ops", "flame", "events", "breakdown"], ["ops"]))
def test_control_characters_from_files_are_escaped(command: str, evil: str) -> None:
    shown = on_terminal(command, evil, width=200)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", plain(shown)), "only our own colours are obeyed"
    if command != "breakdown":
        assert "\\x1b[31mred\\x07\\r\\u202eevil\\x9b2J" in plain(shown)


@pytest.mark.long
def test_verdicts_are_coloured(tmp_path: Path) -> None:
    fleet = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
    db = str(tmp_path / "lab.duckdb")
    with etq.open(db) as warehouse:
        for number, path in enumerate(fleet):
            warehouse.ingest(path, labels={"side": "base" if number < len(fleet) // 2 else "new"})
    shown = on_terminal("compare", "side=base", "side=new", "--db", db, width=200)
    quiet = on_terminal("compare", "side=base", "side=new", "--db", db, width=200, NO_COLOR="1")
    assert plain(shown) == quiet and "\x1b" not in quiet
    verdicts = set(re.findall(r"\x1b\[(3[123])m(slower|faster|can't judge|too few)\x1b\[0m", shown))
    colours = {"slower": "31", "faster": "32", "can't judge": "33", "too few": "33"}
    words = {word for word in colours if re.search(rf"  {word}  ", quiet)}
    assert verdicts == {(colours[word], word) for word in words}


@pytest.mark.long
def test_trends_and_regressions(trends_lab: str) -> None:  # noqa: F811
    shown = on_terminal("trend", "--op", "addmm", "--db", trends_lab)
    head, drawn, change = shown.splitlines()
    assert head.startswith("\x1b[1mmodel=net: 30 captures") and len(drawn) == 30
    assert change.startswith("\x1b[31m+") and change.endswith("\x1b[0m")
    assert len(on_terminal("trend", "--op", "addmm", "--db", trends_lab, width=24).splitlines()[1]) == 24
    narrow = plain(on_terminal("regressions", "--db", trends_lab, width=80)).splitlines()[0]
    assert {"item", "first_bad", "cost", "unit"} <= {*narrow.split()}
    found = on_terminal("regressions", "--db", trends_lab, width=250)
    assert "\x1b[31mslower\x1b[0m" in found
    assert on_terminal("trend", "--op", "addmm", "--db", trends_lab, LC_ALL="C").splitlines()[1].isascii()


def test_bars() -> None:
    assert bar(0, 1, 8, PLAIN) == "████████"
    assert bar(0, 0.5, 8, PLAIN) == "████"
    assert bar(0.5, 0.25, 8, PLAIN) == "    ██"
    assert bar(0, 1 / 64, 8, PLAIN) == "▏"
    # A value above zero is visible; zero is not.
    assert bar(0, 1e-9, 8, PLAIN) == "▏" and bar(0, 0, 8, PLAIN) == "" and bar(0, -1, 8, PLAIN) == ""
    assert bar(1, 1e-9, 8, PLAIN) == "       ▏"
    assert bar(0, 7, 8, PLAIN) == "████████"
    assert bar(0.5, 0.25, 8, TerminalStyle(has_blocks=False)) == "    ##"
    assert bar(0, 1e-9, 8, TerminalStyle(has_blocks=False)) == "#"


@pytest.mark.long
@pytest.mark.parametrize("width", thinned([60, 100], [60]))
def test_advice_is_read_whole_on_a_terminal(width: int) -> None:
    """A text that doesn't fit a line continues on the next; nothing is shortened."""
    arguments = ("advice", str(CAPTURES / "transformer/transformer_100runs.etdp"))
    text = plain(on_terminal(*arguments, width=width))
    assert all(len(line) <= width for line in text.splitlines()) and "…" not in text
    words = " ".join(text.split())
    for row in csv_rows(piped(*arguments, "--format", "csv")):
        assert f"{row['severity']} {row['rule']}" in words
        for column in ("finding", "evidence", "remedy"):
            assert not row[column] or f"{column}: {' '.join(row[column].split())}" in words


def test_advice_without_a_terminal_is_paragraphs() -> None:
    """Its lines are readable in a log, and have the texts of the CSV."""
    arguments = ("advice", str(CAPTURES / "transformer/transformer_100runs.etdp"))
    text = piped(*arguments)
    assert all(len(line) <= 120 for line in text.splitlines())
    words = " ".join(text.split())
    rows = csv_rows(piped(*arguments, "--format", "csv"))
    assert rows and all(" ".join(row["remedy"].split()) in words for row in rows)


@pytest.mark.long
def test_a_closed_stdout_is_no_failure() -> None:
    command = f"{sys.executable} -m etq ops --runs all {CAPTURES / 'mlp/mlp.etdp'} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (0, b"")


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


def test_the_columns_that_answer_a_question_stay() -> None:
    columns = ["op", "module", "calls", "roof_percent", "bound"]
    rows = [[f"op{at}", "layers.0.attention.projection", at, 33.4, "compute"] for at in range(3)]
    narrow = table(columns, rows, TerminalStyle(width=24), foremost=("op", "bound", "roof_percent"))
    assert narrow.split("\n")[0].split() == ["op", "roof", "%", "bound"]
    assert "Not shown: module, calls" in " ".join(narrow.split())


def test_a_number_of_the_answer_stays_where_texts_can_be_shorter() -> None:
    columns = ["series", "item", "verdict", "change_percent"]
    rows = [["device=pixel8,model=convnet", f"convolution@{at}", "slower", 31.5 + at] for at in range(3)]
    narrow = table(columns, rows, TerminalStyle(width=40), foremost=("series", "item", "change_percent"))
    lines = narrow.splitlines()
    assert lines[0].split() == ["series", "item", "change", "%"] and lines[2].endswith("31.5")
    assert all(len(line) <= 40 for line in lines)


def test_columns_without_a_value_are_left_out_if_asked() -> None:
    columns, rows = ["op", "block", "reason", "calls"], [("a", None, "", 1), ("b", None, "", 0)]
    style = TerminalStyle(width=80)

    def head(style: TerminalStyle, *parts: Rows) -> list[str]:
        return "".join(table_parts(columns, parts, style, drops_empty=True)).splitlines()[0].split()

    assert head(style, rows) == ["op", "calls"]
    assert head(PLAIN, rows) == columns, "pipes have all"
    assert head(style, rows, [("c", 7, "", 1)]) == columns, "a later part may have a value"
    assert table(columns, rows, style).splitlines()[0].split() == columns


def test_commits_are_short_unless_they_look_the_same() -> None:
    commits = ["0123456789" * 4, "a123456789" * 4]
    assert "01234567…" in table(["commit"], [[text] for text in commits], TerminalStyle(width=60))
    alike = [commits[0], commits[0][:-1] + "f"]
    assert commits[0] in table(["commit"], [[text] for text in alike], TerminalStyle(width=60))


def test_a_number_stays_with_its_unit() -> None:
    text = "Note: it takes 12.5 us of 39 % in all"
    for width in range(20, 40):
        lines = wrapped(text, TerminalStyle(width=width)).split("\n")
        assert not any(line.strip().startswith(("us", "%")) for line in lines)
        assert " ".join(line.strip() for line in lines) == text


def test_notes_fit_the_terminal() -> None:
    text = "Note: " + "a word " * 30
    assert max(map(len, wrapped(text, TerminalStyle(width=40)).split("\n"))) <= 40
    assert wrapped(text, PLAIN) == text


def test_a_name_is_shortened_before_the_number_beside_it_goes() -> None:
    rows = [["a_very_long_name_of_an_operator_" + at, "kernel", 1.5, "us"] for at in ("one", "two")]
    head, _, one, two, *_ = table(["op", "kind", "per_execute", "unit"], rows, TerminalStyle(width=40)).splitlines()
    assert head.split() == ["op", "per_execute", "unit"]
    assert one.split()[0].endswith("one") and two.split()[0].endswith("two")


@pytest.mark.parametrize("width", range(30, 80, 5))
def test_a_unit_is_shown_with_what_has_it(width: int) -> None:
    """As in `etq regressions` and `etq show queue_summary`: neither a column of units alone, nor a number without its unit."""
    foremost = ("series", "item", "change_percent", "unit", "cost")
    rows = [("device=pixel8", "relu@1", 3.5, 12.25, "us", 7), ("device=pixel9", "relu@2", 4.5, 1.25, "us", 8)]
    head = table(
        ["series", "item", "change_percent", "cost", "unit", "runs"], rows, TerminalStyle(width), foremost=foremost
    )
    shown = head.splitlines()[0].split()
    # By hand: columns of 13, 6, 8, 5 and 4 letters with two blanks between them are 44 wide.
    assert ("unit" in shown) == ("cost" in shown) == (width >= 44)
