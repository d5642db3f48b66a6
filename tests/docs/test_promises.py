"""Sentences of the docs about all views, commands or options, tried on each of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import etq
from etq import catalog
from etq.cli import main
from etq.cli.help import common_options
from etq.cli.options import CommonOption
from etq.warehouse.warehouse import Warehouse
from tests.asserts import csv_rows
from tests.command_line import run_etq
from tests.conftest import CAPTURES

VIEWS = {each.name: each for each in catalog.public_objects() if each.kind != "table"}


def commands(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """A command and those within it."""
    yield name.strip(), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from commands(found, f"{name} {each}")


def options(command: click.Command) -> Iterator[tuple[str, set[str]]]:
    """The options of a command and of those within it."""
    for name, each in commands(command):
        yield name, {option for parameter in each.params for option in parameter.opts}


def test_help_options_describes_each_common_option() -> None:
    """CONTRIBUTING.md: the help of a command only names these."""
    records = [text for topic in common_options(click.Context(main)).values() for text, _ in topic]
    described = {word for text in records for word in text.replace(",", " ").split()}
    used = {
        option.opts[-1]: name
        for name, command in commands(main)
        for option in command.params
        if isinstance(option, CommonOption) and not option.hidden
    }
    assert len(used) > 15
    assert {option: name for option, name in used.items() if option not in described} == {}


def test_what_selects_runs_takes_a_phase() -> None:
    """docs/how-to/language-models.md. The runs of bench are a number."""
    without = [name for name, taken in options(main) if "--runs" in taken and "--phase" not in taken]
    assert without == ["bench", "show headline"]
    by_runs = {name: {parameter.name for parameter in view.parameters} for name, view in VIEWS.items()}
    assert [name for name, given in by_runs.items() if "runs" in given and "phase" not in given] == ["headline"]


def test_what_takes_a_unit_names_it() -> None:
    """docs/explanation/numbers.md"""
    takes = [view for view in VIEWS.values() if "unit" in {parameter.name for parameter in view.parameters}]
    assert len(takes) > 50
    assert [view.name for view in takes if "unit" not in {column.name for column in view.columns}] == []


def test_read_takes_options_of_ingest() -> None:
    """docs/how-to/notebooks.md"""
    _, *taken = inspect.signature(etq.read).parameters
    assert {*taken} < {*inspect.signature(Warehouse.ingest).parameters}
    page = Path("docs/how-to/notebooks.md").read_text()
    listed = page.partition("that say how files are read (")[2].partition(")")[0]
    assert {each.strip("` \n") for each in listed.split(",")} == {*taken}


def test_chosen_columns() -> None:
    """docs/how-to/command-line.md"""
    arguments = ("ops", str(CAPTURES / "mlp/mlp.etdp"), "--columns", "op,total")
    assert list(csv_rows(run_etq(*arguments, "--format", "csv").stdout)[0]) == ["op", "total"]
    assert run_etq(*arguments).stdout.splitlines()[0].split() == ["op", "total", "unit"]


@pytest.mark.long
def test_quiet_leaves_warnings(tmp_path: Path) -> None:
    """docs/operations.md, and docs/explanation/numbers.md on records of other programs."""
    db = ("--db", str(tmp_path / "lab.duckdb"))
    capture, record = CAPTURES / "transformer/transformer.etdp", CAPTURES / "mlp/mlp.etrecord"
    quiet = run_etq("ingest", str(capture), "--etrecord", str(record), "--quiet", *db)
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "Warning: 1 file: foreign record\n")
    refused = run_etq("link", "transformer", str(record), *db)
    assert refused.exit_code == 1 and refused.stderr.rstrip().endswith("--force links it anyway")
    assert run_etq("link", "transformer", str(record), "--force", *db).exit_code == 0
