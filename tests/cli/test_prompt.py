"""`etq sql` without a query on a terminal, as a person types."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import etq
from etq.cli.prompt import Completer, is_whole
from tests.cli.test_terminal import environment
from tests.conftest import CAPTURES
from tests.processes import wait_for_work

CTRL_C = "\x03"
# Takes longer than any test waits.
ENDLESS = "SELECT count(*) FROM range(10000000000) AS a, range(1000000) AS b WHERE a.range % 7 = b.range % 11;"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prompt") / "lab.duckdb"
    with etq.open(path) as warehouse:
        warehouse.ingest(CAPTURES / "mlp/mlp.etdp", name="my run")
    return str(path)


class Person:
    """Types at a prompt, and reads what it shows."""

    def __init__(self, db: str, home: Path, *options: str) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "etq", "sql", "--db", db, *options]
        given = environment(XDG_STATE_HOME=str(home), TERM="dumb", COLUMNS="100", NO_COLOR="1")
        self._process = subprocess.Popen(
            command,
            stdin=theirs, stdout=theirs, stderr=theirs, env=given, start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509 - the test has one thread
        )  # fmt: skip
        self.pid = self._process.pid
        os.close(theirs)
        try:
            self.wait_for("etq> ")
        except BaseException:
            self.close()
            raise

    def wait_for(self, text: str, seconds: float = 120) -> str:
        """What is shown up to a text."""
        shown, end = "", time.monotonic() + seconds
        while text not in shown:
            assert select.select([self._ours], [], [], max(end - time.monotonic(), 0))[0], shown
            try:
                shown += os.read(self._ours, 65536).decode()
            except OSError:  # as a terminal's end is read on Linux
                raise AssertionError(f"the prompt ended after {shown!r}") from None
        return shown.replace("\r\n", "\n")

    def type(self, text: str, until: str = "etq> ") -> str:
        os.write(self._ours, text.encode())
        return self.wait_for(until)

    def wait_for_sleep(self) -> None:
        """Wait until the process waits for input: an interrupt between the prompt's display and that is overlooked
        (https://github.com/python/cpython/blob/v3.11.7/Modules/readline.c, readline_until_enter_or_signal).
        """
        state = Path(f"/proc/{self.pid}/task/{self.pid}/stat")
        while state.read_text().rsplit(")", 1)[1].split()[0] != "S":
            time.sleep(0.02)

    def end(self, key: str = "\x04") -> int:
        os.write(self._ours, key.encode())
        return self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def take_terminal() -> None:
    """Make the terminal at stdin that of the process, so that it gets Ctrl-C."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def person(lab: str, tmp_path: Path) -> Iterator[Person]:
    with closing(Person(lab, tmp_path)) as person:
        yield person


@pytest.mark.long
def test_statements_are_answered_and_remembered(lab: str, tmp_path: Path) -> None:
    with closing(Person(lab, tmp_path)) as person:
        assert re.search(r"\n *6\n", person.type("SELECT 1 +\n", "...> ") + person.type("5;\n"))
        assert "my run" in person.type("SELECT name FROM captures; SELECT 2;\n")
        assert person.end() == 0
    assert "SELECT name FROM captures; SELECT 2;" in (tmp_path / "etq/sql_history").read_text()
    with closing(Person(lab, tmp_path)) as again:
        assert "my run" in again.type("\x1b[A\n")
        assert again.end(".quit\n") == 0


@pytest.mark.long
def test_errors_point_at_the_place_and_the_prompt_goes_on(person: Person) -> None:
    shown = person.type("SELECT 1 FROMM captures WHERE;\n")
    line, pointer = re.search(r"LINE 1: (.*)\n( *\^)", shown).groups()  # type: ignore[union-attr]
    assert "Error: syntax error at or near" in shown and line.startswith("SELECT 1 FROMM")
    assert len(pointer) > len("LINE 1: ")
    shown = person.type("SELECT name,\n", "...> ") + person.type("nme FROM captures;\n")
    line, pointer = re.search(r"(LINE 2: .*)\n( *\^+)", shown).groups()  # type: ignore[union-attr]
    assert line[len(pointer) - 3 : len(pointer)] == "nme"
    assert "no command .nosuch; .help lists the commands" in person.type(".nosuch\n")
    assert re.search(r"\n *3\n", person.type("SELECT 3;\n"))
    assert person.end() == 0


@pytest.mark.long
def test_interrupts_cancel_the_statement(person: Person) -> None:
    person.type("SELECT 1 +\n", "...> ")
    person.wait_for_sleep()
    person.type(CTRL_C)
    assert re.search(r"\n *4\n", person.type("SELECT 4;\n"))
    os.write(person._ours, f"{ENDLESS}\n".encode())
    wait_for_work(person.pid, 0.5)
    assert "Cancelled" in person.type(CTRL_C)
    assert re.search(r"\n *5\n", person.type("SELECT 5;\n"))
    assert person.end() == 0


def test_the_end_of_a_statement() -> None:
    whole = ["SELECT 1;", "SELECT ';';", "SELECT 1; -- a", "SELECT 1 /* ; */ ; ", "SELECT 'it''s';"]
    begun = ["SELECT 1", "SELECT ';", "SELECT 1 -- ;", "SELECT 1 /* ;", 'SELECT 1 AS "a;', "SELECT 'it''s;"]
    assert [text for text in (*whole, *begun) if is_whole(text)] == whole


@pytest.mark.parametrize(
    ("before", "begun", "expected"),
    [("FROM ", "op_tot", ["op_totals"]), ("FROM op_totals('", "my", ["my run"]), ("", "SEL", ["SELECT"]),
     ("SELECT ", "share_p", ["share_percent"]), ("FROM op_totals('my run') WHERE ", "my", [])],
)  # fmt: skip
def test_completion(before: str, begun: str, expected: list[str]) -> None:
    completer = Completer(["my run"], lambda: before)
    found: list[str] = []
    while (match := completer(begun, len(found))) is not None:
        found.append(match)
    assert found == expected
