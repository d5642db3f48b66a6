// A table that can be sorted by its headings and searched. A column is {name, title, as, unit, of, numeric}: `as` makes the
// cell's text of (value, row, the value as people read it, the column's decimals), or a node. Numbers of a unit have the
// same decimals in all rows. On narrow screens, those that are `early` come
// right after the first, where nobody has to scroll to see them. choose(row) is called for the row that is clicked,
// and at first for the first one for which chosen(row) is true, then with true as its second argument.

const AT_FIRST = 15;
const AT_MOST = 1000;

etq.table = (parent, table, columns, { sort = null, search = true, choose = null, chosen = null, name = "rows", first = AT_FIRST, keep = null } = {}) => {
  const kept = keep ? table.rows().filter((row) => keep(row)) : table.rows();
  const known = columns.filter((column) => column.always || table.has(column.name));
  const decimals = new Map(known.map((column) => [column, column.numeric && column.unit ? etq.decimals(kept.map((row) => table.get(row, column.name))) : undefined]));
  let shown = placed(known);
  const state = { sort: sort?.[0] ?? null, down: sort?.[1] !== "up", text: "", all: false, chosen: null };
  const texts = searchable(table, shown);
  const body = etq.element("tbody");
  const more = etq.element("button", { type: "button", class: "quiet more", onclick: () => toggle() });
  const count = etq.element("span", { class: "muted count" });
  const cut = etq.element("p", { class: "muted paper" });
  const head = etq.element("tr");
  const drawHead = () => head.replaceChildren(...shown.map((column) => heading(column, state, () => draw())));
  drawHead();
  const grid = etq.element("table", { "data-name": name }, etq.element("thead", {}, head), body);

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
    const made = etq.element("tr", { "data-row": row });
    for (const column of shown) made.append(cell(table, column, row, decimals.get(column)));
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
  return [first, ...others.filter(({ early }) => early), ...others.filter(({ early }) => !early)];
}

// A long name in two lines at most; all of it where the pointer is on it.
etq.clamped = (name, _, short = name) => (name === null ? "" : etq.element("span", { class: "clamped", title: etq.printable(etq.short(name, 2000)), text: short }));

function heading(column, state, draw) {
  const unit = column.unit ? `, ${etq.unit(column.unit)}` : "";
  const button = etq.element("button", { type: "button", text: (column.title ?? column.name) + unit });
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

function cell(table, column, row, decimals) {
  const value = table.get(row, column.name);
  const made = etq.element("td", { class: [column.numeric ? "number" : "", column.class ?? ""].join(" ").trim() || null });
  const short = table.short(row, column.name);
  const shown = column.as ? column.as(value, row, short, decimals) : column.numeric ? etq.fixed(value, decimals) : (short ?? "");
  if (shown instanceof Node) made.append(shown);
  else {
    made.textContent = etq.printable(etq.short(shown));
    if (String(shown).length > 40 || short !== value) made.title = etq.printable(etq.short(column.as ? shown : value, 2000));
  }
  if (column.share && typeof value === "number") {
    const bar = etq.element("span", { class: "share" });
    bar.style.width = `${Math.max(0, Math.min(100, (100 * value) / (column.full ?? 100)))}%`;
    made.classList.add("has-share");
    made.prepend(bar);
  }
  return made;
}

// Unknown values stand last either way.
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
