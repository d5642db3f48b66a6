"""What shells complete: commands, options, and names that the warehouse has; quickly, and never an error."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import etq
from etq import catalog
from etq.cli import completion, main
from tests.conftest import CAPTURES
from tests.processes import held

BREAKS = " \t\n\"'><=;|&(:@"
MLP = CAPTURES / "mlp/mlp_100runs.etdp"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    with etq.open(folder / "etq.duckdb") as warehouse:
        warehouse.ingest(MLP, name="first", labels={"build": "41", "device": "pixel8"})
        warehouse.ingest(CAPTURES / "convnet/convnet.etdp", name="first; rm -rf ~", labels={"build": "$(date)"})
        warehouse.ingest(CAPTURES / "mlp/mlp_alloc.etdp", name="second", labels={"build": "42"})
        warehouse.metric("first", "temperature", 41)
        warehouse.ingest_record(CAPTURES / "convnet/convnet.etrecord", name="net")
    return folder


@pytest.fixture
def complete(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The completions that bash adds after the last =, @ or space of a line."""
    monkeypatch.chdir(lab)
    monkeypatch.delenv("ETQ_DB", raising=False)
    # This is undone at the end of the test; a process that completes for a shell does nothing else.
    monkeypatch.setattr(click.types.StringParamType, "shell_complete", completion.completed)
    monkeypatch.setenv("COMP_WORDBREAKS", BREAKS)

    def completed(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        shell = completion._Bash(main, {}, "etq", "_ETQ_COMPLETE")
        return [each.removeprefix("plain,") for each in shell.complete().splitlines()]

    return completed


LINES = [
    ("etq comp", ["compare", "completion"]),
    ("etq ops ", ["second", "first", "@latest", "@previous", "build=41", "build=42", "device=pixel8"]),
    ("etq ops @l", ["latest"]), ("etq ops build=4", ["41", "42"]), ("etq ops --db etq.duckdb fi", ["first"]),
    ("etq compare build=41 bui", ["build=41", "build=42"]), ("etq captures --sort-by bui", ["file,bui"]),
    ("etq trend --metric t", ["temperature"]), ("etq link first ", ["net"]),
    ("etq roofline first --by i", ["instruction"]), ("etq ops first --format=c", ["csv"]), ("etq lake ex", ["export"]),
    ("etq help tr", ["traces", "trend"]), ("etq views op_t", ["op_times", "op_totals", "op_trends"]),
    # What continues a selector.
    ("etq ops device=pixel8,bui", ["pixel8,build=41", "pixel8,build=42"]),
    ("etq ops build=41|4", ["41|41", "41|42"]), ("etq ops device!=p", ["pixel8"]),
    ("etq trend --selector device=pixel8,build>=4", ["41", "42"]),
    # The shell itself lists files.
    ("etq inspect ", ["file,"]),
    ("etq ingest --metrics t", ["file,t"]),
    # An incomplete line.
    ("etq sql 'unclosed", ["file,unclosed"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_lines(complete: Callable[[str], list[str]], line: str, expected: list[str]) -> None:
    assert complete(line) == expected


def test_every_view_is_known(complete: Callable[[str], list[str]]) -> None:
    assert complete("etq views ") == [each.name for each in catalog.public_objects()]


def test_completion_without_a_warehouse_or_beside_a_writer_has_no_names(
    complete: Callable[[str], list[str]], lab: Path, tmp_path: Path
) -> None:
    """A writer is not waited for, and completing makes no file."""
    missing, busy = tmp_path / "missing.duckdb", tmp_path / "busy.duckdb"
    (tmp_path / "0.duckdb").write_bytes(b"junk")
    assert complete(f"etq ops --db {tmp_path}/0.duckdb s") == ["file,s"]
    assert complete(f"etq ops --db {missing} s") == ["file,s"] and not missing.exists()
    busy.write_bytes((lab / "etq.duckdb").read_bytes())
    with held(busy):
        assert complete(f"etq ops --db {busy} s") == ["file,s"]


@pytest.mark.long
def test_bash_itself(lab: Path, tmp_path: Path) -> None:
    """The bash function completes a line by a separate process; nothing is on stderr."""
    command = tmp_path / "etq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m etq "$@"\n')
    command.chmod(0o755)
    script = """
        eval "$(etq completion bash)"
        complete -p etq
        COMP_WORDS=(etq compare build = 4) COMP_CWORD=4 COMP_LINE='etq compare build=4' COMP_POINT=19
        _etq_completion etq
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path(etq.__file__).parents[1]),
    }  # fmt: skip
    ended = subprocess.run(["bash", "-c", script], cwd=lab, env=environment, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == ["complete -o nosort -F _etq_completion etq", "41", "42"]
