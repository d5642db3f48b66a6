"""Writes the types of the views' methods when the package is built or installed editable, and the library when it is
built. Makes the links to the top folders of the source tree, which a source archive lacks.

pyproject.toml names the class; only a build imports this module.
"""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

from setuptools.command.build_py import build_py

ROOT = Path(__file__).parents[1]


class BuildWithStub(build_py):
    """The build: first writes `etq/warehouse/views.pyi`, and adds the library to the package."""

    def run(self) -> None:
        for name in ("datasets", "ingest", "sql"):
            link = ROOT / "etq" / name
            if not link.exists():
                link.symlink_to(f"../{name}")
        # pip prints it: a warning that folders named like packages hide them, which the links above are for.
        warnings.filterwarnings("ignore", "Editable installation")
        sys.path.insert(0, str(ROOT))
        from etq.warehouse.stub import stub

        (ROOT / "etq/warehouse/views.pyi").write_text(stub(), encoding="utf-8")
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # an earlier build's files would be in the package
        super().run()
        if not self.editable_mode:
            from etq.database.making import build

            build(Path(self.build_lib) / "etq/database")
