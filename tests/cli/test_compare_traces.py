"""`etq compare`, `etq gate` and `etq report` of PyTorch traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from etq.cli import main
from tests.cli.test_report import data_of
from tests.conftest import CAPTURES
from tests.trace_pairs import Planted, trained

SLOWER = Planted(host={"aten::conv2d": 1.5}, device={"conv_kernel": 1.5})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of traces, and folders of three: equally fast, and slower."""
    place = tmp_path_factory.mktemp("traces")
    for side, planted in (("good", None), ("fast", None), ("slow", SLOWER)):
        (place / side).mkdir()
        for number in range(3):
            content = trained(10 * len(side) + 7 * number + ord(side[0]), planted, steps=4, has_steps=side != "fast")
            (place / side / f"{side}{number}.pt.trace.json").write_bytes(content)
    return place


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize(
    ("new", "options", "status"),
    [
        pytest.param("slow", [], 3, marks=pytest.mark.long),
        pytest.param("fast", ["--step-name", "train"], 0, marks=pytest.mark.long),
        ("slow/slow1.pt.trace.json", ["--bisect"], 125),
        pytest.param("fast", ["--bisect"], 125, marks=pytest.mark.long),
    ],
)
def test_statuses_of_gates(
    folder: Path, monkeypatch: pytest.MonkeyPatch, new: str, options: list[str], status: int
) -> None:
    """One trace per side never gives a regression, only an unclear result."""
    monkeypatch.chdir(folder)
    base = "good/good0.pt.trace.json" if new.endswith(".json") else "good"
    result = invoke("gate", base, new, *options)
    assert result.exit_code == status, result.output
    assert ("Regression: op aten::conv2d" in result.stderr) == (new == "slow")
    assert ("Unclear: op aten::conv2d: possibly slower" in result.stderr) == new.endswith(".json")
    if new == "fast" and options[-1:] != ["train"]:
        assert "different steps, ProfilerStep and Trace" in result.stderr


@pytest.mark.long
def test_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = invoke("compare", "good", "slow", "--limit", "5")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 ops are slower: aten::conv2d on devices +")
    assert lines[1].startswith("ProfilerStep: slower, +")
    assert lines[2].startswith("ProfilerStep on devices: slower, +")
    assert "op            kind               verdict" in result.stdout
    assert "instruction_id" not in result.stdout
    parts = json.loads(invoke("compare", "good", "slow", "--format", "json").stdout)
    assert {row["kind"] for row in parts["ops"] if row["verdict"] == "slower"} >= {"op", "device_op", "device_kernel"}
    assert parts["modules"] == []


@pytest.fixture
def machines(folder: Path, tmp_path: Path) -> list[str]:
    """The same program, slower on another device; a third of the first one's."""
    paths = []
    for name, side, device in (
        ("h100", "good", "NVIDIA H100"),
        ("mi300", "slow", "AMD MI300X"),
        ("same", "slow", "NVIDIA H100"),
    ):
        made = json.loads((folder / side / f"{side}0.pt.trace.json").read_text())
        path = tmp_path / f"{name}.pt.trace.json"
        path.write_text(json.dumps(made | {"deviceProperties": [{"id": 0, "name": device}], "name": name}))
        paths.append(str(path))
    return paths


def test_other_devices_differ(machines: list[str]) -> None:
    """No word of a direction without --verdicts; the table by op is first. Nothing of this for the same device."""
    base, other, same = machines
    text = invoke("compare", base, other).stdout
    lines = text.splitlines()
    assert lines[0].startswith("! different devices: base is of NVIDIA H100, new of AMD MI300X: ")
    assert lines[2].startswith("What differs by op, in us per step and call")
    [row] = [
        line.split() for line in lines[4:] if line.startswith("aten::convolution ") or line.startswith("aten::conv2d ")
    ][:1]
    assert "ProfilerStep on devices: differs, +" in text
    assert "slower" not in "".join(lines[1:]) and "faster" not in "".join(lines[1:])
    assert row[0] == "aten::conv2d"
    asked = invoke("compare", base, other, "--verdicts").stdout
    assert "ProfilerStep on devices: possibly slower, +" in asked and asked.startswith("! different devices")
    assert "slower" in invoke("compare", base, other, "--fail-on", "unclear").stdout
    alike = invoke("compare", base, same).stdout
    assert "different devices" not in alike and "What differs by op" not in alike
    assert asked.endswith(alike.replace("same", "mi300"))


def test_other_devices_in_other_formats(machines: list[str]) -> None:
    base, other, same = machines
    parts = json.loads(invoke("compare", base, other, "--format", "json").stdout)
    assert {row["verdict"] for row in parts["ops"]} <= {"differs", "~", "not decided"}
    assert parts["efficiency"][0]["base_kernel"] == "conv_kernel"
    assert "efficiency" not in json.loads(invoke("compare", base, same, "--format", "json").stdout)
    rows = json.loads(invoke("compare", base, other, "--what", "efficiency", "--format", "json").stdout)
    # Sums of threads differ in their last digit.
    assert rows == [
        {name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value for name, value in row.items()}
        for row in parts["efficiency"]
    ]
    assert "### What differs by op" in invoke("compare", base, other, "--format", "markdown").stdout


def test_a_trace_and_an_etdump(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    dump = str(CAPTURES / "mlp" / "mlp.etdp")
    result = invoke("compare", "good/good0.pt.trace.json", dump)
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: good0 is a PyTorch trace and mlp is not: only traces can be compared with traces; etq map shows an "
        "ETDump next to a trace of its model\n"
    )
    result = invoke("compare", dump, str(CAPTURES / "mlp" / "mlp_100runs.etdp"), "--step-name", "train")
    assert result.stderr == (
        "Error: mlp is not a PyTorch trace, so it has no annotations: compare it without --step-name\n"
    )


@pytest.mark.long
def test_a_report_of_two_traces(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    page = tmp_path / "difference.html"
    result = invoke("report", "good", "slow", "--step-name", "train", "-o", str(page))
    assert result.exit_code == 0, result.output
    [verdict] = [section for section in data_of(page.read_text())["sections"] if section["kind"] == "verdict"]
    assert "train on devices" in json.dumps(verdict)
