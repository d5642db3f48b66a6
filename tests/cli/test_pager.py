"""Long text on a terminal goes to a pager; nothing else does."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

import pytest

from tests.cli.test_terminal import CONVNET, on_terminal, piped
from tests.conftest import CAPTURES

LONG = ("views",)
SHORT = ("views", "--limit", "3")


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that notes what it got, and shows it in capitals."""
    path = tmp_path / "pager"
    path.write_text(f'#!/bin/sh\necho "$LESS" > {shlex.quote(str(tmp_path / "less"))}\ntr a-z A-Z\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_a_table_longer_than_the_screen_is_paged_whole(pager: Path) -> None:
    shown = on_terminal(*LONG, width=80, ETQ_PAGER=str(pager), PAGER="false")
    assert shown == on_terminal(*LONG, width=80, ETQ_PAGER="cat").upper()
    assert (pager.parent / "less").read_text() == "FRX\n"
    assert on_terminal(*LONG, width=80, ETQ_PAGER=str(pager)) == on_terminal(*LONG, width=80, PAGER=str(pager))


@pytest.mark.parametrize(
    "arguments", [SHORT, ("--no-pager", *LONG), ("ops", CONVNET), (*LONG, "-o", os.devnull, "--force")]
)
def test_no_pager(arguments: tuple[str, ...], pager: Path) -> None:
    on_terminal(*arguments, width=80, ETQ_PAGER=str(pager))
    assert not (pager.parent / "less").exists()


@pytest.mark.parametrize("other", ["", "cat", "no-such-pager --x", "'"])
def test_without_a_pager_all_is_printed(other: str) -> None:
    assert on_terminal(*LONG, ETQ_PAGER=other).count("\n") == len(piped(*LONG).splitlines())


def test_a_dumb_terminal_and_a_pipe_have_none(pager: Path) -> None:
    on_terminal(*LONG, ETQ_PAGER=str(pager), TERM="dumb")
    piped(*LONG, ETQ_PAGER=str(pager))
    assert not (pager.parent / "less").exists()


def test_leaving_the_pager_is_no_failure() -> None:
    """`on_terminal` checks the status. There is more than a pipe holds."""
    arguments = ("show", "timeline", str(CAPTURES / "transformer/transformer_100runs.etdp"))
    assert on_terminal(*arguments, PAGER="head -1").count("\n") == 1
