const EXECUTES = ["Method::execute", "Method::step"];

// Percentiles of each event over the runs of its block, and the histogram of the chosen event.

etq.section("events", (parent, { events, bars }) => {
  const places = new Map();
  for (const row of bars.rows()) {
    const key = keyOf(bars, row);
    if (!places.has(key)) places.set(key, []);
    places.get(key).push(row);
  }
  const title = etq.element("h3");
  const note = etq.element("p", { class: "muted" });
  const state = { shown: null };
  parent.append(title);
  const draw = etq.plot(parent, () => [
    {
      height: 200,
      scales: { x: { time: false, range: (_, low, high) => [low, high] }, y: { range: (_, __, high) => [0, high * 1.05] } },
      axes: [etq.axis(`time, ${etq.unit(state.unit)}`, etq.number, { size: 34 }), etq.axis("runs", etq.number, { incrs: etq.countSteps })],
      legend: { show: false },
      cursor: { show: false },
      hooks: { draw: [(plot) => mark(plot, state.marks)] },
      series: [
        {},
        etq.bars("runs", "accent", etq.number, [0.92, 200], { align: 1 }),
      ],
    },
    state.data ?? [[], []],
  ]);
  parent.append(note);
  const choose = (row) => {
    const key = keyOf(events, row);
    const shown = events.get(row, "unit");
    Object.assign(state, histogram(bars, places.get(key) ?? [], shown), { unit: shown });
    const instruction = events.get(row, "instruction_id");
    title.textContent = etq.printable(`${events.get(row, "event_name")}${instruction === null ? "" : `, instruction ${instruction}`}`);
    state.marks = ["p50", "p95"].map((name) => [name, events.get(row, name)]).filter(([, value]) => value !== null);
    note.textContent = `${state.note}. ${state.marks.map(([name, value]) => `${name} ${etq.quantity(value, shown)}`).join(", ")}.`;
    parent.querySelector(".plot").hidden = !state.data[0].length;
    draw();
  };
  return { events: { choose, chosen: opensOn(events, (row) => places.get(keyOf(events, row))?.length > 1) } };
});

// The event that the histogram shows at first: an event with several bars, if possible an execute.
function opensOn(events, hasBars) {
  const isExecute = (row) => EXECUTES.includes(events.get(row, "event_name")) && hasBars(row);
  return events.rows().some(isExecute) ? isExecute : hasBars;
}

function keyOf(table, row) {
  return ["block_index", "slot", "occurrence"].map((name) => table.get(row, name)).join(" ");
}

// Draws percentiles as lines, if they are within the picture.
function mark(plot, marks) {
  const { ctx: pen, bbox } = plot;
  pen.save();
  pen.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const [at, [name, value]] of (marks ?? []).entries()) {
    const x = plot.valToPos(value, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    pen.fillStyle = etq.colour("warm");
    pen.textAlign = "left";
    pen.fillRect(x, bbox.top, devicePixelRatio, bbox.height);
    pen.fillText(name, x + 4 * devicePixelRatio, bbox.top + (11 + 13 * at) * devicePixelRatio);
  }
  pen.restore();
}

// Bars from the first to the last, including empty ones, and a note on values beyond them.
function histogram(bars, rows, unit) {
  const inside = rows.filter((row) => !bars.get(row, "is_beyond"));
  const beyond = rows.find((row) => bars.get(row, "is_beyond"));
  const runs = rows.reduce((sum, row) => sum + bars.get(row, "runs"), 0);
  const notes = [`${etq.number(runs)} ${runs === 1 ? "run" : "runs"}`];
  if (beyond !== undefined) {
    notes.push(
      `${etq.number(bars.get(beyond, "runs"))} of them beyond, from ${etq.number(bars.get(beyond, "low"))} to ${etq.quantity(bars.get(beyond, "high"), unit)}`,
    );
  }
  if (!inside.length) return { data: [[], []], note: notes.join(", ") };
  const low = bars.get(inside[0], "low");
  const width = bars.get(inside[0], "high") - low;
  // A single time needs no histogram.
  if (!width) return { data: [[], []], note: `${notes.join(", ")}; ${runs === 1 ? "it" : (beyond === undefined ? "all" : "all others")} took ${etq.quantity(low, unit)}` };
  const last = bars.get(inside.at(-1), "bin");
  const counts = new Array(last + 2).fill(0);
  for (const row of inside) counts[bars.get(row, "bin")] = bars.get(row, "runs");
  return { data: [counts.map((_, bin) => low + bin * width), counts], note: notes.join(", ") };
}
