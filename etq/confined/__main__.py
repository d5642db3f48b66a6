"""The entry of a confined process."""

from __future__ import annotations

import sys

from etq.confined import run

run(*sys.argv[1:])
