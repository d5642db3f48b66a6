// The graph of the program: ops in their modules, which open and close, coloured by cost.

// Numbers that stand for infinity and NaN in data. NaN counts as bad.
const UNBOUNDED = 1e308;
const NOT_A_NUMBER = 1.5e308;
const scientific = (value) => {
  if (Math.abs(value) >= NOT_A_NUMBER) return "NaN";
  if (Math.abs(value) >= UNBOUNDED) return value > 0 ? "∞" : "−∞";
  return (Math.abs(value) < 1e-3 && value !== 0) || Math.abs(value) >= 1e6 ? value.toExponential(3) : etq.number(value);
};
const orNothing = (as) => (value) => (value === null || value === undefined ? "" : as(value));

// For each scale of an overlay: a function from a value to its badness, 0 to Infinity, and the inverse function.
const SCALES = {
  halves: { step: 2, of: (value) => value, back: (bad) => bad, word: "from" },
  tenths: { step: 10, of: (value) => (value >= UNBOUNDED ? Infinity : value), back: (bad) => bad, word: "from" },
  decibels: {
    step: 10,
    of: (value) => (value >= UNBOUNDED ? 0 : value < -3000 ? Infinity : 10 ** (-value / 10)),
    back: (bad) => -10 * Math.log10(bad),
    word: "up to",
  },
  cosine: { step: 10, of: (value) => (value <= -UNBOUNDED ? Infinity : Math.max(1 - value, 0)), back: (bad) => 1 - bad, word: "up to" },
};

// The text of an overlay's value, by its kind.
const AS = {
  time: (value, unit) => etq.quantity(value, unit),
  percent: etq.percent,
  number: etq.number,
  bytes: etq.bytes,
  gap: orNothing(scientific),
  decibels: orNothing((value) => `${scientific(value)}\u00a0dB`),
};

// The colour of a badness, if the worst is `highest`.
const heatOf = (badness, highest, scale) => {
  if (!badness) return "heat-0";
  const at = [1, 2, 3, 4].findIndex((power) => badness >= highest * SCALES[scale].step ** -power);
  return `heat-${at < 0 ? 1 : 5 - at}`;
};
// The legend of these colours.
const heatLegend = (highest, { scale, kind }, unit) => {
  const { step, back, word } = SCALES[scale];
  const entries = [1, 2, 3, 4].map((power) => [`heat-${6 - power}`, `${word} ${AS[kind](back(highest * step ** -power), unit)}`]);
  return highest ? [...entries, ["heat-1", word === "from" ? "less" : "more"]] : [];
};
// Reads a search word such as >1e-6 as a limit on the shown values: whether it is one, and whether a value is beyond
// it.
const isLimit = (word) => /^[<>]./.test(word) && Number.isFinite(Number(word.slice(1)));
const isBeyond = (word, value) => value !== null && (word[0] === ">" ? value > Number(word.slice(1)) : value < Number(word.slice(1)));
// A gap with the time of its op: boxes show both.
const withTime = (gap, time, unit) => [gap, gap && time !== null ? etq.quantity(time, unit) : ""].filter(Boolean).join(" · ");
// Names the first op from which the gap grows, with a button that shows it; nothing if there is none.
const growth = (name, reach) => (name === undefined ? [] : [etq.element("p", { class: "muted hint growth" }, "The gap grows from ",
  etq.element("button", { type: "button", class: "quiet", text: etq.short(name, 60), onclick: reach }),
  " on, the first op within a factor of 10 (10\u00a0dB) of the worst.")]);
etq.graphValues = { SCALES, AS, heatOf, heatLegend, isLimit, isBeyond, withTime, growth };

// facts.overlays: the values that colour boxes, see etq/report/overlays.py.
etq.section("graph", (parent, tables, facts) => {
  const { nodes, groups } = tables;
  const unit = nodes.list("unit").find((each) => each !== null) ?? null;
  const graphs = [...new Set(groups.list("graph_id"))];
  // Each graph is laid out when it is first shown, because a program may have many delegates. Graphs of delegates have
  // negative numbers.
  const all = [];
  const placesOf = (at) => (all[at] ??= new etq.GraphPlaces(tables, graphs[at]));
  const titles = new Map(groups.rows().map((row) => [groups.get(row, "graph_id"), groups.get(row, "method")]));
  let places = placesOf(0);
  const shownGraph = () => groups.get(places.root, "graph_id");
  let level = 1;
  const overlays = facts.overlays.filter(({ key, node }) => nodes.has(node) || key === "backend");
  // The things that missing overlays need, each once.
  const needs = [...new Set(facts.overlays.map((each) => each.needs).filter((each) => each && !overlays.some(({ needs }) => needs === each)))];
  const lacking = needs.map((need) => `${facts.overlays.filter((each) => each.needs === need).map(({ title }) => title).join(", ")}: with ${need}`);
  let overlay = overlays[0];
  const isOfWords = () => overlay.kind === "word";
  const isGap = () => ["gap", "decibels"].includes(overlay.kind);
  let sorts = new Map();
  let highest = 0;

  const isGroup = (item) => item >= places.count;
  const get = (item, name) => (isGroup(item) ? groups.get(item - places.count, name) : nodes.get(item, name));
  const value = (item) => get(item, isGroup(item) ? overlay.group : overlay.node);
  const badness = (item) => (value(item) === null ? 0 : SCALES[overlay.scale].of(value(item)));
  const sortOf = (item) => nodes.get(item, overlay.node) ?? overlay.none;
  // The word that all ops of a module share, or null.
  const sortsOfGroups = (column) => {
    const found = new Map();
    for (let node = 0; node < places.count; node += 1) {
      const sort = column[node];
      for (let at = places.parent[node]; at >= 0; at = places.parent[places.count + at]) {
        if (!found.has(at)) found.set(at, sort);
        else if (found.get(at) !== sort) found.set(at, null);
      }
    }
    return found;
  };
  let ofGroups = new Map();
  let found = null; // the ops that a search finds
  const heading = (item) => (isGroup(item) ? get(item, "module_path") || get(item, "name") || "(the model)" : get(item, "name"));
  const second = (item) => {
    if (isOfWords()) return isGroup(item) ? (ofGroups.get(item - places.count) ?? "several") : sortOf(item);
    const shown = overlay.key === "time" && isBelow(item) ? below(item) : AS[overlay.kind](value(item), unit);
    return isGap() ? withTime(shown, get(item, "per_execute"), unit) : shown;
  };
  const labels = new Map();
  const label = (item) => {
    if (!labels.has(item)) labels.set(item, labelled(item));
    return labels.get(item);
  };
  const labelled = (item) => [isGroup(item) ? get(item, "name") || "(the model)" : get(item, "op") ?? get(item, "op_type"), second(item)];
  const colour = (item) => {
    if (isOfWords()) {
      const sort = isGroup(item) ? ofGroups.get(item - places.count) : sortOf(item);
      return sorts.has(sort) ? `sort-${sorts.get(sort)}` : "heat-0";
    }
    return heatOf(badness(item), highest, overlay.scale);
  };
  // If the step of the clock is known, a time of 0 means less than a step per call.
  const stepOf = (item) => (isGroup(item) ? Math.max(0, ...Object.values(facts.steps)) : facts.steps[get(item, "backend") === null ? "host" : "delegate"]);
  const isBelow = (item) => get(item, "per_execute") === 0 && get(item, "calls") > 0 && stepOf(item) > 0;
  const below = (item) => `< ${etq.quantity(stepOf(item) * get(item, "calls_per_execute"), unit)}`;
  const times = (item, name) => (get(item, name) === null ? "" : isBelow(item) ? below(item) : `${etq.quantity(get(item, name), unit)} (${etq.percent(get(item, "share_percent"))})`);
  const calls = (item) => (get(item, "calls") === null ? "" : `${etq.number(get(item, "calls_per_execute"))} in an execute, ${etq.number(get(item, "calls"))} in all`);
  const least = (item, name) => (get(item, `without_${name}`) ? `, without ${get(item, `without_${name}`)} ops where unknown` : "");
  const ofCost = (item, name, as) => (get(item, name) === null ? "" : as(get(item, name)) + (isGroup(item) ? least(item, name) : ""));
  const line = (item) => (get(item, "source_file") === null ? "" : `${get(item, "source_file")}:${get(item, "source_line")}`);
  // Values that only some graphs have.
  const more = (item) => overlays.filter(({ needs }) => needs).map(({ title, kind, node, group }) => [title, AS[kind](get(item, isGroup(item) ? group : node), unit)]);
  const describe = (item) => isGroup(item)
    ? [
      ["class", get(item, "module_class")],
      ["time in an execute", times(item, "per_execute")],
      ["self time in an execute", etq.quantity(get(item, "self_per_execute"), unit)],
      ["calls of its ops", calls(item)],
      ["ops", etq.number(get(item, "nodes"))],
      ["FLOPs", ofCost(item, "flops", etq.number)],
      ["bytes", ofCost(item, "bytes", etq.bytes)],
      ...more(item),
    ]
    : [
      ["op", get(item, "op_type")],
      ["module", get(item, "module_path")],
      ["self time in an execute", times(item, "per_execute") || (unit === null ? "" : "no event is its own")],
      ["calls", calls(item)],
      ["output", [get(item, "output_shape"), get(item, "dtype")].filter(Boolean).join(" ")],
      ["FLOPs", ofCost(item, "flops", etq.number)],
      ["bytes", ofCost(item, "bytes", etq.bytes)],
      ...more(item),
      ["share of the roofline", get(item, "roof_percent") === null ? "" : `${etq.percent(get(item, "roof_percent"))}, bound by ${get(item, "bound") ?? "one peak"}`],
      ["about the gap", get(item, "gap_problem")],
      ["backend", get(item, "backend")],
      ["line", line(item)],
      ["inputs", get(item, "input_shapes")],
      ["arguments", get(item, "arguments")],
      ["debug handles", get(item, "debug_handles")],
      ["events", get(item, "events")],
      ["in the delegate", get(item, "delegate_ops")],
      ["counted", get(item, "formula")],
      ["unknown", get(item, "reason")],
    ];

  const select = etq.element("select", { "aria-label": "Colour by", id: "graph-overlay" },
    ...overlays.map(({ key, title }) => etq.element("option", { value: key, text: `by ${title}` })));
  const which = etq.element("select", { "aria-label": "Method, or delegate's call", id: "graph-method" },
    ...graphs.map((graph, at) => etq.element("option", { value: at, text: titles.get(graph) })));
  which.hidden = graphs.length < 2;
  const finder = etq.finder({
    placeholder: "op, name, module, file:line, handle:12, >1e-6",
    label: "Search the graph",
    find: (words) => {
      const hasHandle = (node, handle) => (nodes.get(node, "debug_handles") ?? "").split(", ").includes(handle);
      const has = (node, word) => (word.startsWith("handle:") ? hasHandle(node, word.slice(7)) : text(node).includes(word));
      const matches = (node) => words.every((word) => (isLimit(word) && !isOfWords() ? isBeyond(word, value(node)) : has(node, word)));
      found = words.length ? nodes.rows().filter((node) => places.isWithin(node) && matches(node)) : null;
      mark();
      return found ?? [];
    },
    go: (node) => reach(node),
    told: (matches) => `${etq.number(matches.length)} found`,
    step: (at, matches) => `${etq.number(at + 1)} of ${etq.number(matches.length)}`,
  });
  const bar = etq.element("div", { class: "bar" }, which, select, ...finder.parts,
    etq.button("+", "Zoom in", () => view.zoom(1.4)), etq.button("−", "Zoom out", () => view.zoom(1 / 1.4)),
    etq.button("Fit", "Show the whole graph", () => view.fit()),
    etq.button("Close all", "Close all modules", () => openTo(1), "graph-close"),
    etq.button("Level +", "Open one level more", () => openTo(level + 1), "graph-more"),
    etq.button("Level −", "Close the innermost level", () => openTo(level - 1), "graph-less"),
    etq.button("Open all", "Open all modules", () => openTo(places.levels), "graph-open"), finder.output);
  const frame = etq.element("div", { class: "graph" });
  const side = etq.element("div", {});
  const legend = etq.element("div");
  const detail = etq.element("div", { class: "detail", tabindex: 0, role: "region", "aria-label": "Details", "aria-live": "polite" });
  parent.append(bar, frame);
  frame.append(side, detail);
  const view = new etq.GraphView(side, {
    title: "Graph of the program, from top to bottom: ops in modules; arrow keys move it, n and p go from box to box, Enter opens or closes a module",
    label, colour, heading, describe,
    choose: (item) => {
      if (item < 0) return;
      choose(item);
      if (isGroup(item) && item !== places.count + places.root) {
        view.toggle(item);
        update();
      }
    },
    select: (item) => choose(item),
    over: (item) => etq.markIcicle?.(item < 0 || !places ? null : get(item, "module_path")),
  });
  etq.graph = view;
  side.append(legend, etq.element("p", {
    class: "muted hint",
    text: "Click a module to open or close it, drag to move, Ctrl and the wheel to zoom. Colours compare what is visible.",
  }));
  if (lacking.length) side.append(etq.element("p", { class: "muted hint", text: `More colours: ${lacking.join("; ")}.` }));

  function openTo(to) {
    level = Math.min(Math.max(to, 1), places.levels);
    view.openTo(level);
    update();
  }

  function choose(item) {
    view.chosen = item;
    const stack = isGroup(item) ? null : get(item, "stack_trace");
    const links = [["ops", "Ops"], ["modules", "Modules"], ["sources", "Source lines"], ["timeline", "Timeline"], ["events", "Events"]]
      .filter(([id]) => document.getElementById(id)).map(([id, text]) => etq.element("a", { href: `#${id}`, text }));
    detail.replaceChildren(...etq.details(heading(item), describe(item)));
    // Buttons that lead from an op to the delegate's ops that were made from it, and back.
    const other = isGroup(item) ? null : get(item, "counterpart");
    if (other !== null) {
      const text = get(other, "graph_id") < 0 ? "Show it in the delegate's graph" : "Show it in the program's graph";
      detail.append(etq.element("button", { type: "button", class: "quiet", id: "graph-counterpart", text, onclick: () => reach(other) }));
    }
    if (stack) {
      const lines = etq.short(stack, 5000).split("\n").map((text) => etq.element("div", { text }));
      detail.append(etq.element("h3", { text: "Stack trace" }), etq.element("pre", {}, ...lines));
    }
    if (links.length) detail.append(etq.element("div", { class: "graph-links" }, ...links));
    view.draw();
  }

  // The colours of the visible boxes, and their legend.
  function update() {
    const entries = [];
    labels.clear();
    if (isOfWords()) {
      const column = nodes.list(overlay.node).map((sort) => sort ?? overlay.none);
      const counts = new Map();
      column.forEach((sort, node) => places.isWithin(node) && counts.set(sort, (counts.get(sort) ?? 0) + 1));
      const frequent = [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
      sorts = new Map(frequent.map(([sort], at) => [sort, Math.min(at + 1, 6)]));
      ofGroups = sortsOfGroups(column);
      frequent.slice(0, 5).forEach(([sort, number], at) => entries.push([`sort-${at + 1}`, `${etq.short(sort, 60)}: ${etq.number(number)} ops`]));
      const others = frequent.slice(5);
      if (others.length) {
        const number = others.reduce((sum, each) => sum + each[1], 0);
        entries.push(["sort-6", others.length > 1 ? `${etq.number(others.length)} others: ${etq.number(number)} ops` : `${others[0][0]}: ${etq.number(number)} ops`]);
      }
      entries.push(["heat-0", "several"]);
    } else {
      highest = 0;
      for (const item of places.visible) if (badness(item) < Infinity) highest = Math.max(highest, badness(item));
      entries.push(...heatLegend(highest, overlay, unit), ["heat-0", "none, or unknown"]);
    }
    legend.replaceChildren();
    etq.legend(legend, entries);
    if (isGap()) {
      const first = nodes.rows().find((node) => places.isWithin(node) && nodes.get(node, "gap_grows")?.split(", ").includes(overlay.key));
      legend.append(...growth(first && nodes.get(first, "name"), () => reach(first)));
    }
    mark();
  }

  // The ops with the largest values, or all ops, to search and sort.
  const list = etq.element("div");
  parent.append(etq.element("h3", { text: "Ops of the graph" }), list);
  function tabulate() {
    const number = (name, title, more = {}) => ({ name, title, numeric: true, ...more });
    list.replaceChildren();
    let isNew = true;
    etq.table(list, nodes, [
      { name: "name", as: (name, row) => name },
      ...(graphs.length > 1 ? [{ name: "method" }] : []),
      number("per_execute", "self time in an execute", { unit, as: (value, row, short, decimals) => (isBelow(row) ? `<\u00a0${etq.digits(stepOf(row) * get(row, "calls_per_execute"))}` : etq.fixed(value, decimals)) }),
      number("share_percent", "share", { share: true, as: (value, row) => (isBelow(row) ? "" : etq.percent(value)) }),
      number("calls", "calls in all"),
      number("flops", "FLOPs"),
      number("bytes", "bytes", { as: etq.bytes }),
      ...(overlay.needs ? [number(overlay.node, overlay.title, overlay.kind === "time" ? { unit } : { as: AS[overlay.kind] })] : []),
      { name: "backend" },
      { name: "dtype", title: "type" },
      { name: "output_shape", title: "output", class: "code" },
      { name: "module_path", title: "module" },
      { name: "debug_handles", title: "handles" },
    ], {
      sort: isOfWords() ? [overlay.node === "op_type" ? "name" : overlay.node, "up"] : [overlay.node, ...(SCALES[overlay.scale].word === "from" ? [] : ["up"])],
      name: "graph-ops",
      first: 8,
      keep: (row) => (shownGraph() < 0 ? nodes.get(row, "graph_id") === shownGraph() : nodes.get(row, "graph_id") >= 0),
      choose: (row) => {
        if (!isNew) reach(row);
        else if (view.chosen < 0) choose(row);
        isNew = false;
      },
    });
  }

  function reach(row) {
    const at = graphs.indexOf(nodes.get(row, "graph_id"));
    if (placesOf(at) !== places) {
      which.value = at;
      turn(at);
    }
    view.reveal(row);
    choose(row);
    update();
  }

  function turn(at) {
    const wasDelegate = shownGraph() < 0;
    places = placesOf(at);
    level = 1;
    view.chosen = -1;
    places.openTo(1);
    labels.clear();
    view.show(places);
    finder.search();
    update();
    // A delegate's ops are listed apart, because their times are part of the times of the program's ops.
    if (wasDelegate || shownGraph() < 0) tabulate();
  }

  const texts = new Map();
  const text = (node) => {
    if (!texts.has(node)) {
      texts.set(node, [get(node, "name"), get(node, "op_type"), get(node, "module_path"), line(node)].join("\n").toLowerCase());
    }
    return texts.get(node);
  };
  // A closed module is marked in place of the ops in it.
  function mark() {
    view.hits = found && new Set(found.map((node) => places.shown(node)));
    view.draw();
  }
  select.addEventListener("change", () => {
    overlay = overlays.find(({ key }) => key === select.value);
    finder.search();
    update();
    view.change(() => {}, view.middle());
    tabulate();
  });
  which.addEventListener("change", () => turn(Number(which.value)));

  // Marks a module that is under the pointer elsewhere on the page: the box that shows it, or its visible parts.
  etq.markGraph = (path) => {
    view.pointed = new Set();
    for (let at = 0; path && at < groups.length; at += 1) {
      if (groups.get(at, "module_path") === path) view.pointed.add(places.shown(places.count + at));
    }
    view.draw();
  };
  turn(0);
  tabulate();
});
