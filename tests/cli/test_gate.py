"""`etq gate`: statuses, and `git bisect run` over a repository whose builds log real captures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from etq.cli import main
from tests.conftest import CAPTURES
from tests.slower import slower

FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))
# The captures that a build logs: each is in one build only. A build that fails logs none.
MEASURE = """#!/bin/sh
test ! -e broken || exit 125
rm -rf {folder}/new
cp -r {folder}/$(cat speed) {folder}/new
"""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of captures: good ones, equally fast ones, and ones with a slower op."""
    folder_of_all = tmp_path_factory.mktemp("sides")
    for folder, files in (("good", FLEET[:10:2]), ("fast", FLEET[1:10:2]), ("slow", FLEET[1:10:2])):
        (folder_of_all / folder).mkdir()
        for path in files:
            content = slower(path, "native_call_addmm.out", 4, 1.3) if folder == "slow" else path.read_bytes()
            (folder_of_all / folder / path.name).write_bytes(content)
    return folder_of_all


@pytest.mark.long
def test_startup_alone(sides: Path) -> None:
    """Loads and first executes are printed, one per line; they need three captures per side."""
    result = CliRunner().invoke(main, ["gate", str(sides / "good"), str(sides / "fast"), "--startup"])
    assert result.exit_code == 0, result.output
    assert [line.split(", ")[0] for line in result.stdout.splitlines()] == [
        "load: not decided",
        "first execute of Execute: not decided",
    ]
    result = CliRunner().invoke(main, ["gate", str(FLEET[0]), str(FLEET[1]), "--startup"])
    assert (result.exit_code, "load: too few captures to tell" in result.stdout) == (0, True)
    assert "take at least 3 captures per side" in result.stdout
    wrong = CliRunner().invoke(main, ["gate", str(FLEET[0]), str(FLEET[1]), "--startup", "--total"])
    assert (wrong.exit_code, "--startup goes without --total" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("new", "options", "status"),
    [
        ("fast", [], 0),
        pytest.param("fast", ["--bisect"], 0, marks=pytest.mark.long),
        ("slow", [], 3),
        ("slow", ["--bisect"], 1),
        ("slow", ["--min-effect", "90%"], 0),
        ("slow/01.etdp", ["--bisect"], 125),
        pytest.param("slow/01.etdp", [], 0, marks=pytest.mark.long),
        pytest.param("good", ["--bisect"], 125, marks=pytest.mark.long),
        ("nowhere", ["--bisect"], 125),
        ("nowhere", [], 1),
    ],
)
def test_statuses(sides: Path, monkeypatch: pytest.MonkeyPatch, new: str, options: list[str], status: int) -> None:
    monkeypatch.chdir(sides)
    result = CliRunner().invoke(main, ["gate", "good", new, *options])
    assert result.exit_code == status, result.output
    assert ("Regression: addmm @4" in result.stderr) == (new == "slow" and "--min-effect" not in options)


@pytest.mark.long
def test_the_first_line_agrees_with_the_status(sides: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total is not decided; an op is slower."""
    monkeypatch.chdir(sides)
    results = [CliRunner().invoke(main, ["gate", "good", "slow", *options]) for options in ([], ["--total"])]
    assert [result.exit_code for result in results] == [3, 0]
    first, second = results[0].stdout.splitlines()
    assert first.startswith("1 op is slower: addmm @4 +") and second.startswith("total: not decided, ")
    assert results[1].stdout.startswith("total: not decided, ")


@pytest.mark.long
def test_slow_runs_of_an_op(tmp_path: Path) -> None:
    """An op that is slower in a third of its runs fails a gate by the ninth decile, unless only totals are compared, if
    the sides were measured in turns.
    """
    for number, path in enumerate(FLEET[:10]):
        changed = slower(path, "native_call_addmm.out", 4, 1.5, every=3) if number % 2 else path.read_bytes()
        folder = tmp_path / ("new" if number % 2 else "good")
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(changed)
        (folder / f"{path.name}.json").write_text(f'{{"captured_at": "2026-01-01T00:{number:02}:00"}}')
    good, new = str(tmp_path / "good"), str(tmp_path / "new")
    result = CliRunner().invoke(main, ["gate", good, new])
    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("slow runs of 1 op (quantile 0.9) are slower: addmm @4 +")
    assert "\ntotal: " in result.stdout
    assert "Regression: slow runs of addmm @4" in result.stderr and "Regression: addmm" not in result.stderr
    assert "addmm" not in CliRunner().invoke(main, ["gate", good, new, "--total"]).output


@pytest.mark.long
def test_git_bisect_finds_the_slow_commit(sides: Path, tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    repository = tmp_path / "repository"
    repository.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*command: str) -> str:
        ended = subprocess.run(command, check=True, cwd=repository, env=environment, capture_output=True, text=True)
        return ended.stdout

    run(git, "init", "--quiet")
    run(git, "config", "user.email", "a@example.org")
    run(git, "config", "user.name", "A")
    commits = []
    for number in range(8):
        (repository / "speed").write_text("slow" if number >= 5 else "fast")
        (repository / "measure").write_text(MEASURE.format(folder=sides))
        (repository / "number").write_text(str(number))
        (repository / "broken").unlink(missing_ok=True)
        if number == 3:
            (repository / "broken").touch()
        run(git, "add", "--all")
        run(git, "commit", "--quiet", "-m", f"change {number}")
        commits.append(run(git, "rev-parse", "HEAD").strip())
    run(git, "bisect", "start", commits[7], commits[0])
    script = f"sh measure || exit $?; etq gate {sides}/good {sides}/new --bisect"
    output = run(git, "bisect", "run", "sh", "-c", script)
    assert f"{commits[5]} is the first bad commit" in output
    assert f"# skip: [{commits[3]}]" in run(git, "bisect", "log")
