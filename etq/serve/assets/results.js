// The result of a query: as a table, as a chart of chosen columns, and as files.

const KINDS = ["line", "points", "bars"];
const MOST_BARS = 60;

etq.results = (parent, { rows, kinds, count }, query, { chart, setChart }) => {
  const table = new etq.Table(rows);
  const names = rows.names;
  const head = etq.element("div", { class: "bar" }, etq.element("strong", { id: "count", text: `${etq.number(count)} ${count === 1 ? "row" : "rows"}` }));
  if (count > table.length) head.append(etq.element("span", { class: "muted", text: `the first ${etq.number(table.length)} are here; files have all` }));
  for (const [format, title] of [["csv", "CSV"], ["parquet", "Parquet"], ["arrow", "Arrow"]]) {
    head.append(etq.element("button", { type: "button", id: `as-${format}`, text: title, onclick: () => etq.download(`/data/sql?${new URLSearchParams({ query, format })}`, `result.${format}`) }));
  }
  parent.append(head);
  const numbers = names.filter((_, at) => kinds[at] === "number");
  if (table.length > 1 && numbers.length) drawChart(parent, table, names, numbers, chart, setChart);
  const grid = etq.element("div");
  parent.append(grid);
  // Columns of a result may have the same name, so they are found by position.
  const byPlace = new etq.Table({ names: names.map((_, at) => `c${at}`), columns: rows.columns, length: rows.length });
  etq.table(grid, byPlace, names.map((name, at) => ({ name: `c${at}`, title: etq.short(name, 60), always: true, numeric: kinds[at] === "number", search: true, as: (value) => shown(value, kinds[at]) })), { name: "result", first: 100 });
};

function shown(value, kind) {
  if (value === null) return etq.element("span", { class: "muted", text: "NULL" });
  if (kind === "number" && typeof value === "number") return Number.isInteger(value) ? String(value) : String(+value.toPrecision(10));
  return typeof value === "boolean" ? String(value) : etq.printable(etq.short(value, 300));
}

function drawChart(parent, table, names, numbers, chart, setChart) {
  const [kind, x, y] = (chart ?? "").split("|").map((each) => (each ? etq.decoded(each) : null));
  const state = { kind: KINDS.includes(kind) ? kind : "", x: names.includes(x) ? x : names[0], y: numbers.includes(y) ? y : (numbers.find((name) => name !== names[0]) ?? numbers[0]) };
  const box = etq.element("div", { class: "chart" });
  const set = (name) => (value) => {
    state[name] = value;
    setChart(state.kind ? [state.kind, state.x, state.y].map(encodeURIComponent).join("|") : "");
    draw();
  };
  const fields = etq.element("span", { class: "bar" }, etq.field("x", etq.choice("chart-x", names, state.x, set("x"))), etq.field("y", etq.choice("chart-y", numbers, state.y, set("y"))));
  const bar = etq.element("div", { class: "bar" }, etq.field("chart", etq.choice("chart-kind", ["", ...KINDS], state.kind, set("kind"), { "": "none" })), fields);
  parent.append(bar, box);
  function draw() {
    fields.hidden = state.kind === "";
    box.replaceChildren();
    etq.redraws.clear();
    if (state.kind) etq.plot(box, () => plotOf(table, state));
  }
  draw();
}

function plotOf(table, { kind, x, y }) {
  const order = table.rows();
  const isNumber = table.list(x).every((value) => value === null || typeof value === "number");
  let rows = isNumber ? order.filter((row) => table.get(row, x) !== null).sort((one, other) => table.get(one, x) - table.get(other, x)) : order;
  if (kind === "bars") rows = rows.slice(0, MOST_BARS);
  // If the chart has bars, or x is a text, rows keep their order.
  const isPlaced = !isNumber || kind === "bars";
  const at = rows.map((row, place) => (isPlaced ? place : table.get(row, x)));
  const named = (place) => (isPlaced ? (Number.isInteger(place) && rows[place] !== undefined ? etq.printable(etq.short(table.get(rows[place], x) ?? "NULL", 14)) : "") : etq.number(place));
  const [label, colour] = [etq.short(y, 40), "accent"];
  const series = kind === "points" ? etq.points(label, colour, 6, etq.number)
    : kind === "bars" ? etq.bars(label, colour, etq.number, [0.7, 60]) : etq.line(label, colour, etq.number, { width: 1.5, points: {} });
  return [
    {
      height: 300,
      scales: { x: { time: false, range: isPlaced ? (_, low, high) => [low - 0.6, high + 0.6] : undefined }, y: kind === "bars" ? { range: (_, low, high) => [Math.min(0, low), Math.max(0, high) * 1.05 || 1] } : {} },
      axes: [etq.axis(etq.printable(etq.short(x, 40)), named, { size: 34, ...(isPlaced ? { incrs: etq.countSteps, space: isNumber ? 50 : 100 } : {}) }), etq.axis(etq.printable(etq.short(y, 40)), etq.number)],
      series: [{ label: etq.printable(etq.short(x, 40)), value: etq.legendOf(named) }, series],
    },
    [at, rows.map((row) => table.get(row, y))],
  ];
}
