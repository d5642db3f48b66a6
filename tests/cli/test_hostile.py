"""Names from files reach no terminal unescaped: every command that prints, at a terminal, on hostile files."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
import sys
import termios
import tty
from pathlib import Path

import pytest

import etq
from etq.errors import EtqError, FormatError, printable
from etq.render.table import shown
from etq.render.terminal import STYLES as LOOKS
from etq.warehouse.warehouse import Warehouse
from tests import hostile
from tests.conftest import CAPTURES
from tests.processes import process

# The commands run in order in a folder of hostile files; {run} is a file, $run its name in the warehouse.
COMMANDS = """
ingest {run} --db lab.duckdb
ingest {slow} --db lab.duckdb
ingest {trace} --db lab.duckdb
ingest {old} --db lab.duckdb
ingest {real} --etrecord {record} --db lab.duckdb
ingest {broken} --db lab.duckdb
ingest {slow} --label-from {{a}}/{{b}}.etdp --db lab.duckdb
link slow {program} --db lab.duckdb
label $run --metrics {metrics} --db lab.duckdb
show metric_values $run --db lab.duckdb
captures --db lab.duckdb
label $run --phase decode --runs 1- --db lab.duckdb
inspect {run}
inspect --etdump_path {run}
inspect {real} --etrecord {record}
show inspector_events $run --db lab.duckdb
ops $run --db lab.duckdb
ops {trace}
show model_map real net --db lab.duckdb
show execute_breakdown $run --db lab.duckdb
advice real --db lab.duckdb
ops --by module real --db lab.duckdb
coverage real --db lab.duckdb
graph real --format dot --db lab.duckdb
graph real --format json --db lab.duckdb
steps {trace}
values $run --db lab.duckdb
compare $run slow --format markdown --db lab.duckdb
gate $run slow --db lab.duckdb
gate $run slow --format markdown --db lab.duckdb
gate $run slow --format github --db lab.duckdb
gate $run slow --format junit --db lab.duckdb
trend --over key --db lab.duckdb
sql "FROM signatures" --db lab.duckdb
sql "SELECT name AS \\"$evil\\", 'a\tb' FROM op_nodes" --db lab.duckdb
sql "SELECT error('$evil')" --db lab.duckdb
ops $evil --db lab.duckdb
db remove slow --db lab.duckdb
db remove $run -y --db lab.duckdb
"""
# All commands run in one process, as starting one for each would take a minute.
SCRIPT = """
import sys, etq.cli
for line in sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\\x1e"):
    arguments = line.split("\\x1f")
    print("\\n@@@", arguments[0], flush=True)
    try:
        etq.cli.main(arguments, standalone_mode=False)
    except SystemExit as end:
        pass
    except BaseException as error:
        print("@@@ raised", type(error).__name__, ascii(str(error)))
"""
# The styles of the commands themselves and their reset. No name in the hostile files has any of these.
STYLES = re.compile(rf"\x1b\[(?:0|(?:{'|'.join(LOOKS.values())})(?:;(?:{'|'.join(LOOKS.values())}))*)m".encode())


def at_a_terminal(commands: list[list[str]], folder: Path) -> bytes:
    """All output of the commands, with a terminal as both streams."""
    reader, writer = pty.openpty()
    tty.setraw(writer, termios.TCSANOW)
    given = "\x1e".join("\x1f".join(each) for each in commands).encode("utf-8", "surrogateescape")
    environment = {**os.environ, "PYTHONPATH": str(Path(etq.__file__).parents[1]), "TERM": "xterm", "COLUMNS": "200"}
    with process(
        [sys.executable, "-c", SCRIPT], cwd=folder, stdin=subprocess.PIPE, stdout=writer, stderr=writer, env=environment
    ) as child:
        os.close(writer)
        assert child.stdin is not None
        child.stdin.write(given)
        child.stdin.close()
        parts = []
        try:
            while part := os.read(reader, 65536):
                parts.append(part)
        except OSError:  # the error of a terminal once no process writes to it
            pass
    os.close(reader)
    assert child.returncode == 0, parts[-1:]
    return b"".join(parts)


# What takes more than a second shows it in a line, which is written over and emptied at the end.
PROGRESS = re.compile(rb"(?:\r[^\r\n]*, \d+ s *)+\r *\r")


def harmful(reply: bytes) -> list[str]:
    """The characters that a terminal would interpret, except line breaks, tabs and those of a line of progress."""
    lines = PROGRESS.sub(lambda shown: shown.group().replace(b"\r", b"\n"), STYLES.sub(b"", reply))
    text = lines.decode("utf-8", "replace")
    return [each for each in text if re.match(r"[^\n\t\x20-\x7e\xa0-\u2027\u202f-\u2065\u206a-\U0010ffff]", each)]


@pytest.mark.long
def test_no_command_lets_hostile_names_reach_a_terminal(tmp_path: Path) -> None:
    paths = {kind: path.name for kind, path in hostile.written(tmp_path).items()}
    commands = []
    for line in COMMANDS.strip().splitlines():
        commands.append(
            [
                each.format(**paths).replace("$run", hostile.EVIL_FILE).replace("$evil", hostile.EVIL)
                for each in shlex.split(line)
            ]
        )
    commands += [
        ["sql", "FROM signatures", "--format", form, "--db", "lab.duckdb"]
        for form in ("table", "csv", "tsv", "json", "markdown")
    ]
    reply = at_a_terminal(commands, tmp_path)
    parts = reply.split(b"\n@@@ ")[1:]
    whole = [part for part in parts if not part.startswith(b"raised")]
    assert len(whole) == len(commands)
    wrong = {
        " ".join(command)[:80]: harmful(part) for command, part in zip(commands, whole, strict=True) if harmful(part)
    }
    assert wrong == {}
    assert b"@@@ raised" not in reply, reply[reply.index(b"@@@ raised") :][:300]
    # The names did come: written out.
    assert reply.count(b"\\x1b[2J") > 200 and b"\\u202e" in reply and b"\\x9b" in reply
    assert reply.count(b"\xe2\x94\x82") > 10, "the Inspector's grid is drawn"


def test_errors_are_texts_that_can_be_shown(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / f"{hostile.EVIL_FILE}.etdp"
    path.write_bytes((CAPTURES / "mlp/mlp.etdp").read_bytes()[:99])
    with pytest.raises(FormatError) as caught:
        warehouse.ingest(path)
    assert str(caught.value).startswith(f"{tmp_path}/ru\\x1b[2J\\x9b31m\\u202en.etdp: ")
    assert not harmful(str(caught.value).encode())
    assert printable("a\ud800\u2028b\tc") == "a\\ud800\\u2028b\\tc"


def test_direction_marks_and_tags_are_written_out() -> None:
    for code in (0x200E, 0x200F, 0x61C, *range(0x2066, 0x206A), 0xE0001, 0xE0041, 0xE007F):
        text, written = chr(code), f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        assert printable(f"a{text}b") == f"a{written}b"
        assert str(EtqError(text)) == written and shown(f"{text}.out") == f"{written}.out"


def test_errors_quote_long_names_in_part() -> None:
    long = "x" * 5000
    for name, quoted in ((long, long), (f"{long} {long}", f"'{long} {long}'")):
        text = str(EtqError(f"run.etdp: no method {quoted}; name another"))
        assert text.startswith("run.etdp: no method ") and text.endswith("; name another")
        assert len(text) <= len(f"run.etdp: no method {quoted}; name another") - len(name) + 122, text
    assert len(str(EtqError(", ".join(["label"] * 5000)))) == 2000
    text = "/home/someone/a folder of some length/" + "d" * 130 + "/run.etdp: no such file"
    assert str(EtqError(text)) == text, "a path is there to be found"
    text = f"'a' is not {'one of these words ' * 12}'b'"
    assert str(EtqError(text)) == text
