// The parts in which two sides differ: an icicle from the model through its modules to ops. Widths are times of base or
// new, colours are changes. An outline marks changes that count, hatching marks unclear ones.

etq.section("parts", (parent, { parts, modules, totals }) => {
  const root = tree(parts, modules, totals);
  const unit = parts.list("unit").find((each) => each !== null) ?? null;
  let nodes = [];
  const side = etq.element("select", { "aria-label": "Width", onchange: () => draw() },
    ...[["base", "as wide as in base"], ["new", "as wide as in new"]].map(([value, text]) => etq.element("option", { value, text })));
  const { spans, show } = etq.flame(parent, {
    title: "Icicle of times by module and op, coloured by their change",
    colour: (id) => etq.changeColour(nodes[id].change, nodes[id].verdict),
    text: (node) => `${node.name}\n${node.path}\n${node.verdict ?? ""}`,
    describe: (node) => details(node, unit),
    mark: (pen, id, x, y, width, height) => mark(pen, nodes[id].verdict, x, y, width, height),
    summarize: (ids) => `${etq.number(ids.length)} found`,
    tools: [side],
  });
  etq.parts = spans;
  etq.partsTold = (id) => nodes[id];
  const draw = () => {
    nodes = etq.placedNodes(root, (node) => node.sides[side.value], (node) => node.isRest);
    show(nodes);
  };
  draw();
  parent.append(legend());
});

function legend() {
  const entry = (colours, text) => etq.element("span", {}, ...colours.map((colour) => {
    const swatch = etq.element("i");
    swatch.style.background = `var(--${colour})`;
    return swatch;
  }), etq.printable(text));
  const outlined = etq.element("i", { class: "outlined" });
  const hatched = etq.element("i", { class: "hatched" });
  return etq.element("p", { class: "legend" },
    entry(["faster-4", "faster-3", "faster-2"], "faster, from 20, 5, 2 %"),
    entry(["same"], "no difference"),
    entry(["slower-2", "slower-3", "slower-4"], "slower, from 2, 5, 20 %"),
    entry(["came"], "on one side only"),
    etq.element("span", {}, outlined, "a difference that counts"),
    entry(["faster-1", "slower-1"], "one that doesn't"),
    etq.element("span", {}, hatched, "unclear: not decided, too few captures, can't judge, other conditions"));
}

function mark(pen, verdict, x, y, width, height) {
  if (etq.counts(verdict) || etq.isOfOneSide(verdict)) {
    if (width < 3) return;
    pen.strokeStyle = etq.shades.get("text");
    pen.lineWidth = 2;
    pen.strokeRect(x + 1, y + 1, width - 3, height - 2);
  } else if (verdict !== null && verdict !== etq.verdicts.same && width >= 4) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width - 1, height);
    pen.clip();
    pen.strokeStyle = etq.shades.get("muted");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.45;
    pen.beginPath();
    for (let at = x - height; at < x + width; at += 7) {
      pen.moveTo(at, y + height);
      pen.lineTo(at + height, y);
    }
    pen.stroke();
    pen.restore();
  }
}

function details(node, unit) {
  const sides = [["base", node.base], ["new", node.new]].map(([name, value]) => [name, etq.quantity(value, unit)]);
  return [
    ...sides,
    ...etq.changePairs(node),
    ["module", node.path],
    ["kind", node.kind],
    ["instruction", node.instruction],
  ];
}

function judged(table, row) {
  return { ...etq.changeOf(table, row), base: table.get(row, "base"), new: table.get(row, "new") };
}

const NOTHING = { verdict: null, change: null, low: null, high: null, base: null, new: null };

// A node of each method, module and op. Modules and totals have verdicts of their own, which aren't derived from their
// parts.
function tree(parts, modules, totals) {
  const known = new Map();
  if (modules) for (const row of modules.rows()) known.set(`${modules.get(row, "method")}\n${modules.get(row, "module_path")}`, judged(modules, row));
  for (const row of totals.rows()) if (totals.get(row, "what") === "total") known.set(`${totals.get(row, "method")}\n`, judged(totals, row));
  const root = node("(all)", "", NOTHING, "");
  for (const row of parts.rows()) {
    const get = (name) => parts.get(row, name);
    const method = get("method") ?? "";
    let at = etq.childOf(root, `method ${method}`, () => node(method, "", known.get(`${method}\n`) ?? NOTHING, "method"));
    const path = get("module_path") ?? "";
    const names = path === "" ? [] : path.split(".").slice(0, 60);
    names.forEach((name, level) => {
      const whole = names.slice(0, level + 1).join(".");
      at = etq.childOf(at, `module ${name}`, () => node(name, whole, known.get(`${method}\n${whole}`) ?? NOTHING, "module"));
    });
    const leaf = node(get("op"), path, judged(parts, row), get("kind"));
    leaf.sides = { base: Math.max(get("base_self") ?? 0, 0), new: Math.max(get("new_self") ?? 0, 0) };
    leaf.isRest = get("kind") === "rest";
    leaf.instruction = get("instruction_id");
    at.children.set(`op ${row}`, leaf);
  }
  return root.children.size === 1 ? [...root.children.values()][0] : root;
}

function node(name, path, verdict, kind) {
  return etq.flameNode(name, { path, kind, ...verdict, sides: { base: 0, new: 0 }, instruction: null, isRest: false });
}
