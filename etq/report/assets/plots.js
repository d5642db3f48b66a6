// Plots with axes, by uPlot: drawn anew at another width or theme.

// Draws a plot: make(width, …) returns uPlot's options and data. Returns a function that draws again and passes its
// arguments to make. choose(index, event) is called for a point that is clicked, or reached by arrow keys and chosen by
// Enter.
etq.plot = (parent, make, choose = null) => {
  const box = etq.element("div", { class: "plot" });
  parent.append(box);
  let plot = null;
  let width = 0;
  const draw = () => {
    if (!box.clientWidth) return;
    width = etq.paper ?? box.clientWidth;
    plot?.destroy();
    const [options, data] = make(width);
    plot = new uPlot({ width, height: 260, ...options }, data, box);
    box.plot = plot;
  };
  if (choose) choosing(box, () => plot, choose);
  new ResizeObserver(() => Math.abs(box.clientWidth - width) > 1 && draw()).observe(box);
  etq.onRedraw(draw);
  return draw;
};

etq.axis = (label, values, more = {}) => ({
  label,
  labelSize: 20,
  size: 62,
  font: "11px system-ui, sans-serif",
  labelFont: "11px system-ui, sans-serif",
  stroke: etq.colour("muted"),
  grid: { stroke: etq.colour("line"), width: 1 },
  ticks: { stroke: etq.colour("line"), width: 1 },
  values: values ? (_, splits) => splits.map((each) => (each === null ? "" : values(each))) : undefined,
  ...more,
});

// Steps of an axis of counts.
etq.countSteps = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();

// The legend's text for a value; empty if the pointer is on no value.
etq.legendOf = (show) => (_, each, __, index) => (each === null || each === undefined || each === "--" ? "" : show(each, index));

// A series as a line.
etq.line = (label, colour, show, more = {}) => ({
  label: etq.printable(label), stroke: etq.colour(colour), width: 1, points: { show: false }, value: etq.legendOf(show), ...more,
});

// A series as points only.
etq.points = (label, colour, size, show) => etq.line(label, colour, show, {
  paths: () => null,
  points: { show: true, size, stroke: etq.colour(colour), fill: etq.colour(colour) },
});

// A series of bars.
etq.bars = (label, colour, show, size = [0.8, 40], more = {}) => etq.line(label, colour, show, {
  fill: etq.colour(colour), width: 0, paths: uPlot.paths.bars({ size, ...more }),
});

function choosing(box, plotOf, choose) {
  let down = null;
  box.tabIndex = 0;
  box.classList.add("choosing");
  box.setAttribute("aria-label", "Chart: the arrow keys lead from point to point, Enter opens one");
  box.setAttribute("role", "application");
  box.addEventListener("pointerdown", (event) => {
    down = [event.clientX, event.clientY];
  });
  box.addEventListener("click", (event) => {
    const index = plotOf()?.cursor.idx;
    const isDrag = down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) > 5;
    if (event.target.closest(".u-over") && !isDrag && index !== null && index !== undefined) choose(index, event);
  });
  box.addEventListener("keydown", (event) => {
    const plot = plotOf();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!plot || (!step && event.key !== "Enter")) return;
    event.preventDefault();
    const index = plot.cursor.idx ?? (step > 0 ? -1 : plot.data[0].length);
    if (event.key === "Enter") {
      if (plot.data[0][index] !== undefined) choose(index, event);
      return;
    }
    const next = Math.max(0, Math.min(plot.data[0].length - 1, index + step));
    plot.setCursor({ left: plot.valToPos(plot.data[0][next], "x"), top: plot.over.clientHeight / 2 });
  });
}
