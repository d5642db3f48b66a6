"""The resources of the server: documentation of the schema, and the glossary."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from etq import catalog
from etq.errors import EtqError

SCHEMA: Final = "etq://schema"
GLOSSARY: Final = "etq://glossary"


def resource(uri: str) -> str:
    """Return the text of a resource. Raises `EtqError` if there is none."""
    if uri == GLOSSARY:
        return Path(__file__).with_name("glossary.md").read_text(encoding="utf-8")
    if uri == SCHEMA:
        rows = [f"| {known.name} | {known.kind} | {known.text.split('. ')[0]} |" for known in catalog.public_objects()]
        return "\n".join(["| name | kind | what a row is |", "|---|---|---|", *rows, ""])
    if uri.startswith(f"{SCHEMA}/"):
        return _documentation(catalog.public_object(uri.removeprefix(f"{SCHEMA}/")))
    raise EtqError(f"{uri}: not a resource; resources are {SCHEMA}, {SCHEMA}/NAME and {GLOSSARY}")


def _documentation(target: catalog.SqlObject) -> str:
    lines = [f"# {target.name} ({target.kind})", "", target.text, ""]
    for title, listed in (("Parameters", target.parameters), ("Columns", target.columns)):
        if listed:
            rows = [
                f"| {documented.name} | {documented.type or documented.default or ''} | {documented.text} |"
                for documented in listed
            ]
            lines += [f"## {title}", "", "| name | type or default | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)
