"""The examples in the documentation run, with the output that the pages show."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from etq import catalog
from etq.cli import main
from etq.export import FORMATS as EXPORTS
from etq.render.writers import FORMATS
from etq.warehouse.warehouse import Warehouse
from tests.docs.pages import ALL, PAGES, ROOT, Shell, commands, fences, folder_of_examples, matches
from tests.slower import slower
from tests.test_arrows import INGEST_LAYERS, LAYERS

_CODE = re.compile(r"^```(console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [page for page in PAGES if _CODE.search(page.read_text()) and page.stem != "notebooks"], ids=named
)
def test_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples of a page, in order, in one folder."""
    pytest.importorskip("pandas", reason="examples end in .df(), which needs pandas")
    monkeypatch.setenv("MPLBACKEND", "agg")
    shell, names = Shell(page), dict[str, Any]()
    with folder_of_examples(tmp_path):
        for language, code in _CODE.findall(page.read_text()):
            if language == "python":
                exec(compile(code, named(page), "exec"), names)
                continue
            for command, expected in commands(code):
                output = shell.run(command)
                assert matches(output, expected), f"$ {command}\n{output}"


def test_commands_parse() -> None:
    """Those that aren't run, too: their options and the number of arguments are those of the command line."""
    for code in (code for page in PAGES for code in fences(page, "sh", "yaml")):
        for whole in code.replace("\\\n", "").splitlines():
            line = whole.strip().removeprefix("- run: ")
            if line.startswith("etq "):
                words = shlex.split(re.split(" [|>] ", line)[0], comments=True)[1:]
                name, command, arguments = main.resolve_command(click.Context(main), words)
                assert name is not None and command is not None, line
                try:
                    command.make_context(name, arguments if name != "ingest" else ["x.etdp", *arguments[1:]])
                except click.UsageError as error:
                    raise AssertionError(line) from error


def test_fences_of_other_languages() -> None:
    """Code for torch and Spark compiles; a fence of an unknown language would be checked by nothing."""
    for code in (code for page in PAGES for code in fences(page, "py")):
        ast.parse(code)
    languages = set(re.findall(r"^```(\w*)$", ALL, re.MULTILINE)) - {""}
    assert languages <= {"console", "python", "sh", "sql", "py", "text", "json", "toml", "yaml"}


@pytest.mark.long
def test_gate(tmp_path: Path) -> None:
    """The recipe for CI, run by a shell: a build with a slower op does not pass."""
    for number, path in enumerate(sorted((ROOT / "tests/captures/fleet/mlp").glob("*.etdp"))):
        folder = tmp_path / ("base", "new", "new", "base")[number % 4]
        folder.mkdir(exist_ok=True)
        is_new = folder.name == "new"
        content = slower(path, "native_call_addmm.out", 4, 1.2) if is_new else path.read_bytes()
        (folder / path.name).write_bytes(content)
    [recipe] = [code for code in fences(ROOT / "docs/how-to/ci.md", "sh") if "comment.md" in code]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-ec", recipe], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 3 and "Regression: addmm @4" in ended.stderr, ended.stderr
    slowest = next(line for line in (tmp_path / "comment.md").read_text().splitlines() if line.startswith("| addmm"))
    assert "| 4 | kernel | slower | " in slowest


def test_links_and_places_are_there() -> None:
    """The site's build checks links within docs/; here those of pages outside of it, too."""
    missing = []
    for page in PAGES:
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        missing += [
            (page, link) for link in links if "/reference/" not in f"/{link}" and not (page.parent / link).exists()
        ]
        if page.name in ("CONTRIBUTING.md", "architecture.md"):
            places = re.findall(r"`((?:etq|ingest|sql|tests|docs|datasets|\.ci)/[\w./-]*)`", page.read_text())
            assert places
            missing += [(page, place) for place in places if not (ROOT / place).exists()]
    assert missing == []


def test_architecture_has_the_packages_from_left_to_right() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    cells = "\n".join(re.findall(r"^\| (`etq\..*?) \|", page, re.MULTILINE))
    assert tuple(re.findall(r"`(etq\.[\w.]+)`", cells)) == LAYERS + INGEST_LAYERS


def test_architecture_names_modules_that_are_there() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    missing = set()
    for packages, words in re.findall(r"^\| (`etq\.[^|]*) \| (.*) \|$", page, re.MULTILINE):
        paths = [ROOT / "/".join(each.split(".")) for each in re.findall(r"`(etq\.[\w.]+)`", packages)]
        for word in re.findall(r"`([a-z_]+)`", words):
            if not any(path.name == word or (path / f"{word}.py").exists() for path in paths):
                missing.add(word)
    assert missing == {"all_advice"}  # a table


def test_architecture_has_the_lines_of_each_part() -> None:
    tables = ("sql/tables", "etq/storage", "etq/database", "etq/lake", "etq/annotations", "etq/maintenance")
    folders = (("ingest",), tables, ("sql", "etq/verdicts", "etq/analysis"), ("etq",))
    lines = [0, 0, 0, 0]
    for path in (path for top in ("etq", "ingest", "sql") for path in (ROOT / top).rglob("*.*")):
        name = str(path.relative_to(ROOT))
        if path.suffix in (".py", ".sql", ".js", ".css", ".html", ".toml"):
            part = next(index for index, each in enumerate(folders) if name.startswith(each))
            lines[part] += path.read_bytes().count(b"\n")
    [written] = re.findall(r"^lines: +(.*)$", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert [int(each.replace(",", "")) for each in written.split()] == pytest.approx(lines, abs=800)


def test_pages_name_every_view() -> None:
    """By question, in the pages that are written by hand; and none that isn't there."""
    views = {each.name for each in catalog.public_objects() if each.kind == "table macro"}
    text = "\n".join((ROOT / f"docs/how-to/{name}.md").read_text() for name in ("questions", "fleet"))
    tables = re.findall(r"^\|.*\|$", text, re.MULTILINE)
    named = {name for row in tables for name in re.findall(r"`(\w+)\(", row)}
    assert named - views == {"to_dataframe"}  # the Inspector's
    assert views - {*re.findall(r"`(\w+)\b", text)} - {"schedule"} == set()


def test_pages_name_every_format() -> None:
    page = (ROOT / "docs/how-to/reports.md").read_text()
    assert [name for name in EXPORTS if f"- **{name}**: " not in page] == []
    assert [name for name in EXPORTS if name not in (Warehouse.export.__doc__ or "")] == []
    assert f"`--format {'|'.join(FORMATS[1:])}`" in page  # the first is that for people
