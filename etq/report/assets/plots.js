// Plots with axes, by uPlot: drawn anew at another width or theme.

// make(width) returns uPlot's options and data; returns a function that draws with its arguments.
etq.plot = (parent, make) => {
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

// Steps of an axis of what is counted.
etq.countSteps = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();

// A series of points alone.
etq.points = (label, colour, size, value) => ({
  label,
  paths: () => null,
  stroke: etq.colour(colour),
  points: { show: true, size, stroke: etq.colour(colour), fill: etq.colour(colour) },
  value: (_, each) => (each === null || each === undefined ? "–" : value(each)),
});
