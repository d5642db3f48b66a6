"""The types of the views' methods, for type checkers: made from the SQL files when the package is built or installed.

A build has only Python, so this module imports only the catalogue.
"""

from __future__ import annotations

from typing import Final

from etq import catalog

# Parameter types in the stub; types of other parameters follow from their defaults.
PYTHON_TYPES: Final = {
    "capture": "int | str | Capture | Sequence[str | Capture]",
    "baseline": "int | str | Capture | None = ...",
    "record": "int | str | Record",
    "program": "int | str | Program",
    "base": "int | str | Capture",
    "new": "int | str | Capture",
    "etdump": "int | str | Capture",
    "trace": "int | str | Capture",
    "min_effect": "float | None = ...",
    "step": "int | None = ...",
    "launch_delay_us": "float | None = ...",
    "selectors": "Sequence[str] | None = ...",
}


def stub() -> str:
    """Return the text of `views.pyi`."""
    lines = [
        "# Made from the SQL files by the build (etq.building).",
        "from collections.abc import Sequence",
        "",
        "from etq.catalog import SqlObject",
        "from etq.database.handles import Capture, Program, Record",
        "from etq.warehouse.result import Result",
        "",
        "class Views:",
    ]
    for table in (known for known in catalog.public_objects() if known.kind in ("table", "view")):
        if table.name != "captures":  # a method of the warehouse
            lines += ["    @property", f"    def {table.name}(self) -> Result: ..."]
    for macro in (known for known in catalog.public_objects() if known.kind == "table macro"):
        lines += [f"    def {macro.name}(", "        self,"]
        lines += [f"        {parameter.name}: {_python_type(macro, parameter)}," for parameter in macro.parameters]
        lines += ["    ) -> Result: ..."]
    lines += ["", "def table_macros() -> list[SqlObject]: ...", "def documentation(macro: SqlObject) -> str: ..."]
    return "\n".join(lines) + "\n"


def _python_type(macro: catalog.SqlObject, parameter: catalog.Column) -> str:
    if macro.name == "compare_programs":
        return "int | str | Program"
    if macro.name == "compare_graphs" and parameter.default is None:
        return "int | str | Capture | Record"
    default = parameter.default
    # A file that was read has one capture, which need not be given.
    if parameter.name == "capture" and all(other.default is not None for other in macro.parameters[1:]):
        return f"{PYTHON_TYPES['capture']} = ..."
    if (known := PYTHON_TYPES.get(parameter.name)) is not None:
        return f"{known} | None = ..." if default == "NULL" and "..." not in known else known
    if default is None:
        return "str"
    beginnings = {"[": "Sequence[float]", "'": "str", "false": "bool", "0.": "float", "NULL": "str | None"}
    return next((kind for begin, kind in beginnings.items() if default.startswith(begin)), "int") + " = ..."
