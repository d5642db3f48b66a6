"""Errors and notes of commands: what is wrong and what to do, in one line; wrong usage is status 2."""

from __future__ import annotations

import gzip
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

from etq.cli import expected_message
from tests.command_line import run_etq
from tests.conftest import CAPTURES

PLACES = {
    "mlp": str(CAPTURES / "mlp/mlp.etdp"), "record": str(CAPTURES / "mlp/mlp.etrecord"),
    "pte": str(CAPTURES / "mlp/mlp.pte"), "multi": str(CAPTURES / "multimethod/multimethod.pte"),
    "two": str(CAPTURES / "delegation/two_methods/two_methods.etrecord"),
    "buffer": str(CAPTURES / "convnet/convnet_debug.bin"),
    "conv": str(CAPTURES / "convnet/convnet.etdp"), "net": str(CAPTURES / "convnet/convnet.etrecord"),
    "demo": str(CAPTURES / "demo_int/demo_int.etdp"), "trace": str(CAPTURES / "torch/mlp_train.pt.trace.json.gz"),
    "steps": str(CAPTURES / "torch_steps/before.pt.trace.json.gz"),
    "gpu": str(CAPTURES / "torch_gpu/rank0.pt.trace.json.gz"),
    "costs": str(CAPTURES / "torch_costs/calls.trace.json.gz"),
    "blob": str(CAPTURES / "prof_result/bad_version.prof_result.bin"), "new": "b1.etdp",
}  # fmt: skip

BAD = "\udcff"  # the byte 0xff, as Python has it in arguments


@pytest.fixture
def ask(lab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command, with the shared warehouse as the default one, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(PLACES, "lab", lab)

    def asked(command: str) -> Result:
        return run_etq(*(each.format(**PLACES) for each in shlex.split(command)), env={"ETQ_DB": lab})

    return asked


# Status 1: the command, and how its error begins, or what is in it after `…`.
FAILURES = [
    ("inspect nothing.etdp", "nothing.etdp: no such file"),
    ("inspect .", ".: a folder; name a file in it"),
    ("inspect {mlp} --active 0", "a schedule needs"),
    ("ops {mlp} -o .", ".: is a directory; name a file in it"),
    ("ops run -o ops.csv.gz", "ops.csv.gz: tables are not compressed"),
    ("sql 'SELECT 1' --format json --escape-formulas", "--escape-formulas only applies to csv and tsv, not to json"),
    ("{buffer}", "…convnet_debug.bin: perhaps a debug buffer, not an ETDump; give the .etdp of the run"),
    ("ops no/such.etdp", "no/such.etdp: no such file, and no capture of that name; there are "),
    ("no/*.etdp", "no/*.etdp: no such files"),
    ("push http://lab:8650 nothing.etdp", "nothing.etdp: no such file"),
    ("push http://lab:86500 {mlp}", "http://lab:86500: not a server's address; write it as http://HOST:PORT"),
    ("push http://lab:port {mlp}", "http://lab:port: not a server's address"),
    ("push http://[::1 {mlp}", "http://[::1: not a server's address"),
    ("ops {mlp}x", "…mlp.etdpx: no such file, and no capture of that name; there are "),
    ("ops {mlp}x", "…; the nearest files are mlp.etdp"),
    ("inspect {mlp}x", "…mlp.etdpx: no such file; the nearest files are mlp.etdp, "),
    ("compare {mlp}x {conv}", "…mlp.etdpx: no such file or folder; the nearest files are mlp.etdp, "),
    ("sql \"FROM op_totals('run', units := 'us')\"", "wrong arguments of op_totals; it takes op_totals(capture, by := "),
    ("sql --safe 'FROM op_totals()'", "wrong arguments of op_totals; it takes op_totals(capture, by := "),
    ("sql \"FROM op_totals('run', unit = 'us')\"", "op_totals: an argument's name is followed by :=, not by =; write unit := VALUE"),
    ("sql \"FROM op_totals('model=none,unit=us')\"", "no capture matches model=none,unit=us: none has "),
    (f"trend model={'a' * 300}", "no capture matches model=aaaaaaaa"),
    ("sql 'FROM op_totals($capture)'", "$capture has no value: write the value in the query, or in Python pass "),
    ("sql \"FROM 'a/run.etdp'\"", "a/run.etdp is a file, not a table; to query it: etq sql \"FROM op_totals('run')\" a/run.etdp"),
    ("sql --safe 'SELECT device FROM captures'", "device is a label: write labels['device'] of labelled_captures"),
    ("show percentiles run --quantiles '[\"p50\"]'", "quantiles must be a list of numbers between 0 and 1, not [p50]"),
    ("summary a.etdp b.etdp c.etdp", "no such file: a.etdp, b.etdp, c.etdp; of a warehouse, name one capture at a time"),
    ("memory {blob}", "…bad_version.prof_result.bin: at byte 32: a prof_result of version 2; expected version 1"),
    # Selectors, labels, columns, views, methods: the nearest is named.
    ("ops rnu", "no capture matches rnu; the nearest is run"),
    ("ops device=pixel9", "no capture matches device=pixel9: none has device=pixel9; the nearest is pixel8"),
    ("captures --sort-by modle", "no capture has a label 'modle'; the nearest is model; "),
    ("trend --over bild", "no capture has a label 'bild'; the nearest is build; "),
    ("ops run --sort-by totl", "no column 'totl' to sort by; the nearest is total; known are "),
    ("views op_total", "no table, view or macro 'op_total'; the nearest are op_totals"),
    ("show schedule 1", "schedule is a function: call it in etq sql, as etq views schedule describes"),
    ("show op_totals run --method 5", "…no run is of method '5'"),
    ("ops run --unit cycles", "run counts ns, which cannot be converted to cycles; ingest it with its true time scale, or "),
    # Files of another kind than the command's.
    ("show program_size {mlp}", "…this is an ETDump, not a program; give the .pte that was run"),
    ("show planned_memory {multi} --method x", "unknown method x; there are decode, encode"),
    ("export {costs} --to replay --op aten::nm", "no op 'aten::nm' has time of its own in calls"),
    ("export {costs} --to replay --op aten::dot --shapes f32[4]", "aten::dot was not called with f32[4]; it was with: f32["),
    ("export {mlp} --to replay --op aten::mm", "mlp: replay is for PyTorch traces, and this is of format etdump"),
    ("export {costs} --to replay", "replay needs an op; name one, such as aten::mm"),
    ("roofline {gpu} --by op_type", "--by op_type is not for traces; use shape, op, family"),
    ("roofline {gpu} --assume topk=4", "assume: nothing is called topk; the names are top_k, experts, expert_width, "),
    ("steps {gpu} --efficiency --assume topk=4", "assume: nothing is called topk; the names are top_k, experts, "),
    ("roofline {mlp} --assume top_k=4", "…not a PyTorch trace; assumed sizes are for traces only"),
    ("roofline {gpu} --device 'GTX 1'", "no device is called GTX 1 in device_peaks"),
    ("show delegate_graph {demo}", "demo_int: link its program (.pte), which has the delegates' graphs: etq link"),
    ("coverage {two} --method nonesuch", "…its methods are decode, forward"),
    ("coverage {two} --pte {pte}", "the program mlp was not exported with the record two_methods"),
    ("graph net --open -o -", "--open needs a file; name one other than -"),
    ("graph {mlp} {mlp}", "…mlp.etdp: not an ETRecord; name two ETRecords, or two captures of a warehouse"),
    ("graph run run", "run has no record, so it has no graph; link one: etq link run RECORD"),
    ("flame net --module features.0.cb", "no module 'features.0.cb'; the nearest are features.0.cbr"),
    ("compare {steps} {mlp}", "before is a PyTorch trace and mlp is not: only traces can be compared with traces; etq show model_map "),
    ("summary run untraced --format json", "--format is for one file; for two: etq compare BASE NEW --format FORMAT; for more: "),
    # A warehouse, a key or a folder in the place of a capture; a view without parentheses, a table with them.
    ("captures {lab}", "{lab}: a warehouse; write --db {lab}; etq captures --db {lab} lists them"),
    ("gap {mlp} {mlp} --db no.duckdb", "…mlp.etdp: this command takes captures of a warehouse, not files; ingest it first"),
    ("show ops run", "ops is a command, not a view: etq ops --help"),
    ("ops -", "-: standard input isn't read; save it as a file, and name that"),
    ("inspect no/*.etdp", "no/*.etdp: no such file; patterns aren't expanded here: name a file"),
    ("export run --to chrome --run 99", "no run has the run_index 99; the runs are 0 to 5"),
    ("ops {lab}", "{lab}: a warehouse; name a capture and --db {lab}; etq captures --db {lab} lists them"),
    ("inspect {lab}", "{lab}: a warehouse; for its captures, use etq show inspector_events CAPTURE --db {lab}; "),
    ("show op_totals {lab}", "{lab}: a warehouse; name a capture"),
    ("compare {lab} run", "{lab}: a warehouse; name a capture"),
    ("ops 1", "no capture matches 1; the name of capture_id 1 is run"),
    ("compare run 2", "no capture matches 2; the name of capture_id 2 is "),
    ("ops 99999999999999999999", "no capture matches 99999999999999999999; there are "),
    ("sql 'FROM op_totals'", "op_totals is a view with parameters: FROM op_totals('CAPTURE')"),
    ("sql --safe 'FROM compare_ops'", "compare_ops is a view with parameters: FROM compare_ops('BASE', 'NEW')"),
    ("sql 'FROM captures()'", "captures is a table without parameters: FROM captures"),
    # Links, labels, metrics and phases.
    ("link run nosuch/x.etrecord", "nosuch/x.etrecord: no such file, and no record of that name"),
    ("label {mlp}", "…mlp.etdp: this command takes a capture of the warehouse, not a file; ingest it first"),
    ("label run 'a=1\n2'", "…is not a value; it has the control character"),
    ("label run captured_at=now", "captured_at 'now' is not a time; write 2026-05-01, "),
    ("label run --metric x=1e999", "the metric x is inf, which is not a finite number"),
    ("label llm --phase decode --runs 1-999", "no run 999: the capture has 101 runs"),
    ("label llm --phase from-metrics", "…llm has no prompt_tokens and generated_tokens; read them"),
    ("show decode_trend llm", "no run of llm is of phase decode; set the phases: etq label llm --phase decode --runs"),
    ("ops {mlp} --phase decode", "of files, only traces of vLLM and SGLang have phases; ingest the file and set the phases"),
    ("gap run net", "run is not linked to an ETRecord"),
    # Reports, pages and exports: nothing is written.
    ("report run run -o x.html", "…run is on both sides"),
    ("report run --etrecord {record} -o x.html", "run is not a file; only files take --etrecord"),
    ("report --trend model=none -o x.html", "…model=none"),
    ("export run --to hud --run 1 -o x.json", "hud takes no runs; it takes by, steps"),
    ("db remove run", "1 capture would be removed (run); confirm with -y"),
    ("db remove device=watch -y", "device=watch matches 2 captures (llm, untraced)"),
]  # fmt: skip


# A third of them each time; all of them with the long tests.
EACH = [pytest.param(*each, marks=pytest.mark.long if at % 3 else ()) for at, each in enumerate(FAILURES)]


@pytest.mark.long
@pytest.mark.parametrize(("command", "expected"), EACH)
def test_what_is_wrong_is_one_line(ask: object, command: str, expected: str) -> None:
    assert callable(ask)
    result: Result = ask(command)
    [line] = [each for each in result.stderr.splitlines() if each.startswith("Error: ")]
    assert (result.exit_code, result.stdout) == (1, ""), result.stdout[:200]
    text = expected.format(**PLACES)
    assert text[1:] in line if text.startswith("…") else line.startswith(f"Error: {text}"), line
    assert not [*Path().iterdir()]


WRONG_USAGE = [
    ("ops", ""),
    ("ops run --by colour", "--by"),
    ("ops {mlp} net.etrecord", "Got unexpected extra argument (net.etrecord); write --etrecord net.etrecord"),
    ("ops {mlp} {conv}", "; name one file, or compare two: etq compare BASE NEW"),
    ("ops run --limit abc", "Invalid value for '--limit': 'abc' is not a valid integer."),
    ("help op_totals", "op_totals is a view: etq views op_totals describes it"),
    ("show event_histogram run --bins abc", "Invalid value for --bins: 'abc' is not written like the default, 24"),
    ("show key_averages run --stack-depth -1", "Invalid value for --stack-depth: '-1' is not written like the default, 5: a number from 0"),
    ("show key_averages run --stack-depth true", "Invalid value for --stack-depth: 'true' is not written like the default, 5: a number from 0"),
    ("show percentiles run --quantiles 0.5", "Invalid value for --quantiles: '0.5' is not written like the default, [0.1, 0.5, 0.9]"),
    ("show critical_path run --step -1", "Invalid value for --step: '-1' is not a number from 0"),
    ("--db lab.duckdb ops run", "No such option '--db' before the command; try: etq COMMAND --db"),
    ("--versoin", "Did you mean '--version'?"),
    ("sql {mlp}", "mlp.etdp names a file and is not a query: give statements with -f FILE, a warehouse with --db FILE, "),
    ("sql ' '", "the query is empty"),
    ("ingest {mlp} {mlp} --name x", "--name"),
    ("ingest --label-git {mlp}", "is not a folder; write --label-git=. for the current one"),
    ("ingest {mlp} --job train --label job=x", "--job train and --label job=x differ"),
    ("ingest {mlp} --label device", "'device' is not of the form KEY=VALUE"),
    ("label run --metric governor=schedutil", "'schedutil' is not a number; attach a text as a label: etq label CAPTURE governor="),
    ("label run --better lower", "--better and --run need --metric"),
    ("label llm --phase decode", "--phase needs --runs, --name or --method"),
    ("db check lab.duckdb --db other.duckdb", "lab.duckdb and --db other.duckdb are two warehouses"),
    ("serve lab.duckdb --db other.duckdb", "lab.duckdb and --db other.duckdb are two warehouses"),
    ("sql --safe 'SELECT 1' --seconds 0", "0 is not in the range"),  # zero is a limit, unlike a missing one
    ("sql --safe 'SELECT 1' --seconds nan", "'nan' is not a number"),
    ("flame run --depth 9223372036854775808", "9223372036854775808 is more than 9223372036854775807"),
    ("flame run --min-share 101%", "101% is more than the whole; write a share up to 100%"),
    ("compare a/1.etdp a/2.etdp b/1.etdp", "quote patterns, or the shell replaces them by files: etq compare 'a/*.etdp' 'b/*.etdp'"),
    ("gate b/1.etdp a/1.etdp a/2.etdp a/3.etdp", "4 arguments, not two sides; quote patterns, or the shell replaces them by files: etq gate 'b/*.etdp' 'a/*.etdp'"),
    ("gate run untraced --limit 3", "No such option '--limit'. etq compare has it."),
    ("flame run --limit 3", "No such option '--limit'. etq ops has it."),
    ("compare run untraced --min-effect 2", "2 would be 200% of a time; did you mean 2%?"),
    ("compare run untraced --sort-by op", "--sort-by needs --what"),
    ("gate run untraced --startup --total", "--startup excludes --total"),
    ("kernels {gpu} --by annotation --skip-first 1", "leave out options that select steps"),
    ("roofline {conv} --peak-flops fast", "'fast' is not a rate; write it like 20G, 20e9 or 20GFLOP/s"),
    ("roofline {conv} --peak-bandwidth 15Gb/s", "14GiB/s; bytes, not bits"),
    ("report", "a report needs one capture or two sides, none is named"),
    ("report a b c", "not 3; put a pattern of files in quotes"),
    ("report --home --unit ms", "--unit is not for a report of what is slower"),
    ("report --trend --allow-mismatch", "--allow-mismatch is not for a report of series"),
    ("ingest {mlp} --reference --label a=b", "--reference can't be used with --label, only with --name, --db"),
    ("graph run net --format dot", "--format applies to one graph"),
    ("graph net --metric snr", "--metric needs a second graph: etq graph BASE NEW"),
    ("inspect --etdump_path {mlp} {mlp}", "--etdump_path is a flag of inspector_cli and can't be used with FILE"),
    ("inspect --etdump_path {mlp} --unit us", "--etdump_path is a flag of inspector_cli and can't be used with --unit"),
    ("inspect --compare_results", "--compare_results needs --etdump_path"),
    ("inspect --etdump_path {mlp} --target_time_scale min", "'min' is not one of"),
    ("bench A A --order", "base and new are both 'A'"),
    ("bench A B --order --runs 3", "--order can't be used with --runs, only with --name, --rounds, --format"),
    ("sql questions.sql", "questions.sql names a file and is not a query: give statements with -f FILE"),
    ("ops run --csv", "No such option '--csv'. Write --format csv."),
    ("trend --label build=1", "No such option '--label'. A label selects captures without an option: KEY=VALUE."),
    ("load {mlp}", "No such command or file 'load'; try: etq ingest FILE"),
    ("operators {mlp}", "No such command or file 'operators'; try: etq ops FILE"),
    ("analyze {mlp}", "No such command or file 'analyze'; try: etq advice FILE"),
    ("ui", "No such command or file 'ui'; try: etq serve WAREHOUSE --open"),
    ("export run --format chrome", "No such option '--format'. Write --to FORMAT."),
    ("serve {lab} --megabytes 5", "--megabytes needs --tokens: without tokens, nobody can push"),
    ("version", "try: etq --version"),
    # Mistyped commands; views that have no command.
    ("ingset", "'ingest'"),
]  # fmt: skip


def test_wrong_usage_is_status_2(ask: object) -> None:
    assert callable(ask)
    wrong = {}
    for command, message in WRONG_USAGE:
        result: Result = ask(command)
        if result.exit_code != 2 or message not in " ".join(result.stderr.split()) or result.stdout:
            wrong[command] = result.stderr
    assert wrong == {}


# Of the head of a table.
_RULE = "--"
_NO_DEVICE = "no device events: it was recorded without a device"
# Status 0, and a note why there are no rows.
NOTES = [
    ("idle {trace}", f"{{trace}} has {_NO_DEVICE}"),
    ("show kernel_sequences {steps}", "{steps} has no calls of ops that launched so many kernels, copies and fills"),
    ("gap net net", "net has no logged values: the runtime logs them at the level kIntermediateOutputs"),
    ("values {mlp}", "{mlp} has no logged values: the runtime logs them at the level kIntermediateOutputs"),
    ("memory {steps}", "{steps} has no allocations: record them with profile_memory=True"),
    ("steps {mlp}", "etq steps has no rows for {mlp}, of format etdump; use etq show execute_breakdown"),
    ("coverage {gpu}", "etq coverage has no rows for {gpu}, of format torch_trace; use etq kernels"),
    ("show module_totals {gpu}", "module_totals has no rows for {gpu}, of format torch_trace; use etq ops --by module"),
    ("show op_totals {gpu}", "op_totals has no rows for {gpu}, of format torch_trace; use etq ops"),
    ("show stragglers trace", "etq show stragglers has no rows: no trace has a label rank"),
    ("memory {mlp}", "{mlp} has no allocations; for the memory that a program plans: etq show planned_memory PROGRAM"),
    ("show framework_tax {mlp} --steps skip_first=99", "no run of {mlp} is left: skip_first=99 leaves out all 6"),
    ("show framework_tax llm --phase decode", "no run of llm is of phase decode; set phases of runs with etq label --phase"),
    ("captures device=c", "no capture matches device=c: none has device=c; values are pixel8, watch"),
    ("db prune --keep-last 9 devise=pixel8", "no capture matches devise=pixel8: no label is named 'devise'; the nearest is device"),
]  # fmt: skip


@pytest.mark.long
def test_empty_tables_have_a_note(ask: object) -> None:
    assert callable(ask)
    wrong = {}
    for command, note in NOTES:
        result: Result = ask(command)
        if result.exit_code or f"Note: {note.format(**PLACES)}" not in result.stderr or _RULE in result.stdout:
            wrong[command] = result.output
    assert wrong == {}


@pytest.mark.long
@pytest.mark.parametrize("name", ["torch/conv_infer", "torch/pair_mlp", "torch_gpu/rank0", "stacks"])
@pytest.mark.parametrize(
    ("by", "written", "option"),
    [
        ("shape", '"Input Dims"', "record_shapes=True"), ("stack", '"Call stack"', "with_stack=True and experimental"),
        ("module", '"nn.Module: ', "with_stack=True"),
    ],
)  # fmt: skip
def test_what_divides_no_op_has_a_note(name: str, by: str, written: str, option: str, tmp_path: Path) -> None:
    """By the text of the trace."""
    has_stacks = name == "stacks"
    path = CAPTURES / f"{'torch/conv_infer' if has_stacks else name}.pt.trace.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    if has_stacks:
        text = text.replace('"Input Dims"', '"Call stack": "train.py(1): step", "Input Dims"')
        path = tmp_path / "stacks.pt.trace.json"
        path.write_text(text)
    ended = run_etq("ops", str(path), "--by", by)
    assert ended.exit_code == 0 and ended.stdout
    has_note = f"to group ops by: record it with {option}" in ended.stderr
    assert has_note == (written not in text)


@pytest.mark.parametrize(
    "command", ["ops run", "captures", "db remove run -y", "label run a=b", "show program_size net", "gap a b"]
)
def test_a_mistyped_warehouse_is_not_made(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETQ_DB", raising=False)
    for options, name in (((), "etq.duckdb"), (("--db", "missing.duckdb"), "missing.duckdb")):
        result = run_etq(*command.split(), *options)
        message = f"Error: {name}: no such file; make a warehouse with: etq ingest FILE... --db {name}\n"
        assert (result.exit_code, result.stderr) == (1, message)
    assert not [*tmp_path.iterdir()]


def test_a_file_without_its_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no warehouse that could have a capture of this name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ETQ_DB", raising=False)
    Path("run.etdp").touch()
    assert run_etq("ops", "run").stderr == "Error: run: no such file; the nearest file is run.etdp\n"


def test_a_folder_is_no_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to install deltalake to learn this."""
    monkeypatch.setitem(sys.modules, "deltalake", None)
    result = run_etq("captures", "--db", str(tmp_path))
    what = "a folder; a warehouse is a file, or a lake that etq lake makes"
    assert result.stderr == f"Error: {tmp_path}: {what}; to make one of its files: etq ingest {tmp_path}\n"


def refused(lab: str, *arguments: str, given: bytes = b"") -> str:
    """What a command prints that ends with an error in one line, of its own process."""
    command = [sys.executable, "-m", "etq", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, cwd=Path(lab).parent, check=False)
    [line] = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (1, b"")
    return line


def test_queries_that_are_not_utf8(lab: str) -> None:
    query = f"SELECT '{BAD}'"
    assert refused(lab, "sql", query, "--db", lab) == "Error: the query: not UTF-8 text"
    assert refused(lab, "sql", "--db", lab, "-f", "-", given=b"SELECT 1 -- \xff") == "Error: stdin: not UTF-8 text"


@pytest.mark.long
def test_a_name_that_is_not_utf8_is_printed_in_one_way(tmp_path: Path) -> None:
    (tmp_path / f"{BAD}.etdp").write_bytes(Path(PLACES["mlp"]).read_bytes())
    for command, line in [([], r"\xff.etdp: ETDump, "), (["memory"], r"Note: \xff.etdp has no allocations")]:
        whole = [sys.executable, "-m", "etq", *command, f"{BAD}.etdp"]
        done = subprocess.run(whole, capture_output=True, cwd=tmp_path, check=True)
        assert (done.stdout or done.stderr).startswith(line.encode())


@pytest.mark.long
def test_outputs_that_are_not_utf8(lab: str) -> None:
    found = refused(lab, "ops", "run", "--db", lab, "-o", f"{BAD}.parquet")
    assert found.endswith(": the path of a Parquet file must be UTF-8")
    found = refused(lab, "db", "merge", lab, "-o", f"{BAD}.duckdb")
    assert found.endswith(": the path of a warehouse must be UTF-8")
    assert sorted(each.name for each in Path(lab).parent.iterdir()) == ["lab.duckdb"]


def test_a_library_that_does_not_fit_into_memory_is_a_line() -> None:
    """As where `ulimit -v` is low."""
    error = ImportError("libarrow.so: failed to map segment from shared object", path="/lib/libarrow.so")
    assert "libarrow.so: failed to map" in str(expected_message(error))
    assert expected_message(ImportError("cannot import name 'x'", path="/etq/x.py")) is None
