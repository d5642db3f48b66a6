// Series of captures: the execute time of each capture, in order, spark lines of these, and selectors of their labels.

// A value with a comma, | or a quotation mark, or with a space at an end, is quoted. The value of a label named since is
// quoted, too: otherwise, it would be read as a time.
etq.selectorOf = (pairs) =>
  [...pairs].map(([key, value]) => `${key}=${key === "since" || /[,"|]|^ | $/.test(value) ? `"${value.replaceAll('"', '""')}"` : value}`).join(",");

// The labels of a series: device=pixel8,model=mlp.
etq.partsOf = (series) => series.match(/[^,="]+=(?:"(?:[^"]|"")*"|[^,]*)/g) ?? [];

// What a series is called. Its captures in cycles are in a series of their own.
etq.seriesName = (series, unit) => (series || "(no labels)") + (unit === "cycles" ? " in cycles" : "");
etq.seriesOf = (table, row) => etq.seriesName(table.get(row, "series"), table.get(row, "unit"));

etq.Series = class {
  constructor({ rows, executes = null }) {
    this.executes = new Map(); // a capture's name to its execute time and unit, in a series or not
    const times = executes ? new etq.Table(executes) : null;
    for (const row of times?.rows() ?? []) this.executes.set(times.get(row, "capture"), { value: times.get(row, "execute"), unit: times.get(row, "unit") });
    this.of = new Map(); // a capture's name to its series and its place in it
    this.all = new Map();
    if (!rows) return;
    const table = rows instanceof etq.Table ? rows : new etq.Table(rows);
    const value = table.columns.has("value") ? "value" : "p25";
    for (const row of table.rows()) {
      const name = etq.seriesOf(table, row);
      if (!this.all.has(name)) this.all.set(name, []);
      const points = this.all.get(name);
      const capture = table.get(row, "capture");
      if (this.of.has(capture)) continue;
      this.of.set(capture, [name, points.length]);
      points.push({ capture, over: table.get(row, "ordered_by"), label: table.get(row, "label"), value: table.get(row, value), unit: table.get(row, "unit"), change: table.get(row, "change_percent"), recorded: table.get(row, "recorded") });
    }
  }

  point(capture) {
    const found = this.of.get(capture);
    return found ? this.all.get(found[0])[found[1]] : null;
  }

  // The neighbours of a capture in its series: the previous and the next capture.
  neighbours(capture) {
    const found = this.of.get(capture);
    if (!found) return [null, null];
    const points = this.all.get(found[0]);
    return [points[found[1] - 1] ?? null, points[found[1] + 1] ?? null];
  }
};

// The number of captures in a spark line; the capture of its row is in the middle.
const AROUND = 60;
const WIDTH = 120;
const HEIGHT = 20;

// An element of SVG with its attributes and children.
etq.svg = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// The range of values without outliers, by Tukey's outer fences; outliers are drawn at the edge.
function within(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  const [low, high, room] = [sorted[0], sorted.at(-1), 3 * (at(0.75) - at(0.25))];
  return room > 0 ? [Math.max(low, at(0.25) - room), Math.min(high, at(0.75) + room)] : [low, high];
}

// The line of a capture's neighbours in its series, with a dot at the capture.
etq.spark = (series, capture, width = WIDTH, most = AROUND) => {
  const found = series?.of.get(capture);
  if (!found) return "";
  const points = series.all.get(found[0]);
  const first = Math.max(0, Math.min(found[1] - most / 2, points.length - most));
  const shown = points.slice(first, first + most);
  const values = shown.map((point) => point.value).filter((value) => value !== null);
  if (!values.length) return "";
  const [low, high] = within(values);
  const x = (at) => 3 + ((width - 6) * at) / Math.max(1, shown.length - 1);
  const y = (value) => HEIGHT - 3 - ((HEIGHT - 6) * (Math.min(high, Math.max(low, value)) - low)) / (high - low || 1);
  const image = etq.svg("svg", { class: "spark", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" });
  const mine = points[found[1]];
  const text = etq.svg("title", {}, `${found[1] + 1} of ${points.length} in ${found[0]}${mine.value === null ? "" : `: ${etq.quantity(mine.value, mine.unit)}`}`);
  image.append(text);
  const path = shown.map((point, at) => (point.value === null ? "" : `${x(at).toFixed(1)},${y(point.value).toFixed(1)}`)).filter(Boolean).join(" ");
  image.append(etq.svg("polyline", { points: path, class: "line" }));
  shown.forEach((point, at) => {
    if (point.change !== null && point.value !== null) image.append(etq.svg("circle", { cx: x(at), cy: y(point.value), r: 2.2, class: point.change > 0 ? "slower" : "faster" }));
  });
  if (mine.value !== null) image.append(etq.svg("circle", { cx: x(found[1] - first), cy: y(mine.value), r: 2.6, class: "mine" }));
  return image;
};
