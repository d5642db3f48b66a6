"""Jobs on the command line: one screen, one advice, two jobs rank by rank; of files, of a warehouse, and what is none."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from etq.report.page import subject_of
from tests.cli.asked import rows
from tests.cli.test_report import data_of
from tests.command_line import run_etq
from tests.conftest import CAPTURES
from tests.job_traces import Faults, job
from tests.launch_traces import ALL_REDUCE, Machine, message
from tests.trace_builders import event, trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of four ranks: rank 2 has a slow kernel, and the clock of rank 1 is ahead."""
    made = job(5, Faults(late=2, kernel="sm90_gemm", clock=1), ranks=4, steps=4)
    return made.write(tmp_path_factory.mktemp("jobs") / "train")


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.long
def test_a_folder_of_ranks_is_a_job(folder: Path) -> None:
    """One screen: the late rank and its kernel first, waits apart from transfers, links, clocks."""
    result = run_etq(str(folder))
    assert result.exit_code == 0 and result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) <= 45 and all(len(line) <= 120 or str(folder) in line for line in lines), "one screen"
    assert lines[0].startswith(f"{folder}: job of 4 ranks, 4 steps of ")
    text = flat(result.stdout)
    assert "Other ranks wait for rank 2, for " in text and "most of that in sm90_gemm: " in text
    for words in (
        "rank step computes exposed waits transfers waited for last in clock",
        "3 ranks for rank 2",
        "4 allreduces of group 0",
        "allreduce of group 0, 4 ranks 64 MiB 16",
        "low clock offset: The clock of rank 1 is 5,000 us ahead of the job's median.",
        "rank 2 sm90_gemm",
    ):
        assert words in text, words
    for rank in range(4):
        [line] = [line for line in lines if re.match(rf" +{rank}  ", line)]
        assert ("4 of 4" in line) == (rank == 2) and bool(re.search(r"\+(4,999|5,000)\.\d ±", line)) == (rank == 1)


@pytest.mark.long
def test_files_of_ranks_are_that_job(folder: Path) -> None:
    text = flat(run_etq(str(folder)).stdout)
    files = sorted(map(str, folder.iterdir()))
    assert flat(run_etq(*files).stdout).partition("Next")[0].partition(": ")[2] == text.partition("Next")[0].partition(": ")[2]  # fmt: skip


@pytest.mark.long
def test_advice_of_files_and_of_a_warehouse(folder: Path, tmp_path: Path) -> None:
    db = str(tmp_path / "lab.duckdb")
    assert run_etq("ingest", str(folder), "--job", "train", "--db", db).exit_code == 0
    found = rows("advice", str(folder))
    assert [(row["severity"], row["rule"]) for row in found] == [("high", "late rank"), ("low", "clock offset")]
    assert found[0]["evidence"] and found[0]["remedy"] and found[0]["share_of"] == "step time of those that wait"
    assert rows("advice", "job=train", "--db", db) == found
    stored = flat(run_etq("summary", "job=train", "--db", db).stdout)
    assert stored.startswith("job=train: job of 4 ranks") and found[0]["finding"] in stored
    summary = rows("summary", "job=train", "--db", db)
    assert [row["part"] for row in summary].count("rank") == 4 and summary[0]["text"] == found[0]["finding"]
    # Of a rank alone, advice is that of a capture.
    assert {row["rule"] for row in rows("advice", "job=train,rank=0", "--db", db)} != {"late rank", "clock offset"}


@pytest.mark.long
def test_two_jobs_are_compared_rank_by_rank(folder: Path, tmp_path: Path) -> None:
    base = job(6, ranks=4, steps=4).write(tmp_path / "base")
    result = run_etq("compare", str(base), str(folder))
    assert re.search(r"Steps take [\d,]+ us instead of [\d,]+ us \(\+\d", result.stdout)
    assert "Most of the difference in kernels is at rank 2:" in flat(result.stdout)
    found = rows("compare", str(base), str(folder))
    assert [row["rank"] for row in found] == [None, 0, 1, 2, 3] and {row["note"] for row in found} == {None}
    assert found[3]["new_computation"] > 1.3 * found[3]["base_computation"]
    assert found[1]["new_computation"] == pytest.approx(found[1]["base_computation"], rel=0.05)
    assert "Most of the difference" in run_etq(str(base), str(folder)).stdout


@pytest.mark.long
def test_two_ranks_are_not_builds(folder: Path) -> None:
    base, new = (str(folder / f"rank{rank}.pt.trace.json") for rank in (0, 2))
    findings = flat(run_etq("compare", base, new).stdout)
    assert "! ranks of one job (not builds): 0 in all of base, 2 in all of new" in findings
    shown = run_etq(base, new)
    assert "job of 2 ranks of 4" in shown.stdout and "ranks 1 and 3 are missing" in shown.stderr


@pytest.mark.long
def test_the_page_of_a_job(folder: Path, tmp_path: Path) -> None:
    """The page has what the screen has: the sentence and the times of each rank, advice, and the tables."""
    path = tmp_path / "job.html"
    assert run_etq("report", str(folder), "-o", str(path)).exit_code == 0
    page = path.read_text()
    assert subject_of(page) == "job train"
    sections = {section["kind"]: section for section in data_of(page)["sections"]}
    assert [*sections] == ["job", "lanes", "advice", "waits", "path", "collectives", "ops", "rank_steps", "clocks"]
    [sentence] = [row["finding"] for row in rows("advice", str(folder)) if row["rule"] == "late rank"]
    assert sections["job"]["facts"]["sentence"] == sentence
    ranks = sections["job"]["tables"]["ranks"]
    assert ranks["columns"][ranks["names"].index("rank")] == [0, 1, 2, 3]
    assert [each["name"] for each in sections["ops"]["grids"]] == ["rank_ops", "rank_ops_parts"]
    assert run_etq("report", str(folder), "--runs", "all", "-o", str(path), "--force").exit_code == 2


def test_what_is_no_job(folder: Path, tmp_path: Path) -> None:
    """Two recordings of the ranks, traces without ranks, other files among them: as before, and a note says why."""
    shutil.copytree(folder, tmp_path / "twice/one")
    shutil.copytree(folder, tmp_path / "twice/two")
    twice = run_etq(str(tmp_path / "twice"))
    assert "8 traces of 4 ranks, and rank 0 has 2: not one recording of a job" in flat(twice.stderr)
    assert "8 PyTorch traces" in twice.stdout
    (tmp_path / "plain").mkdir()
    for name in "ab":
        (tmp_path / f"plain/{name}.pt.trace.json").write_bytes(trace(event("cpu_op", "aten::add", 0, 5)))
    plain = run_etq(str(tmp_path / "plain"))
    assert "2 PyTorch traces" in plain.stdout and plain.stderr == ""
    shutil.copy(CAPTURES / "mlp/mlp_alloc.etdp", tmp_path / "plain")
    assert "1 ETDump" in run_etq(str(tmp_path / "plain")).stdout


@pytest.mark.parametrize(("pause", "named"), [(2500, []), (0, ["gemm"])])
def test_the_path_names_what_takes_half_of_it(tmp_path: Path, pause: int, named: list[str]) -> None:
    """The rank that comes last to an all-reduce computes for 2,000 us, and its host pauses before: if for 2,500 us,
    neither the kernel nor the op, which takes 7 us, has half of its work.
    """
    for rank, comes in enumerate((10, 2010 + pause)):
        machine = Machine(rank, 2, device=rank)
        for step in range(3):
            machine.now = 1000 + 10_000 * step
            with machine.frame(f"ProfilerStep#{step}", "user_annotation"):
                machine.now += rank * pause
                with machine.frame("aten::mm"):
                    machine.launch("gemm", 2000 if rank else 1)
                sent = message("allreduce", "0", "Float", 1 << 20, 1 << 20, 2)
                machine.launch(ALL_REDUCE, 2310 + pause - comes, 24, after=1010 + 10_000 * step + comes, **sent)
                machine.synchronize()
        (tmp_path / f"rank{rank}.json").write_bytes(machine.trace())
    lines = run_etq(str(tmp_path)).stdout.splitlines()
    [path] = [line for line in lines if re.match(r" +rank 1, work", line)]
    assert re.findall(r"most in (\S+)", path) == named


def test_one_damaged_rank_is_an_error(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "damaged")
    path = tmp_path / "damaged/rank3.pt.trace.json"
    path.write_bytes(path.read_bytes()[:2000] + b"\x00\x00 no JSON")
    result = run_etq(str(tmp_path / "damaged"))
    assert result.exit_code == 1 and "rank3.pt.trace.json" in result.stderr


@pytest.mark.long
def test_real_ranks_of_gloo() -> None:
    """Two processes that reduce on the host: waits are known, clocks are, and nothing is said of links."""
    text = flat(run_etq(str(CAPTURES / "torch_gloo")).stdout)
    assert "job of 2 ranks, " in text and "Collectives, all ranks together" in text
