"""The unit of systemd and the Containerfile: parsed, and what they say is done on this machine."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import click
import pytest

import etq
from etq.cli import main
from tests.serve.processes import started
from tests.sql.test_trends import capture

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "docs/team-server/etq.service"
CONTAINERFILE = ROOT / "docs/team-server/Containerfile"


# The unit.


class Unit(configparser.RawConfigParser):
    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit() -> Unit:
    found = Unit(strict=True, comment_prefixes=("#", ";"), inline_comment_prefixes=None, delimiters=("=",))
    found.read_string(UNIT.read_text())
    return found


def check_command(words: list[str]) -> dict[str, Any]:
    """The parameters of a command of `etq serve` with the path of an installed etq."""
    assert words[:2] == ["/opt/etq/bin/etq", "serve"]
    name, command, arguments = main.resolve_command(click.Context(main), words[1:])
    assert name is not None and command is not None
    return command.make_context(name, arguments).params


def test_the_unit() -> None:
    found = unit()
    assert found.sections() == ["Unit", "Service", "Install"]
    service = found["Service"]
    given = check_command(service["ExecStart"].split())
    # All that it writes is in the folder that systemd makes for it.
    state = Path("/var/lib", service["StateDirectory"])
    assert Path(given["db"]).parent == state == Path(service["WorkingDirectory"])
    assert given["host"] == "127.0.0.1"
    assert service["User"] not in ("root", "nobody")
    assert service["Restart"] == "on-failure"
    # Processes that answer questions get no signal of their own while requests still need them.
    assert service["KillMode"] == "mixed"
    from etq.serve.stopping import GRACE

    assert int(service["TimeoutStopSec"]) >= 2 * GRACE
    assert {"NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices"} <= {
        name for name, value in service.items() if value == "yes"
    }
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd reads its units itself")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    # The program must be there; all else is as it is.
    text = UNIT.read_text().replace("ExecStart=/opt/etq/bin/etq", "ExecStart=/bin/true")
    (tmp_path / "etq.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "etq.service"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", UNIT],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:]  # of 100; without hardening it is 92


# The container.


class Image:
    """What a Containerfile says, with the folders of a container in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        parser = pytest.importorskip("dockerfile_parse", reason="the Containerfile is parsed by dockerfile-parse")
        content = CONTAINERFILE.read_bytes()
        import io

        self.steps = [
            (each["instruction"], each["value"])
            for each in parser.DockerfileParser(fileobj=io.BytesIO(content)).structure
            if each["instruction"] != "COMMENT"
        ]
        self.folder = folder
        for name in ("opt", "tmp", "var/lib"):
            (folder / name).mkdir(parents=True)

    def values(self, instruction: str) -> list[str]:
        return [value for name, value in self.steps if name == instruction]

    def placed(self, text: str) -> str:
        """A text with the container's paths in the folder."""
        return re.sub(r"(?<![\w.])/(opt/etq|tmp|var/lib/etq)\b", rf"{self.folder}/\1", text)


def test_the_containerfile(tmp_path: Path) -> None:
    image = Image(tmp_path)
    names = [name for name, _ in image.steps]
    assert names[0] == "FROM" and re.fullmatch(r"python:3\.\d+-slim", image.steps[0][1])
    assert set(names) <= {
        "FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    # The wheel is all that comes from the build's folder.
    assert image.values("COPY") == ["etq-*.whl /tmp/"]
    # What runs is not root's, and nothing is changed after that.
    [user] = image.values("USER")
    assert f" {user}" in image.values("RUN")[0] and user != "root"
    assert "RUN" not in names[names.index("USER") :] and "COPY" not in names[names.index("USER") :]
    given = check_command([*json.loads(image.values("ENTRYPOINT")[0]), *json.loads(image.values("CMD")[0])])
    assert image.values("EXPOSE") == [str(given["port"])] == ["8650"]
    [volume] = image.values("VOLUME")
    assert Path(given["db"]).parent == Path(volume) == Path(image.values("WORKDIR")[0])
    assert given["host"] == "0.0.0.0" and image.values("STOPSIGNAL") == ["SIGTERM"]
    check = json.loads(image.values("HEALTHCHECK")[0].partition("CMD ")[2])
    assert f"http://127.0.0.1:{given['port']}/healthz" in check[-1]


def wheel_of(folder: Path) -> Path:
    """The project's wheel, built from a copy: a build leaves files beside what it builds."""
    source = folder / "source"
    source.mkdir()
    for name in ("etq", "ingest", "sql", "datasets"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", source],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("setuptools is needed, and no index has it")
    assert done.returncode == 0, done.stderr
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


def test_the_container_runs(tmp_path: Path) -> None:
    """The steps of the build are done in a folder; the entry point starts, and its check passes.

    Packages that etq needs are those of this environment: all else comes from the wheel.
    """
    image = Image(tmp_path / "root")
    wheel = wheel_of(tmp_path)
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment.pop("PYTHONPATH", None)
    for name, value in image.steps:
        if name == "COPY":
            shutil.copy(wheel, image.placed(value.split()[-1]))
        elif name == "RUN" and value.startswith("useradd "):
            [made] = re.findall(r"--home-dir (\S+)", value)
            Path(image.placed(made)).mkdir()
        elif name == "RUN":
            text = image.placed(value).replace("python -m venv", f"{sys.executable} -m venv")
            subprocess.run(["sh", "-e", "-c", text], env=environment, check=True, capture_output=True)
    [packages] = (image.folder / "opt/etq/lib").glob("python*/site-packages")
    (packages / "of_this_environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    assert not [*(image.folder / "tmp").iterdir()]

    entry = [image.placed(word) for word in json.loads(image.values("ENTRYPOINT")[0])]
    database = Path(entry[entry.index("--db") + 1])
    with etq.open(database) as lab:
        lab.ingest(capture(1), name="a")
    home = Path(image.placed(image.values("WORKDIR")[0]))
    # The last ones count: any port, rather than one that another test may have.
    options = [*entry[2:], *json.loads(image.values("CMD")[0])]
    clean = {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "ETQ_DB")}
    with started(database, command=[*entry[:2], *options], environment=clean, folder=home) as process:
        assert process.server.get("/healthz").data == {"status": "ok"}
        python = entry[0].replace("bin/etq", "bin/python")
        where = subprocess.run(
            [python, "-c", "import etq; print(etq.__file__)"],
            env=clean,
            cwd=home,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert where.startswith(str(packages)), "what runs is the wheel's"
        check = json.loads(image.values("HEALTHCHECK")[0].partition("CMD ")[2])
        code = check[2].replace(":8650/", f":{process.server.port}/")
        command = [image.placed(check[0]), check[1]]
        assert subprocess.run([*command, code], env=clean, check=False).returncode == 0
        assert process.end(signal.SIGTERM) == 0
        failed = subprocess.run([*command, code], env=clean, check=False, capture_output=True)
        assert failed.returncode == 1 and b"refused" in failed.stderr
    assert any('"event":"start"' in line for line in process.lines)
