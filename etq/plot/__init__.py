"""Figures of views: `etq.plot.ops(warehouse, capture)` and the like return matplotlib figures.

Each figure is drawn from one view with matplotlib's objects: pyplot's state and the user's styles are not changed. A
figure can be saved with `.savefig("ops.png")`, displays itself in a notebook, and has axes (`.axes[0]`) on which to
draw more.

Needs matplotlib: `pip install 'etq[plot]'`. If it is missing, drawing raises `EtqError`; an unknown capture or option
value raises `QueryError`.
"""

from __future__ import annotations

from etq.plot.compared import compare
from etq.plot.lines import runs, trend
from etq.plot.rooflines import roofline
from etq.plot.shares import modules, ops

__all__ = ("compare", "modules", "ops", "roofline", "runs", "trend")
