// A table of any number of rows; the page contains only those in view, and paper the first ones. Keys: arrows, page up and down, home, end; Enter
// opens a row, Space picks it.

const HEIGHT = 30;
const EXTRA = 12;
const MOST_ON_PAPER = 1000;

// Columns are {name, title, width, numeric, cell(place), sortKey}. Enter calls open(place), Space calls pick(place).
etq.rows = (parent, { label, open, pick, isPicked, sort }) => {
  const head = etq.element("tr", { "aria-rowindex": 1 });
  const body = etq.element("tbody");
  const widths = etq.element("colgroup");
  const grid = etq.element("table", { class: "grid", role: "grid", "aria-label": label }, widths, etq.element("thead", {}, head), body);
  const box = etq.element("div", { class: "scrolled" }, grid);
  const cut = etq.element("p", { class: "muted paper" });
  parent.append(box, cut);
  let [columns, places, order, focused] = [[], [], null, 0];
  let waiting = false;
  let kept = new Map(); // the rows in the page, by position

  const first = () => Math.max(0, Math.floor(box.scrollTop / HEIGHT) - EXTRA);
  const visible = () => Math.ceil((box.clientHeight || 600) / HEIGHT);

  function spacer(rows) {
    const made = etq.element("tr", { class: "spacer", "aria-hidden": "true" });
    made.style.height = `${rows * HEIGHT}px`;
    return made;
  }

  function line(at) {
    const place = places[at];
    const made = etq.element("tr", { "aria-rowindex": at + 2, "data-place": place, "aria-selected": isPicked(place) ? "true" : "false" });
    for (const column of columns) {
      const shown = column.cell(place);
      const made_cell = etq.element("td", { class: column.numeric ? "number" : column.class ?? null, role: "gridcell" });
      if (shown instanceof Node) made_cell.append(shown);
      else {
        made_cell.textContent = etq.printable(etq.short(shown ?? ""));
        if (String(shown ?? "").length > 12) made_cell.title = made_cell.textContent;
      }
      made.append(made_cell);
    }
    return made;
  }

  // Draws the rows in view; unchanged rows that were already in view are kept.
  function scrolled() {
    waiting = false;
    const from = etq.paper ? 0 : Math.min(first(), Math.max(0, places.length - visible()));
    const to = Math.min(places.length, etq.paper ? MOST_ON_PAPER : from + visible() + 2 * EXTRA);
    cut.textContent = to < places.length ? `The first ${etq.number(to)} of ${etq.number(places.length)} rows.` : "";
    const hadFocus = body.contains(document.activeElement) && document.activeElement.matches("tr");
    const lines = new Map();
    for (let at = from; at < to; at += 1) {
      const made = kept.get(at) ?? line(at);
      made.setAttribute("tabindex", at === focused ? 0 : -1);
      lines.set(at, made);
    }
    kept = lines;
    body.replaceChildren(spacer(from), ...lines.values(), spacer(etq.paper ? 0 : places.length - to));
    if (hadFocus) body.querySelector('tr[tabindex="0"]')?.focus({ preventScroll: true });
  }

  function draw() {
    kept = new Map();
    scrolled();
  }

  function drawHead() {
    const had = head.contains(document.activeElement) ? document.activeElement.closest("th").dataset.column : null;
    widths.replaceChildren(...columns.map((column) => {
      const made = etq.element("col");
      made.style.width = `${column.width}px`;
      return made;
    }));
    grid.style.minWidth = `${columns.reduce((sum, column) => sum + column.width, 0)}px`;
    head.replaceChildren(...columns.map((column) => {
      const direction = order?.[0] === column.name ? (order[1] ? "descending" : "ascending") : "none";
      const cell = etq.element("th", { scope: "col", class: column.numeric ? "number" : null, "data-column": column.name, "aria-sort": column.sorts === false ? null : direction });
      cell.append(column.sorts === false ? etq.element("span", { class: column.hidesTitle ? "unseen" : "title", text: column.title })
        : etq.element("button", { type: "button", text: column.title, title: column.meaning, onclick: () => sort(column.name) }));
      return cell;
    }));
    if (had !== null) head.querySelector(`[data-column="${CSS.escape(had)}"] button`)?.focus({ preventScroll: true });
  }

  function focus(at) {
    if (!places.length) return;
    focused = Math.max(0, Math.min(places.length - 1, at));
    const top = focused * HEIGHT;
    const room = box.clientHeight - 2 * HEIGHT;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top > box.scrollTop + room) box.scrollTop = top - room;
    scrolled();
    body.querySelector('tr[tabindex="0"]')?.focus({ preventScroll: true });
  }

  box.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(scrolled);
    waiting = true;
  });
  new ResizeObserver(() => scrolled()).observe(box);
  etq.onRedraw(scrolled);
  // Handles the table's keys; other keys are left to the page.
  function press(event) {
    if (event.altKey || event.metaKey || !places.length) return;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: visible() - 2, PageUp: 2 - visible(), Home: -focused, End: places.length };
    if (event.key in steps) focus(focused + steps[event.key]);
    else if (event.key === "Enter") open(places[focused]);
    else if (event.key === " ") {
      pick(places[focused]);
      focus(focused);
    } else return;
    event.preventDefault();
  }
  body.addEventListener("keydown", (event) => event.target.matches("tr") && press(event));
  body.addEventListener("focusin", (event) => {
    const row = event.target.closest("tr[data-place]");
    if (row) focused = Number(row.getAttribute("aria-rowindex")) - 2;
  });

  return {
    show(shown, ordered, sorted, { keeps = false } = {}) {
      [columns, places, order] = [shown, ordered, sorted];
      grid.setAttribute("aria-rowcount", places.length + 1);
      if (!keeps) {
        focused = 0;
        box.scrollTop = 0;
      }
      drawHead();
      draw();
    },
    draw,
    press,
  };
};
