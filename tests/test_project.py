"""The project about itself: packaging, generated files, the README."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import etq
from etq import catalog
from etq.warehouse import views
from tests.empty import empty_warehouse
from tests.slower import slower

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_stub_is_fresh() -> None:
    assert (ROOT / "etq/warehouse/views.pyi").read_text() == views.stub(), (
        "python -m etq.warehouse.views > etq/warehouse/views.pyi"
    )


def test_packages_are_those_on_disk() -> None:
    listed = set(CONFIG["tool"]["setuptools"]["packages"])
    found = {"etq"} | {f"etq.{path.parent.name}" for path in ROOT.glob("etq/*/__init__.py")}
    assert listed == found | {f"etq.ingest.{path.parent.name}" for path in ROOT.glob("ingest/*/__init__.py")}
    for name in ("ingest", "sql", "datasets"):
        assert (ROOT / "etq" / name).is_symlink()


def test_versions_agree() -> None:
    assert CONFIG["project"]["version"] == etq.__version__
    assert f"## {etq.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_readme_names_every_view() -> None:
    missing = [
        each.name for each in catalog.public_objects() if each.kind == "table macro" and f"`{each.name}(" not in README
    ]
    assert missing == []


def test_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="the example ends in .df(), which needs pandas")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.etdp").write_bytes((ROOT / "datasets/mlp_100runs.etdp").read_bytes())
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(ast.parse(code), "README.md", "exec"), {})


def test_readme_commands_parse() -> None:
    from etq.cli import main

    for line in README.splitlines():
        if line.startswith("    etq "):
            name, *arguments = shlex.split(line.split(" | ")[0], comments=True)[1:]
            command = main.get_command(click.Context(main), name)
            assert command is not None, line
            command.make_context(name, list(arguments) if name != "ingest" else ["x.etdp", *arguments[1:]])


@pytest.mark.parametrize(("factor", "status"), [(1.0, 0), (1.2, 3)])
def test_readme_gate(tmp_path: Path, factor: float, status: int) -> None:
    """The recipe for CI, run by a shell: equal builds pass, one with a slower op does not."""
    for number, path in enumerate(sorted((ROOT / "tests/captures/fleet/mlp").glob("*.etdp"))):
        folder = tmp_path / ("base", "new", "new", "base")[number % 4]
        folder.mkdir(exist_ok=True)
        is_slower = folder.name == "new" and factor != 1
        (folder / path.name).write_bytes(
            slower(path, "native_call_addmm.out", 4, factor) if is_slower else path.read_bytes()
        )
    [recipe] = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ["bash", "-ec", recipe], check=False, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == status, ended.stderr
    comment = (tmp_path / "comment.md").read_text()
    assert ("Regression: addmm @4" in ended.stderr) == (status == 3)
    assert comment.startswith("**no difference that counts" if status == 0 else "**")
    if status == 3:
        slowest = next(line for line in comment.splitlines() if line.startswith("| addmm"))
        assert "| 4 | slower | " in slowest


LONG = {
    # One class stands in one file.
    "etq/warehouse/warehouse.py",
    # One page, opened once for all its tests.
    "tests/browser/test_report.py",
    # One pair after another, each by itself.
    "tests/pairs/of_execute.py",
    "tests/pairs/of_files.py",
    "tests/pairs/of_traces.py",
}


def test_no_module_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for folder in ("etq", "ingest", "tests")
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 400 and name not in LONG} == {}


def test_nothing_else_is_on_the_top_level() -> None:
    allowed = {
        "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".ci", ".gitignore",
        "ingest", "sql", "etq", "tests", "datasets", "docs",
    }  # fmt: skip
    made = re.compile(r"\.venv.*|\..*_cache|\.hypothesis|\.git|.*\.egg-info|build|dist|__pycache__")
    assert {path.name for path in ROOT.iterdir() if not made.fullmatch(path.name)} == allowed


def test_an_empty_warehouse_of_the_tests_is_as_etqs(tmp_path: Path) -> None:
    """Name by name what DuckDB knows of a file that was opened again, but for its numbers, and of the tests' copy."""
    questions = (
        "FROM duckdb_functions() SELECT * EXCLUDE (database_name, function_oid, database_oid) WHERE NOT internal",
        "FROM duckdb_columns() SELECT * EXCLUDE (database_name, table_oid, database_oid, schema_oid) WHERE NOT internal",
        "FROM duckdb_views() SELECT * EXCLUDE (database_name, view_oid, database_oid, schema_oid) WHERE NOT internal",
        "FROM duckdb_tables() SELECT * EXCLUDE (database_name, table_oid, database_oid, schema_oid)",
        "FROM warehouse SELECT * EXCLUDE (created_at)",
    )
    etq.open(tmp_path / "lab.duckdb").close()
    with etq.open(tmp_path / "lab.duckdb") as made, empty_warehouse() as copied:
        for question in questions:
            rows = made.connection.execute(f"{question} ORDER BY ALL").fetchall()
            assert rows and copied.connection.execute(f"{question} ORDER BY ALL").fetchall() == rows
