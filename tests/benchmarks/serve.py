"""What pages of `etq serve` take on a warehouse of 10,000 captures of 100 runs of 50 ops, and the server's memory.

    python -m tests.benchmarks.serve                  # makes the warehouse: 101 million events, some minutes
    python -m tests.benchmarks.serve FILE.duckdb …    # serves such that `make_fleet` made

Times are those of the server's answers as a client on the same machine sees them, each for another capture, so that
none was kept; and, where a browser is installed, those from a click to the drawn page. Processor time is that of the
server with its processes. Machines are shared: read the least time.
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import etq

TIMES = 7
REQUESTS = 1000
CLIENTS = 8
# Seconds from the server's start to a person's first look.
STARTED = 2.0
TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A server in a separate process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def get(self, path: str, **parameters: str) -> int:
        """Ask, read the answer, and return its status."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            query = f"?{urlencode(parameters)}" if parameters else ""
            connection.request("GET", path + query, headers={"accept-encoding": "gzip"})
            reply = connection.getresponse()
            reply.read()
            return reply.status
        finally:
            connection.close()

    def processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def megabytes(self) -> float:
        """The memory of the server and its processes, what they share counted once."""
        found = 0
        for process in self.processes():
            try:
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
            except OSError:
                continue  # it has ended meanwhile
            found += int(re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE)[0])
        return found / 1024

    def processor_milliseconds(self) -> float:
        found = 0
        for process in self.processes():
            try:
                fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # likewise
            found += sum(int(each) for each in fields[11:15])
        return found * 1e3 / TICKS


@contextmanager
def serving(path: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "etq", "serve", "--db", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            served = Served(process, int(line.rsplit(":", 1)[1].strip("/\n")))
            while True:
                try:
                    served.get("/data/state")
                    break
                except OSError:
                    time.sleep(0.05)
            yield served
        finally:
            process.terminate()


def timed(served: Served, what: str, ask: Callable[[int], object], required: float | None, times: int = TIMES) -> None:
    """Print the least and the median time of a question, and its processor time."""
    taken, worked = [], []
    for number in range(times):
        before, begin = served.processor_milliseconds(), time.perf_counter()
        ask(number)
        taken.append((time.perf_counter() - begin) * 1e3)
        worked.append(served.processor_milliseconds() - before)
    wanted = "" if required is None else f", required {required:g}"
    print(
        f"{'':4}{what:44}{min(taken):8.1f} ms, median {statistics.median(taken):8.1f}, processor {min(worked):6.0f}"
        f"{wanted}",
        flush=True,
    )


def measure(path: Path) -> None:
    """Time the server's answers, and look at its memory."""
    with etq.open(path, read_only=True) as lab:
        names = [name for (name,) in lab.rows("SELECT name FROM captures ORDER BY capture_id")[1]]
    count = len(names)
    print(f"a warehouse of {count:,} captures, answers of the server", flush=True)
    with serving(path) as served:

        def part(name: str, number: int) -> None:
            assert served.get("/data/report", capture=names[number], part=name) == 200

        def report(number: int) -> None:
            # As the page does.
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(part, ("first", "rest"), (number, number)))

        def difference(number: int) -> None:
            assert served.get("/data/difference", base=names[number], new=names[-1 - number]) == 200

        def first(number: int) -> None:
            # A parameter that means nothing makes another question of it.
            assert served.get("/") == served.get("/data/captures", n=str(number)) == 200

        report(count // 2)
        timed(served, "list of captures, for the first page", first, 300)
        timed(served, "list of captures, kept", lambda _: served.get("/data/captures"), None)
        timed(served, "selector that the server resolves", lambda n: served.get("/data/matches", selector=f"@latest,build={n + 1}"), 100)  # fmt: skip
        timed(served, "series of all", lambda n: served.get("/data/series", n=str(n)), None)
        timed(served, "capture, the first part of its page", lambda n: part("first", count // 2 + 1 + n), None)
        timed(served, "capture", report, 600)
        timed(served, "comparison", difference, 800)
        timed(served, "trends of all", lambda n: served.get("/data/trends", n=str(n)), None, 1)
        hammer(served, names)


def hammer(served: Served, names: list[str]) -> None:
    """Have clients ask at once, and print how many answers were errors, and the memory then."""
    statuses: list[int] = []
    greatest = [served.megabytes()]
    lock = threading.Lock()

    def client(number: int) -> None:
        for at in range(REQUESTS // CLIENTS):
            place = (number * 7919 + at * 104729) % len(names)
            kind = at % 20
            if kind == 0:
                status = served.get("/data/report", capture=names[place], part="first")
            elif kind == 5:
                status = served.get("/data/report", capture=names[place], part="rest")
            elif kind == 1:
                status = served.get("/data/difference", base=names[place], new=names[-1 - place])
            elif kind == 2:
                status = served.get("/data/matches", selector=f"build={place + 1}")
            elif kind == 3:
                status = served.get("/data/captures", n=str(at))
            else:
                status = served.get(KEPT[kind % len(KEPT)])
            with lock:
                statuses.append(status)

    def watch() -> None:
        while not ended.wait(0.1):
            greatest.append(served.megabytes())

    ended = threading.Event()
    watching = threading.Thread(target=watch)
    watching.start()
    begin = time.perf_counter()
    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begin
    ended.set()
    watching.join()
    errors = Counter(status for status in statuses if status != 200)
    wrong = f"{errors.total()} errors" + (f" ({dict(errors)})" if errors else "")
    print(
        f"{'':4}{len(statuses):,} requests by {CLIENTS} clients at once: {taken:.0f} s, {wrong}; "
        f"memory {served.megabytes():.0f} MB, greatest {max(greatest):.0f}, required 300"
    )


# What many ask, and the server keeps.
KEPT = ("/", "/data/captures", "/data/series", "/data/schema", "/compare", "/sql")
READY = "return document.documentElement.dataset.ready"
HEADLINE = "return document.getElementById('headline') !== null"
CLICK = """
    const [number, done] = arguments;
    const shown = () => ["#shown", ".grid tbody tr[data-place] a"].map((each) => document.querySelector(each)?.textContent).join();
    const begin = performance.now(), before = shown();
    document.querySelectorAll(".facet button[data-key=device]")[number % 4].click();
    const wait = () => (shown() === before ? requestAnimationFrame(wait) : requestAnimationFrame(() => done(performance.now() - begin)));
    wait();
"""


def measure_in_browser(path: Path) -> None:
    """Time pages until they are drawn, and clicks on facets, in Chromium."""
    program = next((each for name in ("chromium", "google-chrome") if (each := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        print("    no browser here")
        return
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    with etq.open(path, read_only=True) as lab:
        names = [name for (name,) in lab.rows("SELECT name FROM captures ORDER BY capture_id LIMIT $n", n=TIMES)[1]]
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    with serving(path) as served:
        time.sleep(STARTED)
        try:
            drawn, clicks, headlines, captures = [], [], [], []

            def until(script: str, result: object) -> float:
                WebDriverWait(browser, 60, 0.01).until(lambda each: each.execute_script(script) == result)
                return float(browser.execute_script("return performance.now()"))

            for number in range(4):
                browser.get(f"http://127.0.0.1:{served.port}/?n={number}")
                drawn.append(until(READY, "yes"))
            WebDriverWait(browser, 60).until(
                lambda each: each.execute_script("return document.documentElement.dataset.series") == "yes"
            )
            for number in range(8):
                clicks.append(browser.execute_async_script(CLICK, number))
            for number in range(TIMES):
                browser.get(f"http://127.0.0.1:{served.port}/capture/{names[number]}")
                headlines.append(until(HEADLINE, True))
                captures.append(until(READY, "yes"))
        finally:
            browser.quit()
    print(
        f"{'':4}first page, drawn: {drawn[0]:.0f} ms at first, {STARTED:g} s after the start, {min(drawn[1:]):.0f} again, required 300"
    )
    print(f"{'':4}click on a facet, drawn: {min(clicks):.0f} ms, median {statistics.median(clicks):.0f}, required 100")
    print(
        f"{'':4}capture, drawn: headline {min(headlines):.0f} ms, median {statistics.median(headlines):.0f}; all "
        f"{min(captures):.0f}, median {statistics.median(captures):.0f}, required 600"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("warehouses", nargs="*", type=Path, metavar="FILE.duckdb", help="made by make_fleet, and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.warehouses:
            made = Path(folder, "fleet.duckdb")
            command = [sys.executable, "-m", "tests.benchmarks.make_fleet", str(made), "10000"]
            subprocess.run(command, check=True, capture_output=True)
            options.warehouses.append(made)
        for path in options.warehouses:
            measure(path)
            measure_in_browser(path)


if __name__ == "__main__":
    main()
