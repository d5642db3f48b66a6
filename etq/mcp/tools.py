"""The tools as clients see them: descriptions, schemas of arguments, and what to call after an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etq.mcp.answers import MOST_CAPTURES, MOST_ROWS

_SELECTOR: Final = (
    "name, hash prefix, @latest, @previous, or labels as key=value,since=7d; list_captures shows names and labels"
)
_ROWS: Final = {"type": "integer", "minimum": 1, "maximum": 1000}


@dataclass(frozen=True)
class Tool:
    """A tool: `parameters` are JSON schemas; after an error, the tool `after_error` shows what there is."""

    name: str
    title: str
    text: str
    parameters: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]
    after_error: str = "list_captures"

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
            "limit": {**_ROWS, "description": "Number of captures.", "default": MOST_CAPTURES},
            "offset": {"type": "integer", "minimum": 0, "description": "Number of captures to skip.", "default": 0},
        },
        (),
    ),
    Tool(
        "describe",
        "Describe a view",
        "Document a table, view or macro: what a row is, parameters, columns with units and the meaning of NULL. "
        "Without a name, list the names of all.",
        {"view": {"type": "string", "description": "Name of a table, view or macro. Default: list all."}},
        (),
        after_error="describe",
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
        after_error="describe",
    ),
    Tool(
        "summary",
        "Summarize a capture",
        "Show where the time of one capture goes: key figures, advice with evidence and remedy, its slowest ops, and "
        "findings about the file. Times are of typical runs.",
        {"capture": {"type": "string", "description": f"One capture: {_SELECTOR}."}},
        ("capture",),
    ),
    Tool(
        "compare",
        "Compare two sides",
        "Determine whether new is slower than base, where, and whether the difference is noise. Each side is one or "
        "several captures. Quote the verdicts; a change without the verdict slower or faster does not count.",
        {
            "base": {"type": "string", "description": f"Captures to compare with: {_SELECTOR}."},
            "new": {"type": "string", "description": f"Captures to judge: {_SELECTOR}."},
            "limit": {**_ROWS, "description": "Number of rows of each table.", "default": MOST_ROWS},
            "allow_mismatch": {
                "type": "boolean",
                "description": "Compare in spite of other profiling levels, models or conditions.",
                "default": False,
            },
        },
        ("base", "new"),
    ),
    Tool(
        "regressions",
        "Find regressions",
        "Find lasting changes of totals and ops over builds, in all series of captures, the costliest first. To see "
        "what changed at one, make the call of next with the captures before and after it.",
        {
            "selector": {"type": "string", "description": f"Captures: {_SELECTOR}. Default: all."},
            "over": {
                "type": "string",
                "description": "Label that orders captures, or captured_at. Default: build, commit (by date) or "
                "captured_at, which most captures have.",
            },
            "by": {
                "type": "string",
                "description": "Labels that separate series, with commas between.",
                "default": "model,device,backend",
            },
            "limit": {**_ROWS, "description": "Number of changes.", "default": MOST_ROWS},
        },
        (),
    ),
    Tool(
        "inspect_file",
        "Inspect a file",
        "Summarize a profiling file (ETDump, prof_result, PyTorch trace) outside of the warehouse, as summary does. "
        "Only files below the folders that the server was started with can be read; nothing is stored.",
        {"path": {"type": "string", "description": "Path of the file, absolute or below an allowed folder."}},
        ("path",),
    ),
)
BY_NAME: Final = {each.name: each for each in TOOLS}
