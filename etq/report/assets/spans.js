// Rows of spans on a canvas, for icicles and timelines. If spans are narrower than a pixel, one per pixel is drawn, and
// the next one is found by binary search. So the cost depends on the number of pixels, not on the number of spans.

const ROW = 19;
const AXIS = 22;
const HIGHEST = 560;

function firstAbove(sorted, value, from = 0) {
  let [low, high] = [from, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The ends of rows. The first row that is free at a time is found by binary search, because there may be as many rows
// as spans.
class RowEnds {
  constructor(most) {
    this.size = 1;
    while (this.size < most) this.size *= 2;
    // A tree with the earliest end below each node; its leaves are the rows.
    this.earliest = new Float64Array(2 * this.size).fill(-Infinity);
  }

  set(row, end) {
    let node = this.size + row;
    this.earliest[node] = end;
    for (node >>= 1; node >= 1; node >>= 1) this.earliest[node] = Math.min(this.earliest[2 * node], this.earliest[2 * node + 1]);
  }

  // The first row, beginning at `from`, that ends by a time.
  firstFree(from, time) {
    let node = this.size + from;
    while (this.earliest[node] > time) {
      while (node % 2 === 1) node >>= 1;
      node += 1;
    }
    while (node < this.size) {
      node *= 2;
      if (this.earliest[node] > time) node += 1;
    }
    return node - this.size;
  }
}

// Divides spans, sorted by start, into rows without overlaps. A span stays in the row of its depth unless another span
// is there.
etq.spanRows = (count, start, end, depth) => {
  const rows = [];
  let deepest = 0;
  for (let id = 0; id < count; id += 1) deepest = Math.max(deepest, depth(id));
  const ends = new RowEnds(deepest + count + 1);
  for (let id = 0; id < count; id += 1) {
    const at = ends.firstFree(depth(id), start(id) + 1e-9);
    while (rows.length <= at) rows.push({ ids: [] });
    rows[at].ids.push(id);
    ends.set(at, end(id));
  }
  return rows.map((row) => ({
    ids: Int32Array.from(row.ids),
    starts: Float64Array.from(row.ids, start),
    ends: Float64Array.from(row.ids, end),
  }));
};

etq.Spans = class extends etq.Canvas {
  // options: colour(id), label(id), describe(id) → [[name, value]…], unit, choose(id), over(id or -1), axis, mark(pen, id, x, y, width, height)
  constructor(parent, options) {
    super(parent, options, "img");
    this.rows = [];
    this.extent = [0, 1];
    this.view = [0, 1];
    this.canvas.addEventListener("dblclick", () => this.reset());
    etq.onRedraw(() => this.drawNow());
  }

  // rows: [{starts, ends, ids, heading}]; the spans of a row are sorted and don't overlap
  show(rows, extent) {
    this.rows = rows;
    this.extent = extent[1] > extent[0] ? extent : [extent[0], extent[0] + 1];
    this.view = [...this.extent];
    this.top = 0;
    this.hits = null;
    this.drawNow();
  }

  get height() {
    return Math.min(HIGHEST, this.full);
  }

  get full() {
    return this.axis + this.rows.length * ROW;
  }

  get axis() {
    return this.options.unit ? AXIS : 0;
  }

  move(from, to) {
    const whole = this.extent[1] - this.extent[0];
    const span = Math.min(Math.max(to - from, whole * 1e-7), whole);
    const start = Math.min(Math.max(from, this.extent[0]), this.extent[1] - span);
    this.view = [start, start + span];
    this.draw();
  }

  // Zooms by a factor around a place, which doesn't move.
  zoom(factor, x = this.width / 2) {
    const [from, to] = this.view;
    const fixed = from + ((to - from) * x) / this.width;
    this.move(fixed - (fixed - from) / factor, fixed + (to - fixed) / factor);
  }

  pan(across, down = 0) {
    const by = ((this.view[1] - this.view[0]) * across) / this.width;
    this.move(this.view[0] + by, this.view[1] + by);
    this.scroll(down);
  }

  scroll(by) {
    this.top = Math.min(Math.max(this.top + by, 0), this.full - this.height);
    this.draw();
  }

  reset() {
    this.top = 0;
    this.move(...this.extent);
  }

  // Brings a span into view, with room on both sides.
  reveal(id) {
    this.rows.forEach((row, at) => {
      const index = row.ids.indexOf(id);
      if (index < 0) return;
      const length = Math.max(row.ends[index] - row.starts[index], (this.extent[1] - this.extent[0]) * 1e-6);
      const room = length * (this.options.room ?? 4);
      this.top = Math.min(Math.max(at * ROW - this.height / 2, 0), Math.max(this.full - this.height, 0));
      this.move(row.starts[index] - room, row.ends[index] + room);
    });
  }

  // Marks the spans for which matches(id) is true, or all spans without `matches`. Returns their ids in order of start.
  mark(matches) {
    this.hits = null;
    const found = [];
    if (matches) {
      this.hits = this.rows.map((row) => {
        const kept = row.ids.reduce((list, id, at) => (matches(id) ? [...pushed(list, at)] : list), []);
        for (const at of kept) found.push([row.starts[at], row.ids[at]]);
        const pick = (values) => Float64Array.from(kept, (at) => values[at]);
        return { ids: Int32Array.from(kept, (at) => row.ids[at]), starts: pick(row.starts), ends: pick(row.ends) };
      });
    }
    this.draw();
    return found.sort((one, other) => one[0] - other[0]).map((each) => each[1]);
  }

  drawNow() {
    const [width, height] = [this.width, this.height];
    if (!width) return;
    this.clear(width, height);
    const pen = this.pen;
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.drawn = 0;
    const first = Math.floor(this.top / ROW);
    const last = Math.min(this.rows.length, first + Math.ceil((height - this.axis) / ROW) + 1);
    for (let at = first; at < last; at += 1) {
      const y = this.axis + at * ROW - this.top;
      if (this.rows[at].heading) this.drawHeading(this.rows[at].heading, y, width);
      else {
        this.drawRow(this.rows[at], y, width, this.hits !== null);
        if (this.hits) this.drawRow(this.hits[at], y, width, false);
      }
    }
    if (this.axis) this.drawAxis(width);
    Object.assign(this.canvas.dataset, { drawn: this.drawn, from: this.view[0], to: this.view[1] });
  }

  drawHeading(text, y, width) {
    this.pen.fillStyle = etq.colour("muted");
    this.pen.fillText(etq.fitted(this.pen, etq.printable(etq.short(text)), width - 8), 4, y + ROW / 2);
  }

  drawRow({ starts, ends, ids }, y, width, isFaint) {
    const pen = this.pen;
    const [from, to] = this.view;
    const scale = width / (to - from);
    pen.globalAlpha = isFaint ? 0.25 : 1;
    let at = firstAbove(ends, from);
    while (at < ids.length && starts[at] < to) {
      const left = (starts[at] - from) * scale;
      const right = (ends[at] - from) * scale;
      pen.fillStyle = etq.shades.get(this.options.colour(ids[at]));
      this.drawn += 1;
      if (right - left >= 1) {
        const [x, end] = [Math.max(left, 0), Math.min(right, width)];
        pen.fillRect(x, y, Math.max(end - x - (end - x > 3 ? 1 : 0), 0.5), ROW - 1);
        this.options.mark?.(pen, ids[at], x, y, end - x, ROW - 1);
        if (end - x > 30 && !isFaint) this.drawLabel(ids[at], x, end - x, y);
        at += 1;
      } else {
        const pixel = Math.floor(left);
        pen.fillRect(pixel, y, 1, ROW - 1);
        at = Math.max(at + 1, firstAbove(ends, from + (pixel + 1) / scale, at + 1));
      }
    }
    pen.globalAlpha = 1;
  }

  drawLabel(id, x, room, y) {
    this.pen.fillStyle = etq.shades.get(`${this.options.colour(id)}-text`) || etq.shades.get("on-span");
    this.pen.fillText(etq.fitted(this.pen, etq.printable(etq.short(this.options.label(id))), room - 8), x + 4, y + ROW / 2 - 0.5);
  }

  drawAxis(width) {
    const pen = this.pen;
    const [from, to] = this.view;
    pen.fillStyle = etq.colour("back");
    pen.fillRect(0, 0, width, AXIS);
    const step = niceStep((to - from) / Math.max(width / 110, 1));
    pen.fillStyle = etq.colour("muted");
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = ((at - from) / (to - from)) * width;
      pen.fillRect(x, AXIS - 6, 1, 5);
      const text = `${etq.number(+at.toPrecision(9))} ${etq.unit(this.options.unit)}`;
      if (x + 4 + pen.measureText(text).width < width) pen.fillText(text, x + 4, AXIS / 2);
    }
    pen.fillStyle = etq.colour("line");
    pen.fillRect(0, AXIS - 1, width, 1);
  }

  // The span at a place of the canvas, or -1.
  at(x, y) {
    const row = Math.floor((y - this.axis + this.top) / ROW);
    if (y < this.axis || !this.rows[row] || this.rows[row].heading) return -1;
    const { starts, ends, ids } = this.rows[row];
    const [from, to] = this.view;
    const time = from + ((to - from) * x) / this.width;
    const pixel = (to - from) / this.width;
    const index = firstAbove(ends, time - pixel / 2);
    return index < ids.length && starts[index] <= time + pixel / 2 ? ids[index] : -1;
  }

  apart(one, other) {
    return Math.abs(one[0] - other[0]);
  }

  wheel(event) {
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      this.pan(event.deltaX || event.deltaY);
    } else if (this.full > this.height) {
      const before = this.top;
      this.scroll(event.deltaY);
      if (this.top !== before) event.preventDefault();
    }
  }

  keys() {
    return {
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), 0: () => this.reset(),
      ArrowLeft: () => this.pan(-0.15 * this.width), ArrowRight: () => this.pan(0.15 * this.width),
      ArrowUp: () => this.scroll(-ROW), ArrowDown: () => this.scroll(ROW),
    };
  }

  hover(event) {
    const id = this.at(event.offsetX, event.offsetY);
    this.canvas.style.cursor = id < 0 ? "grab" : "pointer";
    if (id < 0) etq.hideTip();
    else etq.showTip(event, this.options.label(id), this.options.describe(id));
    this.options.over?.(id);
  }
};

function pushed(list, value) {
  list.push(value);
  return list;
}

// The part of a text that fits.
etq.fitted = (pen, text, room) => {
  const width = pen.measureText(text).width;
  if (width <= room) return text;
  const letters = Math.floor((text.length * room) / width) - 1;
  return letters < 2 ? "" : `${text.slice(0, letters)}…`;
};

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5].find((each) => each * power >= rough) ?? 10);
}

// Colours of the palette, read once per theme.
const shades = new Map();
etq.onRedraw(() => shades.clear());
etq.shades = {
  get(name) {
    if (!shades.has(name)) shades.set(name, etq.colour(name));
    return shades.get(name);
  },
};

// The tooltip of the span below the pointer: a title, and names with values.
const tip = etq.element("div", { class: "tip", hidden: true });
document.body.append(tip);

etq.details = (title, pairs) => {
  const list = etq.element("dl");
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(etq.element("dt", { text: name }), etq.element("dd", {}, ...etq.broken(etq.short(value, 300))));
  }
  return [etq.element("strong", { text: etq.short(title, 300) }), list];
};

etq.showTip = (event, title, pairs) => {
  tip.replaceChildren(...etq.details(title, pairs));
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + 18 + height < innerHeight ? event.clientY + 18 : Math.max(4, event.clientY - height - 12)}px`;
};

etq.hideTip = () => {
  tip.hidden = true;
};

// A search field, and buttons to go from match to match. Returns `parts`, and search(), which searches again.
// find(words) returns the matches, go(match) shows a match, and told(matches) returns a text with their number.
etq.finder = ({ placeholder = "Search", label = placeholder, find, go, told, step = (at, matches) => `${at + 1} of ${told(matches)}` }) => {
  const input = etq.element("input", { type: "search", placeholder, "aria-label": label });
  const output = etq.element("output", { class: "muted" });
  let found = [];
  let at = -1;
  const lead = (by) => {
    if (!found.length) return;
    at = (at + by + found.length) % found.length;
    go(found[at]);
    output.textContent = step(at, found);
  };
  const search = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = find(words);
    at = -1;
    output.textContent = words.length ? told(found) : "";
  };
  input.addEventListener("input", search);
  input.addEventListener("keydown", (event) => event.key === "Enter" && lead(event.shiftKey ? -1 : 1));
  return { search, output, parts: [input, etq.button("‹", "Previous match", () => lead(-1)), etq.button("›", "Next match", () => lead(1))] };
};

// Search, and zoom buttons. text(id) is the searched text; summarize(ids) describes the matches.
etq.spanTools = (parent, spans, text, summarize, ...before) => {
  const { search, output, parts } = etq.finder({
    find: (words) => spans.mark(words.length ? (id) => words.every((word) => text(id).includes(word)) : null),
    go: (id) => spans.reveal(id),
    told: summarize,
  });
  parent.append(etq.element("div", { class: "bar" }, ...before, ...parts,
    etq.button("+", "Zoom in", () => spans.zoom(1.6)),
    etq.button("−", "Zoom out", () => spans.zoom(1 / 1.6)),
    etq.button("Reset", "Show all", () => spans.reset()),
    output));
  return { search };
};
