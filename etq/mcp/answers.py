"""The answers of the tools, from views by the Python API. Each opens the warehouse for reading, and closes it again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Final, TypedDict

from etq import catalog
from etq.database.locking import refuse_open
from etq.errors import EtqError, FormatError, displayed
from etq.mcp.results import (
    Advice,
    CaptureRow,
    Figure,
    Finding,
    MetricChange,
    ModuleChange,
    Op,
    OpChange,
    Regression,
    Row,
    Total,
    TraceOp,
)
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# How many rows of each list a result has at most.
MOST_OPS: Final = 20
MOST_VALUES: Final = 50
# Characters of each text in the list of all views: the list has to fit into one result.
MOST_OF_TEXT: Final = 90
# Limits of `ask`, in seconds and megabytes, and of the files of `inspect_file`, in bytes.
SECONDS: Final = 30.0
MEGABYTES: Final = 256
LARGEST_FILE: Final = 2**30


class Settings(TypedDict):
    """What the server was started with: the path of the warehouse, and the folders of `inspect_file`."""

    db: str
    allowed: Sequence[str]


Result = dict[str, Any]


def list_captures(settings: Settings, selector: str | None = None, limit: int = 50, offset: int = 0) -> Result:
    """Captures in the order of ingest, with the keys of labels and their values."""
    with _opened(settings) as warehouse:
        chosen = "true"
        parameters = {}
        if selector is not None:
            chosen = "c.capture_id IN (SELECT m.capture_id FROM _several_captures($selector) AS m)"
            parameters = {"selector": selector}
        names = [
            name for (name,) in warehouse.rows(f"SELECT c.name FROM captures AS c WHERE {chosen}", **parameters)[1]
        ]
        source = "(FROM capture_summary AS s WHERE s.name IN (SELECT unnest($names::VARCHAR[])))"
        rows, _ = _objects(warehouse, CaptureRow, source, limit, offset=offset, names=names)
        labels = f"""
            SELECT l.key, list(DISTINCT l.value ORDER BY l.value)[:{MOST_VALUES + 1}] AS values
            FROM labels AS l JOIN captures AS c ON c.capture_id = l.capture_id
            WHERE {chosen} GROUP BY l.key ORDER BY l.key
        """
        keys = [{"key": key, "values": values} for key, values in warehouse.rows(labels, **parameters)[1]]
    cut = []
    if any(len(each["values"]) > MOST_VALUES for each in keys):
        cut = [f"labels: the first {MOST_VALUES} values of a key; for all, ask: SELECT DISTINCT key, value FROM labels"]
        keys = [{**each, "values": each["values"][:MOST_VALUES]} for each in keys]
    return {"captures": rows, "total": len(names), "offset": offset, "labels": keys, "cut": cut}


def describe(_: Settings, view: str | None = None) -> Result:
    """The documentation of a table, view or macro; or the names of all, with the beginning of their documentation."""
    if view is None:
        begins = [(e, e.text.split(". ")[0].rstrip(".")) for e in catalog.public_objects()]
        views = [
            {"name": e.name, "kind": e.kind, "text": shorten(text, MOST_OF_TEXT, placeholder=" …")}
            for e, text in begins
        ]
        nothing: Result = {"name": None, "kind": None, "text": None, "parameters": [], "columns": []}
        return {**nothing, "views": views, "cut": []}
    target = catalog.public_object(view)
    parts = {
        part: [{"name": e.name, "text": e.text, "type": e.type, "default": e.default} for e in listed]
        for part, listed in (("parameters", target.parameters), ("columns", target.columns))
    }
    return {"name": target.name, "kind": target.kind, "text": target.text, **parts, "views": [], "cut": []}


def ask(settings: Settings, sql: str, limit: int = 100) -> Result:
    """The rows of a query that isn't trusted, in a process of its own."""
    from etq.sandbox.client import ask as ask_safely

    columns, rows = ask_safely(settings["db"], sql, None, SECONDS, MEGABYTES)
    cut = [f"rows: the first {limit} of {len(rows)}"] if len(rows) > limit else []
    return {"columns": columns, "rows": [list(row) for row in rows[:limit]], "total": len(rows), "cut": cut}


def summary(settings: Settings, capture: str) -> Result:
    """Headline, advice and top ops of a capture."""
    with _opened(settings) as warehouse:
        return _summary(warehouse, warehouse.capture(capture))


def compare(settings: Settings, base: str, new: str, limit: int = MOST_OPS, allow_mismatch: bool = False) -> Result:
    """Whether new is slower than base, where, and whether the difference is noise."""
    from etq.analysis.comparison import Comparison

    options: dict[str, Any] = dict.fromkeys(("unit", "quantile", "phase", "history", "alpha", "min_effect"))
    with _opened(settings) as warehouse:
        comparison = Comparison(warehouse, base, new, {**options, "allow_mismatch": allow_mismatch or None})
        result: Result = {"verdicts": [line for line, _ in comparison.lines()]}
        cut = []
        parts: dict[str, tuple[type[Row], str]] = {
            "totals": (Total, "captures"), "modules": (ModuleChange, "modules"), "ops": (OpChange, "ops"),
            "metrics": (MetricChange, "metrics"), "findings": (Finding, "findings"),
        }  # fmt: skip
        for name, (row, part) in parts.items():
            if part == "modules" and not comparison.has_modules():
                result[name] = []
                continue
            columns, rows = comparison.rows(part, row.columns())
            objects = [dict(zip(columns, each, strict=True)) for each in rows]
            # A verdict must not be cut off by larger differences that don't count.
            if name in ("modules", "ops", "metrics"):
                objects.sort(key=lambda each: each["verdict"] in (words.SAME, words.OPEN))
            result[name] = objects[:limit]
            cut += [f"{name}: the first {limit} of {len(rows)}"] if len(rows) > limit else []
    return {**result, "cut": cut}


def regressions(
    settings: Settings,
    selector: str | None = None,
    over: str = "build",
    by: str = "model,device,backend",
    limit: int = MOST_OPS,
) -> Result:
    """Lasting changes of totals and ops in all series, the costliest first."""
    from etq.analysis.series import check_keys

    with _opened(settings) as warehouse:
        # A key of `by` that no label has separates nothing; the default names keys that a warehouse may lack.
        check_keys(warehouse, {"over": over, "by": None if by == "model,device,backend" else by})
        source = 'regressions($selector, "over" := $over, "by" := $by)'
        rows, total = _objects(warehouse, Regression, source, limit, selector=selector, over=over, by=by)
    cut = [f"regressions: the first {limit} of {total}"] if total > limit else []
    pairs = dict.fromkeys((row["series"], row["last_good"], row["first_bad"]) for row in rows)
    calls = [] if over == "captured_at" else [_comparison(over, *pair) for pair in pairs if None not in pair]
    return {"regressions": rows, "total": total, "next": calls, "cut": cut}


def _comparison(over: str, series: str, last_good: str, first_bad: str) -> Result:
    """The call that compares the captures of a series at two values of the label `over`."""
    sides = {}
    for side, value in (("base", last_good), ("new", first_bad)):
        quoted = '"' + value.replace('"', '""') + '"' if "," in value or '"' in value else value
        sides[side] = f"{series},{over}={quoted}" if series else f"{over}={quoted}"
    return {"tool": "compare", "arguments": sides}


def inspect_file(settings: Settings, path: str) -> Result:
    """Headline, advice and top ops of a file below the allowed folders; nothing is stored."""
    from etq.report.single import VIEWS
    from etq.warehouse.ephemeral import open_ephemeral

    content = _content(path, settings["allowed"])
    try:
        warehouse, capture = open_ephemeral(content, [*VIEWS, "_advice_of_trace"])
    except FormatError as error:
        raise EtqError(f"{path}: {str(error).removeprefix(f'{error.path}: ')}") from error
    with warehouse:
        result = _summary(warehouse, capture)
    return {**result, "capture": {**result["capture"], "name": displayed(Path(path).stem)}}


def _opened(settings: Settings) -> Warehouse:
    from etq.warehouse.warehouse import open

    return open(settings["db"], read_only=True)


def _objects(
    warehouse: Warehouse, row: type[Row], source: str, limit: int, offset: int = 0, **parameters: Any
) -> tuple[list[Result], int]:
    """Return rows as objects, up to `limit` of them from `offset` on, and how many there are in all."""
    columns, rows = warehouse.rows(f"SELECT {row.columns()} FROM {source}", **parameters)
    return [dict(zip(columns, each, strict=True)) for each in rows[offset : offset + limit]], len(rows)


def _summary(warehouse: Warehouse, capture: Capture) -> Result:
    from etq.analysis.runs import left_out
    from etq.warehouse.focus import prepared_for
    from etq.warehouse.formats import narrowed

    is_trace = capture.format == "torch_trace"
    cut: list[str] = []

    def listed(name: str, row: type[Row], source: str, most: int = MOST_OPS) -> list[Result]:
        rows, total = _objects(warehouse, row, source, most, capture=capture.sha256)
        cut.extend([f"{name}: the first {most} of {total}"] if total > most else [])
        return rows

    of_name = "(FROM capture_summary AS s WHERE s.sha256 = $capture[:12])"
    [of_capture] = listed("capture", CaptureRow, of_name)
    macro, _ = narrowed("advice", capture.format, {"capture": capture.sha256})
    ops = "(FROM key_averages($capture) ORDER BY self_device_time DESC NULLS LAST, self_cpu_time DESC)"
    others = None if is_trace else left_out(warehouse, capture, {})
    of_findings = """(SELECT f.rule, f.detail FROM findings AS f
        WHERE f.capture_id = (SELECT c.capture_id FROM captures AS c WHERE c.sha256 = $capture) ORDER BY ALL)"""
    with prepared_for(warehouse, macro.name, capture):
        advice = listed("advice", Advice, f"{macro.name}($capture)")
    return {
        "capture": of_capture,
        "headline": listed("headline", Figure, "headline($capture)"),
        "advice": advice,
        "ops": [] if is_trace else listed("ops", Op, "op_totals($capture)"),
        "trace_ops": listed("trace_ops", TraceOp, ops) if is_trace else [],
        "findings": listed("findings", Finding, of_findings),
        "runs_left_out": None if others is None else others.text,
        "cut": cut,
    }


def _content(path: str, allowed: Sequence[str]) -> bytes:
    """Return the bytes of a file below one of the allowed folders, to which links may not lead out of them.

    Raises `EtqError` for other files, and for what is not a file.
    """
    if not allowed:
        raise EtqError("inspect_file reads no files: start the server with etq mcp --allow FOLDER")
    folders = [Path(each).resolve() for each in allowed]
    if "\0" in path:
        raise EtqError(f"{path}: not a path")
    given = Path(path).expanduser()
    candidates = [given] if given.is_absolute() else [folder / given for folder in folders]
    # Whether a file outside exists is not shown either.
    for candidate in candidates:
        resolved = Path(os.path.realpath(candidate))
        if not any(resolved.is_relative_to(folder) for folder in folders):
            continue
        refuse_open(resolved)
        with suppress(OSError):
            file = os.open(resolved, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(file, "rb") as stream:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode):
                    raise EtqError(f"{path}: not a file")
                # Folders on the way may have been replaced by links meanwhile; only Linux shows what was opened.
                opened = Path(os.path.realpath(f"/proc/self/fd/{file}" if os.path.isdir("/proc/self/fd") else resolved))
                if not any(opened.is_relative_to(folder) for folder in folders):
                    continue
                if found.st_size > LARGEST_FILE:
                    raise EtqError(f"{path}: larger than {LARGEST_FILE} bytes; ingest it with etq ingest")
                return stream.read(found.st_size)
    raise EtqError(f"{path}: not a file in the allowed folders, which are {', '.join(map(str, folders))}")


TOOLS: Final[Mapping[str, Callable[..., Result]]] = {
    each.__name__: each for each in (list_captures, describe, ask, summary, compare, regressions, inspect_file)
}
