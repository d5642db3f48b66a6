"""The pages of the documentation and the examples in them.

A page's examples are run in order, in one folder that has only links to `datasets` and `tests` of the checkout:

- ```console: commands after `$ `, each with its output. `…` on a line of its own leaves output out. In the tutorial, they
  run on a terminal of 80 columns, with messages.
- ```python: code; one namespace per page.
- ```sh and ```yaml (a workflow for CI): commands that are not run. Those of etq must parse.
- ```sql: a recipe, checked by tests/test_recipes.py. ```py: code that needs torch or Spark; it must compile.

`python -m tests.docs.pages` writes the present output of the commands into the pages.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from etq.cli import main
from tests.cli.test_terminal import terminal

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
ALL = "\n".join(page.read_text() for page in PAGES)
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
LEFT_OUT = "…\n"


def lines_are_tested(heading: str, before: str, tested: dict[str, str], here: str) -> None:
    """Each line of a table or item of a list of docs/compatibility.md, which follows the text `before` below a heading,
    begins as a key of `tested` does, in its order; the value is its test: `file: name` within `tests`, or the name of one
    in the file `here`.
    """
    section = (ROOT / "docs/compatibility.md").read_text().partition(f"{heading}\n")[2]
    block = section.partition(f"{before}\n\n")[2].partition("\n\n")[0]
    is_table = block.startswith("|")
    lines = re.split(r"^(?:\| |- )", block, flags=re.MULTILINE)[1 + is_table :]
    for line, (beginning, test) in zip(lines, tested.items(), strict=True):
        assert line.startswith(beginning), line
        path, _, name = test.rpartition(": ")
        assert f"def {name}(" in (ROOT / "tests" / path if path else Path(here)).read_text(), test


def fences(page: Path, *languages: str) -> Iterator[str]:
    """The code of a page's fences in these languages."""
    for language, code in _FENCE.findall(page.read_text()):
        if language in languages:
            yield code


def commands(code: str) -> Iterator[tuple[str, str]]:
    """The commands of a ```console fence, each with its output."""
    parts = _COMMAND.split(code)
    assert parts[0] == "", f"output without a command: {parts[0]!r}"
    yield from zip(parts[1::2], parts[2::2], strict=True)


class Shell:
    """Runs the commands of a page in the current folder."""

    def __init__(self, page: Path) -> None:
        self.width = 80 if page.stem == "tutorial" else None
        self.status = 0

    def run(self, command: str) -> str:
        """The output of a command; its messages where it prints nothing else."""
        if command == "echo $?":
            return f"{self.status}\n"
        if not command.startswith("etq "):
            return subprocess.run(["bash", "-ec", command], check=True, capture_output=True, text=True).stdout
        words = shlex.split(command.replace("\\\n", ""))[1:]
        quoted = {word for word in words if f"'{word}'" in command}
        arguments = [
            path for word in words for path in (word not in quoted and sorted(map(str, Path().glob(word)))) or [word]
        ]
        if self.width is None:
            result = CliRunner().invoke(main, arguments)
            assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
            output, self.status = result.stdout or result.stderr, result.exit_code
        else:
            output, self.status = terminal(*arguments, width=self.width, with_messages=True, NO_COLOR="1")
        assert self.status in (0, 3), (command, output)
        return output


@contextlib.contextmanager
def folder_of_examples(path: Path) -> Iterator[None]:
    """Makes a folder in which examples run the current one."""
    for name in ("datasets", "tests"):
        (path / name).symlink_to(ROOT / name)
    unset = {name: os.environ.pop(name) for name in ("ETQ_DB", "COLUMNS") if name in os.environ}
    with contextlib.chdir(path):
        yield
    os.environ.update(unset)


def update(page: Path) -> None:
    """Write the output of its commands into a page; where it is left out but at the end, it is only compared."""
    shell = Shell(page)
    names: dict[str, Any] = {}

    def made(match: re.Match[str]) -> str:
        language, code = match.groups()
        if language == "python":
            exec(code, names)
        if language != "console":
            return match[0]
        shown = []
        for command, expected in commands(code):
            output = shell.run(command)
            if expected.endswith(LEFT_OUT) and expected.count(LEFT_OUT) == 1:
                kept = output.splitlines(keepends=True)[: expected.count("\n") - 1]
                output = "".join(kept) + LEFT_OUT
            elif LEFT_OUT in expected:
                if not matches(output, expected):
                    print(f"{page}: $ {command}\n{output}", file=sys.stderr)
                output = expected
            shown.append(f"$ {command}\n{output}")
        return f"```console\n{''.join(shown)}```"

    with tempfile.TemporaryDirectory() as folder, folder_of_examples(Path(folder)):
        text = _FENCE.sub(made, page.read_text())
    page.write_text(text)


def matches(output: str, expected: str) -> bool:
    """Whether an output is as documented; a line `…` matches any lines."""
    pattern = ".*".join(re.escape(part) for part in expected.split(LEFT_OUT))
    return re.fullmatch(pattern, output, re.DOTALL) is not None


if __name__ == "__main__":
    for each in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        update(each)
