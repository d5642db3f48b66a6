"""The figure class of all plots. This module imports matplotlib, so only `etq.plot.drawing` imports it."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class Chart(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=100)
        return drawn.getvalue()
