"""Figures of views: `etq.plot.ops(warehouse, capture)` and the like return matplotlib figures.

Each is drawn from one view, by matplotlib's objects alone: no state of pyplot's, no style of anyone's is touched. A
figure is saved with `.savefig("ops.png")`, shows itself in a notebook, and its `.axes[0]` may be drawn on.

Needs matplotlib: `pip install 'etq[plot]'`. Where it is missing, drawing raises `EtqError`; where a capture, or what is
asked of it, is unknown, `QueryError`.
"""

from __future__ import annotations

from etq.plot.compared import compare
from etq.plot.lines import runs, trend
from etq.plot.rooflines import roofline
from etq.plot.shares import modules, ops

__all__ = ("compare", "modules", "ops", "roofline", "runs", "trend")
