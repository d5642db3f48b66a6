"""Writes the types of the views' methods where the package is built, or installed to be edited; all else of the build
is in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


class BuildWithStub(build_py):
    def run(self) -> None:
        sys.path.insert(0, str(ROOT))
        from etq.warehouse.stub import stub

        (ROOT / "etq/warehouse/views.pyi").write_text(stub(), encoding="utf-8")
        super().run()


setup(cmdclass={"build_py": BuildWithStub})
