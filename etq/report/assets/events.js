// Percentiles of each event over the runs of its block, and the histogram of the one that is chosen.

etq.section("events", (parent, { events, bars }) => {
  const unit = events.get(0, "unit");
  const places = new Map();
  for (const row of bars.rows()) {
    const key = ["block_index", "slot", "occurrence"].map((name) => bars.get(row, name)).join(" ");
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
      axes: [etq.axis(`time, ${etq.unit(state.unit)}`, etq.number, { size: 34 }), etq.axis("runs", etq.number)],
      legend: { show: false },
      cursor: { show: false },
      series: [
        {},
        { label: "runs", fill: etq.colour("accent"), stroke: etq.colour("accent"), width: 0, paths: uPlot.paths.bars({ size: [0.92, 200], align: 1 }), points: { show: false } },
      ],
    },
    state.data ?? [[], []],
  ]);
  parent.append(note);
  const choose = (row) => {
    const key = ["block_index", "slot", "occurrence"].map((name) => events.get(row, name)).join(" ");
    const shown = events.get(row, "unit");
    Object.assign(state, histogram(bars, places.get(key) ?? [], shown), { unit: shown });
    const instruction = events.get(row, "instruction_id");
    title.textContent = etq.printable(`${events.get(row, "event_name")}${instruction === null ? "" : `, instruction ${instruction}`}`);
    note.textContent = state.note;
    draw();
  };
  const percentiles = ["p5", "p25", "p50", "p75", "p95", "p99"].map((name) => ({ name, unit, numeric: true }));
  etq.table(parent, events, [
    { name: "event_name", title: "event" },
    { name: "kind" },
    { name: "instruction_id", title: "instruction", numeric: true },
    { name: "block_index", title: "block", numeric: true, meaning: "runs of one name that logged the same events" },
    { name: "runs", numeric: true },
    ...percentiles,
  ], { sort: ["p50"], name: "events", choose });
});

// Bars from the first to the last, empty ones too; what lies beyond is told.
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
  if (!width) return { data: [[low], [bars.get(inside[0], "runs")]], note: `${notes.join(", ")}; all others took ${etq.quantity(low, unit)}` };
  const last = bars.get(inside.at(-1), "bin");
  const counts = new Array(last + 2).fill(0);
  for (const row of inside) counts[bars.get(row, "bin")] = bars.get(row, "runs");
  return { data: [counts.map((_, bin) => low + bin * width), counts], note: notes.join(", ") };
}
