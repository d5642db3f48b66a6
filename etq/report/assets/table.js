// A table that can be sorted by its headings and searched. A column is {name, title, meaning, numeric, as, unit, early,
// always}: `as` makes the text or node of a cell from (value, row, the value as people read it, the column's decimals).
// Numbers of a column have the same decimals in all rows. A column without values, or with only times of zero, is left
// out. A value that is the same in all rows is shown above the table, unless its column is `always` kept. On narrow
// screens, `early` columns follow the first one, so that they are visible without scrolling: first those with 2
// (verdicts and changes), then those with true. choose(row) is called for a clicked row. At the beginning, choose(row,
// true) is called for the first row for which chosen(row) is true.

const AT_FIRST = 15;
const AT_MOST = 1000;
const isNothing = (value, { unit }) => value === null || value === "" || value === false || (unit && value === 0);

etq.table = (parent, table, columns, { sort = null, search = true, choose = null, chosen = null, name = "rows", first = AT_FIRST, keep = null, foot = null } = {}) => {
  const kept = keep ? table.rows().filter((row) => keep(row)) : table.rows();
  const valued = columns.filter((column) => column.always || kept.some((row) => !isNothing(table.get(row, column.name), column)));
  const isSaid = (column) => kept.length > 2 && !column.always && column.name !== sort?.[0] && new Set(kept.map((row) => table.get(row, column.name))).size === 1;
  const varying = valued.filter((column) => !isSaid(column));
  const known = varying.length ? varying : valued;
  const decimals = new Map(valued.map((column) => [column, column.numeric ? etq.decimals(kept.map((row) => table.get(row, column.name))) : undefined]));
  let shown = placed(known);
  const state = { sort: sort?.[0] ?? null, down: sort?.[1] !== "up", text: "", all: false, chosen: null };
  const texts = searchable(table, valued);
  const body = etq.element("tbody");
  const more = etq.element("button", { type: "button", class: "quiet more", onclick: () => toggle() });
  const count = etq.element("span", { class: "muted count" });
  const cut = etq.element("p", { class: "muted paper" });
  const head = etq.element("tr");
  const last = etq.element("tr");
  const drawHead = () => {
    head.replaceChildren(...shown.map((column) => heading(column, state, () => draw())));
    if (foot) last.replaceChildren(...shown.map((column, at) => (at ? cell(foot, column, 0, decimals.get(column)) : etq.element("td", { text: "average" }))));
  };
  drawHead();
  const grid = etq.element("table", { "data-name": name }, etq.element("thead", {}, head), body, foot && etq.element("tfoot", {}, last));

  function toggle() {
    state.all = !state.all;
    draw();
  }

  function chosenRows() {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = kept.filter((row) => words.every((word) => texts(row).includes(word)));
    if (state.sort === null) return rows;
    const keys = table.list(state.sort);
    const sign = state.down ? -1 : 1;
    return rows.sort((one, other) => compare(keys[one], keys[other], sign) || one - other);
  }

  function draw() {
    const rows = chosenRows();
    const limit = state.all ? AT_MOST : first;
    body.replaceChildren(...rows.slice(0, limit).map((row) => line(row)));
    for (const cell of head.children) cell.setAttribute("aria-sort", direction(cell.dataset.column));
    count.textContent =
      rows.length === kept.length ? `${etq.number(kept.length)} rows` : `${etq.number(rows.length)} of ${etq.number(kept.length)} rows`;
    cut.textContent = rows.length > limit ? `The first ${limit} of ${etq.number(rows.length)} rows.` : "";
    more.hidden = rows.length <= first;
    more.textContent = state.all
      ? `Show the first ${first}${rows.length > AT_MOST ? ` (of ${etq.number(rows.length)}, ${AT_MOST} are shown: search for others)` : ""}`
      : `Show all ${etq.number(rows.length)}`;
  }

  function direction(column) {
    if (column !== state.sort) return "none";
    return state.down ? "descending" : "ascending";
  }

  function line(row) {
    const made = etq.element("tr", { "data-row": row }, ...shown.map((column, at) => cell(table, column, row, decimals.get(column), at === 0)));
    if (choose) {
      made.tabIndex = 0;
      made.classList.toggle("chosen", row === state.chosen);
      const take = () => {
        state.chosen = row;
        for (const each of body.children) each.classList.toggle("chosen", each === made);
        choose(row);
      };
      made.addEventListener("click", take);
      made.addEventListener("keydown", (event) => event.key === "Enter" && take());
    }
    return made;
  }

  const bar = etq.element("div", { class: "bar" });
  if (search && kept.length > 5) {
    const input = etq.element("input", { type: "search", placeholder: "Search", "aria-label": "Search rows" });
    input.addEventListener("input", () => {
      state.text = input.value;
      draw();
    });
    bar.append(input, count);
  }
  for (const column of valued.filter((each) => !known.includes(each))) {
    const made = cell(table, { ...column, share: false }, kept[0], decimals.get(column));
    bar.append(etq.element("span", { class: "said", "data-column": column.name, title: column.meaning },
      etq.element("span", { class: "muted", text: `${column.title ?? column.name}: ` }), etq.element("span", {}, ...made.childNodes), column.unit ? `\u00a0${etq.unit(column.unit)}` : null));
  }
  parent.append(bar, etq.element("div", { class: "wide" }, grid), more, cut);
  // A phone on its side is as wide as a small tablet.
  etq.onRedraw(() => {
    const order = placed(known);
    if (order.every((column, at) => column === shown[at])) return;
    shown = order;
    drawHead();
    draw();
  });
  state.chosen = choose && kept.length ? (chosenRows().find((row) => !chosen || chosen(row)) ?? chosenRows()[0]) : null;
  draw();
  if (choose && state.chosen !== null) choose(state.chosen, true);
};

function placed([first, ...others]) {
  if (!etq.narrow.matches || etq.paper) return [first, ...others];
  return [first, ...others.sort((one, other) => Number(other.early ?? 0) - Number(one.early ?? 0))];
}

function heading(column, state, draw) {
  const unit = column.unit ? `, ${etq.unit(column.unit)}` : "";
  const button = etq.element("button", { type: "button" }, ...etq.broken((column.title ?? column.name) + unit));
  button.addEventListener("click", () => {
    if (state.sort === column.name) state.down = !state.down;
    else [state.sort, state.down] = [column.name, Boolean(column.numeric)];
    draw();
  });
  return etq.element(
    "th",
    { scope: "col", "data-column": column.name, class: column.numeric ? "number" : null, title: column.meaning },
    button,
  );
}

// A text in at most two lines, which is shown in full under the pointer. A short text has one line, except in the first
// column on a phone.
function clamped(text, whole, isFirst) {
  const title = text.length > 40 || text !== whole ? etq.printable(etq.short(whole, 2000)) : null;
  if (text.length < 24 && !(isFirst && etq.narrow.matches)) return etq.element("span", { class: "unbroken", title, text });
  return etq.element("span", { class: `clamped${isFirst ? "" : " long"}`, title }, ...etq.broken(text));
}

function cell(table, column, row, decimals, isFirst = false) {
  const value = table.get(row, column.name);
  const made = etq.element("td", { class: [column.numeric ? "number" : "", column.class ?? ""].join(" ").trim() || null });
  const short = table.short(row, column.name);
  const shown = (column.as ? column.as(value, row, short, decimals) : column.numeric ? etq.fixed(value, decimals) : short) ?? "";
  if (shown instanceof Node) made.append(shown);
  else if (column.numeric) made.textContent = etq.printable(shown);
  else made.append(clamped(String(shown), column.as ? String(shown) : String(value ?? ""), isFirst));
  if (column.share && typeof value === "number") {
    const bar = etq.element("span", { class: "share" });
    bar.style.width = `${Math.max(0, Math.min(100, value))}%`;
    made.classList.add("has-share");
    made.prepend(bar);
  }
  return made;
}

// Unknown values are last in both orders.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  return sign * (typeof one === "number" ? one - other : String(one).localeCompare(String(other)));
}

function searchable(table, columns) {
  const names = columns.filter((column) => !column.numeric || column.search).map((column) => column.name);
  const known = new Map();
  return (row) => {
    if (!known.has(row)) known.set(row, names.map((name) => table.get(row, name) ?? "").join("\n").toLowerCase());
    return known.get(row);
  };
}

// The columns of a section's table, as `Column` of etq/report/kit.py describes them. If rows have several units, each
// time has its unit beside it.
const KINDS = {
  time: (rows, unit) => (unit ? { numeric: true, unit } : { numeric: true, as: (value, row) => etq.quantity(value, rows.get(row, "unit")) }),
  number: () => ({ numeric: true }),
  percent: () => ({ numeric: true, share: true, as: etq.percent }),
  bytes: () => ({ numeric: true, as: etq.bytes }),
  probability: () => ({ numeric: true, as: etq.probability }),
  flag: () => ({ as: (value) => (value ? "yes" : "") }),
  verdict: () => ({ as: etq.verdict, always: true, early: 2 }),
  change: () => ({ numeric: true, early: 2, as: etq.change }),
  interval: (rows) => ({ numeric: true, as: (low, row) => etq.interval(low, rows.get(row, "high_percent")) }),
  label: () => ({ as: etq.labelOf }),
  moment: () => ({ class: "moment" }),
  text: () => ({}),
};

// Draws a section's table. `own` has the additions that the section's drawing returned: columns by name, `more`
// columns, and options of `etq.table`.
etq.grid = (parent, { name, title, text, sort, columns, rows: data, foot }, { own = {}, more = [], ...options } = {}) => {
  const rows = new etq.Table(data);
  const box = etq.element("div", { class: "rows" });
  parent.append(box);
  if (title) box.append(etq.element("h3", { text: title }));
  if (text) box.append(etq.element("p", { class: "muted", text }));
  const units = rows.columns.has("unit") ? [...new Set(rows.list("unit").filter((unit) => unit !== null))] : [];
  const isTimed = columns.some(({ kind }) => kind === "time");
  const made = columns.filter(({ kind }) => kind !== "unit" || !isTimed).map((column) => ({
    name: column.name, title: column.title, meaning: column.meaning, early: column.is_foremost,
    ...(KINDS[column.kind] ?? KINDS.text)(rows, units.length > 1 ? null : units[0] ?? ""), ...own[column.name],
  }));
  const found = sort.find((each) => rows.list(each).some(Boolean));
  etq.table(box, rows, [...made, ...more], { name, sort: found ? [found] : null, foot: foot && new etq.Table(foot), ...options });
};
