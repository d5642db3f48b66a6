"""Labels from paths, git and sidecars, and their precedence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from etq.annotations import discovery
from etq.annotations.discovery import Repository, discover, labels_of_git, labels_of_path
from etq.errors import EtqError, FormatError
from etq.ingest.metrics.sidecar import read_sidecar
from etq.warehouse.warehouse import Warehouse
from tests.conftest import CAPTURES
from tests.processes import command_lines

MLP = (CAPTURES / "mlp/mlp.etdp").read_bytes()


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("lab/mlp/pixel8/b12.etdp", "{model}/{device}/{build}.etdp", {"model": "mlp", "device": "pixel8", "build": "b12"}),
        ("lab/x/mlp-int8.etdp", "{model}-{quant}.etdp", {"model": "mlp", "quant": "int8"}),
        ("lab/run-3-of-9.etdp", "{}-{run}-of-{}.etdp", {"run": "3"}),
        ("lab/a.b+c{1}.etdp", "a.b+c{{{soc rev}}}.etdp", {"soc rev": "1"}),
    ],
)  # fmt: skip
def test_patterns(path: str, pattern: str, expected: dict[str, str]) -> None:
    assert labels_of_path(path, pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{model}/{device}.bin", r"lab/a-b-c.etdp: the path doesn't end as the pattern {model}/{device}.bin does"),
        ("{model}-{device}.etdp", r"in more than one way: {model} may be 'a' or 'a-b'; give the label itself"),
        ("x.etdp", "it has no {key}, as in"), ("{}.etdp", "it has no {key}, as in"), ("{a}/{a}", "it has {a} twice"),
        ("{a", "an unmatched brace; write {{ for a brace"), ("//{model}/x.etdp", "doesn't end as the pattern"),
        ("a}{b}", "an unmatched brace"),
    ],
)  # fmt: skip
def test_patterns_that_do_not_fit(pattern: str, message: str) -> None:
    with pytest.raises(EtqError, match=message):
        labels_of_path("lab/a-b-c.etdp", pattern)


def git(folder: Path, *arguments: str, **more: str) -> str:
    """Run git as a user of its own, at a known time; return what it prints."""
    given = {f"GIT_{of}_{what}": value for of in ("AUTHOR", "COMMITTER")
             for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2026-05-01T14:00:00+02:00"))}  # fmt: skip
    command = ["git", "-C", str(folder), *arguments]
    environment = {**os.environ, **given, **more, "HOME": str(folder)}
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("1")
    for arguments in (("init", "-b", "main"), ("add", "net.py"), ("commit", "-m", "First")):
        git(tmp_path, *arguments)
    os.utime(tmp_path / "net.py", (0, 0))  # so that git compares its content, for which it reads attributes
    return tmp_path


def test_git(repository: Path) -> None:
    clean = {
        "commit": git(repository, "rev-parse", "HEAD"),
        "commit_time": "2026-05-01T12:00:00Z",
        "branch": "main",
        "dirty": "false",
    }
    (repository / "untracked").write_text("x")
    assert labels_of_git(repository) == clean
    (repository / "net.py").write_text("2")
    assert labels_of_git(repository) == {**clean, "dirty": "true"}
    git(repository, "checkout", "--detach")
    assert "branch" not in labels_of_git(repository)


def test_a_commit_that_a_name_has_has_its_own_time(repository: Path, tmp_path: Path) -> None:
    """Not that of what is checked out; a commit that the repository doesn't have is refused."""
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "--allow-empty", "-m", "Second", GIT_COMMITTER_DATE="2026-05-03T10:00:00Z")
    second, of = git(repository, "rev-parse", "HEAD"), Repository(repository)
    found = [dict(discover(f"/x/{commit}.etdp", "{commit}.etdp", of, False).labels) for commit in (first[:9], second)]
    assert found[0] == {"commit": first[:9], "commit_time": "2026-05-01T12:00:00Z"}
    assert found[1] == labels_of_git(repository) and found[1]["commit_time"] == "2026-05-03T10:00:00Z"
    assert dict(discover("/x/run.etdp", None, of, False).labels) == found[1]
    assert discover(None, None, of, False, {"commit": first}).labels == {"commit_time": "2026-05-01T12:00:00Z"}
    for name in ("0" * 40, "main", "--all", "HEAD"):
        with pytest.raises(EtqError, match=f"has no commit {name}, which a capture is labelled with"):
            discover(f"/x/{name}.etdp", "{commit}.etdp", of, False)
        known = {"commit_time": "2026-01-01T00:00:00Z"}
        assert dict(discover(f"/x/{name}.etdp", "{commit}.etdp", of, False, known).labels) == {"commit": name}


def test_a_commit_without_a_date(repository: Path) -> None:
    text = git(repository, "cat-file", "commit", "HEAD").replace(" 1777636800 +0200", "")
    assert text.count("+0200") == 0
    (repository / "commit").write_text(text + "\n")
    of_object = git(repository, "hash-object", "-t", "commit", "-w", "--literally", "commit")
    git(repository, "reset", "--soft", of_object)
    assert labels_of_git(repository) == {"commit": of_object, "branch": "main", "dirty": "false"}


def test_no_program_is_run_that_a_repository_names(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("programs")
    program = place / "program"
    program.write_text(f"#!/bin/sh\ntouch '{place}/was-run'\ncat\n")
    program.chmod(0o755)
    names = ["evil", "a=b", "\udcff"]
    (repository / ".gitattributes").write_bytes(
        b"".join(b"%d.py filter=%s\n" % (place, os.fsencode(name)) for place, name in enumerate(names))
    )
    for number in range(len(names)):
        (repository / f"{number}.py").write_text("1")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "More")
    settings = {
        "core.fsmonitor": str(program), "log.showSignature": "true", "gpg.program": str(program),
        "extensions.partialClone": "origin", "remote.origin.url": str(repository),
        "remote.origin.uploadpack": str(program),
        **{f"filter.{name}.{which}": str(program) for name in names for which in ("clean", "process")},
    }  # fmt: skip
    for name, value in settings.items():
        git(repository, "config", name, value)
    for path in repository.glob("*.py"):
        os.utime(path, (0, 0))  # so that git compares its content
    assert labels_of_git(repository)["dirty"] == "false"
    (repository / "0.py").write_text("2")
    assert labels_of_git(repository)["dirty"] == "true"
    assert [each.name for each in place.iterdir()] == ["program"]


@pytest.mark.long
@pytest.mark.parametrize("place", [".git/config", ".git/info/attributes"])
def test_a_pipe_in_a_repository_is_not_waited_for(
    repository: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "_GIT_SECONDS", 1)
    pipe = repository / place
    pipe.unlink(missing_ok=True)
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(EtqError, match="git gave no answer within 1 s: look for pipes"):
        labels_of_git(repository)
    deadline = time.monotonic() + 60
    while any(str(repository) in words for words in command_lines()):
        assert time.monotonic() < deadline, "git goes on"
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of another process")
def test_a_repository_does_not_fill_the_memory(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link to a device that never ends."""
    monkeypatch.setattr(discovery, "_GIT_BYTES", 2**27)
    attributes = repository / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.unlink(missing_ok=True)
    attributes.symlink_to("/dev/zero")
    with pytest.raises(EtqError, match="git failed: .*[Mm]emory"):
        labels_of_git(repository)


def place(folder: Path, sidecar: Any = None) -> Path:
    path = folder / "fromPath" / "run.etdp"
    path.parent.mkdir()
    path.write_bytes(MLP)
    if sidecar is not None:
        (path.parent / "run.etdp.json").write_text(json.dumps(sidecar))
    return path


def test_which_labels_win(warehouse: Warehouse, repository: Path) -> None:
    path = place(repository, {"branch": "sidecar", "build": "sidecar", "labels": {"device": "sidecar", "rooted": True}})
    how: dict[str, Any] = {"label_from": "{branch}/{dirty}.etdp", "label_git": repository}
    capture = warehouse.ingest(path, labels={"build": "output"}, **how)
    labels = warehouse.label(capture)
    assert len(labels.pop("commit")) == 40
    assert labels == {
        "branch": "sidecar", "build": "output", "device": "sidecar", "rooted": "true", "dirty": "run",
        "commit_time": "2026-05-01T12:00:00Z",
    }  # fmt: skip
    # The labels of a capture stay, except those that are given.
    warehouse.label(capture, device="by hand", rooted=None)
    again = warehouse.ingest(path, labels={"build": "again"}, **how)
    assert not again.is_new
    after = warehouse.label(capture)
    assert (after["device"], after["build"], after["rooted"]) == ("by hand", "again", "true")


def test_sidecars_have_time_labels_and_metrics(warehouse: Warehouse, tmp_path: Path) -> None:
    given = {
        "captured_at": "2026-05-01T14:00:00+02:00",
        "metrics": {
            "temperature": 41,
            "model_load_time": {"value": 1.5, "unit": "s"},
            "score": {"value": 2, "better": "higher"},
        },
    }
    path = place(tmp_path, given)
    capture = warehouse.ingest(path)
    warehouse.metric(capture, "temperature", 45)
    warehouse.ingest(path)
    assert warehouse.label(capture) == {"captured_at": "2026-05-01T12:00:00.000000Z"}
    rows = [row[:6] for row in warehouse.metric_values(capture).fetchall()]
    assert rows == [
        ("model_load_time", None, 0, 1500.0, "ms", "lower"),
        ("score", None, 0, 2.0, None, "higher"),
        ("temperature", None, 0, 45.0, "degC", None),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[]", r"^s.json: expected an object with labels and metrics, found \[\]"),
        (b'{"a": {"b": 1}}', r"^s.json: at \$.a: expected a text, a number or a truth value as a label, found"),
        (b'{"labels": 3}', r"^s.json: at \$.labels: expected an object of labels, found 3"),
        (b'{"labels": {"a": null}}', r"^s.json: at \$.labels.a: expected a text, .* found nothing"),
        (b'{"metrics": {"a": "x"}}', r'^s.json: at \$.metrics.a: expected a number, found "x"'),
        (b'{"metrics": {"a": {"value": 1, "best": 2}}}', r"^s.json: at \$.metrics.a: expected value, unit and better, found"),
        (b'{"metrics": {"a": {"value": 1, "better": "up"}}}', r"a.better: expected lower or higher, found 'up'"),
        (b'{"a": 1', "^s.json: at byte 7: expected JSON, found the end"),
        (b'{"a": "\\ud800"}', "^s.json: expected text, found half a character"),
        (b'{"a": "\xff"}', "^s.json: at byte 7: expected JSON in UTF-8, found the byte 0xff"),
    ],
)  # fmt: skip
def test_bad_sidecars(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        list(read_sidecar(content, "s.json"))
