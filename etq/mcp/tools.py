"""The tools as clients see them: descriptions, schemas of arguments and results, and what to call after an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from etq import catalog
from etq.mcp import results

_SELECTOR: Final = (
    "name, hash prefix, @latest, @previous, or labels as key=value,key=value; list_captures shows names and labels"
)
_ROWS: Final = {"type": "integer", "minimum": 1, "maximum": 1000}


@dataclass(frozen=True)
class Tool:
    """A tool: `parameters` are JSON schemas, `result` a class of `results`, `remedy` the advice after an error."""

    name: str
    title: str
    text: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    result: type
    remedy: str

    @property
    def arguments_schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.parameters.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }


TOOLS: Final = (
    Tool(
        "list_captures",
        "List captures",
        "List the captures of the warehouse with their labels, in the order of ingest. Start here.",
        {
            "selector": {"type": "string", "description": f"Captures to list: {_SELECTOR}. Default: all."},
            "limit": {**_ROWS, "description": "Number of captures.", "default": 50},
            "offset": {"type": "integer", "minimum": 0, "description": "Number of captures to skip.", "default": 0},
        },
        (),
        results.Captures,
        "call list_captures without a selector for all names and labels",
    ),
    Tool(
        "describe",
        "Describe a view",
        "Document a table, view or macro: what a row is, parameters, columns with units and the meaning of NULL. "
        "Without a name, list all of them.",
        {"view": {"type": "string", "description": "Name of a table, view or macro. Default: list all."}},
        (),
        results.Description,
        "call describe without a name for all views",
    ),
    Tool(
        "ask",
        "Query in SQL",
        "Run one SELECT in DuckDB's SQL on the tables and views, read-only, within 30 s and 256 MB. Views with "
        "parameters are table macros: FROM op_totals('run', unit := 'us') LIMIT 10. Call describe for columns first; "
        "do not compute times or verdicts that a view has.",
        {
            "sql": {"type": "string", "description": "One SELECT."},
            "limit": {**_ROWS, "description": "Number of rows to return.", "default": 100},
        },
        ("sql",),
        results.QueryRows,
        "call describe with the name of a view for its columns and parameters, or without one for all views; "
        "if it took too long, select fewer captures or rows",
    ),
    Tool(
        "summary",
        "Summarize a capture",
        "Show where the time of one capture goes: key figures, advice with evidence and remedy, its slowest ops, and "
        "findings about the file. Times are of typical runs.",
        {"capture": {"type": "string", "description": f"One capture: {_SELECTOR}."}},
        ("capture",),
        results.Summary,
        "call list_captures for names and labels; labels must match one capture",
    ),
    Tool(
        "compare",
        "Compare two sides",
        "Determine whether new is slower than base, where, and whether the difference is noise. Each side is one or "
        "several captures. Quote the verdicts; a change without the verdict slower or faster does not count.",
        {
            "base": {"type": "string", "description": f"Captures to compare with: {_SELECTOR}."},
            "new": {"type": "string", "description": f"Captures to judge: {_SELECTOR}."},
            "limit": {**_ROWS, "description": "Number of rows of each list.", "default": 20},
            "allow_mismatch": {
                "type": "boolean",
                "description": "Compare in spite of other profiling levels, models or conditions.",
                "default": False,
            },
        },
        ("base", "new"),
        results.Difference,
        "call list_captures with the selector of each side",
    ),
    Tool(
        "regressions",
        "Find regressions",
        "Find lasting changes of totals and ops over builds, in all series of captures, the costliest first. To see "
        "what changed at one, make the call of next with the captures of last_good and first_bad.",
        {
            "selector": {"type": "string", "description": f"Captures: {_SELECTOR}. Default: all."},
            "over": {
                "type": "string",
                "description": "Label that orders captures, or captured_at.",
                "default": "build",
            },
            "by": {
                "type": "string",
                "description": "Labels that separate series, with commas between.",
                "default": "model,device,backend",
            },
            "limit": {**_ROWS, "description": "Number of changes.", "default": 20},
        },
        (),
        results.Regressions,
        "call list_captures for the keys of labels, and pass one as over",
    ),
    Tool(
        "inspect_file",
        "Inspect a file",
        "Summarize a profiling file (ETDump, prof_result, PyTorch trace) outside of the warehouse, as summary does. "
        "Only files below the folders that the server was started with can be read; nothing is stored.",
        {"path": {"type": "string", "description": "Path of the file, absolute or below an allowed folder."}},
        ("path",),
        results.Summary,
        "name a file below an allowed folder, or call summary for a capture of the warehouse",
    ),
)
BY_NAME: Final = {tool.name: tool for tool in TOOLS}


@cache
def result_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of the result of a tool, in which columns have the documentation of their view."""
    from pydantic import TypeAdapter

    schema: dict[str, Any] = TypeAdapter(BY_NAME[name].result).json_schema()
    for row, definition in schema.get("$defs", {}).items():
        view = getattr(getattr(results, row), "VIEW", None)
        if view is not None:
            texts = {column.name: column.text for column in catalog.named(view).columns}
            for column, field in definition["properties"].items():
                field["description"] = texts[column]
    plain: dict[str, Any] = _without_titles(schema)
    return plain


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names, which take room in each client's context."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)
    }
