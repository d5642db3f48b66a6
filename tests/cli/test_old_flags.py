"""`etq inspect` with the flags of executorch's inspector_cli, against the recorded output of that."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.parity import oracle

MLP = str(CAPTURES / "mlp/mlp.etdp")
RECORD = str(CAPTURES / "mlp/mlp.etrecord")


def etq_inspects(*arguments: str) -> Result:
    return run_etq("inspect", *arguments)


def test_the_table_and_the_tsv_are_inspector_clis(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="the drop-in Inspector's tables need pandas")
    answer = oracle.answer("mlp", "with_etrecord")
    tsv = tmp_path / "out.tsv"
    result = etq_inspects("--etdump_path", MLP, "--etrecord_path", RECORD, "--tsv_path", str(tsv))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == answer["print_data_tabular_file"]["value"]
    ours, theirs = (
        [line.split("\t")[:3] for line in text.splitlines()]
        for text in (tsv.read_text(), answer["save_data_to_tsv"]["value"])
    )
    assert ours == theirs


def test_time_scales_are_taken() -> None:
    pytest.importorskip("pandas", reason="the drop-in Inspector's tables need pandas")
    answer = oracle.answer("mlp", "time_scales")["US->NS"]
    scales = ("--source_time_scale", "us", "--target_time_scale", "ns")
    result = etq_inspects("--etdump_path", MLP, "--etrecord_path", RECORD, *scales)
    assert result.stdout == answer["print"]
