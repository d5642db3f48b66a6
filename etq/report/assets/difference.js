// Two sides compared: the verdict and its limits, the captures of both sides, and tables of changes.

etq.section("verdict", (parent, { totals, findings }, facts) => {
  const rows = totals.rows().filter((row) => totals.get(row, "what") === "total");
  if (facts.op_line !== null) parent.append(etq.element("p", { class: "op-line" }, etq.element("a", { href: "#changes", text: facts.op_line })));
  for (const row of rows) parent.append(stated(totals, row, rows.length > 1, facts));
  for (const tail of facts.tails) parent.append(etq.element("p", { text: `${tail[0].toUpperCase()}${tail.slice(1)}.` }));
  parent.append(ofOps(facts.ops));
  parent.append(
    findings.length
      ? etq.element("div", { class: "note caveats" }, etq.element("strong", { text: "Limits of this comparison" }), etq.findings(findings))
      : etq.element("p", { class: "muted", text: "No limits were found: the sides were measured in turns, under the same conditions, and captures of a side agree." }),
  );
  const options = Object.entries(facts.options).map(([name, value]) => [name.replace("_", " "), value === true ? "yes" : value]);
  parent.append(etq.facts([["base", facts.base], ["new", facts.new], ...options]));
});

function stated(totals, row, hasMethods, { sample, stated: words, is_in_turns: isInTurns }) {
  const get = (name) => totals.get(row, name);
  const verdict = get("verdict");
  const hasPairs = get("base_captures") * get("new_captures") > 1 && get("change_percent") !== null;
  const [change, interval] = [etq.change(get("change_percent")), etq.interval(get("low_percent"), get("high_percent"))];
  return etq.element("div", { class: `stated ${etq.verdictClass(verdict)}`, "data-verdict": verdict, "data-method": get("method") },
    hasMethods ? etq.element("div", { class: "muted", text: get("method") }) : null,
    etq.element("div", { class: "value" },
      etq.element("span", { text: words[verdict] ?? verdict ?? "" }),
      change ? etq.element("span", { class: "change", text: change }) : null,
      interval ? etq.element("span", { class: "muted interval", text: isInTurns ? interval : `spread ${interval}`, title: isInTurns ? "interval of 95 %" : `spread of the ${sample}s, without changes of the machine between the sides` }) : null),
    etq.element("div", { text: `${etq.quantity(get("base"), get("unit"))} in base (${counted(get("base_captures"), sample)}), ${etq.quantity(get("new"), get("unit"))} in new (${counted(get("new_captures"), sample)})${hasPairs ? ": medians; the change is by geometric means" : ""}` }),
    get("note") === null ? null : etq.element("div", { class: "muted", text: get("note") }));
}

function counted(samples, sample) {
  return `${etq.number(samples ?? 0)} ${sample}${samples === 1 ? "" : "s"}`;
}

function ofOps(verdicts) {
  const order = etq.orderOfVerdicts;
  const others = Object.keys(verdicts).filter((verdict) => verdict && verdict !== "null" && !order.includes(verdict));
  const counts = [...order, ...others].filter((verdict) => verdicts[verdict]).map((verdict) => {
    const words = etq.verdict(verdict);
    words.textContent = etq.words[verdict] ?? verdict;
    return etq.element("span", {}, words, etq.printable(` ${etq.number(verdicts[verdict])}`));
  });
  return counts.length === 0 ? "" : etq.element("p", { class: "legend ops" }, etq.element("span", { text: "Of ops:" }), ...counts);
}

etq.section("captures", (parent, { captures: rows, totals }, facts) => {
  const unit = rows.get(0, "unit");
  const at = rows.rows().map((place) => place + 1);
  const middle = totals.rows().filter((row) => totals.get(row, "what") === "total");
  const show = (value) => etq.quantity(value, unit);
  const quantile = { 0.25: "p25", 0.5: "median", 0.9: "p90" }[facts.quantile];
  const name = (place) => etq.printable(etq.short(rows.get(place - 1, "capture") ?? "", 60));
  const lines = () => {
    const found = [];
    for (const side of ["base", "new"]) {
      for (const isOdd of [false, true]) {
        const values = rows.rows().map((row) => (rows.get(row, "side") === side && Boolean(rows.get(row, "is_disturbed")) === isOdd ? rows.get(row, "total") : null));
        if (!values.some((each) => each !== null)) continue;
        const series = etq.points(isOdd ? `${side}, left out` : side, isOdd ? "bad" : side, 8, show);
        if (isOdd) series.points = { show: true, size: 9, width: 2, stroke: etq.colour("bad"), fill: etq.colour(side === "new" ? "bad" : "back") };
        found.push([series, values]);
      }
      if (middle.length !== 1 || rows.list("side").filter((each) => each === side).length < 2) continue;
      const level = totals.get(middle[0], side);
      found.push([etq.line(`median of ${side}`, side, show, { dash: [5, 4] }), at.map(() => level)]);
    }
    return found;
  };
  etq.plot(parent, () => {
    const found = lines();
    return [
      {
        scales: { x: { time: false, range: (_, low, high) => [low - 0.7, high + 0.7] } },
        axes: [
          etq.axis(`${facts.sample}, ${facts.order}`, (place) => (Number.isInteger(place) && place > 0 && place <= at.length ? etq.number(place) : ""), { size: 34, incrs: etq.countSteps }),
          etq.axis(timed(facts, quantile, unit), etq.number),
        ],
        series: [{ label: facts.sample, value: etq.legendOf(name) }, ...found.map((each) => each[0])],
      },
      [at, ...found.map((each) => each[1])],
    ];
  });
  return { captures: { first: 6, own: { capture: etq.linkOf ? { as: (capture) => linked(capture, facts.sample) } : {} } } };
});

// The drawn values of each sample.
function timed(facts, quantile, unit) {
  if (facts.sample === "step") return `step, ${etq.unit(unit)}`;
  return `${facts.is_of_traces ? "step" : "execute"} (${quantile} of all ${facts.is_of_traces ? "steps" : "runs"}), ${etq.unit(unit)}`;
}

// The name of a step is its trace, # and its position. The link is that of the trace.
function linked(name, sample) {
  const made = etq.captureName(sample === "step" ? name.replace(/ #\d+$/, "") : name);
  made.textContent = etq.printable(name);
  return made;
}

etq.section("changes", (parent, { ops }) => {
  const shown = ops.rows().filter((row) => ops.get(row, "change_percent") !== null);
  const changes = shown.map((row) => etq.changeOf(ops, row));
  const scale = etq.changeScale(changes);
  const list = etq.element("div", { class: "dots", role: "list" });
  shown.forEach((row, at) => list.append(dot((name) => ops.get(row, name), changes[at], scale)));
  parent.append(etq.element("p", { class: "muted", text: "The ops that explain most of the difference, largest first. Each change is without the common shift, and has an interval if there are enough captures. It is filled if it counts." }), list);
  list.append(etq.element("div", { class: "dot-row scale muted", "aria-hidden": "true" }, etq.element("span"), etq.changeTicks(scale), etq.element("span")));
});

// In traces, a host op, its work on devices and a kernel may have the same name.
const KINDS = { device_op: "on devices", device_annotation: "annotation, on devices", annotation: "annotation", device_kernel: "kernel", device_copy: "copy", device_fill: "fill", runtime: "call" };

function dot(get, change, scale) {
  const where = [KINDS[get("kind")], get("module_path"), get("instruction_id") === null ? "" : `@${get("instruction_id")}`].filter(Boolean).join(" ");
  const pairs = [
    ...etq.changePairs(change),
    ["base", etq.quantity(get("base"), get("unit"))],
    ["new", etq.quantity(get("new"), get("unit"))],
    ["share of base", etq.percent(get("share_percent"))],
    ["note", get("note")],
  ];
  return etq.element("div", {
    class: "dot-row", role: "listitem", "data-verdict": change.verdict,
    onpointermove: (event) => etq.showTip(event, `${get("op")} ${where}`, pairs),
    onpointerleave: () => etq.hideTip(),
  },
  etq.element("span", { class: "dot-name" }, etq.element("span", {}, ...etq.broken(etq.short(get("op"), 80))), etq.element("span", { class: "muted", text: ` ${etq.short(where, 80)}` })),
  etq.changeTrack(change, scale),
  etq.element("span", { class: "dot-value", text: etq.change(change.change) }));
}
