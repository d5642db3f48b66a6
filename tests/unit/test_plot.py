"""Figures: they show the views' numbers, names are not interpreted, and no global state changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import etq
from etq.plot.drawing import BLUE, GREY, ORANGE, RED, shortened
from etq.warehouse.warehouse import Warehouse
from tests.batches import Labelled, ingest_all
from tests.builders import dump, execute, kernel, operator_call, run
from tests.conftest import CAPTURES
from tests.sql.test_trends import capture as made_capture
from tests.sql.test_trends import history
from tests.trace_builders import trace, two_steps
from tests.warehouses import empty_warehouse

# Values in figures have many types; the tests check the values.
plot: Any = etq.plot

EVIL = "a$x^{$ $$\\frac{_b_\x1b[2J\n<b>"
FLEET = sorted((CAPTURES / "fleet/mlp").glob("*.etdp"))


@pytest.fixture(scope="module")
def lab() -> Iterator[Warehouse]:
    """Captures with records, a trace, a fleet of two equal sides, and thirty builds slower from the 18th on."""
    with empty_warehouse() as warehouse:
        for name in ("transformer", "convnet_xnn"):
            capture = warehouse.ingest(CAPTURES / name / f"{name}_100runs.etdp")
            warehouse.link(capture, warehouse.ingest_record(CAPTURES / name / f"{name}.etrecord"))
        warehouse.ingest(CAPTURES / "torch/mlp_train.pt.trace.json.gz", name="trace")
        sides = ("new", "base")
        ingest_all(warehouse, [Labelled(path.stem, path, {"side": sides[at % 2]}) for at, path in enumerate(FLEET)])
        history(warehouse, 30, 18, {"addmm": 1.2})
        yield warehouse


def saved(figure: Any) -> bytes:
    """The figure as PNG. It is drawn completely, because bad names would raise then."""
    assert isinstance(figure, Figure)
    written = BytesIO()
    figure.savefig(written, format="png", dpi=60)
    assert written.getvalue().startswith(b"\x89PNG")
    return written.getvalue()


def names_of(figure: Any) -> list[str]:
    """The names of horizontal bars, from top to bottom."""
    return [text.get_text() for text in figure.axes[0].get_yticklabels()]


def bars_of(figure: Any) -> dict[int, list[tuple[float, str]]]:
    """Lengths and colours of the bars at each place, in the order of drawing."""
    found: dict[int, list[tuple[float, str]]] = {}
    for each in figure.axes[0].patches:
        place = round(each.get_y() + each.get_height() / 2)
        found.setdefault(place, []).append((each.get_width(), to_hex(each.get_facecolor()).upper()))
    return found


@pytest.mark.long
def test_ops_are_those_of_the_view(lab: Warehouse) -> None:
    figure = plot.ops(lab, "transformer_100runs", unit="ms", limit=4)
    rows = lab.op_totals("transformer_100runs", unit="ms").fetchall()
    assert names_of(figure) == [row[0] for row in rows[:4]] + ["(9 others)"]
    drawn = bars_of(figure)
    for place, row in enumerate(rows[:4]):
        assert drawn[place][0][0] == row[13]
    [(others, colour)] = drawn[4]
    assert others == pytest.approx(sum(row[13] for row in rows[4:])) and colour == GREY.upper()
    axes = figure.axes[0]
    assert axes.get_xlabel() == "self time per execute in typical runs (ms)"
    assert axes.get_title(loc="left") == "Where the time of transformer_100runs went, op by op"
    shares = [text.get_text() for text in axes.texts]
    assert shares[:4] == [f"{row[9]:.1f} %" for row in rows[:4]]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["kernels", "framework", "all others together"]
    saved(figure)
    sums = plot.ops(lab, "transformer_100runs", unit="ms", limit=4, total=True)
    assert [bars_of(sums)[place][0][0] for place in range(4)] == [row[5] for row in rows[:4]]
    assert sums.axes[0].get_xlabel() == "self time in typical runs (ms)"


@pytest.mark.long
def test_ops_of_runs_of_a_kind_and_of_instances(lab: Warehouse) -> None:
    figure = plot.ops(lab, "convnet_xnn_100runs", by="instance", steps="skip_first=50", limit=100)
    rows = lab.op_totals("convnet_xnn_100runs", by="instance", steps="skip_first=50").fetchall()
    assert names_of(figure) == [row[0] + ("" if row[3] is None else f" @{row[3]}") for row in rows]
    assert [bars[0][0] for _, bars in sorted(bars_of(figure).items())] == [row[13] for row in rows]


def test_ops_of_several_methods_are_not_added(warehouse: Warehouse) -> None:
    """By hand: decode takes 10 and 40 in an execute, encode 30 and 20; there are three executes of one, two of the
    other.
    """
    runs = [run("decode", kernel("add", 0, 10), kernel("mul", 10, 50), execute(0, 50)) for _ in range(3)]
    runs += [run("encode", kernel("add", 0, 30), kernel("mul", 30, 50), execute(0, 50)) for _ in range(2)]
    capture = warehouse.ingest(dump(*runs))
    figure = plot.ops(warehouse, capture, unit="ns", limit=2)
    drawn = [(name, bars_of(figure)[place][0][0]) for place, name in enumerate(names_of(figure))]
    assert drawn[:2] == [("mul of decode", 40), ("add of encode", 30)]
    assert sorted(drawn[2:]) == [("(2 others) of decode", 10), ("(2 others) of encode", 20)]


@pytest.mark.long
def test_ops_of_a_trace(lab: Warehouse) -> None:
    figure = plot.ops(lab, "trace", limit=3)
    rows = lab.rows("SELECT name, self_cpu_time FROM key_averages('trace') ORDER BY self_cpu_time DESC, name LIMIT 3")[
        1
    ]
    assert names_of(figure)[:3] == [row[0] for row in rows]
    assert [bars_of(figure)[place][0][0] for place in range(3)] == [row[1] for row in rows]
    assert figure.axes[0].get_xlabel() == "self time in all runs (us)"


def test_ops_of_a_trace_with_steps(warehouse: Warehouse) -> None:
    """By hand: besides its call, addmm takes 10 us in one of the two steps."""
    capture = warehouse.ingest(trace(*two_steps()))
    figure = plot.ops(warehouse, capture, unit="us", limit=100)
    assert bars_of(figure)[names_of(figure).index("aten::addmm")][0][0] == 5
    assert figure.axes[0].get_xlabel() == "self time per step in all runs (us)"
    figure = plot.ops(warehouse, capture, unit="us", limit=100, total=True)
    assert bars_of(figure)[names_of(figure).index("aten::addmm")][0][0] == 10
    assert figure.axes[0].get_xlabel() == "self time in all runs (us)"


@pytest.mark.long
def test_modules_are_those_of_the_view(lab: Warehouse) -> None:
    figure = plot.modules(lab, "transformer_100runs", unit="us", limit=100)
    rows = [row for row in lab.module_totals("transformer_100runs", unit="us").fetchall() if row[6] > 0]
    assert names_of(figure) == [row[1] or "(model)" for row in rows]
    drawn = bars_of(figure)
    for place, row in enumerate(rows):
        assert [length for length, _ in drawn[place]] == [row[13], row[12]]
    assert {bar[1][1] for place, bar in drawn.items() if rows[place][1].startswith("(")} == {"#E69F00"}
    few = names_of(plot.modules(lab, "transformer_100runs", limit=2))
    assert few == ["(model)", "layers.0", "(framework)", "(unattributed)"]
    saved(figure)


def test_runs_are_those_of_the_view(lab: Warehouse) -> None:
    figure = plot.runs(lab, "transformer_100runs", unit="us")
    rows = lab.framework_tax("transformer_100runs", unit="us").fetchall()
    axes = figure.axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["execute"].get_xdata()) == [row[0] for row in rows]
    assert list(lines["execute"].get_ydata()) == [row[2] for row in rows]
    assert list(lines["of that kernels and delegates"].get_ydata()) == [row[2] - row[7] for row in rows]
    # By hand: of 100 sorted times the median is between the 50th and 51st.
    times = sorted(row[2] for row in rows)
    assert lines[f"median: {(times[49] + times[50]) / 2:.6g} us"].get_ydata()[0] == (times[49] + times[50]) / 2
    # Run 58 took 1.75 ms, the others 0.22: it is at the upper edge, and the axis fits the others.
    assert list(lines["beyond that: up to 1754.11 us"].get_xdata()) == [58]
    assert axes.get_ylim()[1] < 600
    assert axes.get_ylabel() == "time of the run's executes (us)" and axes.get_xlabel() == "run"
    saved(figure)


def test_untraced_runs_have_no_work(warehouse: Warehouse) -> None:
    capture = warehouse.ingest(CAPTURES / "mlp/mlp_method_only.etdp")
    labels = [line.get_label() for line in plot.runs(warehouse, capture).axes[0].lines]
    assert "execute" in labels and "of that kernels and delegates" not in labels


@pytest.mark.long
def test_a_trend_is_that_of_the_view(lab: Warehouse) -> None:
    figure = plot.trend(lab, "op", "addmm", selector="model=net", unit="us")
    axes = figure.axes[0]
    rows = lab.trend("op", item="addmm", selector="model=net", unit="us").fetchall()
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["model=net"].get_ydata()) == [row[11] for row in rows]
    assert list(lines["model=net"].get_xdata()) == list(range(1, 31))
    # The change was planted at the 18th build.
    assert list(lines["lasting change"].get_xdata()) == [18]
    [label] = axes.texts
    assert label.get_text().startswith("+") and label.get_text().endswith(" % at 18")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("build", "op addmm (us)")
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(build) for build in range(1, 31, 3)]
    saved(figure)


@pytest.mark.long
def test_a_comparison_is_that_of_the_view(lab: Warehouse) -> None:
    figure = plot.compare(lab, "side=base", "side=new", limit=5)
    rows = lab.compare_ops("side=base", "side=new").fetchall()[:5]
    assert names_of(figure) == [f"{row[0]} @{row[3]}" for row in rows]
    assert [bars_of(figure)[place] for place in range(5)] == [
        [(row[5], GREY if row[4] == "~" else ORANGE)] for row in rows
    ]
    [segments] = [each for each in figure.axes[0].collections if len(each.get_segments()) == 5]
    for (low, high), row in zip(segments.get_segments(), rows, strict=True):
        assert (low[0], high[0]) == (pytest.approx(row[6]), pytest.approx(row[7]))
    assert figure.axes[0].get_title(loc="left") == "Change of ops from side=base to side=new"
    saved(figure)


def test_verdicts_have_colours(warehouse: Warehouse) -> None:
    captures = []
    for number in range(12):
        side = "new" if number % 2 else "old"
        content = made_capture(number, {"addmm": 1.2, "relu": 0.8} if side == "new" else None)
        captures.append(Labelled(f"{side}{number}", content, {"side": side}))
    ingest_all(warehouse, captures)
    figure = plot.compare(warehouse, "side=old", "side=new")
    colours = {name.split(" ")[0]: bars_of(figure)[place][0][1] for place, name in enumerate(names_of(figure))}
    assert (colours["addmm"], colours["relu"], colours["add"]) == (RED, BLUE, GREY)
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"slower", "faster", "about the same", "interval"} == set(legend)


@pytest.mark.long
def test_a_roofline_is_that_of_the_view(lab: Warehouse) -> None:
    figure = plot.roofline(lab, "transformer_100runs", 5e10, 2e10)
    axes = figure.axes[0]
    rows = lab.rows(
        """SELECT intensity, flops_per_second FROM roofline('transformer_100runs', peak_flops := 5e10,
           peak_bandwidth := 2e10) WHERE intensity > 0 AND flops_per_second > 0"""
    )[1]
    drawn = [tuple(point) for each in axes.collections for point in each.get_offsets().tolist()]
    assert sorted(drawn) == sorted(rows)
    [roof] = [line for line in axes.lines if line.get_label() == "what the device can do"]
    # 5e10 operations at 2e10 bytes a second: the ridge is at 2.5 operations per byte.
    assert (2.5, 5e10) in list(zip(roof.get_xdata(), roof.get_ydata(), strict=True))
    assert max(roof.get_ydata()) == 5e10 and min(roof.get_ydata()) == min(roof.get_xdata()) * 2e10
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    saved(figure)


@pytest.mark.long
@pytest.mark.parametrize("draw", [plot.ops, plot.runs], ids=["ops", "runs"])
def test_names_are_no_formulas(warehouse: Warehouse, draw: Callable[..., Any]) -> None:
    events = (kernel(EVIL, 10, 30), operator_call(8, 33), execute(0, 60))
    capture = warehouse.ingest(dump(run("Execute", *events), run("Execute", *events)), name="a$x^{$\\frac{")
    figure = draw(warehouse, capture)
    saved(figure)
    assert "a$x^{$\\frac{" in figure.axes[0].get_title(loc="left")
    if draw is plot.ops:
        assert "a$x^{$ $$\\frac{_b_\\x1b[2J\\n<b>" in names_of(figure)


@pytest.mark.long
def test_labels_and_selectors_are_no_formulas(warehouse: Warehouse) -> None:
    for build in range(1, 5):
        labels = {"build": f"${build}^{{$", "model": "$\\frac{$", "side": f"$a_{build % 2}^{{$"}
        warehouse.ingest(made_capture(build), name=f"b{build}", labels=labels)
    figure = plot.trend(warehouse, over="build")
    saved(figure)
    assert {text.get_text() for text in figure.axes[0].get_xticklabels()} == {f"${build}^{{$" for build in range(1, 5)}
    compared = plot.compare(warehouse, "side=$a_0^{$", "side=$a_1^{$")
    saved(compared)
    assert compared.axes[0].get_title(loc="left").startswith("Change of ops from side=$a_0^{$ to side=$a_1^{$")


def test_what_cannot_be_drawn(lab: Warehouse) -> None:
    with pytest.raises(etq.QueryError, match="no capture matches nothing"):
        plot.ops(lab, "nothing")
    with pytest.raises(etq.EtqError, match="has no record"):
        plot.modules(lab, "b1").savefig(BytesIO())
    for draw in (plot.ops, plot.runs, plot.modules):
        with pytest.raises(etq.EtqError, match="in the runs that are asked for"):
            draw(lab, "transformer_100runs", steps="skip_first=1000")
    with pytest.raises(etq.EtqError, match="no op nothing in these captures"):
        plot.trend(lab, "op", "nothing")
    with pytest.raises(etq.QueryError, match="unit"):
        plot.ops(lab, "transformer_100runs", unit="parsecs")


@pytest.mark.long
def test_plotting_leaves_global_state_alone(lab: Warehouse) -> None:
    before = dict(mpl.rcParams)
    figures = [plot.ops(lab, "transformer_100runs") for _ in range(2)]
    assert saved(figures[0]) == saved(figures[1]), "the same picture each time"
    assert dict(mpl.rcParams) == before
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        assert pyplot.get_fignums() == []
    # What a notebook asks for.
    assert figures[0]._repr_png_().startswith(b"\x89PNG")


@pytest.mark.long
def test_without_matplotlib_the_error_names_the_package() -> None:
    script = """
import sys
sys.modules["matplotlib"] = None
import etq
with etq.open() as warehouse:
    capture = warehouse.ingest(sys.argv[1])
    try:
        etq.plot.ops(warehouse, capture)
    except etq.EtqError as error:
        print(error)
"""
    command = [sys.executable, "-c", script, str(CAPTURES / "mlp/mlp.etdp")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "plots need matplotlib: pip install 'etq[plot]'\n"


def test_long_names_keep_both_ends() -> None:
    assert shortened("x" * 48) == "x" * 48
    assert shortened("a" * 40 + "b" * 40) == "a" * 23 + "…" + "b" * 24
