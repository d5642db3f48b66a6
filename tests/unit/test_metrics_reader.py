"""Readers of metrics. The tests make the files by the tools' own sources and documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etq.errors import FormatError
from etq.ingest.metrics.reader import read_metrics

# As ExecuTorch's runner of language models logs it (extension/llm/runner/stats.h, print_report).
GENERATION = {
    "prompt_tokens": 5, "generated_tokens": 114, "model_load_start_ms": 1727953984276,
    "model_load_end_ms": 1727953988202, "inference_start_ms": 1727953988203, "inference_end_ms": 1727953991206,
    "prompt_eval_end_ms": 1727953988305, "first_token_ms": 1727953988305, "aggregate_sampling_time_ms": 143,
    "SCALING_FACTOR_UNITS_PER_SECOND": 1000,
}  # fmt: skip
# As the Android app writes it (BenchmarkMetric and ModelRunner in extension/benchmark/android).
APP = [
    {
        "benchmarkModel": {"name": "mv2", "backend": "xnnpack", "quantization": "q8"},
        "metric": metric,
        "actualValue": value,
        "targetValue": 0.0,
        "deviceInfo": {"device": "samsung", "arch": "SM-S901U1", "os": "Android 12", "totalMem": 0, "availMem": 0},
    }
    for metric, value in (
        ("avg_inference_latency(ms)", 12.5), ("model_load_time(ms)", 247.0), ("load_status", 0.0),
        ("ram_pss_usage(mb)", 31.0), ("token_per_sec", 39.25),
    )
]  # fmt: skip
# As PyTorch's benchmark database takes it (the wiki of pytorch/pytorch).
RECORDS = [
    {
        "benchmark": {"name": "ExecuTorch", "mode": "inference", "extra_info": {"app_type": "IOS_APP"}},
        "model": {"name": "mv2", "type": "OSS model", "backend": "coreml"},
        "metric": {"name": name, "benchmark_values": values, "target_value": 0, "extra_info": {"method": "forward"}},
        "runners": [{"name": "iPhone 15", "type": "iOS 18.0"}],
    }
    for name, values in (("avg_inference_latency(ms)", [12, 13.5]), ("speedup", [2.0]), ("FAILURE_REPORT", 0))
]


def log(*generations: dict[str, Any]) -> bytes:
    """A device log with the observer's lines among others."""
    lines = [f"05-01 12:00:00.000 I ExecuTorch: PyTorchObserver {json.dumps(each)}\r\n" for each in generations]
    return b"\xff\xfe no text\n" + "I tokens\n".join(lines).encode() + b"PyTorchObserver is done\n"


def metrics_of(data: bytes) -> list[tuple[Any, ...]]:
    [(table, rows)] = read_metrics(data, "file")
    assert table == "metrics"
    return [(row["name"], row["value"], row["unit"], row["sample"]) for row in rows.to_pylist()]


def test_the_runner_of_language_models() -> None:
    [(table, rows)] = read_metrics(log(GENERATION, {**GENERATION, "prompt_tokens": 7, "gpu_peak_usage_mb": 1.5}), "log")
    assert table == "runner_stats"
    first, second = rows.to_pylist()
    assert first == {
        "sample": 0, "prompt_tokens": 5, "generated_tokens": 114, "model_load_start": 1727953984276,
        "model_load_end": 1727953988202, "inference_start": 1727953988203, "inference_end": 1727953991206,
        "prompt_eval_end": 1727953988305, "first_token": 1727953988305, "sampling_ticks": 143,
        "ticks_per_second": 1000, "gpu_peak_usage": None,
    }  # fmt: skip
    assert (second["sample"], second["prompt_tokens"], second["gpu_peak_usage"]) == (1, 7, 1.5)
    # Without the log around it, as apps get it.
    [(table, rows)] = read_metrics(json.dumps(GENERATION).encode(), "stats.json")
    assert (table, rows.to_pylist()) == ("runner_stats", [first])


def test_benchmark_apps() -> None:
    expected = [
        ("avg_inference_latency", 12.5, "ms", 0), ("model_load_time", 247.0, "ms", 0), ("load_status", 0.0, None, 0),
        ("ram_pss_usage", 31.0, "MB", 0), ("token_per_sec", 39.25, None, 0),
    ]  # fmt: skip
    assert metrics_of(json.dumps(APP).encode()) == expected
    # As the app wrote it first.
    older = [{**each, "actual": each["actualValue"], "target": 0} for each in APP]
    for each in older:
        del each["actualValue"]
    assert metrics_of(json.dumps(older).encode()) == expected


def test_records_of_the_benchmark_database() -> None:
    expected = [
        ("avg_inference_latency", 12.0, "ms", 0), ("avg_inference_latency", 13.5, "ms", 1), ("speedup", 2.0, None, 0),
        ("FAILURE_REPORT", 0.0, None, 0),
    ]  # fmt: skip
    assert metrics_of(json.dumps(RECORDS).encode()) == expected
    assert metrics_of(b"\xef\xbb\xbf" + json.dumps(RECORDS[1]).encode()) == expected[2:3]


def test_the_log_of_the_app_for_apple_devices() -> None:
    tested = "/b/Tests.mm:9: Test Case '-[GenericTests test_{}_mv2_xnnpack_q8_pte_iOS_17_2_1_iPhone15_4]' measured [{}] average: "
    tested += (
        "0.004, relative standard deviation: 17.201%, values: [{}], performanceMetricID:com.apple.dt.XCTMetric\r\n"
    )
    lines = [
        "Test Case '-[Other testIt]' measured [Clock Monotonic Time, s] average: 0.1, values: [0.1]\n",
        tested.format("load", "Clock Monotonic Time, s", "0.005643, 0.004422"),
        tested.format("load", "Memory Physical, kB", "1, 2"),
        tested.format("forward", "Memory Peak Physical, kB", "2048.000"),
        tested.format("generate", "Tokens Per Second, t/s", "39.25"),
    ]
    assert metrics_of("".join(lines).encode()) == [
        ("model_load_time", 0.005643, "s", 0), ("model_load_time", 0.004422, "s", 1),
        ("peak_inference_mem_usage", 2048.0, "kB", 0), ("token_per_sec", 39.25, "tokens/s", 0),
    ]  # fmt: skip
    for line, message in (
        (lines[1].replace("0.004422", "x"), r"at byte \d+: expected numbers, found b'0.005643, x'"),
        (lines[1].replace("values", "all"), r"at byte \d+: expected `values: \[...\]` after what a test measured"),
        (lines[1] + lines[1].replace("mv2", "mv3"), r"at byte \d+: expected tests of one model on one device, found"),
        (lines[0], "expected lines"),
    ):
        with pytest.raises(FormatError, match=message):
            list(read_metrics(line.encode(), "f"))


def test_numbers_by_name() -> None:
    assert metrics_of(b' {"a b": 1, "c": {"value": -2.5e3, "unit": "mW"}}') == [
        ("a b", 1.0, None, 0),
        ("c", -2500.0, "mW", 0),
    ]


OTHER_MODEL: list[Any] = [RECORDS[0], {**RECORDS[1], "model": {"name": "mv3"}}]
OTHER_DEVICE: list[Any] = [APP[0], {**APP[1], "deviceInfo": {"arch": "Pixel 8"}}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "^f: expected lines `PyTorchObserver {...}`, benchmark_results.json, the log of .* tests, records .*, found b''"),
        (b"ED12xxxx", "^f: expected lines .*, found b'ED12xxxx'"),
        (b"\x1f\x8b123", "^f: expected JSON in UTF-8, found the byte 0x8b|^f: at byte 1: expected JSON in UTF-8"),
        (b'{"a": 1', "^f: at byte 7: expected JSON, found the end"),
        (b"[" * 100000, "^f: expected JSON, found it nested too deeply"),
        (b"{}", "^f: expected metrics, found none in {}"),
        (b"[]", r"^f: expected metrics, found none in \[\]"),
        (b'{"a": true}', r"^f: at \$.a: expected a number, found true"),
        (b'{"a": NaN}', r"^f: at \$.a: expected a number, found NaN"),
        (b'{"a": 1e999}', r"^f: at \$.a: expected a number, found Infinity"),
        (b'{"a": ' + b"9" * 400 + b"}", r"^f: at \$.a: expected a number, found 9999"),
        (b"[3]", r"^f: at \$\[0\]: expected a record of PyTorch's benchmark database or a result of a benchmark app"),
        (b'[{"metric": {"benchmark_values": [1]}}]', r"^f: at \$\[0\].metric.name: expected a text, found nothing"),
        (
            b'[{"metric": {"name": "x", "benchmark_values": [1, "inf"]}}]',
            r'^f: at \$\[0\].metric.benchmark_values\[1\]: expected a number, found "inf"',
        ),
        (b'[{"metric": {"name": "x"}}]', r"^f: at \$\[0\].metric.benchmark_values: expected a number, found nothing"),
        (b'[{"metric": "x", "actualValue": "1"}]', r'^f: at \$\[0\].actualValue: expected a number, found "1"'),
        (b'[{"metric": "x", "actual": 1, "deviceInfo": 3}]', r"^f: at \$\[0\].deviceInfo: expected an object, found 3"),
        (b'[{"metric": {"name": "x", "benchmark_values": []}, "runners": [3]}]', r"^f: at \$\[0\].runners: expected a list"),
        (json.dumps(OTHER_MODEL).encode(), r"^f: at \$\[1\]: expected the model and device of \$\[0\], found others"),
        (json.dumps(OTHER_DEVICE).encode(), r"^f: at \$\[1\]: expected the model and device of \$\[0\]"),
        (b'x\nPyTorchObserver {"prompt_tok', r"^f: at byte 18: expected JSON after PyTorchObserver, found '{\"prompt_tok'"),
        (b"PyTorchObserver {}", "^f: at prompt_tokens of generation 0: expected a whole number from 0, found nothing"),
        (log({**GENERATION, "first_token_ms": 1.5}), "^f: at first_token_ms of generation 0: .* found 1.5"),
        (log(GENERATION, {**GENERATION, "prompt_tokens": -1}), "^f: at prompt_tokens of generation 1: .* found -1"),
        (
            log({**GENERATION, "SCALING_FACTOR_UNITS_PER_SECOND": 0}),
            "^f: at SCALING_FACTOR_UNITS_PER_SECOND of generation 0: expected a whole number from 1, found 0",
        ),
    ],
    ids=range(25),
)  # fmt: skip
def test_bad_files(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        list(read_metrics(data, "f"))
