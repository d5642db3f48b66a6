// Series of captures: totals and ops, one capture after the other, and the captures at which their level changed.

const where = (get) => [get("module_path"), get("instruction_id") === null ? "" : `@${get("instruction_id")}`].filter(Boolean).join(" ");

etq.section("series", (parent, { series, changes }, facts) => {
  const sum = (name) => series.list(name).reduce((all, each) => all + (each ?? 0), 0);
  const rows = (what) => changes.rows().filter((row) => changes.get(row, "what") === what);
  const count = (what, verdict) => rows(what).filter((row) => changes.get(row, "stage") === "kept" && changes.get(row, "verdict") === verdict).length;
  // If nothing was judged, there is no number.
  const figure = (count) => (facts.judged ? etq.number(count) : "not judged");
  const changed = (what, verdict, note) => etq.card(`${what}s ${verdict}`, figure(count(what, verdict)), note, { href: count(what, verdict) ? "#regressions" : null });
  const open = [...rows("total"), ...rows("op")].filter((row) => changes.get(row, "stage") === "not kept yet").length;
  const { slower, faster } = etq.verdicts;
  const [kept, own] = ["their level changed, and is kept", "on their own, without the common shift"];
  parent.append(
    etq.cards([
      etq.card("captures", etq.number(sum("captures")), `in ${etq.number(series.length)} series of the same ${facts.by}`),
      ...[["total", slower, kept], ["total", faster, kept], ["op", slower, own], ["op", faster, own]].map((each) => changed(...each)),
      ...(open ? [etq.card("not kept yet", etq.number(open), "changes that the next builds decide", { href: "#regressions" })] : []),
    ]),
    etq.facts([["in the order of", facts.over], ...Object.entries(facts.options).map(([name, value]) => [name.replace("_", " "), value])]),
  );
});

etq.section("totals", (parent, { rows, series, changes }, facts) => {
  const groups = grouped(rows, (row) => etq.seriesOf(rows, row));
  etq.totalTrends = { rows, groups };
  const title = etq.element("p", { class: "chart-title" });
  const state = { points: [], marks: [], lines: [] };
  const over = () => facts.orders[rows.get(state.points[0] ?? 0, "series")] ?? "captured_at";
  const beside = etq.element("select", { "aria-label": "Series drawn over each other", id: "beside", onchange: () => show(state.name) });
  const bar = etq.element("div", { class: "bar" }, title, beside);
  parent.append(bar);
  const draw = etq.plot(parent, () => (state.lines.length ? linesPlot(rows, state, over()) : totalPlot(rows, state, over())), chosenPoint(() => [rows, state.lines.length ? [] : state.points]));
  const drawCommon = rows.has("common_percent") ? etq.plot(parent, () => commonPlot(rows, state, over())) : () => {};
  const show = (name) => {
    state.points = groups.get(name) ?? [];
    state.marks = state.points.filter((row) => rows.get(row, "change_percent") !== null).map((row) => {
      const position = rows.get(row, "position");
      return [position, rows.get(row, "change_percent"), [stageOf(rows, row), changedOps(changes, name, position)].filter(Boolean).join(" ")];
    });
    const kinds = name === state.name ? beside.value : "";
    state.name = name;
    const keys = [...groups.keys()].length > 1 ? labelKeys(name).filter((key) => alike(groups.keys(), name, key).length > 1) : [];
    beside.replaceChildren(...[["", "this series"], ...keys.map((key) => [key, `each ${key}`])].map(([value, text]) => etq.element("option", { value, text: etq.short(text, 60) })));
    beside.hidden = !keys.length;
    beside.value = keys.includes(kinds) ? kinds : "";
    state.lines = beside.value ? alike(groups.keys(), name, beside.value).slice(0, LINES.length).map((other) => [valueOfKey(other, beside.value), groups.get(other)]) : [];
    state.changes = state.lines.flatMap(([value, points]) => points.filter((row) => rows.get(row, "change_percent") !== null).map((row) => {
      const ops = changedOps(changes, etq.seriesOf(rows, row), rows.get(row, "position"));
      return [rows.get(row, "first_label"), rows.get(row, "change_percent"), [etq.middle(value, 30), ops].filter(Boolean).join(": ")];
    }));
    title.textContent = etq.printable(etq.short(name));
    draw();
    drawCommon();
  };
  return {
    series: {
      own: { series: { always: true, as: (_, row) => etq.seriesOf(series, row) } },
      choose: (row, isFirst) => {
        show(etq.seriesOf(series, row));
        if (!isFirst) etq.seriesChosen?.(etq.seriesOf(series, row));
      },
      // At first, the series of the costliest change.
      chosen: (row) => etq.seriesOf(series, row) === (etq.shownSeries?.() ?? (changes.length ? etq.seriesOf(changes, 0) : null)),
    },
  };
});

// The labels of a series, from the key=value pairs in its name; and the series that differ from it in one label only.
const labelKeys = (name) => etq.partsOf(name).map((part) => part.slice(0, part.indexOf("=")));
const without = (name, key) => etq.partsOf(name).filter((part) => !part.startsWith(`${key}=`)).join();
const alike = (names, name, key) => [...names].filter((other) => labelKeys(other).includes(key) && without(other, key) === without(name, key));
const valueOfKey = (name, key) => etq.partsOf(name).find((part) => part.startsWith(`${key}=`)).slice(key.length + 1);

// The ops whose level changed together with that of the total. Their changes may be found a few captures away from the
// total's. A creep of the total contains all changes during it; its place is its last capture.
const NEAR = 2;
const lastOf = (changes, row) => changes.get(row, "position") + (changes.get(row, "kind") === "creep" ? changes.get(row, "captures_after") - 1 : 0);
function changedOps(changes, series, position) {
  const of = (what) => changes.rows().filter((row) => changes.get(row, "what") === what && etq.seriesOf(changes, row) === series);
  const creep = of("total").find((row) => changes.get(row, "kind") === "creep" && lastOf(changes, row) === position);
  const isNear = (row) => (creep === undefined
    ? Math.abs(changes.get(row, "position") - position) <= NEAR
    : changes.get(row, "position") <= position + NEAR && lastOf(changes, row) >= changes.get(creep, "position") - NEAR);
  const ops = [...new Set(of("op").filter(isNear).map((row) => changes.get(row, "op")))];
  return ops.slice(0, 2).map((op) => etq.middle(op, 30)).join(", ") + (ops.length > 2 ? ` and ${ops.length - 2} more` : "");
}

// Words for the stage of a change that isn't kept.
const stageOf = (table, row) => (table.get(row, "stage") === "kept" ? "" : table.get(row, "stage"));

// The action for a click on a point, if the host of the report has pages of captures: `etq.pointChosen(capture,
// event)`.
function chosenPoint(shown) {
  if (!etq.pointChosen) return null;
  return (index, event) => {
    const [table, points] = shown();
    const capture = points[index] === undefined ? null : table.get(points[index], "capture");
    if (capture !== null) etq.pointChosen(capture, event);
  };
}

// A link to the comparison of the captures before a change with those after it, if the host of the report has such a
// page.
function compared(rows, row) {
  const [base, newer] = [rows.get(row, "base"), rows.get(row, "new")];
  return base === null ? "" : etq.element("a", { href: etq.compareLink(base, newer), text: "compare" });
}

etq.section("regressions", (parent, { rows, points }, facts) => {
  etq.opTrends = { points, groups: grouped(points, (row) => key(points, row)), changes: rows };
  if (!rows.length) return {};
  const chart = opChart(parent, facts.orders);
  const more = etq.compareLink ? [{ name: "compare", title: "before and after", always: true, as: (_, row) => compared(rows, row) }] : [];
  return { regressions: { more, choose: (row) => chart(rows, row) } };
});

etq.section("op_trends", (parent, { op_trends: rows }, facts) => {
  const chart = opChart(parent, facts.orders);
  return { op_trends: { choose: (row) => chart(rows, row) } };
});

const OF_OP = ["series", "unit", "op", "module_path", "instruction_id"];

function key(table, row) {
  return ["method", ...OF_OP].map((name) => JSON.stringify(table.get(row, name))).join();
}

// Rows grouped by of(row), in order.
function grouped(table, of) {
  const groups = new Map();
  for (const row of table.rows()) {
    const name = of(row);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return groups;
}

// A chart of an op's trend; returns the function that chooses the op, by a row of a table of changes or ops.
function opChart(parent, orders) {
  const title = etq.element("p", { class: "chart-title" });
  const state = { table: null, points: [], marks: [] };
  const bar = etq.element("div", { class: "bar" }, title);
  parent.append(bar);
  const draw = etq.plot(parent, (width) => (state.table === etq.totalTrends.rows ? totalPlot(state.table, state, state.over, width) : opPlot(state, state.over)), chosenPoint(() => [state.table, state.points]));
  return (table, chosen) => {
    // If an op has several instances, the longest one is taken.
    const row = table.has("instances") && table.get(chosen, "instances") > 1 ? chosen + 1 : chosen;
    const { points, groups, changes } = etq.opTrends;
    state.over = orders[table.get(row, "series")];
    const same = (other, at, names) => names.every((name) => changes.get(other, name) === table.get(at, name));
    const isTotal = table.has("what") && table.get(row, "what") === "total";
    const get = (name) => table.get(row, name);
    if (isTotal) {
      Object.assign(state, { table: etq.totalTrends.rows, points: etq.totalTrends.groups.get(etq.seriesOf(table, row)) ?? [] });
    } else {
      const found = table.columns.has("method")
        ? (groups.get(key(table, row)) ?? [])
        : ([...groups.values()].find(([first]) => OF_OP.every((name) => points.get(first, name) === get(name))) ?? []);
      Object.assign(state, { table: points, points: found });
    }
    state.marks = changes.rows()
      .filter((other) => (changes.get(other, "what") === "total") === isTotal && same(other, row, OF_OP))
      .map((other) => [lastOf(changes, other), changes.get(other, "change_percent"), stageOf(changes, other)]);
    const place = get("instruction_id");
    // A device's op and a host's op may have the same name, but different trends.
    const name = isTotal ? `total of ${get("op")}` : `${get("op")} ${where(get)}`;
    const missing = state.points.length ? "" : ": this page has no points of it, only of ops that changed and of those that take most time";
    title.textContent = etq.printable(etq.short(`${name}, ${etq.seriesOf(table, row)}${missing}`));
    draw();
  };
}

function xOf(table, points, over, at = points.map((row) => table.get(row, "position"))) {
  const near = (position) => {
    let [low, high] = [0, at.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (at[middle] <= position) low = middle;
      else high = middle - 1;
    }
    return points[low];
  };
  const name = (row) => {
    const [first, last] = [table.get(row, "first_label"), table.get(row, "last_label")];
    return etq.printable(etq.short(first === last ? first : `${first} … ${last}`, 40));
  };
  const label = (position) => (Number.isInteger(position) && position >= 1 && at.length && position <= at.at(-1) ? labelText(table.get(near(position), "first_label")) : "");
  // Captures of one label are next to each other. The label is written at the first of them that has a place on the
  // axis.
  const labels = (_, splits) => splits.map(label).map((text, index, all) => (text === all[index - 1] ? "" : text));
  const title = etq.printable(etq.short(over, 40));
  // Times and numbers are placed by value, so that gaps between captures are visible. Other labels are placed by
  // position.
  const places = points.map((row) => (over === "captured_at" ? momentOf : numberOf)(table.get(row, "first_label")));
  const isScaled = places.length > 0 && !places.some(Number.isNaN) && places.every((place, index) => index === 0 || place > places[index - 1]);
  const isTime = isScaled && over === "captured_at";
  const numbered = (number) => (Number.isInteger(number) ? String(number) : "");
  return {
    at: isScaled ? places : at,
    // The place between the capture at a position and the previous one.
    before: (position) => {
      if (!isScaled) return position - 0.5;
      const index = at.findIndex((each) => each >= position);
      return index > 0 ? (places[index - 1] + places[index]) / 2 : places.at(index);
    },
    time: isTime,
    // Room for the part of the last label that is to the right of its place.
    padding: [null, Math.max(16, isScaled ? 0 : roomOf([points.length ? labelText(table.get(points.at(-1), "first_label")) : ""]) / 2), null, null],
    axis: isTime ? etq.axis(`${title}, UTC`, null, { size: 44, space: 80, values: timeLabels }) : etq.axis(title, isScaled ? numbered : label, { size: 34, space: roomOf(points.map((row) => table.get(row, "first_label"))), incrs: STEPS, ...(isScaled ? {} : { values: labels }) }),
    series: { label: title, value: etq.legendOf((_, index) => name(points[index])) },
  };
}

// Labels of an axis: times of day, with the day below the first time of each day; or days, with the year below the
// first day of each year.
function timeLabels(_, splits, __, ___, step) {
  const texts = splits.map((seconds) => new Date(seconds * 1000).toISOString());
  return texts.map((text, index) => {
    const starts = (length) => index === 0 || text.slice(0, length) !== texts[index - 1].slice(0, length);
    const day = starts(4) ? text.slice(0, 10) : text.slice(5, 10);
    if (step >= 28 * DAY) return text.slice(0, 7);
    return step >= DAY ? day : `${text.slice(11, 16)}${starts(10) ? `\n${day}` : ""}`;
  });
}

const DAY = 86400;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000];
const labelText = (label) => etq.printable(etq.short(etq.shortHash(label), 12));
// The pixels between labels of an axis, so that they don't meet.
const roomOf = (labels) => 16 + 7 * Math.max(3, ...labels.map((label) => Math.min(13, String(label).length)));
// Seconds since 1970 of a time without zone, taken as UTC; NaN if it isn't a time.
const momentOf = (label) => Date.parse(`${String(label).replace(" ", "T")}Z`) / 1000;
const numberOf = (label) => (/^\d{1,15}$/.test(label) ? Number(label) : NaN);
const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");

// Changes as lines across the plot, with their size and name. Texts that would overlap are below each other.
function markHook(marks, x) {
  return (plot) => {
    const pen = plot.ctx;
    const ends = []; // the end of the last text in each line
    pen.save();
    pen.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    pen.textBaseline = "top";
    pen.textAlign = "left";
    pen.lineWidth = 1.5 * devicePixelRatio;
    for (const [position, change, ops] of marks) {
      const at = plot.valToPos(x.before(position), "x", true);
      if (at < plot.bbox.left || at > plot.bbox.left + plot.bbox.width) continue;
      pen.strokeStyle = pen.fillStyle = etq.colour(change > 0 ? "slower-4" : "faster-4");
      pen.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      pen.beginPath();
      pen.moveTo(at, plot.bbox.top);
      pen.lineTo(at, plot.bbox.top + plot.bbox.height);
      pen.stroke();
      const text = etq.printable([etq.change(change), ops].filter(Boolean).join(" "));
      const room = pen.measureText(text).width + 6 * devicePixelRatio;
      const isLast = at + room > plot.bbox.left + plot.bbox.width;
      const left = isLast ? at - room : at + 4 * devicePixelRatio;
      const line = (ends.findIndex((end) => end < left) + ends.length + 1) % (ends.length + 1);
      ends[line] = left + room;
      pen.fillText(text, left, plot.bbox.top + 2 + line * 14 * devicePixelRatio);
    }
    pen.restore();
  };
}

// The range of the y axis. It contains all values of the first series, and other values if they are about as near to
// these as these are to each other.
const rangeOf = (values, others) => () => {
  const known = values.filter((each) => each !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const most = Math.max(high, ...others.filter((each) => each !== null));
  return ranged(low, Math.min(most, high + Math.max(high - low, 0.05 * high)));
};

const ranged = (low, high) => {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  const room = Math.max((high - low) * 0.12, Math.abs(high) * 0.02, 1e-12);
  return [Math.max(low - room, Math.min(low, 0)), high + room];
};

// A chart of series, with what changed: uPlot's options and data. `axis` is the title of the values.
function chartOf(x, marks, axis, range, series, columns, more = {}) {
  return [
    {
      height: 280,
      tzDate: utc,
      padding: x.padding,
      scales: { x: { time: x.time }, y: { range } },
      axes: [x.axis, etq.axis(axis, etq.number)],
      series: [x.series, ...series],
      hooks: { draw: [markHook(marks, x)] },
      ...more,
    },
    [x.at, ...columns],
  ];
}

// A series as a line; if it has few points, with dots.
const dotted = (label, colour, show, count, more = {}) =>
  etq.line(label, colour, show, { width: 1.5, points: { show: count <= 120, size: 5, fill: etq.colour(colour) }, ...more });

function totalPlot(table, { points, marks }, over) {
  const unit = table.get(points[0] ?? 0, "unit");
  const show = (value) => etq.quantity(value, unit);
  const [p25, median] = ["p25", "median"].map((name) => points.map((row) => table.get(row, name)));
  const isMetric = p25.every((each) => each === null);
  const series = [dotted("p25 of all runs", "accent", show, points.length, { show: !isMetric }), etq.line("median", "faint", show)];
  const range = isMetric ? rangeOf(median, []) : rangeOf(p25, median);
  return chartOf(xOf(table, points, over), marks, `execute, ${etq.unit(unit)}`, range, series, [p25, median], { bands: [{ series: [2, 1], fill: `${etq.colour("faint")}66` }] });
}

// The most series that are drawn over each other, and their colours.
const LINES = ["accent", "warm", "delegate", "control", "bad", "muted", "python", "faint"];

// Several series in one chart, each relative to its median, because devices may differ in speed. Captures with the same
// label have the same x. Labels are in the common order of all series, as in the chart of one series.
function linesPlot(table, { lines, changes }, over) {
  const firsts = new Map(); // the first row of each label
  for (const row of lines.flatMap(([, points]) => points)) {
    const label = table.get(row, "first_label");
    if (!firsts.has(label)) firsts.set(label, row);
  }
  const rows = [...firsts.values()].sort((one, other) => table.get(one, "place") - table.get(other, "place"));
  const at = new Map(rows.map((row, index) => [table.get(row, "first_label"), index]));
  const columns = lines.map(([, points]) => {
    const known = points.map((row) => table.get(row, "p25") ?? table.get(row, "median"));
    const sorted = known.filter((value) => value !== null).sort((one, other) => one - other);
    const middle = sorted[sorted.length >> 1];
    const column = Array(rows.length).fill(null);
    points.forEach((row, index) => { if (known[index] !== null) column[at.get(table.get(row, "first_label"))] = 100 * (known[index] / middle - 1); });
    return column;
  });
  const x = xOf(table, rows, over, rows.map((_, index) => index + 1));
  const marks = changes.map(([label, change, text]) => [at.get(label) + 1, change, text]);
  const series = lines.map(([name], index) => dotted(etq.middle(name, 30), LINES[index], etq.change, rows.length, { spanGaps: true }));
  return chartOf(x, marks, "from its own median, %", (_, low, high) => ranged(low ?? 0, high ?? 0), series, columns);
}

function commonPlot(table, { points }, over) {
  const range = (_, low, high) => [Math.min(low ?? 0, -1) * 1.1, Math.max(high ?? 0, 1) * 1.1];
  const series = [etq.line("common shift, relative to the median capture", "muted", etq.change)];
  return chartOf(xOf(table, points, over), [], "common shift, %", range, series, [points.map((row) => table.get(row, "common_percent"))], { height: 150 });
}

function opPlot({ table, points, marks }, over) {
  if (!table || !points.length) return [{ height: 40, series: [{}] }, [[]]];
  const unit = table.get(points[0], "unit");
  const show = (value) => etq.quantity(value, unit);
  const list = (name) => points.map((row) => table.get(row, name));
  const isDrawnInParts = points.some((row) => table.get(row, "captures") > 1);
  const [bounds, of] = isDrawnInParts ? [["least", "greatest"], ["low", "high"]] : [[], []];
  const series = [
    ...["p25, as measured", ...bounds].map((label) => etq.line(label, "faint", show)),
    dotted("its own, without the common shift", "accent", show, points.length),
  ];
  const range = rangeOf([...list("normalized"), ...list("p25")], isDrawnInParts ? list("high") : []);
  const bands = isDrawnInParts ? [{ series: [3, 2], fill: `${etq.colour("faint")}44` }] : [];
  return chartOf(xOf(table, points, over), marks, `time a run, ${etq.unit(unit)}`, range, series, ["p25", ...of, "normalized"].map(list), { bands });
}
