// The execute time of each run, with warm-up and outliers marked; a click shows the run in the timeline. For steps of a
// trace: a bar with the parts of each step, and of their average.

etq.section("runs", (parent, { runs }) => {
  const unit = runs.get(0, "unit");
  const at = runs.list("run_index");
  const times = runs.list("execute");
  const known = times.filter((time) => time > 0);
  const state = { log: Math.max(...known) > 8 * Math.min(...known) };
  const only = (name) => times.map((time, row) => (runs.get(row, name) ? time : null));
  const [warm, odd] = [only("is_warm_up"), only("is_outlier")];
  const usual = times.map((time, row) => (warm[row] === null && odd[row] === null ? time : null));
  const show = (time) => etq.quantity(time, unit);
  const log = etq.element("input", { type: "checkbox", id: "runs-log" });
  log.checked = state.log;
  const draw = etq.plot(parent, () => [
    {
      scales: { x: { time: false }, y: state.log ? { distr: 3 } : { range: (_, low, high) => [Math.min(0, low), high * 1.05] } },
      axes: [etq.axis("run", etq.number, { size: 34, incrs: etq.countSteps }), etq.axis(`execute, ${etq.unit(unit)}`, etq.number)],
      series: [
        { label: "run", value: etq.legendOf(etq.number) },
        etq.points("execute", "accent", 5, show),
        etq.points("warm-up", "warm", 9, show),
        etq.points("outlier", "bad", 9, show),
        etq.line("median of runs like it", "muted", show, { dash: [4, 4] }),
      ],
      hooks: { ready: [(plot) => plot.over.addEventListener("click", () => open(plot, at))] },
    },
    [at, usual, warm, odd, runs.list("block_median")],
  ]);
  log.addEventListener("change", () => {
    state.log = log.checked;
    draw();
  });
  const count = (values) => values.filter((value) => value !== null).length;
  parent.append(
    etq.element("div", { class: "bar" },
      etq.element("label", {}, log, " logarithmic"),
      etq.element("span", { class: "muted", text: `${etq.number(runs.length)} runs, ${count(warm)} warm-up, ${count(odd)} ${count(odd) === 1 ? "outlier" : "outliers"}. Drag to zoom, double-click for all; a click shows the run in the timeline.` }),
    ),
  );
});

function open(plot, at) {
  const run = at[plot.cursor.idx];
  if (run !== undefined && etq.showRun?.(run)) document.getElementById("timeline")?.scrollIntoView({ block: "start" });
}

// The categories of a step by column, and their colours.
const CATEGORIES = {
  kernel: "kernel", memcpy: "call", memset: "faint", communication: "warm", runtime: "control", data_loader: "delegate", cpu_exec: "python",
  other: "framework",
};

etq.section("steps", (parent, { wide_steps: steps, average }) => {
  const unit = steps.get(0, "unit");
  const [at, numbers, times] = ["run_index", "step", "total"].map((name) => steps.list(name));
  const column = (name) => [...steps.list(name), ...average.list(name)];
  const categories = Object.keys(CATEGORIES).filter((name) => column(name).some((time) => time > 0));
  // Each bar reaches from 0 to the top of its category, so the tallest is drawn first.
  const tops = [];
  for (const name of categories) tops.push(column(name).map((time, place) => (time ?? 0) + (tops.at(-1)?.[place] ?? 0)));
  const places = [...numbers.keys(), numbers.length];
  const name = (place) => (place === numbers.length ? "average" : numbers[place] === undefined ? "" : etq.number(numbers[place]));
  const show = (category) => (_, place) => etq.quantity(column(category)[place], unit);
  if (numbers.length > 1) etq.plot(parent, () => [
    {
      height: 220,
      scales: { x: { time: false, range: [-0.6, places.length - 0.4] }, y: { range: (_, low, high) => [0, high * 1.05] } },
      axes: [etq.axis("step", name, { size: 34, incrs: etq.countSteps }), etq.axis(`step, ${etq.unit(unit)}`, etq.number)],
      series: [
        { label: "step", value: etq.legendOf(name) },
        ...categories.map((category) => etq.bars(category.replace("_", " "), CATEGORIES[category], show(category))).reverse(),
      ],
    },
    [places, ...tops.reverse()],
  ], (place) => etq.showRun?.(at[place]) && document.getElementById("timeline")?.scrollIntoView({ block: "start" }));
  const found = numbers.filter((_, row) => steps.get(row, "is_slow")).map(etq.number);
  const few = found.slice(0, 10).join(", ") + (found.length > 10 ? ", …" : "");
  const text = found.length ? `${found.length} of ${etq.number(times.length)} steps ${found.length === 1 ? "is" : "are"} slow: ${few}.` : "No step is slow.";
  parent.append(etq.element("p", { class: "muted", text }));
});
