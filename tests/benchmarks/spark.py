"""etq's SQL for many captures on a cluster of two workers, each of at most 1.5 GB: the time of each question.

    python -m tests.benchmarks.spark [CAPTURES]    # 2,000 by default

A worker is a JVM of Spark that starts an executor, which is another, and the Python in which DuckDB answers. Answers are
compared with those of DuckDB in one process.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import etq
import etq.lake
from etq import processes
from tests.benchmarks.make_captures import make_captures
from tests.conftest import CAPTURES
from tests.spark.answers import differences

MEGABYTES = 1536  # of a worker
_DEPLOY = "org.apache.spark.deploy"
OF_EACH = (
    "FROM op_totals($capture)",
    "SELECT count(*), sum(e.self_time) FROM event_times($capture) AS e",
    "SELECT count(*), sum(t.elapsed_ticks)::BIGINT FROM event_ticks AS t",
)
OF_ALL = ("FROM regressions('device=fleet', over := 'place')", "FROM compare_ops('half=0', 'half=1')")
SETTINGS = {
    "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR",
    "spark.executor.memory": "512m", "spark.sql.session.timeZone": "UTC",
}  # fmt: skip


def made(folder: Path, number: int) -> Path:
    """A lake of so many captures: those of one program before those of the other, as if it had become slower."""
    make_captures(CAPTURES / "fleet", folder / "dumps", number)
    programs = [path.parent.name for path in sorted((CAPTURES / "fleet").glob("*/*.etdp"))]
    files = sorted((folder / "dumps").iterdir(), key=lambda path: programs[int(path.stem) % len(programs)])
    for place, path in enumerate(files):
        path.rename(folder / f"{place:06}.etdp")
    with etq.open(folder / "lab.duckdb") as warehouse:
        for half in (0, 1):
            some = [folder / f"{place:06}.etdp" for place in range(half, number, 2)]
            labels = {"device": "fleet", "half": str(half)}
            warehouse.ingest_many(some, labels=labels, label_from="{place}.etdp")
    etq.lake.export(folder / "lake", folder / "lab.duckdb")
    return folder / "lake"


def measure(folder: Path, number: int) -> None:
    """Print what questions about so many captures take."""
    lake = made(folder, number)
    with cluster(folder) as master:
        command = [sys.executable, "-m", "tests.benchmarks.spark", "ask", master, str(lake), str(folder / "answers")]
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        subprocess.run(command, env={**processes.environment(), **own}, check=True, stderr=subprocess.PIPE)
    show(lake, pickle.loads((folder / "answers").read_bytes()))


def ask(master: str, lake: str, output: str) -> None:
    """Ask all questions, and write the rows of each, and the seconds that they took."""
    from pyspark.sql import SparkSession

    import etq.spark

    spark = SparkSession.builder.master(master).config(map=SETTINGS).getOrCreate()
    answers = []
    for query in (*OF_EACH, *OF_ALL):
        begin = time.perf_counter()
        frame = etq.spark.sql(spark, query, lake, captures="device=fleet" if query in OF_EACH else None)
        rows = [tuple(row) for row in frame.collect()]
        answers.append((query, time.perf_counter() - begin, rows))
    Path(output).write_bytes(pickle.dumps(answers))
    spark.stop()


def show(path: Path, answers: Sequence[tuple[str, float, list[Any]]]) -> None:
    """Print of each query the seconds until its rows were there, their number, and in how many captures they differ."""
    with etq.open(path) as warehouse:
        names = [name for (name,) in warehouse.rows("SELECT c.name FROM captures AS c")[1]]
        for query, seconds, rows in answers:
            if query in OF_ALL:
                found: Mapping[str, list[Any]] = {"": rows}
                expected = {"": warehouse.rows(query)[1]}
            else:
                found = {name: [row[1:] for row in of_one] for name, of_one in groupby(rows, lambda row: str(row[0]))}
                alone = query if "$capture" in query else f"{query} WHERE t.capture_id = _any_capture_id($capture)"
                expected = {name: warehouse.rows(alone, capture=name)[1] for name in names}
            wrong = [name for name in expected if differences(expected[name], found.get(name, []))]
            differing = len(wrong) + len(found.keys() - expected.keys())
            print(f"{seconds:8.1f} s  {len(rows):9,} rows  {differing} differ  {query}")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers, of a core and so much memory each."""
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    worker = f"{_DEPLOY}.worker.Worker", "-c", "1", "-m", f"{MEGABYTES}m", "--webui-port", "0", "-d"
    with (
        _started(f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"),
        _started(*worker, str(folder / "one"), master),
        _started(*worker, str(folder / "two"), master),
    ):
        for _ in range(600):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield master


@contextmanager
def _started(*command: str) -> Iterator[None]:
    """A daemon of Spark with all that it starts."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": processes.search_path(),
    }  # fmt: skip
    with subprocess.Popen(
        ["java", "-Xmx256m", "-cp", f"{home}/jars/*", *command],
        env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as daemon:  # fmt: skip
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def main() -> None:
    """Print what it takes."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print(f"{number:,} captures, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), number)


if __name__ == "__main__":
    ask(*sys.argv[2:]) if sys.argv[1:2] == ["ask"] else main()
