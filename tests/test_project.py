"""The project about itself: packaging, generated files, the top level."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

import etq
from etq import catalog
from etq.warehouse.stub import stub

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_stub_has_the_views() -> None:
    classes = {node.name: node for node in ast.parse(stub()).body if isinstance(node, ast.ClassDef)}
    views = classes["Views"]
    methods = {each.name: each.args for each in views.body if isinstance(each, ast.FunctionDef)}
    known = {each.name for each in catalog.public_objects() if each.kind != "scalar macro"}
    assert methods.keys() == known - {"captures"}
    assert [each.arg for each in methods["op_totals"].args][:2] == ["self", "capture"]


def test_packages_are_those_on_disk() -> None:
    listed = set(CONFIG["tool"]["setuptools"]["packages"])
    places = [*ROOT.glob("etq/*/__init__.py"), *ROOT.glob("etq/*/*/__init__.py")]
    assert listed == {"etq"} | {".".join(path.parent.relative_to(ROOT).parts) for path in places}
    for name in ("ingest", "sql", "datasets"):
        assert (ROOT / "etq" / name).is_symlink()


def test_versions_agree() -> None:
    assert CONFIG["project"]["version"] == etq.__version__
    assert f"## {etq.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_nothing_else_is_on_the_top_level() -> None:
    allowed = {
        "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "MANIFEST.in",
        ".ci", ".github", ".gitignore", "ingest", "sql", "etq", "tests", "datasets", "docs",
    }  # fmt: skip
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a checkout of git, which tells what belongs here")
    assert {path.partition("/")[0] for path in tracked.stdout.splitlines()} == allowed
