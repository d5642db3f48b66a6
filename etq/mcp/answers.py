"""The answers of the tools, from views by the Python API. Each opens the warehouse for reading, and closes it again."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from etq import catalog
from etq.database.locking import refuse_open
from etq.errors import EtqError, FormatError, displayed
from etq.mcp.tables import WITHOUT_STEPS, selected, table_of
from etq.verdicts import words

if TYPE_CHECKING:
    from etq.warehouse.warehouse import Capture, Warehouse

# How many rows of each table a result has at most, unless a call gives a limit, and values of each label.
MOST_ROWS: Final = 10
MOST_CAPTURES: Final = 20
MOST_VALUES: Final = 20
# Characters of all values of labels together: captures need the rest of a first answer.
MOST_OF_LABELS: Final = 1_200
# Limits of `ask`, in seconds and megabytes, and of the files of `inspect_file`, in bytes.
SECONDS: Final = 30.0
MEGABYTES: Final = 256
LARGEST_FILE: Final = 2**30


class Settings(TypedDict):
    """What the server was started with: the path of the warehouse, and the folders of `inspect_file`."""

    db: str
    allowed: Sequence[str]


Result = dict[str, Any]


def list_captures(
    settings: Settings, selector: str | None = None, limit: int = MOST_CAPTURES, offset: int = 0
) -> Result:
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
        rows = _rows(warehouse, "capture_summary", source, names=names)
        labels = f"""
            SELECT l.key, list(DISTINCT l.value ORDER BY l.value) AS values
            FROM labels AS l JOIN captures AS c ON c.capture_id = l.capture_id
            WHERE {chosen} GROUP BY l.key ORDER BY l.key
        """
        values = dict(warehouse.rows(labels, **parameters)[1])
    most = {key: _that_fit(of_key, MOST_OF_LABELS // len(values)) for key, of_key in values.items()}
    cut = [f"labels: the first {most[key]} of {len(of_key)} values of {key}" for key, of_key in values.items()
           if len(of_key) > most[key]]  # fmt: skip
    return {
        "captures": table_of(rows[0], rows[1][offset : offset + limit]),
        "labels": {key: of_key[: most[key]] for key, of_key in values.items()},
        "total": len(names),
        "offset": offset,
        "cut": cut,
    }


def _that_fit(values: Sequence[str], most: int) -> int:
    """Return how many values have so many characters together, and no more than `MOST_VALUES`."""
    lengths = accumulate(len(value) + 3 for value in values[:MOST_VALUES])
    return sum(length <= most for length in lengths)


def describe(_: Settings, view: str | None = None) -> Result:
    """The documentation of a table, view or macro; or the names of all, by the folder that they are defined in."""
    if view is None:
        views: dict[str, list[str]] = {}
        for target in catalog.public_objects():
            views.setdefault(target.file.partition("/")[0], []).append(target.name)
        return {"views": views, "cut": []}
    target = catalog.public_object(view)
    parameters = [[e.name, e.default, e.text] for e in target.parameters]
    columns = [[e.name, e.type, e.text] for e in target.columns]
    return {
        "name": target.name,
        "kind": target.kind,
        "text": target.text,
        "parameters": table_of(("name", "default", "text"), parameters),
        "columns": table_of(("name", "type", "text"), columns),
        "cut": [],
    }


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


# The tables of a comparison, and the views that they are from.
PARTS: Final = {"totals": "captures", "modules": "modules", "ops": "ops", "metrics": "metrics", "findings": "findings"}


def compare(settings: Settings, base: str, new: str, limit: int = MOST_ROWS, allow_mismatch: bool = False) -> Result:
    """Whether new is slower than base, where, and whether the difference is noise."""
    from etq.analysis.comparison import Comparison

    options: dict[str, Any] = dict.fromkeys(("unit", "quantile", "phase", "history", "alpha", "min_effect"))
    with _opened(settings) as warehouse:
        comparison = Comparison(warehouse, base, new, {**options, "allow_mismatch": allow_mismatch or None})
        result: Result = {"verdicts": [line for line, _ in comparison.lines()]}
        cut = []
        for name, part in PARTS.items():
            if part == "modules" and not comparison.has_modules():
                continue
            columns, rows = comparison.rows(part, selected(f"compare_{part}"))
            # A verdict must not be cut off by larger differences that don't count.
            if "verdict" in columns:
                at = columns.index("verdict")
                rows.sort(key=lambda row: row[at] in (words.SAME, words.OPEN))
            if rows:
                result[name] = table_of(columns, rows[:limit])
            cut += [f"{name}: the first {limit} of {len(rows)}"] if len(rows) > limit else []
    return {**result, "cut": cut}


def regressions(
    settings: Settings,
    selector: str | None = None,
    over: str | None = None,
    by: str = "model,device,backend",
    limit: int = MOST_ROWS,
) -> Result:
    """Lasting changes of totals and ops in all series, the costliest first."""
    from etq.analysis.series import check_keys, left_out, order_of

    with _opened(settings) as warehouse:
        # A key of `by` that no label has separates nothing; the default names keys that a warehouse may lack.
        check_keys(warehouse, {"over": over, "by": None if by == "model,device,backend" else by})
        over = order_of(warehouse, selector, over)
        source = 'regressions($selector, "over" := $over, "by" := $by)'
        query = f"SELECT {selected('regressions')}, base, new FROM {source}"
        names, rows = warehouse.rows(query, selector=selector, over=over, by=by)
        missing = left_out(warehouse, selector, over)
    columns = names[:-2]
    shown = [row[:-2] for row in rows[:limit]]
    cut = [f"regressions: the first {limit} of {len(rows)}"] if len(rows) > limit else []
    cut += [] if missing is None else [missing]
    # Ops and totals that change at one place are compared once.
    sides: dict[tuple[Any, ...], tuple[str | None, str | None]] = {}
    for row in rows[:limit]:
        change = dict(zip(names, row, strict=True))
        sides.setdefault((change["series"], change["first_bad"]), (change["base"], change["new"]))
    calls = [{"tool": "compare", "arguments": {"base": base, "new": new}} for base, new in sides.values() if base]
    return {"order": over, "regressions": table_of(columns, shown), "total": len(rows), "next": calls, "cut": cut}


def inspect_file(settings: Settings, path: str) -> Result:
    """Headline, advice and top ops of a file below the allowed folders; nothing is stored."""
    from etq.warehouse.ephemeral import open_ephemeral

    content = _content(path, settings["allowed"])
    try:
        warehouse, capture = open_ephemeral(content)
    except FormatError as error:
        raise EtqError(f"{path}: {str(error).removeprefix(f'{error.path}: ')}") from error
    with warehouse:
        result = _summary(warehouse, capture)
    columns, [row] = result["capture"]["columns"], result["capture"]["rows"]
    row[columns.index("name")] = displayed(Path(path).stem)
    return result


def _opened(settings: Settings) -> Warehouse:
    from etq.warehouse.warehouse import open

    return open(settings["db"], read_only=True)


def _rows(warehouse: Warehouse, view: str, source: str, **parameters: Any) -> tuple[list[str], list[Any]]:
    """Return the names of the columns of a view that results have, and its rows."""
    columns, rows = warehouse.rows(f"SELECT {selected(view)} FROM {source}", **parameters)
    return columns, list(rows)


def _summary(warehouse: Warehouse, capture: Capture) -> Result:
    from etq.analysis.runs import left_out
    from etq.warehouse.focus import prepared_for
    from etq.warehouse.formats import narrowed

    is_trace = capture.format == "torch_trace"
    macro, _ = narrowed("advice", capture.format, {"capture": capture.sha256})
    sums = ", ".join(f"CASE WHEN k.steps IS NULL THEN k.{name} END AS {name}" for name in WITHOUT_STEPS)
    ops = f"""(SELECT * REPLACE ({sums}) FROM key_averages($capture) AS k
        ORDER BY k.self_device_time DESC NULLS LAST, k.self_cpu_time DESC)"""
    findings = """(SELECT f.rule, f.detail FROM findings AS f
        WHERE f.capture_id = (SELECT c.capture_id FROM captures AS c WHERE c.sha256 = $capture) ORDER BY ALL)"""
    sources = {
        "capture": ("capture_summary", "(FROM capture_summary AS s WHERE s.sha256 = $capture[:12])"),
        "headline": ("headline", "headline($capture)"),
        "advice": ("advice", f"{macro.name}($capture)"),
        "ops": ("key_averages", ops) if is_trace else ("op_totals", "op_totals($capture)"),
        "findings": ("compare_findings", findings),
    }
    result: Result = {}
    cut: list[str] = []
    with prepared_for(warehouse, macro.name, capture):
        for name, (view, source) in sources.items():
            columns, rows = _rows(warehouse, view, source, capture=capture.sha256)
            if rows:
                result[name] = table_of(columns, rows[:MOST_ROWS])
            cut += [f"{name}: the first {MOST_ROWS} of {len(rows)}"] if len(rows) > MOST_ROWS else []
    others = None if is_trace else left_out(warehouse, capture, {})
    if others is not None:
        result["runs_left_out"] = others.text
    return {**result, "cut": cut}


def _content(path: str, allowed: Sequence[str]) -> bytes:
    """Return the bytes of a file below one of the allowed folders, to which links may not lead out of them.

    Raises `EtqError` for other files, and for what is not a file.
    """
    if not allowed:
        raise EtqError("inspect_file reads no files: the server was started without a folder that it may read")
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
                    raise EtqError(
                        f"{path}: larger than {LARGEST_FILE} bytes; ask for a capture of the warehouse instead"
                    )
                return stream.read(found.st_size)
    raise EtqError(f"{path}: not a file in the allowed folders, which are {', '.join(map(str, folders))}")


TOOLS: Final[Mapping[str, Callable[..., Result]]] = {
    answer.__name__: answer for answer in (list_captures, describe, ask, summary, compare, regressions, inspect_file)
}
