// Two graphs next to each other: they move and zoom together, modules of one path open together, and the counterpart of
// the chosen op is marked at the same height.

const SIDES = ["base", "new"];
const { SCALES, AS, heatOf, heatLegend, isLimit, isBeyond, withTime, growth } = etq.graphValues;
// These words have the same colours on every page, in this order. Other words are coloured by their frequency.
const CHANGES = ["same", "added", "changed", "split", "removed", "merged"];
const COLOURS = [
  { key: "change", title: "change", word: (get) => get("change"), fixed: CHANGES },
  { key: "time", title: "self time of an execute", scale: "halves", kind: "time" },
  { key: "backend", title: "backend", word: (get) => get("backend") ?? "no delegate" },
  { key: "dtype", title: "data type", word: (get) => get("dtypes") ?? "unknown" },
  { key: "op", title: "op type", word: (get) => get("op_type") },
];

etq.section("graph_pair", (parent, tables, facts) => {
  const sides = SIDES.map((side, at) => {
    const [nodes, groups, edges, bends] = ["nodes", "groups", "edges", "bends"].map((name) => tables[`${side}_${name}`]);
    const ids = new Map(groups.rows().filter((row) => groups.get(row, "parent") < 0).map((row) => [groups.get(row, "method"), groups.get(row, "graph_id")]));
    const places = new Map([...ids].map(([method, id]) => [method, new etq.GraphPlaces({ nodes, groups, edges, bends }, id)]));
    return { at, side, nodes, groups, places, name: facts.names[at] };
  });
  const [base, next] = sides;
  const methods = [...base.places.keys()].filter((method) => next.places.has(method));
  const unit = base.nodes.list("unit").concat(next.nodes.list("unit")).find((each) => each !== null) ?? null;
  const has = (name) => sides.some(({ nodes }) => nodes.list(name).some((value) => value !== null));
  const gap = { ...facts.gap, key: "gap" };
  const colours = [...COLOURS.slice(0, 2), gap, ...COLOURS.slice(2)].filter(({ key }) => !["time", "gap"].includes(key) || has(key));
  let method = methods[0];
  let colour = colours[0];
  let words = new Map();
  let highest = 0;
  let level = 1;
  // The offset of the new graph from the base graph, in the units of the graphs.
  let apart = [0, 0];

  const isGroup = (side, item) => item >= side.nodes.length;
  const get = (side, item, name) => (isGroup(side, item) ? side.groups.get(item - side.nodes.length, name) : side.nodes.get(item, name));
  const wordOf = (side, item) => colour.word((name) => side.nodes.get(item, name));
  // The word that all ops of a module share, or null.
  const wordsOfGroups = (side) => {
    const found = new Map();
    const { count, parent: up } = side.places.get(method);
    for (let node = 0; node < count; node += 1) {
      const word = wordOf(side, node);
      for (let at = up[node]; at >= 0; at = up[count + at]) found.set(at, found.has(at) && found.get(at) !== word ? null : word);
    }
    return found;
  };
  const wordShown = (side, item) => (isGroup(side, item) ? side.ofGroups.get(item - side.nodes.length) ?? "several" : wordOf(side, item));
  const heading = (side, item) => (isGroup(side, item) ? get(side, item, "module_path") || get(side, item, "name") || "(the model)" : get(side, item, "name"));
  const label = (side, item) => [
    isGroup(side, item) ? get(side, item, "name") || "(the model)" : get(side, item, "op") ?? get(side, item, "op_type"),
    colour.word ? wordShown(side, item) : labelled(side, item, AS[colour.kind](value(side, item), unit)),
  ];
  const labelled = (side, item, text) => (colour === gap ? withTime(text, get(side, item, "time"), unit) : text);
  const value = (side, item) => get(side, item, colour.key);
  const badness = (side, item) => (value(side, item) === null ? 0 : SCALES[colour.scale].of(value(side, item)));
  const shade = (side, item) => {
    if (colour.word) {
      const word = wordShown(side, item);
      return words.has(word) ? `sort-${words.get(word)}` : "heat-0";
    }
    return heatOf(badness(side, item), highest, colour.scale);
  };
  const other = (side) => sides[1 - side.at];
  // The counterpart of an op, or the module of the same path; -1 if there is none. A graph of control flow and its node
  // have no path, so their counterpart is the item of the same name and place in the parent's counterpart.
  const similar = ({ groups }, parent, name) => groups.rows().filter((at) => groups.get(at, "parent") === parent
    && groups.get(at, "module_path") === null && groups.get(at, "name") === name);
  const counterpart = (side, item) => {
    if (!isGroup(side, item)) return get(side, item, "counterpart");
    const { groups, nodes } = other(side);
    if (get(side, item, "module_path") === null) {
      const [parent, name] = [get(side, item, "parent"), get(side, item, "name")];
      const its = counterpart(side, side.nodes.length + parent);
      const row = its < 0 ? undefined : similar(other(side), its - nodes.length, name)[similar(side, parent, name).indexOf(item - side.nodes.length)];
      return row === undefined ? -1 : nodes.length + row;
    }
    const row = groups.rows().find((at) => groups.get(at, "method") === method && groups.get(at, "module_path") === get(side, item, "module_path"));
    return row === undefined ? -1 : nodes.length + row;
  };
  const describe = (side, item) => isGroup(side, item)
    ? [
      ["class", get(side, item, "module_class")],
      ["self time of its ops", etq.quantity(get(side, item, "time"), unit)],
      [`worst ${gap.title}`, AS[gap.kind](get(side, item, "gap"))],
    ]
    : [
      ["change", [get(side, item, "change"), get(side, item, "changed")].filter(Boolean).join(": ")],
      ["op", get(side, item, "op_type")],
      ["module", get(side, item, "module_path")],
      ["outputs", [get(side, item, "shapes"), get(side, item, "dtypes")].filter(Boolean).join(" ")],
      ["backend", get(side, item, "backend")],
      ["self time", etq.quantity(get(side, item, "time"), unit)],
      [gap.title, AS[gap.kind](get(side, item, "gap"))],
      ["about the gap", get(side, item, "gap_problem")],
    ];

  const select = etq.element("select", { "aria-label": "Colour by", id: "pair-colour" },
    ...colours.map(({ key, title }) => etq.element("option", { value: key, text: `by ${title}` })));
  const which = etq.element("select", { "aria-label": "Method", id: "pair-method" },
    ...methods.map((name) => etq.element("option", { value: name, text: name })));
  which.hidden = methods.length < 2;
  // Finds ops of both sides, as pairs of side and number. A pair of counterparts is found once.
  const texts = ["name", "op_type", "module_path"];
  const isFound = (side, node, word) => (isLimit(word) && !colour.word ? isBeyond(word, value(side, node))
    : texts.some((name) => get(side, node, name)?.toLowerCase().includes(word)));
  const finder = etq.finder({
    placeholder: "op, name, module, >1e-6",
    label: "Search both graphs",
    find: (words) => {
      const found = sides.map((side) => (words.length ? side.nodes.rows() : [])
        .filter((node) => side.view.places.isWithin(node) && words.every((word) => isFound(side, node, word))));
      sides.forEach((side) => (side.found = words.length ? found[side.at] : null));
      mark();
      const ofBase = new Set(found[0]);
      return [...found[1].map((node) => [next, node]).filter(([side, node]) => !ofBase.has(counterpart(side, node))), ...found[0].map((node) => [base, node])];
    },
    go: ([side, item]) => show(side, item),
    told: (matches) => `${etq.number(matches.length)} found`,
    step: (at, matches) => `${etq.number(at + 1)} of ${etq.number(matches.length)}`,
  });
  const bar = etq.element("div", { class: "bar" }, select, which, ...finder.parts,
    etq.button("+", "Zoom in", () => base.view.zoom(1.4)), etq.button("−", "Zoom out", () => base.view.zoom(1 / 1.4)),
    etq.button("Fit", "Show both graphs", () => fit()),
    etq.button("Close all", "Close all modules", () => openTo(1), "pair-close"),
    etq.button("Level +", "Open one level more", () => openTo(level + 1), "pair-more"),
    etq.button("Level −", "Close the innermost level", () => openTo(level - 1), "pair-less"),
    etq.button("Open all", "Open all modules", () => openTo(Infinity), "pair-open"), finder.output);
  const frame = etq.element("div", { class: "graph-pair" });
  const legend = etq.element("div", { class: "graph" });
  const detail = etq.element("div", { class: "graph-pair", "aria-live": "polite" });
  const counts = Object.entries(facts.counts).map(([change, number]) => `${etq.number(number)} ${change}`).join(", ");
  parent.append(etq.element("p", { text: `Nodes: ${counts}.` }), bar, frame, legend, etq.element("p", {
    class: "muted hint",
    text: "Both graphs move and zoom together. Click an op to mark its counterpart, or a module to open it on both sides. Drag to move, Ctrl and the wheel to zoom.",
  }), detail);

  for (const side of sides) {
    side.details = etq.element("div", { class: "detail" });
    const box = etq.element("div", { class: "graph" }, etq.element("h3", { text: `${side.at ? "New" : "Base"}: ${side.name} (${facts.stages[side.at]})` }));
    const place = etq.element("div");
    box.append(place);
    frame.append(box);
    detail.append(side.details);
    side.view = new etq.GraphView(place, {
      title: `Graph of ${side.name}, from top to bottom: ops in modules; arrow keys move both graphs, n and p go from box to box, Enter opens or closes a module`,
      label: (item) => label(side, item),
      colour: (item) => shade(side, item),
      heading: (item) => heading(side, item),
      describe: (item) => describe(side, item),
      choose: (item) => {
        if (item < 0) return;
        if (isGroup(side, item) && item !== side.nodes.length + side.view.places.root) toggle(side, item);
        choose(side, item);
      },
      select: (item) => choose(side, item),
      over: () => {},
    });
    for (const move of ["pan", "zoom"]) {
      side.view[move] = (...how) => {
        etq.GraphView.prototype[move].apply(side.view, how);
        follow(side);
      };
    }
  }
  etq.graphPair = sides;

  // Moves the other graph by as much as this one was moved.
  function follow(side) {
    const [view, its] = [side.view, other(side).view];
    const sign = side.at ? -1 : 1;
    its.scale = view.scale;
    its.left = view.left + sign * apart[0];
    its.top = view.top + sign * apart[1];
    its.draw();
  }

  function fit() {
    for (const { view } of sides) view.fit();
    const scale = Math.min(...sides.map(({ view }) => view.scale));
    for (const { view } of sides) {
      const root = view.places.count + view.places.root;
      view.scale = scale;
      view.left = view.places.width[root] / 2 - view.width / 2 / scale;
      view.top = -8 / scale;
    }
    apart = [next.view.left - base.view.left, next.view.top - base.view.top];
  }

  // Moves the other graph so that its item is at the same place as the item of this graph.
  function align(side, item, its) {
    const [one, two] = [side.view.places, other(side).view.places];
    const [from, to] = [one.shown(item), two.shown(its)];
    const sign = side.at ? -1 : 1;
    apart = [
      sign * (two.x[to] + two.width[to] / 2 - one.x[from] - one.width[from] / 2),
      sign * (two.y[to] - one.y[from]),
    ];
    follow(side);
  }

  // Opens or closes a module, and the module of the same path on the other side.
  function toggle(side, item) {
    const its = counterpart(side, item);
    side.view.toggle(item);
    if (its >= 0) {
      const places = other(side).view.places;
      if (side.view.places.isOpen(item)) places.expose(its);
      places.open[its - places.count] = side.view.places.open[item - side.view.places.count];
      other(side).view.lay();
    }
    update();
  }

  function choose(side, item) {
    const its = counterpart(side, item);
    side.view.chosen = item;
    other(side).view.chosen = its;
    if (its >= 0) {
      other(side).view.places.expose(its);
      other(side).view.lay();
      align(side, item, its);
    }
    side.details.replaceChildren(...etq.details(heading(side, item), describe(side, item)));
    other(side).details.replaceChildren(...(its < 0
      ? [etq.element("p", { class: "muted", text: `No counterpart of ${heading(side, item)} in ${other(side).name}.` })]
      : etq.details(heading(other(side), its), [...describe(other(side), its),
        ["matched by", isGroup(side, item) ? "path" : get(side, item, "basis")],
        ["score", isGroup(side, item) ? "" : etq.number(get(side, item, "score"))],
        ["difference", isGroup(side, item) ? "" : etq.quantity(get(side, item, "difference"), unit)]])));
    update();
  }

  function openTo(to) {
    level = Math.min(Math.max(to, 1), Math.max(...sides.map(({ view }) => view.places.levels)));
    for (const { view } of sides) view.openTo(level);
    fit();
    update();
  }

  // Shows an op of the lists on the sides that have it.
  function reach(table, row) {
    if (methods.includes(table.get(row, "method")) && table.get(row, "method") !== method) {
      which.value = table.get(row, "method");
      turn(which.value);
    }
    if (table.get(row, "method") !== method) return;
    const side = table.get(row, "new") >= 0 ? next : base;
    show(side, table.get(row, side.side));
  }

  function show(side, item) {
    side.view.reveal(item);
    choose(side, item);
    follow(side);
  }

  // A closed module is marked in place of the ops in it.
  function mark() {
    for (const { found, view } of sides) {
      view.hits = found && new Set(found.map((node) => view.places.shown(node)));
      view.draw();
    }
  }

  // The colours of both sides, and their meaning.
  function update() {
    const entries = [];
    if (colour.word) {
      const numbers = new Map();
      for (const side of sides) {
        side.ofGroups = wordsOfGroups(side);
        for (const node of side.nodes.rows()) {
          if (!side.view.places.isWithin(node)) continue;
          if (!numbers.has(wordOf(side, node))) numbers.set(wordOf(side, node), [0, 0]);
          numbers.get(wordOf(side, node))[side.at] += 1;
        }
      }
      const total = ([, [one, two]]) => one + two;
      const frequent = [...numbers].sort((one, two) => total(two) - total(one) || (one[0] < two[0] ? -1 : 1));
      words = new Map(frequent.map(([word], at) => [word, Math.min((colour.fixed?.indexOf(word) ?? at) + 1, 6)]));
      const listed = frequent.slice(0, colour.fixed ? 6 : 5);
      listed.forEach(([word, number]) => entries.push([`sort-${words.get(word)}`, `${etq.short(word, 60)}: ${etq.number(number[0])} in base, ${etq.number(number[1])} in new`]));
      if (frequent.length > listed.length) entries.push(["sort-6", `${etq.number(frequent.length - listed.length)} others`]);
      entries.push(["heat-0", "several"]);
    } else {
      highest = 0;
      for (const side of sides) {
        for (const item of side.view.places.visible) if (badness(side, item) < Infinity) highest = Math.max(highest, badness(side, item));
      }
      entries.push(...heatLegend(highest, colour, unit), ["heat-0", "none, or unknown"]);
    }
    legend.replaceChildren();
    etq.legend(legend, entries);
    for (const side of colour === gap ? [next, base] : []) {
      const first = side.nodes.rows().find((node) => side.view.places.isWithin(node) && side.nodes.get(node, "grows"));
      if (first !== undefined) legend.append(...growth(`${side.nodes.get(first, "name")} of ${side.name}`, () => show(side, first)));
    }
    mark();
  }

  function turn(to) {
    method = to;
    level = 1;
    for (const side of sides) {
      side.view.chosen = -1;
      side.details.replaceChildren();
      const places = side.places.get(method);
      places.openTo(1);
      side.view.places = places;
      side.ofGroups = colour.word ? wordsOfGroups(side) : new Map();
      side.view.show(places);
    }
    fit();
    finder.search();
    update();
  }

  select.addEventListener("change", () => {
    colour = colours.find(({ key }) => key === select.value);
    finder.search();
    update();
    for (const { view } of sides) view.lay();
    const side = sides.find(({ view }) => view.chosen >= 0);
    if (side) choose(side, side.view.chosen);
    else fit();
  });
  which.addEventListener("change", () => turn(which.value));
  turn(method);

  // A click on a row of a list shows its op in the graphs. A gap that isn't finite is shown as a word.
  const asGap = { numeric: true, as: AS[gap.kind] };
  const added = (name) => {
    let isNew = true;
    return {
      own: { base_gap: asGap, new_gap: asGap },
      first: 8,
      ...(name === "pair-gaps" && { sort: ["new_gap", ...(SCALES[gap.scale].word === "from" ? [] : ["up"])] }),
      choose: (row) => {
        if (!isNew) reach(tables[name], row);
        isNew = false;
      },
    };
  };
  return Object.fromEntries(["pair-alone", "pair-changed", "pair-gaps"].map((name) => [name, added(name)]));
});
