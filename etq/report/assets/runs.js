// Run after run: how long each execute took, warm-up and outliers marked. A click shows the run in the timeline.
// Steps of a trace: a bar for each, slow ones marked.

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
        { label: "run", value: (_, run) => (run === null ? "–" : etq.number(run)) },
        etq.points("execute", "accent", 5, show),
        etq.points("warm-up", "warm", 9, show),
        etq.points("outlier", "bad", 9, show),
        { label: "median of runs like it", stroke: etq.colour("muted"), width: 1, dash: [4, 4], points: { show: false }, value: (_, time) => (time === null ? "–" : show(time)) },
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

etq.stepStrip = (parent, steps, unit) => {
  const at = steps.list("run_index");
  const [numbers, times] = [steps.list("step"), steps.list("total")];
  const places = numbers.map((_, place) => place);
  const slow = places.map((row) => (steps.get(row, "is_slow") ? times[row] : null));
  const usual = times.map((time, row) => (slow[row] === null ? time : null));
  const show = (time) => (time === null || time === undefined ? "–" : etq.quantity(time, unit));
  const bars = (label, colour) => ({
    label,
    stroke: etq.colour(colour),
    fill: etq.colour(colour),
    width: 0,
    paths: uPlot.paths.bars({ size: [0.8, 40] }),
    points: { show: false },
    value: (_, time) => show(time),
  });
  const name = (place) => (numbers[place] === undefined ? "" : etq.number(numbers[place]));
  etq.plot(parent, () => [
    {
      height: 170,
      scales: { x: { time: false, range: [-0.6, places.length - 0.4] }, y: { range: (_, low, high) => [0, high * 1.05] } },
      axes: [etq.axis("step", name, { size: 34, incrs: etq.countSteps }), etq.axis(`step, ${etq.unit(unit)}`, etq.number)],
      series: [{ label: "step", value: (_, place) => (place === null ? "–" : name(place)) }, bars("time", "accent"), bars("slow", "bad")],
    },
    [places, usual, slow],
  ], (place) => etq.showRun?.(at[place]) && document.getElementById("timeline")?.scrollIntoView({ block: "start" }));
  const found = slow.flatMap((time, row) => (time === null ? [] : [etq.number(numbers[row])]));
  const few = found.slice(0, 10).join(", ") + (found.length > 10 ? ", …" : "");
  const text = found.length ? `${found.length} of ${etq.number(times.length)} steps ${found.length === 1 ? "is" : "are"} slow: ${few}.` : "No step is slow.";
  parent.append(etq.element("p", { class: "muted", text }));
};
