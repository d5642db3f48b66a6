"""Writes the types of the views' methods where the package is built, or installed to be edited; and the library, where
it is built. Makes the links to the tops of the source tree, which a source archive doesn't have.

pyproject.toml names the class; only a build imports this module.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from setuptools.command.build_py import build_py

ROOT = Path(__file__).parents[1]


class BuildWithStub(build_py):
    """The build, with `etq/warehouse/views.pyi` written before, and with the library in the package."""

    def run(self) -> None:
        for name in ("datasets", "ingest", "sql"):
            link = ROOT / "etq" / name
            if not link.exists():
                link.symlink_to(f"../{name}")
        sys.path.insert(0, str(ROOT))
        from etq.warehouse.stub import stub

        (ROOT / "etq/warehouse/views.pyi").write_text(stub(), encoding="utf-8")
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build's files would be in the package
        super().run()
        if not self.editable_mode:
            from etq.database.making import build

            build(Path(self.build_lib) / "etq/database")
